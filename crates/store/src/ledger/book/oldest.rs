//! When the oldest of very many entries was sent, found a little at a time.

use kew_core::Timestamp;

use super::contents::Entries;

/// Pieces of entries that one look goes through, some sixty thousand entries: a millisecond.
const PIECES_AT_ONCE: usize = 256;

/// The send of the oldest entry. With more entries than one look goes through it may be that of one which left since:
/// never a later one than the oldest there is, and an earlier one only until all were looked at once more.
#[derive(Debug)]
pub(crate) struct Oldest {
    /// As the last pass through all entries found it, and those that came since.
    known: Timestamp,
    /// The same of the pass that is under way.
    passing: Timestamp,
    /// Pieces that this pass has yet to go through. It goes from the last to the first: an entry that changes its place
    /// moves towards the first, so none is missed.
    left: usize,
}

impl Default for Oldest {
    fn default() -> Self {
        Self { known: Timestamp::NEVER, passing: Timestamp::NEVER, left: 0 }
    }
}

impl Oldest {
    /// An entry comes whose message was sent then.
    #[inline]
    pub(crate) fn note(&mut self, sent_at: Timestamp) {
        self.known = self.known.min(sent_at);
        self.passing = self.passing.min(sent_at);
    }

    /// Looks at some entries; at all when they are not very many.
    pub(crate) fn look(&mut self, entries: &Entries) -> Timestamp {
        let pieces = entries.pieces();
        if pieces <= PIECES_AT_ONCE || self.left == 0 {
            (self.passing, self.left) = (Timestamp::NEVER, pieces);
        }
        let to = self.left.min(pieces);
        let from = to.saturating_sub(PIECES_AT_ONCE);
        let looked_at = (from..to).flat_map(|piece| entries.values_in(piece));
        self.passing = looked_at.map(|entry| entry.item.sent_at).fold(self.passing, Timestamp::min);
        self.left = from;
        if from == 0 {
            self.known = self.passing;
        }
        self.known
    }
}

#[cfg(test)]
mod tests {
    use kew_core::Sequence;

    use super::*;
    use crate::ledger::block::tests::item;
    use crate::ledger::item::{Entry, Hold, Item};

    fn put(entries: &mut Entries, oldest: &mut Oldest, sequence: u64, sent_at: u64) {
        let item = Item { sent_at: Timestamp(sent_at), ..item(sequence) };
        oldest.note(item.sent_at);
        entries.insert(item.sequence, Entry { item, hold: Hold::Ready, alarm: Timestamp::NEVER });
    }

    #[test]
    fn of_few_entries_every_look_finds_the_oldest() {
        let (mut entries, mut oldest) = (Entries::default(), Oldest::default());
        assert_eq!(oldest.look(&entries), Timestamp::NEVER);
        for sequence in 1..=2_000 {
            put(&mut entries, &mut oldest, sequence, 10_000 + sequence);
        }
        for sequence in 1..=1_999 {
            assert_eq!(oldest.look(&entries), Timestamp(10_000 + sequence));
            entries.remove(&Sequence(sequence));
        }
        put(&mut entries, &mut oldest, 1, 7);
        assert_eq!(oldest.look(&entries), Timestamp(7));
    }

    #[test]
    fn of_very_many_no_look_is_long_and_what_is_known_is_never_too_late() {
        let (mut entries, mut oldest) = (Entries::default(), Oldest::default());
        let count = 3 * 65_536 + 1;
        for sequence in 1..=count {
            put(&mut entries, &mut oldest, sequence, sequence + 5);
        }
        assert_eq!(oldest.look(&entries), Timestamp(6));
        // The oldest leave, and a passing look does not know it yet.
        (1..=100_000).for_each(|sequence| assert!(entries.remove(&Sequence(sequence)).is_some()));
        let looks: Vec<u64> = (0..4 + 4).map(|_| oldest.look(&entries).0).collect();
        assert!(looks.iter().all(|look| *look <= 100_006), "{looks:?}");
        assert_eq!(looks.last(), Some(&100_006));
        // One that comes in the midst of a pass counts at once, and at its end.
        oldest.look(&entries);
        put(&mut entries, &mut oldest, count + 1, 3);
        assert!((0..9).all(|_| oldest.look(&entries) == Timestamp(3)));
        entries.remove(&Sequence(count + 1));
        (0..8).for_each(|_| {
            oldest.look(&entries);
        });
        assert_eq!(oldest.look(&entries), Timestamp(100_006));
    }
}
