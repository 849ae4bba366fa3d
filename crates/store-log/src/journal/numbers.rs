//! Numbers of the journal, each a type of its own: where bytes lie, which segment. Those of batches are the contract's,
//! since answers wait for batches.
//!
//! What is left as a plain `u64` is a length or an offset within one file.

use std::ops::{Add, AddAssign, Sub};

use bytes::BufMut;
pub use kew_store::BatchNumber;

use crate::fields::{Codec, NUMBER_MAX, number_codec};

/// A logical address: a byte offset in the endless journal, or, from [`Address::SURVIVORS`] on, among the survivors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Address(pub u64);

/// Number of a segment of either kind: unique in its store, growing in the order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentNumber(pub u64);

impl Address {
    /// Where the journal of a new store begins.
    pub const START: Self = Self(0);
    /// Where the addresses of survivor segments begin, and those of the journal end.
    pub const SURVIVORS: Self = Self(1 << 61);
    /// Behind every address.
    pub const MAX: Self = Self(u64::MAX);

    /// True for an address of a survivor segment.
    #[inline]
    pub const fn is_survivor(self) -> bool {
        self.0 & Self::SURVIVORS.0 != 0
    }

    /// How many bytes it lies behind another address; `None` when it lies before it.
    #[inline]
    pub const fn checked_since(self, start: Self) -> Option<u64> {
        self.0.checked_sub(start.0)
    }

    /// How many bytes it lies behind another address; 0 when it lies before it.
    #[inline]
    pub const fn since(self, start: Self) -> u64 {
        self.0.saturating_sub(start.0)
    }

    /// The address this many bytes on, or the last one there is.
    pub const fn saturating_add(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

impl Add<u64> for Address {
    type Output = Self;

    #[inline]
    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl AddAssign<u64> for Address {
    #[inline]
    fn add_assign(&mut self, bytes: u64) {
        self.0 += bytes;
    }
}

/// Bytes from one address to another behind it.
impl Sub for Address {
    type Output = u64;

    #[inline]
    fn sub(self, start: Self) -> u64 {
        self.0 - start.0
    }
}

impl std::fmt::LowerHex for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}

impl SegmentNumber {
    /// The first segment of a store.
    pub const FIRST: Self = Self(1);

    /// The number after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl std::fmt::LowerHex for SegmentNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::LowerHex::fmt(&self.0, f)
    }
}

number_codec!(Address);
number_codec!(BatchNumber);
number_codec!(SegmentNumber);

/// In files 0 stands for none: no segment has it.
impl Codec for Option<SegmentNumber> {
    const BYTES: usize = 8;

    fn put(self, to: &mut impl BufMut) {
        self.map_or(0, |number| number.0).put(to);
    }

    fn get(from: &[u8]) -> Option<Self> {
        match u64::get(from)? {
            0 => Some(None),
            number => (number <= NUMBER_MAX).then_some(Some(SegmentNumber(number))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_lie_behind_every_address_of_the_journal() {
        assert!(!Address::START.is_survivor() && !Address((1 << 61) - 1).is_survivor());
        assert!(Address::SURVIVORS.is_survivor() && (Address::SURVIVORS + 77).is_survivor());
        assert_eq!((Address(9).since(Address(4)), Address(4).since(Address(9))), (5, 0));
        assert_eq!(Address(4).checked_since(Address(9)), None);
    }

    #[test]
    fn no_segment_is_written_as_zero_and_read_back_as_none() {
        for number in [None, Some(SegmentNumber::FIRST), Some(SegmentNumber(NUMBER_MAX))] {
            let mut bytes = Vec::new();
            number.put(&mut bytes);
            assert_eq!(<Option<SegmentNumber>>::get(&bytes), Some(number));
        }
        assert_eq!(<Option<SegmentNumber>>::get(&[0xff; 8]), None);
        assert_eq!(BatchNumber::get(&[0xff; 8]), None);
    }
}
