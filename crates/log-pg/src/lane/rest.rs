//! Lanes that rest: what upkeep writes needs no connection for most of the time, and a node has many shards.

use std::time::Duration;

use super::Lane;
use super::rows::STATEMENTS_MAX;

/// How long a lane of upkeep keeps its session when nothing is written.
const RESTS_AFTER: Duration = Duration::from_secs(30);

/// What a lane is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Batches of the journal. It keeps its sessions: requests wait for it.
    Journal,
    /// What upkeep writes. It has a session only while there is something to write, and [`RESTS_AFTER`] longer.
    Bulk,
}

impl Kind {
    pub(super) fn sessions(self) -> usize {
        match self {
            Self::Journal => STATEMENTS_MAX,
            Self::Bulk => 1,
        }
    }
}

impl Lane {
    /// Lets the session of a lane go through which nothing was written for long.
    pub(super) fn rest(&self) {
        let mut state = self.state.lock();
        let is_idle = !state.is_broken && state.rows.not_ended() == 0 && state.rows.is_quiet();
        let is_long = state.pushed_at.is_none_or(|pushed| pushed.elapsed() >= RESTS_AFTER);
        if self.kind == Kind::Bulk && is_idle && is_long {
            state.is_resting = true;
            state.sessions.clear();
        }
    }
}
