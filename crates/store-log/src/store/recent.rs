//! The newest batches that messages rest in, in memory: the log's recent past is its cache.
//!
//! A batch is let go with the last message that rests in it, and the next one is filled in its memory: a queue that is
//! emptied as fast as it fills goes round in a few buffers, which the processor has at hand.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::journal::Address;

/// Batches one behind the other, up to a bound of bytes.
pub(crate) struct Recent {
    batches: VecDeque<RecentBatch>,
    /// What they take, with their places in the row: there may be many small ones.
    bytes: usize,
    max: usize,
    /// How many of them were let go: only their places are left.
    gone: usize,
    /// Memory of one that was let go.
    spare: Option<Vec<u8>>,
}

struct RecentBatch {
    start: Address,
    /// Empty when it was let go.
    batch: Bytes,
    /// Messages that rest in it.
    messages: u64,
}

impl Recent {
    pub(crate) fn new(max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, max, gone: 0, spare: None }
    }

    /// Adds the newest batch, in which some messages rest; past the bound the oldest go.
    pub(crate) fn push(&mut self, start: Address, batch: Bytes, messages: u64) {
        let kept = RecentBatch { start, batch, messages };
        self.bytes += kept.taken();
        self.batches.push_back(kept);
        while self.bytes > self.max
            && let Some(oldest) = self.batches.pop_front()
        {
            self.bytes -= oldest.taken();
            self.gone -= usize::from(oldest.messages == 0);
            self.spare(oldest.batch);
        }
    }

    /// Memory that has no reader any more, for the next batch to be filled in: fresh memory costs more than anything
    /// done with it.
    pub(crate) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.spare.take()
    }

    /// The batch that holds an address, and where in it.
    pub(crate) fn find(&self, address: Address) -> Option<(&Bytes, usize)> {
        let kept = self.batches.get(self.place_of(address)?)?;
        let offset = usize::try_from(address - kept.start).ok()?;
        (offset < kept.batch.len()).then_some((&kept.batch, offset))
    }

    /// One more message rests at an address: it is on its way from one queue to another.
    pub(crate) fn occupy(&mut self, address: Address) {
        if let Some(kept) = self.kept(address) {
            kept.messages += 1;
        }
    }

    /// A message that rested at an address does so no longer.
    pub(crate) fn vacate(&mut self, address: Address) {
        let Some(kept) = self.kept(address) else { return };
        kept.messages -= 1;
        if kept.messages == 0 {
            let batch = std::mem::take(&mut kept.batch);
            self.bytes -= batch.len();
            self.spare(batch);
            self.gone += 1;
            self.close_ranks();
        }
    }

    fn kept(&mut self, address: Address) -> Option<&mut RecentBatch> {
        let place = self.place_of(address)?;
        self.batches.get_mut(place).filter(|kept| address - kept.start < kept.batch.len() as u64)
    }

    fn place_of(&self, address: Address) -> Option<usize> {
        self.batches.partition_point(|kept| kept.start <= address).checked_sub(1)
    }

    fn spare(&mut self, batch: Bytes) {
        if batch.is_unique() && self.spare.as_ref().is_none_or(|spare| spare.capacity() < batch.len()) {
            self.spare = Some(Vec::from(batch));
        }
    }

    /// Gives up the places of those that were let go, once they are more than the others.
    fn close_ranks(&mut self) {
        if self.gone > self.batches.len() / 2 {
            self.batches.retain(|kept| kept.messages > 0);
            self.bytes -= std::mem::take(&mut self.gone) * size_of::<RecentBatch>();
        }
    }
}

impl RecentBatch {
    fn taken(&self) -> usize {
        self.batch.len() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(bytes: usize, batches: usize) -> Recent {
        Recent::new(bytes + batches * size_of::<RecentBatch>())
    }

    #[test]
    fn oldest_batches_go_past_the_bound() {
        let mut recent = recent(10, 2);
        recent.push(Address(0), Bytes::from(b"abcdef".to_vec()), 1);
        recent.push(Address(6), Bytes::from_static(b"ghij"), 1);
        assert!(recent.take_spare().is_none());
        assert_eq!(recent.find(Address(7)).map(|(batch, at)| (batch[at], at)), Some((b'h', 1)));
        recent.push(Address(10), Bytes::from_static(b"k"), 1);
        assert!(recent.take_spare().is_some());
        assert!(recent.find(Address(3)).is_none());
        assert!(recent.find(Address(10)).is_some());
        assert!(recent.find(Address(11)).is_none());
    }

    #[test]
    fn batch_goes_with_the_last_message_that_rests_in_it() {
        let mut recent = recent(100, 100);
        for start in (0..40).step_by(4) {
            recent.push(Address(start), Bytes::from(b"wxyz".to_vec()), 2);
        }
        recent.occupy(Address(9));
        recent.vacate(Address(9));
        recent.vacate(Address(9));
        assert!(recent.find(Address(8)).is_some() && recent.take_spare().is_none());
        recent.vacate(Address(8));
        assert!(recent.find(Address(8)).is_none(), "nothing rests in it");
        assert_eq!(recent.take_spare().map(|spare| spare.capacity()), Some(4));
        assert!(recent.find(Address(7)).is_some() && recent.find(Address(12)).is_some());
        // Said twice, or of what was never kept, it means nothing.
        recent.vacate(Address(8));
        recent.vacate(Address(1_000));
        for at in 12..40 {
            recent.vacate(Address(at));
        }
        assert_eq!(recent.batches.len() - recent.gone, 2);
        recent.vacate(Address(0));
        recent.vacate(Address(1));
        recent.vacate(Address(4));
        recent.vacate(Address(5));
        assert_eq!((recent.batches.len(), recent.bytes, recent.gone), (0, 0, 0));
    }

    #[test]
    fn memory_that_is_being_read_is_not_filled_again() {
        let mut recent = recent(100, 1);
        recent.push(Address(0), Bytes::from(b"abcdef".to_vec()), 1);
        let read = recent.find(Address(0)).expect("the batch is in memory").0.slice(1..2);
        recent.vacate(Address(0));
        assert!(recent.take_spare().is_none());
        assert_eq!(read, "b");
    }
}
