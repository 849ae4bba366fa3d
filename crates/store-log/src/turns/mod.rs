//! The store's locks, and the places where a test decides which thread goes on.
//!
//! While the lock that every step takes is held nothing is read from a segment: that would make all callers wait for
//! the disk. In tests each such read fails ([`may_wait_for_a_disk`]).
//!
//! In a program a [`Lock`] is a plain mutex. With the feature `planted` a test may run the store's threads under a
//! [`Schedule`](schedule::Schedule): one of them runs at a time, and before each lock and each disk call the next one
//! is chosen by seed. So one seed is one interleaving, and a lock must be a [`Lock`] if it is held during disk calls.

#[cfg(feature = "planted")]
pub mod schedule;

use std::time::{Duration, Instant};

use kew_timed::Stretch;

#[cfg(not(feature = "planted"))]
pub(crate) use parking_lot::Mutex as Lock;
#[cfg(feature = "planted")]
pub(crate) use schedule::Lock;

/// A stretch of work during which others wait, asserted to be short. Under a schedule it isn't: taking turns costs
/// time.
pub(crate) fn stretch(what: &'static str) -> Option<Stretch> {
    #[cfg(feature = "planted")]
    if schedule::is_running() {
        return None;
    }
    Some(Stretch::begin(what))
}

/// Sleeps while this is so, for moments. Under a schedule who goes on is its seed's choice.
pub(crate) fn rest_while(is_so: impl Fn() -> bool) {
    const MOMENT: Duration = Duration::from_micros(50);
    #[cfg(feature = "planted")]
    if schedule::is_running() {
        return;
    }
    while is_so() {
        std::thread::sleep(MOMENT);
    }
}

/// Whether more time than `most` has passed since an instant; under a schedule its seed says so.
pub(crate) fn has_passed(since: Instant, most: Duration) -> bool {
    #[cfg(feature = "planted")]
    if let Some(number) = schedule::chance(2) {
        return number == 0;
    }
    since.elapsed() > most
}

#[cfg(debug_assertions)]
thread_local! {
    /// How many of the locks that steps take this thread holds.
    static HELD: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A hold of the lock that every step takes, for as long as this lives.
pub(crate) struct StepLockHeld(());

impl StepLockHeld {
    #[inline]
    pub(crate) fn begin() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self(())
    }
}

#[cfg(debug_assertions)]
impl Drop for StepLockHeld {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Said before a segment is read.
#[inline]
pub(crate) fn may_wait_for_a_disk() {
    #[cfg(debug_assertions)]
    assert!(HELD.get() == 0, "a segment is read while the store's lock is held");
}
