//! How much of each segment is still needed: messages that rest in it, and bytes of their records.

use crate::journal::Address;

/// What rests in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentLife {
    /// The segment's first address.
    pub base: Address,
    pub resting: Resting,
}

/// Messages that rest in some place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Resting {
    /// How many.
    pub messages: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
}

impl Resting {
    fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.record_bytes += more.record_bytes;
    }
}

/// What rests in all segments.
#[derive(Default)]
pub(crate) struct Live {
    /// In order of base; journal and survivors apart.
    journal: Vec<SegmentLife>,
    survivors: Vec<SegmentLife>,
    /// What rests in the batch being filled, which has no segment yet.
    pending: Resting,
    pending_from: Address,
}

impl Live {
    /// A segment begins at `base`.
    pub(crate) fn add_segment(&mut self, base: Address) {
        let table = self.table(base);
        if let Err(place) = table.binary_search_by_key(&base, |life| life.base) {
            table.insert(place, SegmentLife { base, resting: Resting::default() });
        }
    }

    /// A segment is gone.
    pub(crate) fn drop_segment(&mut self, base: Address) {
        let table = self.table(base);
        table.retain(|life| life.base != base);
    }

    /// Only the segments with these bases are left.
    pub(crate) fn keep_segments(&mut self, bases: &[Address]) {
        self.journal.retain(|life| bases.contains(&life.base));
        self.survivors.retain(|life| bases.contains(&life.base));
    }

    /// The batch being filled begins here.
    pub(crate) fn begin_batch(&mut self, start: Address) {
        self.pending = Resting::default();
        self.pending_from = start;
    }

    /// The batch being filled was written to the segment that begins at `base`. Says how many messages rest in it.
    pub(crate) fn place_batch(&mut self, base: Address) -> u64 {
        self.add_segment(base);
        let pending = std::mem::take(&mut self.pending);
        if let Some(life) = self.at(base) {
            life.resting.add(pending);
        }
        pending.messages
    }

    /// Whether an address is in the batch being filled.
    pub(crate) fn is_pending(&self, address: Address) -> bool {
        !address.is_survivor() && address >= self.pending_from
    }

    fn table(&mut self, address: Address) -> &mut Vec<SegmentLife> {
        if address.is_survivor() { &mut self.survivors } else { &mut self.journal }
    }

    fn at(&mut self, address: Address) -> Option<&mut SegmentLife> {
        let table = self.table(address);
        let place = match table.last() {
            Some(last) if last.base <= address => table.len(),
            _ => table.partition_point(|life| life.base <= address),
        };
        table.get_mut(place.checked_sub(1)?)
    }

    /// A message rests at `address` now.
    pub(crate) fn occupy(&mut self, address: Address, record_bytes: u32) {
        let one = Resting { messages: 1, record_bytes: u64::from(record_bytes) };
        if self.is_pending(address) {
            self.pending.add(one);
        } else if let Some(life) = self.at(address) {
            life.resting.add(one);
        }
    }

    /// It no longer does.
    pub(crate) fn vacate(&mut self, address: Address, record_bytes: u32) {
        let resting = if self.is_pending(address) {
            &mut self.pending
        } else {
            let Some(life) = self.at(address) else { return };
            &mut life.resting
        };
        debug_assert!(resting.messages > 0, "nothing rests at {address:#x}");
        resting.messages = resting.messages.saturating_sub(1);
        resting.record_bytes = resting.record_bytes.saturating_sub(u64::from(record_bytes));
    }

    /// All segments with what rests in them.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &SegmentLife> {
        self.journal.iter().chain(&self.survivors)
    }

    /// What rests in the segment that begins at `base`.
    pub(crate) fn of(&self, base: Address) -> Option<&SegmentLife> {
        let table = if base.is_survivor() { &self.survivors } else { &self.journal };
        table.get(table.binary_search_by_key(&base, |life| life.base).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_where_their_batch_went() {
        let mut live = Live::default();
        live.add_segment(Address(0));
        live.begin_batch(Address(0));
        live.occupy(Address(50), 7);
        live.occupy(Address(90), 3);
        live.vacate(Address(50), 7);
        live.place_batch(Address(0));
        live.begin_batch(Address(200));
        live.occupy(Address(250), 1);
        live.place_batch(Address(200));
        live.begin_batch(Address(300));
        live.vacate(Address(90), 3);
        let resting = live.segments().map(|life| life.resting);
        let lives: Vec<(u64, u64)> =
            resting.map(|resting| (resting.messages, resting.record_bytes)).collect();
        assert_eq!(lives, [(0, 0), (1, 1)]);
    }
}
