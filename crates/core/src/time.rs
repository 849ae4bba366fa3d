//! Instants, and the two things only the program may ask the machine for: the time and chance.

use std::fmt;
use std::time::Duration;

/// An instant: milliseconds of UTC since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The first instant; also "no instant yet" where a field says so.
    pub const ZERO: Self = Self(0);
    /// Later than any instant that is ever reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant `length` later; never past [`Timestamp::NEVER`].
    pub fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(millis(length)))
    }

    /// The instant `length` earlier; never before [`Timestamp::ZERO`].
    pub fn minus(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(millis(length)))
    }

    /// The very next instant.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A duration in whole milliseconds, as instants count it.
pub fn millis(length: Duration) -> u64 {
    // Not by way of `as_millis`, which counts in 128 bits: every instant that is worked out passes here.
    length.as_secs().saturating_mul(1_000).saturating_add(u64::from(length.subsec_millis()))
}

/// Where the time comes from. Engine time never runs back.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// Where chance comes from: nonces, ids, keys.
pub trait Entropy: Send + Sync {
    /// Sixty-four unpredictable bits.
    fn bits(&self) -> u64;

    /// A hundred and twenty-eight unpredictable bits.
    fn wide_bits(&self) -> u128 {
        (u128::from(self.bits()) << 64) | u128::from(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_never_wrap() {
        assert_eq!(Timestamp::NEVER.plus(Duration::from_secs(1)), Timestamp::NEVER);
        assert_eq!(Timestamp::ZERO.minus(Duration::from_secs(1)), Timestamp::ZERO);
        assert_eq!(Timestamp(5).since(Timestamp(7)), Duration::ZERO);
        assert_eq!(Timestamp(5).plus(Duration::MAX), Timestamp::NEVER);
    }
}
