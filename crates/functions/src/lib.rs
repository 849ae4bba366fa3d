//! The queue-trigger host: runs a project's functions for the messages of any Azure queue endpoint.
//!
//! [`Project`] is the folder, read and checked. [`run`] starts its handler (one process that answers HTTP) and a
//! listener for each function: it receives messages for ten minutes, renews that while a run lasts, and deletes,
//! releases or moves them away afterwards. It is a client like any other: it never sees an engine or a store.

mod back_off;
mod clock;
mod handler;
mod host;
mod invocation;
mod listener;
mod log;
mod project;
mod queue;
mod run;
mod shared;
mod stop;
#[cfg(test)]
mod trial;
mod wakes;

pub use clock::{FollowError, HostClock, follow};
pub use handler::run_guard;
pub use host::{HostError, HostOptions, run};
pub use log::{Level, Sink};
pub use project::{Project, ProjectError};
