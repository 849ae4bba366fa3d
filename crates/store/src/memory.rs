//! The in-memory store (being written).
/// Placeholder.
#[derive(Debug)]
pub struct MemoryStore;
