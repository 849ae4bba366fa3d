//! Where the slices of a checkpoint lie: one small entry for each queue, and queues may be many.
//!
//! Such a list is made whole, never changed, and shared by the manifest that counts and the checkpoint that follows it.

use std::sync::Arc;

use super::generation::Generation;
use crate::journal::BatchNumber;

/// Bytes before those of a slice.
pub(super) const SLICE_HEADER_BYTES: u64 = 24;

/// Where a slice lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceRef {
    /// Generation of the file it lies in.
    pub generation: Generation,
    /// Offset of the slice's header in it.
    pub offset: u64,
    /// Bytes of the slice itself.
    pub bytes: u32,
    /// The newest batch it reflects.
    pub reflects: BatchNumber,
}

impl SliceRef {
    /// Bytes it takes in its file.
    pub(crate) fn file_bytes(&self) -> u64 {
        SLICE_HEADER_BYTES + u64::from(self.bytes)
    }

    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.file_bytes())
    }
}

/// All slices of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slices {
    /// Sorted by key; no two have the same.
    entries: Arc<[(u64, SliceRef)]>,
}

impl Slices {
    /// Made of entries in any order. The last of a key counts.
    pub fn of(mut entries: Vec<(u64, SliceRef)>) -> Self {
        entries.sort_by_key(|(key, _)| *key);
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                *earlier = *later;
            }
            same
        });
        Self { entries: entries.into() }
    }

    /// The slice of a key.
    pub fn get(&self, key: u64) -> Option<SliceRef> {
        let place = self.entries.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.entries.get(place).map(|(_, slice)| *slice)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (u64, SliceRef)> + '_ {
        self.entries.iter().copied()
    }

    /// All of them, without their keys.
    pub fn refs(&self) -> impl Iterator<Item = SliceRef> + '_ {
        self.entries.iter().map(|(_, slice)| *slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(offset: u64) -> SliceRef {
        SliceRef { generation: Generation(1), offset, bytes: 0, reflects: BatchNumber::BEFORE_FIRST }
    }

    #[test]
    fn slices_are_found_by_key_and_the_last_of_a_key_counts() {
        let slices = Slices::of(vec![(7, slice(1)), (2, slice(2)), (7, slice(3)), (1 << 63, slice(4))]);
        let offset = |key| slices.get(key).map(|slice| slice.offset);
        assert_eq!((offset(7), offset(2), offset(1 << 63), offset(3)), (Some(3), Some(2), Some(4), None));
        assert_eq!(slices.iter().map(|(key, _)| key).collect::<Vec<_>>(), [2, 7, 1 << 63]);
        assert_eq!(slices.len(), 3);
    }
}
