//! Kew, the program: it reads settings, puts the rooms together, listens, and stops cleanly.

pub mod assemble;
pub mod bench;
pub mod cli;
pub mod config;
pub mod listen;
pub mod log;
pub mod machine;
pub mod shutdown;
