//! What is logged of the engine's notices, of news for operators, and of requests that fail.

pub mod notices;
pub(crate) mod refused;
pub(crate) mod requests;
pub(crate) mod shards;
