//! Whether a message may be in a block, answered from a few bits.
//!
//! A receipt names a message by its sequence, and buckets are ordered by time: where delays differ, the sequences of
//! each block reach over all sends, and any block may hold any message. So each has a filter of a byte for every
//! message it has room for, which is wrong about one in thirty that are not there.

use kew_core::Sequence;

const WORDS: usize = 32;
/// Bits a message sets.
const BITS: usize = 3;

/// What was ever put into a block, about.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter([u64; WORDS]);

impl Filter {
    pub(super) fn add(&mut self, sequence: Sequence) {
        for (word, bit) in places(sequence) {
            self.0[word] |= bit;
        }
    }

    /// False only when it never was.
    pub(super) fn may_hold(&self, sequence: Sequence) -> bool {
        places(sequence).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// The bits of a message: each takes eleven of a product that mixes neighbours well.
fn places(sequence: Sequence) -> impl Iterator<Item = (usize, u64)> {
    let mixed = sequence.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (1..=BITS).map(move |place| {
        let bit = mixed >> (64 - 11 * place);
        (bit as usize / 64 % WORDS, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::block::BLOCK_ITEMS;

    #[test]
    fn it_is_never_wrong_about_what_is_there_and_seldom_about_what_is_not() {
        for stride in [1, 2, 173, 4_096] {
            let mut filter = Filter::default();
            let inside =
                |sequence: u64| sequence.is_multiple_of(stride) && sequence / stride < BLOCK_ITEMS as u64;
            (0..BLOCK_ITEMS as u64).for_each(|place| filter.add(Sequence(place * stride)));
            assert!((0..BLOCK_ITEMS as u64).all(|place| filter.may_hold(Sequence(place * stride))));
            let others = (0..100_000).filter(|sequence| !inside(*sequence));
            let wrong = others.filter(|sequence| filter.may_hold(Sequence(*sequence))).count();
            assert!(wrong < 6_000, "{wrong} of 100 000 with strides of {stride}");
        }
    }
}
