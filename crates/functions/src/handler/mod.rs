//! The handler: one process that answers for all functions, started, watched and started again.

mod guard;
mod process;
mod watch;

pub use guard::run as run_guard;

pub(crate) use watch::{Handler, Supervisor};
