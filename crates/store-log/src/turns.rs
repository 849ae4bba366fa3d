//! The store's locks, and the places where a test decides which thread goes on.
//!
//! In a program a [`Lock`] is a plain mutex. With the feature `planted` a test may run the store's threads under a
//! [`Schedule`](schedule::Schedule): one of them runs at a time, and before each lock and each disk call the next one is
//! chosen by seed. So one seed is one interleaving, and a lock must be a [`Lock`] if it is held during disk calls.

#[cfg(feature = "planted")]
pub mod schedule;

use std::time::{Duration, Instant};

use kew_timed::Stretch;

#[cfg(not(feature = "planted"))]
pub(crate) use parking_lot::Mutex as Lock;
#[cfg(feature = "planted")]
pub(crate) use schedule::Lock;

/// A stretch of work during which others wait, asserted to be short. Under a schedule it isn't: taking turns costs time.
pub(crate) fn stretch(what: &'static str) -> Option<Stretch> {
    #[cfg(feature = "planted")]
    if schedule::is_running() {
        return None;
    }
    Some(Stretch::begin(what))
}

/// Whether more time than `most` has passed since an instant; under a schedule its seed says so.
pub(crate) fn has_passed(since: Instant, most: Duration) -> bool {
    #[cfg(feature = "planted")]
    if let Some(number) = schedule::chance(2) {
        return number == 0;
    }
    since.elapsed() > most
}
