//! Wire plumbing that knows nothing of queues.
//!
//! A front-end is a [`Handler`]: a whole request in, a whole reply out. [`Listener`] gives it connections with bounds,
//! keep-alive, request ids and an end: [`Drain`] stops them gracefully. The rest are the encodings front-ends share.

mod authority;
mod body;
mod connection;
pub mod date;
mod drain;
pub mod form;
mod guard;
pub mod hex;
pub mod json;
pub mod percent;
mod refusal;
mod reply;
mod request;
pub mod secret;
pub mod xml;

pub use authority::{Authority, Host};
pub use connection::{Handler, Limits, Listener, Shared};
pub use drain::{Drain, Place};
pub use guard::{Guard, foreign_page};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
pub use refusal::Refusal;
pub use reply::Reply;
pub use request::{Request, RequestId};
