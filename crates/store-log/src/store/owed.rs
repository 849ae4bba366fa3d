//! The sync that is owed: the newest batch that was written and must be synced before its answers leave, but is not.

use crate::journal::BatchNumber;

/// The newest batch whose answers wait for a sync, if there is one.
#[derive(Default)]
pub(crate) struct Owed(Option<BatchNumber>);

impl Owed {
    /// Whether answers wait for a sync.
    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// A batch was written that must be synced.
    pub(crate) fn note(&mut self, batch: BatchNumber) {
        self.0 = Some(batch);
    }

    /// Everything written is synced.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Everything is synced through `durable`. Returns how far the gate opens: as far as anything is written, when no
    /// batch behind `durable` must be synced.
    pub(crate) fn open_through(&mut self, durable: BatchNumber, written: BatchNumber) -> BatchNumber {
        if self.0 > Some(durable) {
            return durable;
        }
        self.0 = None;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_opens_through_what_is_written_unless_a_later_batch_must_be_synced() {
        let mut owed = Owed::default();
        assert_eq!(owed.open_through(BatchNumber(3), BatchNumber(9)), BatchNumber(9), "nothing is owed");
        owed.note(BatchNumber(5));
        assert_eq!(owed.open_through(BatchNumber(4), BatchNumber(9)), BatchNumber(4));
        assert!(owed.is_any(), "batch 5 is not synced");
        assert_eq!(owed.open_through(BatchNumber(5), BatchNumber(9)), BatchNumber(9));
        assert!(!owed.is_any());
        owed.note(BatchNumber(10));
        owed.clear();
        assert!(!owed.is_any());
    }
}
