//! What an open connection is doing, whichever HTTP it speaks: its bytes, its phase, and whether that takes too long.

pub(crate) mod pulse;
pub(crate) mod watch;
pub(crate) mod wire;
