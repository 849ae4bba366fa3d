//! Wire plumbing that knows nothing of queues.
//!
//! A front-end is a [`Handler`]: a whole request in, a whole reply out. [`Listener`] gives it connections with bounds,
//! keep-alive, request ids and an end: [`Drain`] stops them gracefully. A [`Guard`] says which requests reach an open
//! server, [`Tls`] encrypts. The rest are the encodings front-ends share.

mod authority;
pub mod bare;
mod body;
pub mod client;
mod connection;
mod crowded;
pub mod date;
mod drain;
mod dropped;
mod durations;
pub mod form;
mod front;
mod guard;
mod headers;
pub mod hex;
mod histogram;
mod http1;
mod http2;
pub mod json;
mod limits;
mod link;
mod listener;
pub mod percent;
mod pulse;
mod ration;
pub mod receipt;
mod refusal;
mod reply;
mod request;
mod room;
pub mod secret;
mod standing;
mod subject;
mod tls;
mod today;
mod trace;
mod watch;
mod wire;
mod witness;
pub mod xml;

pub use authority::{Authority, Host, is_below};
pub use drain::{Drain, Place};
pub use dropped::{Droppable, Dropped};
pub use durations::{DurationKey, Durations, Stopwatch};
pub use front::{Handler, Listener, Shared};
pub use guard::{Guard, foreign_page, listed_origin};
pub use headers::{AsValue, FieldValue, Headers};
pub use histogram::{Distribution, Histogram};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
pub use limits::Limits;
pub use ration::{Ration, network_of};
pub use refusal::Refusal;
pub use reply::Reply;
pub use request::{CONSUMER_HEADER, FAILED_HEADER, Request, RequestId};
pub use room::{Kept, Replies, Room};
pub use standing::Standing;
pub use subject::{Subject, short};
pub use tls::{Tls, TlsError, TlsFiles, TlsNotice};
pub use trace::{AMAZON_TRACE, TRACEPARENT, TraceContext};
pub use witness::{Exchange, Witness, Witnessed, Witnesses};
