//! Exit codes that several commands have. 0 is done, 1 failed, 3 partly done.

/// Asked wrongly.
pub const WRONG: u8 = 2;

/// What a program killed by Ctrl-C leaves behind.
pub const AT_ONCE: i32 = 130;
