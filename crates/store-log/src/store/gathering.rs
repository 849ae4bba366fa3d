//! What fills while an append is under way, where appends end later and elsewhere: when it leaves as the next one.
//!
//! An append costs the database much the same for one step as for sixty, and the clients whose answers it released
//! come back a moment later. So behind an append that has ended the batch is let fill until it is nearly as large as
//! the largest of the last ones were. The event loop says when that has taken long enough, by a commit: a step that
//! comes later leaves at once. So does one of a client that is alone. Without an event loop that hands batches over,
//! what filled leaves when an append ends.

use std::sync::Arc;
use std::time::Duration;

use kew_store::{Fill, Groups, Ring};
use parking_lot::Mutex;

use super::inner::Inner;
use crate::disk::Appends;
use crate::planted::Planted;

/// The next append should be as large as the largest of the last ones, but one of this many parts.
const PARTS: u32 = 16;
/// A batch of this many bytes costs more by them than by being one more.
const LARGE: u64 = 64 << 10;
/// A small batch stays behind an append that was handed over less than this ago, although that may have ended: the
/// store hears of an end a moment later. Past it the database takes another beside it (`SLOW_ROW` of its lanes).
const STAYS_WITHIN: Duration = Duration::from_millis(20);

/// The batch being filled, beside the append before it. Guarded by the store's lock.
#[derive(Default)]
pub(crate) struct Gathering {
    /// Steps with records in the batch being filled.
    pub steps: u32,
    groups: Groups,
    behind: Behind,
}

/// What the batch being filled is behind.
#[derive(Default)]
enum Behind {
    /// Nothing: it leaves at once.
    #[default]
    Nothing,
    /// An append that is under way.
    UnderWay,
    /// One that has ended: it is let fill.
    Ended,
}

impl Gathering {
    /// A batch of this many steps was handed over.
    fn handed_over(&mut self, steps: u32) {
        self.groups.note(steps);
        self.behind = Behind::UnderWay;
    }

    /// An append has ended. A client that is alone does not wait for others.
    fn ended(&mut self) {
        self.behind = if self.groups.all_but_one_of(PARTS) > 1 { Behind::Ended } else { Behind::Nothing };
    }

    /// Whether the batch being filled, of this many bytes, stays although another append would be taken. `since` says
    /// how long ago the newest one was handed over.
    fn stays(&self, bytes: u64, since: impl FnOnce() -> Option<Duration>) -> bool {
        let is_small = matches!(self.behind, Behind::UnderWay) && bytes < LARGE;
        is_small && since().is_some_and(|since| since < STAYS_WITHIN)
    }

    /// How many steps it is let fill up to.
    fn fills_up_to(&self, bytes: u64) -> Option<u32> {
        let target = self.groups.all_but_one_of(PARTS);
        (matches!(self.behind, Behind::Ended) && self.steps < target && bytes < LARGE).then_some(target)
    }
}

/// The event loop that hands over what filled, if there is one.
#[derive(Default)]
pub(crate) struct OwnLoop(Mutex<Option<Arc<Ring>>>);

impl OwnLoop {
    fn is_there(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Leaves what filled to the event loop. False if there is none any more.
    fn rings(&self) -> bool {
        let ring = self.0.lock().clone();
        ring.is_some_and(|ring| Planted::LoopNotRung.is_there() || ring())
    }
}

impl Inner {
    /// An event loop hands batches over from now on, or none does.
    pub(crate) fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        if self.appends.is_none() {
            return;
        }
        let ends = ring.is_none();
        *self.own_loop.0.lock() = ring;
        if ends && !Planted::LeftByTheLoop.is_there() {
            self.writer.lock().shelf.gathering.behind = Behind::Nothing;
            // What is held up leaves when the append before it has ended. A failure is passed on to those who wait.
            let _written = self.write();
        }
    }

    /// A batch was handed over.
    pub(super) fn note_append(&self, gathering: &mut Gathering, steps: u32) {
        if self.own_loop.is_there() {
            gathering.handed_over(steps);
        }
    }

    /// An append has ended.
    pub(super) fn note_end(&self, gathering: &mut Gathering) {
        if self.own_loop.is_there() {
            gathering.ended();
        }
    }

    /// What filled behind an append that has ended is the next one. Without an event loop it is handed over here.
    pub(super) fn go_on_behind_an_append(&self) {
        if !self.own_loop.rings() {
            // Its failure is passed on to those who wait.
            let _written = self.write();
        }
    }

    /// Hands the batch being filled over, unless it is let fill or stays.
    pub(crate) fn hand_over(&self) -> Fill {
        let Some(appends) = &self.appends else { return Fill::ByCaller };
        let leaves = {
            let ledger = self.writer.lock();
            let (gathering, bytes) = (&ledger.shelf.gathering, ledger.shelf.batch.bytes());
            match gathering.fills_up_to(bytes) {
                Some(target) if !self.is_held_up(bytes) && !ledger.shelf.wants_a_segment() => {
                    return Fill::Waits { target };
                }
                Some(_) => false,
                None => {
                    ledger.shelf.batch.records() > 0 && !gathering.stays(bytes, || appends.since_newest())
                }
            }
        };
        if leaves {
            // Its failure is passed on to those who wait.
            let _written = self.write();
        }
        Fill::Enough
    }

    /// The event loop commits: what was let fill is not any more. Whether the batch being filled stays nevertheless.
    pub(super) fn end_filling(&self, appends: &dyn Appends) -> bool {
        let mut ledger = self.writer.lock();
        let shelf = &mut ledger.shelf;
        if matches!(shelf.gathering.behind, Behind::Ended) {
            shelf.gathering.behind = Behind::Nothing;
        }
        shelf.gathering.stays(shelf.batch.bytes(), || appends.since_newest()) && !shelf.wants_a_segment()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind an append of sixteen steps that has ended.
    fn behind_one_of_sixteen() -> Gathering {
        let mut gathering = Gathering::default();
        gathering.handed_over(16);
        gathering.ended();
        gathering
    }

    #[test]
    fn a_batch_is_let_fill_until_it_is_nearly_as_large_as_the_largest_of_the_last() {
        let mut gathering = behind_one_of_sixteen();
        for steps in 0..15 {
            gathering.steps = steps;
            assert_eq!(gathering.fills_up_to(LARGE - 1), Some(15), "{steps}");
        }
        gathering.steps = 15;
        assert_eq!(gathering.fills_up_to(0), None);
    }

    #[test]
    fn a_large_batch_is_not_let_fill_and_does_not_stay() {
        let mut gathering = behind_one_of_sixteen();
        assert_eq!(gathering.fills_up_to(LARGE), None);
        gathering.handed_over(16);
        let just_now = || Some(Duration::ZERO);
        assert!(gathering.stays(LARGE - 1, just_now), "until the store hears of the append's end");
        assert!(!gathering.stays(LARGE, just_now));
    }

    #[test]
    fn a_batch_stays_behind_an_append_only_for_a_while() {
        let mut gathering = Gathering::default();
        assert!(!gathering.stays(0, || Some(Duration::ZERO)), "nothing is under way");
        gathering.handed_over(1);
        let before = STAYS_WITHIN - Duration::from_nanos(1);
        assert!(gathering.stays(0, || Some(before)));
        assert!(!gathering.stays(0, || Some(STAYS_WITHIN)));
    }

    #[test]
    fn a_client_that_is_alone_does_not_wait_for_others() {
        let mut gathering = Gathering::default();
        gathering.handed_over(1);
        gathering.ended();
        assert_eq!(gathering.fills_up_to(0), None);
        assert!(!gathering.stays(0, || Some(Duration::ZERO)));
    }
}
