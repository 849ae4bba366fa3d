//! Random numbers that are the same in every run.

/// A source of numbers without a pattern, of one seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn from_seed(seed: u64) -> Self {
        // The generator below stays at zero for ever.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// A number below `bound`, which is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }

    /// A place in a list of `length` elements, which has one at least.
    pub fn place(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("a list has fewer than 2^64 elements");
        usize::try_from(self.below(length)).expect("a place in a list fits into usize")
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.place(choices.len())]
    }
}
