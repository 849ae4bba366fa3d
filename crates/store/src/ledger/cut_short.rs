//! Queues in which a receive was cut short: as many exhausted messages left as may leave in one step, and it found
//! nothing else. Messages may stand behind those, so the queue is freed a little later: who waits looks again then.
//!
//! They are known in memory alone. Where the ledger is opened again no one waits any more.

use std::collections::VecDeque;

use kew_core::{QueueId, Timestamp};

use super::shelf::Shelf;
use super::{GIVE_BACK_REST, Ledger};

/// These queues, in the order in which they are freed.
#[derive(Default)]
pub(super) struct CutShort {
    queues: VecDeque<QueueId>,
    /// When the first of them is freed.
    at: Timestamp,
}

impl CutShort {
    /// When a queue is to be freed.
    #[inline]
    pub(super) fn due(&self) -> Option<Timestamp> {
        if self.queues.is_empty() { None } else { Some(self.at) }
    }

    /// A receive on this queue was cut short. That took some messages out of the queue, so that looking through all
    /// queues costs little beside that.
    fn note(&mut self, queue: QueueId, now: Timestamp) {
        if self.queues.is_empty() {
            self.at = now.plus(GIVE_BACK_REST);
        }
        if !self.queues.contains(&queue) {
            self.queues.push_back(queue);
        }
    }

    /// Takes the queue whose turn it is, if that has come. One at a time: its receive may send as many off again.
    fn take(&mut self, now: Timestamp) -> Option<QueueId> {
        let queue = self.queues.pop_front_if(|_| self.at <= now)?;
        self.at = now.plus(GIVE_BACK_REST);
        Some(queue)
    }

    fn forget(&mut self, queue: QueueId) {
        self.queues.retain(|noted| *noted != queue);
    }
}

impl<S: Shelf> Ledger<S> {
    /// A receive ended because no more messages may leave in this step, and found nothing.
    pub(super) fn note_cut_short(&mut self, queue: QueueId, now: Timestamp) {
        self.cut_short.note(queue, now);
    }

    /// Frees one of these queues, so that those who wait look again.
    pub(super) fn free_cut_short(&mut self, now: Timestamp) {
        if let Some(queue) = self.cut_short.take(now) {
            self.free(queue);
        }
    }

    /// A queue is deleted.
    pub(super) fn forget_cut_short(&mut self, queue: QueueId) {
        self.cut_short.forget(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn noted(queues: &[u64]) -> CutShort {
        let mut cut_short = CutShort::default();
        queues.iter().for_each(|queue| cut_short.note(QueueId(*queue), NOW));
        cut_short
    }

    #[test]
    fn nothing_is_due_where_no_receive_was_cut_short() {
        let mut none = CutShort::default();
        assert_eq!((none.due(), none.take(Timestamp::NEVER)), (None, None));
    }

    #[test]
    fn queue_is_freed_once_from_the_next_instant_on_and_not_before() {
        let mut one = noted(&[7, 7]);
        assert_eq!((one.due(), one.take(NOW)), (Some(NOW.next()), None));
        assert_eq!(
            (one.take(NOW.next()), one.due(), one.take(Timestamp::NEVER)),
            (Some(QueueId(7)), None, None)
        );
    }

    #[test]
    fn steps_that_go_on_meanwhile_put_nothing_off() {
        let mut cut_short = noted(&[7]);
        cut_short.note(QueueId(8), NOW.next());
        cut_short.note(QueueId(7), NOW.next());
        assert_eq!(cut_short.due(), Some(NOW.next()));
    }

    #[test]
    fn several_queues_take_turns_with_a_rest_between_them() {
        let mut several = noted(&[7, 8]);
        let (first, second, third) = (NOW.next(), NOW.next().next(), NOW.next().next().next());
        assert_eq!((several.take(first), several.take(first)), (Some(QueueId(7)), None));
        several.note(QueueId(7), first);
        assert_eq!((several.due(), several.take(second)), (Some(second), Some(QueueId(8))));
        assert_eq!((several.take(third), several.due()), (Some(QueueId(7)), None));
    }

    #[test]
    fn deleted_queue_is_not_freed() {
        let mut cut_short = noted(&[7, 8]);
        cut_short.forget(QueueId(7));
        assert_eq!(cut_short.take(NOW.next()), Some(QueueId(8)));
        cut_short.note(QueueId(9), NOW);
        cut_short.forget(QueueId(9));
        assert_eq!(cut_short.due(), None);
    }
}
