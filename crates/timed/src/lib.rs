//! Asserts in tests that a lock is held, and a task of the event loop is polled, for a short time only.
//!
//! What grows with the data must not run in one piece where others wait for it. A test that does so by accident fails
//! here, and the text names what took too long. Counted is the CPU time of the thread itself, because a machine that
//! runs something else meanwhile must fail no test; a wait for a disk under a lock is refused elsewhere (`store-log`'s
//! writer). Without the feature `on`, which only tests have, all of it is nothing.

#[cfg(feature = "on")]
mod on;
#[cfg(feature = "on")]
pub use on::{Stretch, apart, polls};

/// A stretch of work during which others wait: from its beginning until it is dropped.
#[cfg(not(feature = "on"))]
#[derive(Debug)]
pub struct Stretch;

#[cfg(not(feature = "on"))]
impl Stretch {
    /// Begins one; `what` names it.
    #[inline]
    #[must_use]
    pub fn begin(what: &'static str) -> Self {
        let _unused = what;
        Self
    }
}

/// Runs what belongs to no stretch that has begun.
#[cfg(not(feature = "on"))]
#[inline]
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// A future each of whose polls is a stretch.
#[cfg(not(feature = "on"))]
#[inline]
pub fn polls<F: Future>(what: &'static str, future: F) -> F {
    let _unused = what;
    future
}
