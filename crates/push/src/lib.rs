//! Push consumers: who consumes a queue, and how batches are brought there.
//!
//! [`consumer`] says what a consumer is and [`document`] how it is kept with its queue. [`Dispatcher`] has one lane for
//! each queue with a consumer to push to: messages are leased durably first, brought to the target as a batch, and
//! settled by the target's verdict ([`verdict`]). A target is an HTTP service, or a Worker in the real runtime
//! ([`workers`]). While it cannot be reached its messages wait as if they had never been leased. The rules (when a
//! batch leaves, how many may be under way, what becomes of each message) are pure functions in files of their own.

mod alone;
mod attempts;
mod backlog;
mod batch;
mod batching;
mod circuit;
mod concurrency;
pub mod consumer;
mod delivered;
mod dispatcher;
pub mod document;
mod invocation;
mod lane;
pub mod limits;
mod notice;
mod settle;
mod shared;
mod target;
mod traced;
pub mod url;
pub mod verdict;
mod webhook;
pub mod workers;

pub use attempts::{Attempt, Attempts};
pub use circuit::{Circuits, OpenCircuit};
pub use consumer::{Consumer, ConsumerId, Delivery, Pull, Push, Secret, Target};
pub use dispatcher::Dispatcher;
pub use limits::{Limit, OutOfRange};
pub use notice::Notice;
pub use shared::Settings;
pub use traced::{TraceOf, Traced, Traces};
pub use url::{UrlError, WebhookUrl};
