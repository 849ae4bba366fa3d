//! Shards: the parts a store's queues are spread over, and how a queue's number says which one it is in.
//!
//! Shard `s` of `n` numbers its queues and its move tasks `s`, `s + n`, `s + 2n` and so on, without zero. So a number
//! alone says its shard, and a store of one shard counts 1, 2, 3.

use std::fmt;
use std::num::NonZeroU16;

use crate::{QueueId, TaskId};

/// A shard's number inside one store, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard that has the documents of all accounts.
    pub const OF_ACCOUNTS: Self = Self(0);
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many shards a store has. It is set when the store is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardCount(NonZeroU16);

impl ShardCount {
    /// The only shard there is.
    pub const ONE: Self = Self(NonZeroU16::MIN);

    /// This many; `None` for zero.
    pub fn new(shards: u16) -> Option<Self> {
        NonZeroU16::new(shards).map(Self)
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }

    /// All shards, in order.
    pub fn all(self) -> impl Iterator<Item = ShardId> + Clone {
        (0..self.get()).map(ShardId)
    }

    /// The shard that a queue is in.
    #[inline]
    pub fn of_queue(self, queue: QueueId) -> ShardId {
        self.of_number(queue.0)
    }

    /// The shard that a move task is in: that of its source.
    #[inline]
    pub fn of_task(self, task: TaskId) -> ShardId {
        self.of_number(task.0)
    }

    #[inline]
    fn of_number(self, number: u64) -> ShardId {
        // The rest of a division by 16 bits has 16 bits.
        ShardId((number % u64::from(self.get())) as u16)
    }
}

/// Which shard of how many.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShardPlace {
    /// Which one; less than `of`.
    pub shard: ShardId,
    /// Of how many.
    pub of: ShardCount,
}

impl ShardPlace {
    /// The only shard of a store.
    pub const ONLY: Self = Self { shard: ShardId(0), of: ShardCount::ONE };

    /// The least number of this shard that is greater than zero and at least `from`.
    pub fn number_from(self, from: u64) -> u64 {
        let (shard, of) = (u64::from(self.shard.0), u64::from(self.of.get()));
        let from = from.max(1);
        // How far the shard's numbers are ahead of `from`.
        let ahead = (shard + of - from % of) % of;
        from.saturating_add(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_of_one_shard_counts_from_one() {
        let numbers: Vec<u64> = (0..4).map(|from| ShardPlace::ONLY.number_from(from)).collect();
        assert_eq!(numbers, [1, 1, 2, 3]);
        assert_eq!(ShardCount::ONE.of_queue(QueueId(7)), ShardId(0));
    }

    #[test]
    fn numbers_of_a_shard_lead_back_to_it_and_none_is_zero() {
        for count in [1, 2, 3, 16, u16::MAX] {
            let of = ShardCount::new(count).expect("the count is greater than zero");
            for shard in of.all().take(40).chain([ShardId(count - 1)]) {
                let place = ShardPlace { shard, of };
                let mut number = 0;
                for _ in 0..4 {
                    number = place.number_from(number + 1);
                    assert_eq!(of.of_queue(QueueId(number)), shard);
                    assert_eq!(of.of_task(TaskId(number)), shard);
                }
                let first = place.number_from(0);
                assert!(first > 0 && first <= u64::from(count));
                assert_eq!(place.number_from(first), first, "a number of the shard is kept");
                assert_eq!(place.number_from(first + 1), first + u64::from(count));
            }
        }
    }
}
