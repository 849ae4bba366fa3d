//! What has happened in all queues together, counted.

use crate::EventKind;

/// Counts since a store was opened; each only rises.
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

impl Tally {
    /// Counts what happened to one message, as far as the event alone says what it was.
    pub fn count(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Leased { .. } => self.leased += 1,
            EventKind::Released { .. } => self.released += 1,
            EventKind::Acked => self.acked += 1,
            EventKind::Expired => self.expired += 1,
            EventKind::DeadLettered { .. } => self.dead_lettered += 1,
            EventKind::Dropped => self.dropped += 1,
            // A send may be a move, a lapse may be a message's last: the step that decides that counts them.
            EventKind::Sent { .. }
            | EventKind::Lapsed
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
