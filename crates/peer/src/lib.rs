//! What two nodes of one fleet say to each other.
//!
//! `link` is the connection between two nodes. It carries bytes and knows nothing of queues.

pub mod link;
