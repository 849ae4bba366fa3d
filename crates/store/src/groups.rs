//! How many answers the next commit or append should serve, by what the last ones did.
//!
//! Each costs much the same for one answer as for sixty, and clients whose answers one releases come back a moment
//! later. So the next may wait for them a little, though never for a client that is not there.

/// Tells an event loop that it may commit. False when that has ended.
pub type Ring = dyn Fn() -> bool + Send + Sync;

/// Whether what was applied is let fill, so that the next append serves more. Of several stores the largest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fill {
    /// Commits end before they return: their caller knows best what waits for the next.
    ByCaller,
    /// The next one leaves at once, or when an append that is under way has ended.
    Enough,
    /// An append has ended, and fewer answers than this wait for the next.
    Waits {
        /// How many answers are hoped for.
        target: u32,
    },
}

/// Groups that are remembered.
const REMEMBERED: usize = 8;

/// The sizes of the last groups of answers that shared a commit or an append.
#[derive(Clone, Copy, Debug, Default)]
pub struct Groups {
    sizes: [u32; REMEMBERED],
    next: usize,
}

impl Groups {
    /// How many answers to hope for: the largest group but one of this many parts of it. At one connection one.
    pub fn all_but_one_of(&self, parts: u32) -> u32 {
        let largest = self.sizes.iter().copied().max().unwrap_or_default();
        largest.saturating_sub(largest.checked_div(parts).unwrap_or_default()).max(1)
    }

    /// Notes how many answers shared one. An empty group says nothing.
    pub fn note(&mut self, size: u32) {
        if let (1.., Some(slot)) = (size, self.sizes.get_mut(self.next)) {
            *slot = size;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hoped_for_is_most_of_the_largest_and_at_least_one() {
        for (largest, hoped) in [(0, 1), (1, 1), (2, 2), (7, 7), (8, 7), (16, 14), (64, 56)] {
            let mut groups = Groups::default();
            groups.note(largest);
            assert_eq!(groups.all_but_one_of(8), hoped, "{largest}");
        }
        let mut groups = Groups::default();
        groups.note(64);
        assert_eq!([1, 16, 64, 65].map(|parts| groups.all_but_one_of(parts)), [1, 60, 63, 64]);
    }

    #[test]
    fn a_large_group_is_forgotten_after_eight_others_and_empty_ones_do_not_count() {
        let mut groups = Groups::default();
        groups.note(64);
        for _ in 1..REMEMBERED {
            groups.note(2);
            groups.note(0);
        }
        assert_eq!(groups.all_but_one_of(8), 56);
        groups.note(2);
        assert_eq!(groups.all_but_one_of(8), 2);
    }
}
