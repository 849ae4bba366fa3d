//! Push consumers: who consumes a queue, and what a consumer is set to do.

pub mod consumer;
pub mod document;
pub mod limits;
pub mod url;

pub use consumer::{Consumer, ConsumerId, Delivery, Pull, Push, Secret, Target};
pub use limits::{Limit, OutOfRange};
pub use url::{UrlError, WebhookUrl};
