//! Wire plumbing that knows nothing of queues.
//!
//! A front-end is a [`Handler`]: a whole request in, a whole reply out. [`Listener`] gives it connections with bounds,
//! keep-alive, request ids and an end: [`Drain`] stops them gracefully. The rest are the encodings front-ends share.

mod body;
mod connection;
pub mod date;
mod drain;
pub mod hex;
pub mod json;
mod reply;
mod request;

pub use body::BodyError;
pub use connection::{Handler, Limits, Listener};
pub use drain::{Drain, Place};
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
pub use reply::Reply;
pub use request::{Request, RequestId};
