//! Where requests come in and where the event loop's commits happen.
//!
//! The SQS listener is one event loop on a thread of its own: connections, steps of the store and commits all happen
//! there, so that a request crosses no thread. What must never wait for a disk gets threads of its own.

mod commit;
mod event_loop;

pub use commit::{Pace, Paced};
pub use event_loop::{EventLoop, Started};
