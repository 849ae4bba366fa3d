//! Chance that a seed repeats.

use std::sync::Mutex;
use std::time::Duration;

use kew_core::Entropy;

/// A small generator (splitmix64): one seed, one sequence.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next sixty-four bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len() as u64) as usize) }
    }

    /// One of these numbers of milliseconds.
    pub fn millis(&mut self, of: &[u64]) -> Duration {
        Duration::from_millis(self.pick(of).copied().unwrap_or_default())
    }

    /// The place of one of these weights, each as often as it is heavy.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (place, weight) in weights.iter().enumerate() {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return place,
            }
        }
        0
    }
}

/// Keeps the chance of stores apart from the one histories are made of.
const CHANCE_OF_STORES: u64 = 0x7374_6f72_6500_0000;

/// The same as a source of nonces, ids and keys.
#[derive(Debug)]
pub struct SeededEntropy {
    random: Mutex<Random>,
}

impl SeededEntropy {
    /// The chance of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { random: Mutex::new(Random::new(seed)) }
    }

    /// The chance of a store that a test starts as its `start`th. A history is made of the chance of its own number:
    /// with the same one, a store would give its messages ids that the history gave to others.
    pub fn of_start(start: u64) -> Self {
        Self::new(start ^ CHANCE_OF_STORES)
    }
}

impl Entropy for SeededEntropy {
    fn bits(&self) -> u64 {
        self.random.lock().expect("no holder of this lock panics").bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_started_as_number_n_shares_no_chance_with_history_n() {
        let (history, store) = (SeededEntropy::new(741), SeededEntropy::of_start(741));
        let of_history: Vec<_> = (0..1_000).map(|_| history.bits()).collect();
        assert!((0..1_000).all(|_| !of_history.contains(&store.bits())));
    }
}
