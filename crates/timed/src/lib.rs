//! Times how long a lock is held and a task of the event loop is polled: both should be short.
//!
//! What grows with the data must not run in one piece where others wait for it. A test that does so by accident fails
//! here, and the text names what took too long. Counted is the CPU time of the thread itself, because a machine that
//! runs something else meanwhile must fail no test; a wait for a disk under a lock is refused elsewhere (`store-log`'s
//! writer). That is the feature `on`, which only tests have. A program built with the feature `report` writes to
//! stderr each stretch, and each wait for a lock or a disk, that took over 2 ms. With both `on` counts; with neither
//! of them all of it is nothing.

#[cfg(any(test, feature = "on", feature = "report"))]
mod cpu;
#[cfg(any(feature = "on", feature = "report"))]
mod polls;
#[cfg(any(feature = "on", feature = "report"))]
pub use polls::polls;

#[cfg(feature = "on")]
mod on;
#[cfg(feature = "on")]
pub use on::{Stretch, apart};

#[cfg(any(test, all(feature = "report", not(feature = "on"))))]
mod report;
#[cfg(all(feature = "report", not(feature = "on")))]
pub use report::{Stretch, wait};

/// A stretch of work during which others wait: from its beginning until it is dropped.
#[cfg(not(any(feature = "on", feature = "report")))]
#[derive(Debug)]
pub struct Stretch;

#[cfg(not(any(feature = "on", feature = "report")))]
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

/// Waits for a lock or a disk, which `what` names.
#[cfg(any(feature = "on", not(feature = "report")))]
#[inline]
pub fn wait<T>(what: &'static str, wait: impl FnOnce() -> T) -> T {
    let _unused = what;
    wait()
}

/// A future each of whose polls is a stretch.
#[cfg(not(any(feature = "on", feature = "report")))]
#[inline]
pub fn polls<F: Future>(what: &'static str, future: F) -> F {
    let _unused = what;
    future
}
