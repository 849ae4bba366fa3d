//! Kew, the program: it reads settings, puts the rooms together, listens, and stops cleanly.

pub mod access;
mod alarms;
pub mod assemble;
mod backups;
pub mod bench;
pub mod bind;
pub mod cli;
pub mod config;
pub mod credentials;
mod firing;
pub mod functions;
pub mod greeting;
mod kept;
pub mod listen;
pub mod log;
pub mod machine;
pub mod message_notes;
pub mod notices;
pub mod opening;
pub mod private;
pub mod push;
mod refused;
pub mod shutdown;
pub mod slow_disk;
pub mod start_error;
pub mod telemetry;
pub mod workers;
