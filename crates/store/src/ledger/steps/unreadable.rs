//! Messages that were leased before they were read, and then could not be read.

use kew_core::{LeaseToken, QueueId, Sequence};

use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::groups::GroupSlot;
use crate::ledger::shelf::Shelf;

impl<S: Shelf> Ledger<S> {
    /// Some messages of a lease cannot be read. Their leases are undone and they are set aside; what was leased behind
    /// one of them in a FIFO group is withdrawn with it. One that has others of its group before it in the answer
    /// waits for those, and is set aside when its turn comes. Answers which messages the answer must do without.
    pub fn leave_out(
        &mut self,
        leased: &[LeaseToken],
        unreadable: &[(Sequence, StoreError)],
    ) -> Vec<Sequence> {
        let now = self.begin_step(self.newest);
        let Some(queue) = leased.first().map(|token| token.queue) else { return Vec::new() };
        let out: Vec<LeaseToken> = leased
            .iter()
            .filter(|token| self.stands_behind(queue, token.sequence, unreadable))
            .copied()
            .collect();
        let sequences = out.iter().map(|token| token.sequence).collect();
        let is_kept = |sequence: Sequence| !out.iter().any(|token| token.sequence == sequence);
        let undone = self.undo(now, queue, &out).unwrap_or_default();
        for (sequence, why) in unreadable.iter().filter(|(sequence, _)| undone.contains(sequence)) {
            if matches!(why, StoreError::Overloaded { .. }) {
                // Nothing is wrong with the message: it is there for the next receive.
                continue;
            }
            let group = self.group_in_order(queue, *sequence);
            let is_before = |token: &&LeaseToken| {
                token.sequence < *sequence
                    && group.is_some()
                    && self.group_in_order(queue, token.sequence) == group
            };
            let waits = leased
                .iter()
                .filter(is_before)
                .any(|token| is_kept(token.sequence) || undone.contains(&token.sequence));
            if !waits {
                // The queue is there: a lease in it was undone just now.
                let _set_aside = self.set_aside(now, queue, *sequence, why);
            }
        }
        sequences
    }

    /// Whether a message is one of these, or stands behind one in its FIFO group.
    fn stands_behind(&self, queue: QueueId, sequence: Sequence, these: &[(Sequence, StoreError)]) -> bool {
        let group = self.group_in_order(queue, sequence);
        these.iter().any(|(other, _)| {
            *other == sequence
                || (*other < sequence && group.is_some() && self.group_in_order(queue, *other) == group)
        })
    }

    /// The group that a message of a FIFO queue is in.
    fn group_in_order(&self, queue: QueueId, sequence: Sequence) -> Option<GroupSlot> {
        let book = self.book(queue).ok().filter(|book| book.queue.policy.kind.is_fifo())?;
        book.find(sequence)?.0.group
    }
}
