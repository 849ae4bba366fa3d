//! One bound for the bytes of all bodies together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes of bodies are held at the moment, by all listeners that share it.
#[derive(Clone, Debug, Default)]
pub struct Ration {
    held: Arc<AtomicUsize>,
}

impl Ration {
    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share of nothing, to grow while all shares together stay within `bytes_max`.
    pub(crate) fn share(&self, bytes_max: usize) -> Share<'_> {
        Share { ration: self, bytes: 0, bytes_max }
    }
}

/// What one body holds; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    ration: &'a Ration,
    bytes: usize,
    bytes_max: usize,
}

impl Share<'_> {
    /// Takes so many bytes more, unless that is too much.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let before = self.ration.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        before.saturating_add(bytes) <= self.bytes_max
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.ration.held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_grow_up_to_the_bound_together_and_give_back() {
        let ration = Ration::default();
        let (mut one, mut other) = (ration.share(10), ration.share(10));
        assert!(one.grow(6));
        assert!(other.grow(4));
        assert_eq!(ration.held(), 10);
        assert!(!other.grow(1), "that is one too many");
        drop(other);
        assert!(one.grow(4), "there is room again");
        drop(one);
        assert_eq!(ration.held(), 0);
    }
}
