//! What the ledger is doing, and how much of each kind of due work it may still do meanwhile.
//!
//! A step does what is due first, and a bounded part of it; its own first change begins it in the journal. While
//! changes are replayed no caller waits, so nothing is left for later.

use super::{Bounds, SEEN_OFF_FOR_ONE};

/// What the ledger is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Changes of a journal are made again. They say which messages departed.
    Replay,
    /// What is due before a step is done.
    Due,
    /// A command is carried out, and has changed nothing.
    Step,
    /// A command is carried out, and has changed something.
    Changed,
}

/// How many of each the step may still see to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Dead letters that leave.
    pub departures: usize,
    /// Messages that are shown and put among those that are offered.
    pub shows: usize,
    /// Messages that expired and are seen off.
    pub expired: usize,
    /// Messages that expired and are taken out of their groups on a FIFO queue.
    pub in_groups: usize,
    /// The same for those that stand before what a group offers.
    pub heads: usize,
    /// Leases that ended.
    pub lapses: usize,
}

impl Left {
    fn all() -> Self {
        let all = usize::MAX;
        Self { departures: all, shows: all, expired: all, in_groups: all, heads: all, lapses: all }
    }

    fn of(bounds: &Bounds) -> Self {
        Self {
            departures: bounds.departures.max(1),
            shows: bounds.slice.max(1),
            expired: bounds.slice.max(1),
            in_groups: bounds.expired_in_groups.max(1),
            heads: SEEN_OFF_FOR_ONE,
            lapses: bounds.lapses.max(1),
        }
    }
}

/// What the ledger is doing, and how much it may still do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    stage: Stage,
    pub left: Left,
}

impl Pace {
    /// Before the first step.
    pub fn new(bounds: &Bounds) -> Self {
        Self { stage: Stage::Due, left: Left::of(bounds) }
    }

    /// A change is made again.
    pub fn begin_replay(&mut self) {
        *self = Self { stage: Stage::Replay, left: Left::all() };
    }

    /// What is due is done, before a step or after a replay.
    pub fn begin_due(&mut self, bounds: &Bounds) {
        *self = Self { stage: Stage::Due, left: Left::of(bounds) };
    }

    /// What is due has been done: the command is carried out.
    pub fn begin_command(&mut self) {
        self.stage = Stage::Step;
    }

    /// Whether changes are made again.
    pub fn is_replay(self) -> bool {
        self.stage == Stage::Replay
    }

    /// A change is recorded. Says whether it is the first of the command.
    #[inline]
    pub fn note_change(&mut self) -> bool {
        let is_first = self.stage == Stage::Step;
        if is_first {
            self.stage = Stage::Changed;
        }
        is_first
    }
}
