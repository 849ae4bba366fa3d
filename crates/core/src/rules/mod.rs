//! The laws, one file each. Every function is given `now`; none keeps anything.

pub mod attempts;
pub mod batching;
pub mod dead_letters;
pub mod dedup;
pub mod delay;
pub mod delivery;
pub mod fairness;
pub mod fifo;
pub mod retention;
pub mod retry;
pub mod visibility;
