//! Wire plumbing that knows nothing of queues.
//!
//! A front-end is a [`Handler`]: a whole request in, a whole reply out. [`Listener`] gives it connections with bounds,
//! keep-alive, request ids and an end: [`Drain`] stops them gracefully. A [`Guard`] says which requests reach an open
//! server, [`Tls`] encrypts. The rest are the encodings front-ends share.

mod authority;
pub mod bare;
mod bounds;
pub mod client;
mod connection;
mod drain;
mod encodings;
mod figures;
mod front;
mod guard;
mod headers;
mod http1;
mod http2;
mod link;
mod listener;
mod progress;
mod refusal;
mod reply;
mod request;
mod standing;
mod subject;
mod tls;
mod witness;

pub use authority::{Authority, Host, is_below};
pub use bounds::limits::Limits;
pub use bounds::ration::{Ration, network_of};
pub use bounds::room::{KeptBytes, Replies, Room};
pub use drain::{Drain, DrainPlace};
pub use encodings::trace::{AMAZON_TRACE, TRACEPARENT, TraceContext};
pub use encodings::{date, form, hex, json, percent, receipt, secret, xml};
pub use figures::connections::{Connections, Crowding, CrowdingSink, ListenerCount};
pub use figures::dropped::{Droppable, Dropped};
pub use figures::durations::{DurationKey, Durations, Stopwatch};
pub use figures::histogram::{Distribution, Histogram};
pub use front::{Handler, Listener, Shared};
pub use guard::{Guard, foreign_page, listed_origin};
pub use headers::{AsValue, FieldValue, Headers};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
pub use refusal::Refusal;
pub use reply::Reply;
pub use request::{CONSUMER_HEADER, FAILED_HEADER, PUT_ASIDE_HEADER, Request, RequestId};
pub use standing::Standing;
pub use subject::{Subject, short};
pub use tls::{Tls, TlsError, TlsFiles, TlsNotice};
pub use witness::{Exchange, Witness, Witnessed, Witnesses};
