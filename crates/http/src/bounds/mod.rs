//! What bounds requests and replies: their own lengths, the bytes of all of them together, the number of connections.

pub(crate) mod body;
pub(crate) mod crowded;
pub(crate) mod limits;
pub(crate) mod ration;
pub(crate) mod room;
