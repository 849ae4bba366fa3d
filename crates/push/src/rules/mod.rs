//! The rules of delivery, as functions of what is known: when a batch leaves, how many are under way, what becomes of
//! each message, and how long a target is left alone. None of them waits, and none knows an engine.

pub(crate) mod backlog;
pub(crate) mod batching;
pub(crate) mod circuit;
pub(crate) mod concurrency;
pub mod verdict;
