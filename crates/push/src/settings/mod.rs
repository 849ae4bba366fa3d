//! What a consumer is set to, within which bounds, and how that is kept with its queue.

pub mod consumer;
pub mod document;
pub mod limits;
pub mod url;
