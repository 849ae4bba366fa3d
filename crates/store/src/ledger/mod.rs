//! The book of all queues in memory (being written).
