//! The handler: one process that answers for all functions, started, watched and started again.

mod guard;
mod health;
mod process;
mod redirect;
mod rest;
mod watch;

pub use guard::run as run_guard;

pub(crate) use health::{Handler, Unanswered};
pub(crate) use watch::Supervisor;
