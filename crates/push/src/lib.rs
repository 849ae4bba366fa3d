//! Push consumers: who consumes a queue, and how batches are brought there.
//!
//! [`consumer`] says what a consumer is and [`document`] how it is kept with its queue. [`Dispatcher`] has one lane for
//! each queue with a consumer to push to: messages are leased durably first, brought to the target as a batch, and
//! settled by the target's verdict ([`verdict`]). A target is an HTTP service, or a Worker in the real runtime
//! ([`workers`]). While it cannot be reached its messages wait as if they had never been leased. The rules (when a
//! batch leaves, how many may be under way, what becomes of each message) are pure functions in `rules`.

mod alone;
mod attempts;
mod batch;
mod delivered;
mod dispatcher;
mod invocation;
mod lane;
mod notice;
mod rules;
mod settings;
mod settle;
mod shared;
mod standing;
mod target;
mod traced;
mod webhook;
pub mod workers;

pub use attempts::{Attempt, Attempts};
pub use dispatcher::Dispatcher;
pub use notice::{Notice, StrangeIds};
pub use rules::circuit::{Circuits, OpenCircuit};
pub use rules::verdict;
pub use settings::consumer::{Consumer, ConsumerId, Delivery, Pull, Push, Secret, Target};
pub use settings::limits::{Limit, OutOfRange};
pub use settings::url::{UrlError, WebhookUrl};
pub use settings::{consumer, document, limits, url};
pub use shared::Settings;
pub use traced::{TraceOf, Traced, Traces};
