//! What was done since the last sync, in order: a sync covers what was done before it began.

/// Changes that are not durable, numbered in order.
#[derive(Clone)]
pub(super) struct Unsynced<C> {
    changes: u64,
    pending: Vec<(u64, C)>,
}

impl<C> Default for Unsynced<C> {
    fn default() -> Self {
        Self { changes: 0, pending: Vec::new() }
    }
}

impl<C> Unsynced<C> {
    pub(super) fn push(&mut self, change: C) {
        self.changes += 1;
        self.pending.push((self.changes, change));
    }

    /// How far a sync that begins now reaches: what is done later is not in it.
    pub(super) fn reach(&self) -> u64 {
        self.changes
    }

    /// Takes out what a sync covers that reached so far.
    pub(super) fn take_to(&mut self, reach: u64) -> Vec<C> {
        let covered = self.pending.partition_point(|(number, _)| *number <= reach);
        self.pending.drain(..covered).map(|(_, change)| change).collect()
    }

    /// Takes out everything.
    pub(super) fn take_all(&mut self) -> Vec<C> {
        self.take_to(self.changes)
    }
}
