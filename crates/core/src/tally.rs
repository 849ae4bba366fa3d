//! What has happened in all queues together, or in one, counted.

use crate::{EventKind, Failure, QueueId, Sequence, Timestamp};

/// Counts since a store was opened; each only rises. In those of one queue, leases and acks begin anew after the
/// greatest value of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Messages sent; moved ones were sent before.
    pub sent: u64,
    /// Sends that repeated an earlier one and added nothing.
    pub deduplicated: u64,
    /// Leases taken.
    pub leased: u64,
    /// Messages deleted by a receipt.
    pub acked: u64,
    /// Messages whose time was over.
    pub expired: u64,
    /// Messages offered again because their lease ended by itself.
    pub lapsed: u64,
    /// Messages offered again because their lease was given up.
    pub released: u64,
    /// Messages that were leased too often and went to another queue.
    pub dead_lettered: u64,
    /// Messages that were leased too often and were deleted.
    pub dropped: u64,
}

/// What came and went in one queue, counted since some moment: only differences mean something, and each count begins
/// anew after its greatest value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Messages that entered it: sent, or moved in from another queue.
    pub sent: u32,
    /// Leases taken.
    pub leased: u32,
    /// Messages deleted by a receipt.
    pub acked: u32,
}

/// A message that left its queue because it was leased too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When.
    pub at: Timestamp,
    /// The queue it left.
    pub queue: QueueId,
    /// Which message it was there.
    pub sequence: Sequence,
    /// The queue it went to; `None` if it was deleted.
    pub to: Option<QueueId>,
}

/// Messages that left their queues because they were leased too often, since it was last asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Departures {
    /// The first of them, oldest first.
    pub first: Vec<Departure>,
    /// How many more there were.
    pub more: u64,
}

impl Traffic {
    /// What came and went since an earlier look.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.wrapping_sub(earlier.sent),
            leased: self.leased.wrapping_sub(earlier.leased),
            acked: self.acked.wrapping_sub(earlier.acked),
        }
    }
}

impl Departures {
    /// Both together: those of `other` come behind.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.first.extend(other.first);
        self.more = self.more.saturating_add(other.more);
        self
    }
}

impl Tally {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            deduplicated: self.deduplicated.saturating_add(other.deduplicated),
            leased: self.leased.saturating_add(other.leased),
            acked: self.acked.saturating_add(other.acked),
            expired: self.expired.saturating_add(other.expired),
            lapsed: self.lapsed.saturating_add(other.lapsed),
            released: self.released.saturating_add(other.released),
            dead_lettered: self.dead_lettered.saturating_add(other.dead_lettered),
            dropped: self.dropped.saturating_add(other.dropped),
        }
    }

    /// Counts what happened to one message, as far as the event alone says what it was.
    pub fn count(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Leased { .. } => self.leased += 1,
            EventKind::Released { .. } => self.released += 1,
            EventKind::Acked => self.acked += 1,
            EventKind::Expired => self.expired += 1,
            EventKind::DeadLettered { .. } | EventKind::Failed { why: Failure::PutAside, .. } => {
                self.dead_lettered += 1;
            }
            EventKind::Dropped => self.dropped += 1,
            // A send may be a move, a lapse may be a message's last: the step that decides that counts them.
            EventKind::Sent { .. }
            | EventKind::Lapsed { .. }
            | EventKind::Extended { .. }
            | EventKind::Failed { .. }
            | EventKind::Promoted
            | EventKind::Imported
            | EventKind::Rewritten
            | EventKind::Purged
            | EventKind::Redriven { .. }
            | EventKind::Arrived { .. } => {}
        }
    }
}

/// How long messages waited for their first lease, counted by powers of two: since some moment, so that only
/// differences mean something, and each count begins anew after its greatest value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits([u32; Self::BOUNDS]);

impl Waits {
    /// The last one counts everything from 12 days on.
    const BOUNDS: usize = 32;

    /// Where one is counted that waited this number of milliseconds: at place n when it is under 2^n and not under half
    /// of that.
    #[inline]
    pub fn place(millis: u64) -> usize {
        ((u64::BITS - millis.leading_zeros()) as usize).min(Self::BOUNDS - 1)
    }

    /// Counts this number of messages at a place.
    #[inline]
    pub fn note(&mut self, place: usize, messages: u32) {
        if let Some(count) = self.0.get_mut(place) {
            *count = count.wrapping_add(messages);
        }
    }

    /// What was counted since an earlier look.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u32::wrapping_sub)
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.with(other, u32::saturating_add)
    }

    fn with(mut self, other: Self, of: impl Fn(u32, u32) -> u32) -> Self {
        for (count, other) in self.0.iter_mut().zip(other.0) {
            *count = of(*count, other);
        }
        self
    }

    /// The milliseconds that this share of all did not exceed, to within their power of two; `None` when there are
    /// none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: f64 = self.0.iter().map(|count| f64::from(*count)).sum();
        let wanted = all * share;
        let mut below = 0.0;
        for (place, count) in (0_i32..).zip(self.0).filter(|(_, count)| *count > 0) {
            let count = f64::from(count);
            if below + count >= wanted {
                if place == 0 {
                    return Some(0.0);
                }
                let least = 2_f64.powi(place - 1);
                return Some(least + least * ((wanted - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_known_to_within_its_power_of_two() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5), None);
        (0..90).for_each(|_| waits.note(Waits::place(0), 1));
        assert_eq!(waits.quantile(0.99), Some(0.0));
        (0..10).for_each(|_| waits.note(Waits::place(1_000), 1));
        assert_eq!(waits.quantile(0.5), Some(0.0));
        let high = waits.quantile(0.99).expect("something was counted");
        assert!((512.0..=1_024.0).contains(&high), "{high}");
        waits.note(Waits::place(u64::MAX), 1);
        assert!(waits.quantile(1.0) > Some(1e9));
    }

    #[test]
    fn counts_that_begin_anew_go_on_in_differences() {
        let (mut early, mut late) = (Waits([u32::MAX; 32]), Waits([u32::MAX; 32]));
        early.note(Waits::place(5), 1);
        late.note(Waits::place(5), 2);
        assert_eq!(late.since(early).and(Waits::default()).quantile(1.0), Some(8.0));
        assert_eq!(early.since(early), Waits::default());
    }
}
