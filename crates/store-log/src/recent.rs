//! The newest batches with contents in memory: the log's recent past is its cache.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::frame::Address;

/// Batches one behind the other, up to a bound of bytes.
pub(crate) struct Recent {
    batches: VecDeque<(Address, Bytes)>,
    bytes: usize,
    max: usize,
}

impl Recent {
    pub(crate) fn new(max: usize) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, max }
    }

    /// Adds the newest batch; the oldest make room. The memory of one that nobody reads any more is handed back, for
    /// the next batch to be filled in: fresh memory costs more than anything done with it.
    pub(crate) fn push(&mut self, start: Address, batch: Bytes) -> Option<Vec<u8>> {
        self.bytes += taken(&batch);
        self.batches.push_back((start, batch));
        let mut spare = None;
        while self.bytes > self.max {
            let (_, oldest) = self.batches.pop_front()?;
            self.bytes -= taken(&oldest);
            if oldest.is_unique() {
                spare = Some(Vec::from(oldest));
            }
        }
        spare
    }

    /// The batch that holds an address, and where in it.
    pub(crate) fn find(&self, address: Address) -> Option<(&Bytes, usize)> {
        let place = self.batches.partition_point(|(start, _)| *start <= address);
        let (start, batch) = self.batches.get(place.checked_sub(1)?)?;
        let offset = usize::try_from(address - start).ok()?;
        (offset < batch.len()).then_some((batch, offset))
    }
}

/// What a batch takes, with its place in the row: there may be many small ones.
fn taken(batch: &Bytes) -> usize {
    batch.len() + size_of::<(Address, Bytes)>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_batches_make_room() {
        let mut recent = Recent::new(10 + 2 * size_of::<(Address, Bytes)>());
        assert!(recent.push(0, Bytes::from(b"abcdef".to_vec())).is_none());
        assert!(recent.push(6, Bytes::from_static(b"ghij")).is_none());
        assert_eq!(recent.find(7).map(|(batch, at)| (batch[at], at)), Some((b'h', 1)));
        assert!(recent.push(10, Bytes::from_static(b"k")).is_some());
        assert!(recent.find(3).is_none());
        assert!(recent.find(10).is_some());
        assert!(recent.find(11).is_none());
    }
}
