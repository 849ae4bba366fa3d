//! Kew, the program: it reads settings, puts the parts together, listens, and stops cleanly.

pub mod access;
mod alarms;
pub mod assemble;
pub mod bench;
pub mod bind;
pub mod cli;
pub mod config;
mod consumers;
pub mod credentials;
mod exit;
mod firing;
pub mod fleet;
pub mod greeting;
mod lines;
pub mod listen;
pub mod log;
pub mod machine;
pub mod message_notes;
mod outlet;
pub mod private;
mod reports;
pub mod shutdown;
pub mod slow_disk;
pub mod start_error;
mod store;
pub mod telemetry;

pub use consumers::{functions, push, workers};
pub use reports::notices;
pub use store::opening;
