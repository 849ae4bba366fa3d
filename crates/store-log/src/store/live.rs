//! How much of each segment is still needed: messages that rest in it, and bytes of their records.

use crate::journal::{Address, SURVIVOR_SPACE};

/// What rests in one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentLife {
    /// The segment's first address.
    pub base: Address,
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
}

/// What rests in all segments.
#[derive(Default)]
pub(crate) struct Live {
    /// In order of base; journal and survivors apart.
    journal: Vec<SegmentLife>,
    survivors: Vec<SegmentLife>,
    /// What rests in the batch being filled, which has no segment yet.
    pending: (u64, u64),
    pending_from: Address,
}

impl Live {
    /// A segment begins at `base`.
    pub(crate) fn add_segment(&mut self, base: Address) {
        let table = if base & SURVIVOR_SPACE == 0 { &mut self.journal } else { &mut self.survivors };
        if let Err(place) = table.binary_search_by_key(&base, |life| life.base) {
            table.insert(place, SegmentLife { base, messages: 0, record_bytes: 0 });
        }
    }

    /// A segment is gone.
    pub(crate) fn drop_segment(&mut self, base: Address) {
        let table = if base & SURVIVOR_SPACE == 0 { &mut self.journal } else { &mut self.survivors };
        table.retain(|life| life.base != base);
    }

    /// Only the segments with these bases are left.
    pub(crate) fn keep_segments(&mut self, bases: &[Address]) {
        self.journal.retain(|life| bases.contains(&life.base));
        self.survivors.retain(|life| bases.contains(&life.base));
    }

    /// The batch being filled begins here.
    pub(crate) fn begin_batch(&mut self, start: Address) {
        self.pending = (0, 0);
        self.pending_from = start;
    }

    /// The batch being filled was written to the segment that begins at `base`. Says how many messages rest in it.
    pub(crate) fn place_batch(&mut self, base: Address) -> u64 {
        self.add_segment(base);
        let (messages, record_bytes) = std::mem::take(&mut self.pending);
        if let Some(life) = self.at(base) {
            life.messages += messages;
            life.record_bytes += record_bytes;
        }
        messages
    }

    /// Whether an address is in the batch being filled.
    pub(crate) fn is_pending(&self, address: Address) -> bool {
        address & SURVIVOR_SPACE == 0 && address >= self.pending_from
    }

    fn at(&mut self, address: Address) -> Option<&mut SegmentLife> {
        let table = if address & SURVIVOR_SPACE == 0 { &mut self.journal } else { &mut self.survivors };
        let place = match table.last() {
            Some(last) if last.base <= address => table.len(),
            _ => table.partition_point(|life| life.base <= address),
        };
        table.get_mut(place.checked_sub(1)?)
    }

    /// A message rests at `address` now.
    pub(crate) fn occupy(&mut self, address: Address, record_bytes: u32) {
        if self.is_pending(address) {
            self.pending.0 += 1;
            self.pending.1 += u64::from(record_bytes);
        } else if let Some(life) = self.at(address) {
            life.messages += 1;
            life.record_bytes += u64::from(record_bytes);
        }
    }

    /// It no longer does.
    pub(crate) fn vacate(&mut self, address: Address, record_bytes: u32) {
        let (messages, bytes) = if self.is_pending(address) {
            (&mut self.pending.0, &mut self.pending.1)
        } else {
            let Some(life) = self.at(address) else { return };
            (&mut life.messages, &mut life.record_bytes)
        };
        debug_assert!(*messages > 0, "nothing rests at {address:#x}");
        *messages = messages.saturating_sub(1);
        *bytes = bytes.saturating_sub(u64::from(record_bytes));
    }

    /// All segments with what rests in them.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &SegmentLife> {
        self.journal.iter().chain(&self.survivors)
    }

    /// What rests in the segment that begins at `base`.
    pub(crate) fn of(&self, base: Address) -> Option<&SegmentLife> {
        let table = if base & SURVIVOR_SPACE == 0 { &self.journal } else { &self.survivors };
        table.get(table.binary_search_by_key(&base, |life| life.base).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_where_their_batch_went() {
        let mut live = Live::default();
        live.add_segment(0);
        live.begin_batch(0);
        live.occupy(50, 7);
        live.occupy(90, 3);
        live.vacate(50, 7);
        live.place_batch(0);
        live.begin_batch(200);
        live.occupy(250, 1);
        live.place_batch(200);
        live.begin_batch(300);
        live.vacate(90, 3);
        let lives: Vec<(u64, u64)> = live.segments().map(|life| (life.messages, life.record_bytes)).collect();
        assert_eq!(lives, [(0, 0), (1, 1)]);
    }
}
