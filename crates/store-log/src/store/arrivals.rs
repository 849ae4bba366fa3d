//! What a lease may rest on that is not durable yet: messages that entered their queue, and contents that were
//! replaced, in batches that are not synced.
//!
//! A lease of messages that were durable before reveals nothing that a power cut could take back, so its answer need
//! not wait for the syncs of other sends.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use kew_core::{QueueId, Sequence};
use kew_store::ledger::Change;

use crate::journal::BatchNumber;

/// What is not durable yet, batch by batch.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// In order of batch; only batches in which something arrived.
    batches: VecDeque<Arrived>,
}

struct Arrived {
    batch: BatchNumber,
    /// The first message that entered each queue. Sequences grow, so all behind it came in this batch or later.
    first: HashMap<QueueId, Sequence>,
    /// The queue noted last, which is mostly the next one too.
    last: Option<QueueId>,
    rewritten: HashSet<(QueueId, Sequence)>,
}

impl Arrivals {
    /// Takes note of a change in the batch being filled.
    pub(crate) fn note(&mut self, batch: BatchNumber, change: &Change<'_>) {
        match change {
            Change::Sent(sent) => self.at(batch).entered(sent.queue, sent.sequence),
            Change::Brought(brought) => self.at(batch).entered(brought.sent.queue, brought.sent.sequence),
            Change::DeadLettered(moved) => self.at(batch).entered(moved.to, moved.as_sequence),
            Change::Extended(extended) if extended.content.is_some() => {
                self.at(batch).rewritten.insert((extended.queue, extended.sequence));
            }
            // These bring neither a message nor a content. The ledger notes what left a group (`mark_before`).
            Change::Extended(_)
            | Change::Leased(_)
            | Change::Repeated { .. }
            | Change::Withdrawn { .. }
            | Change::Released { .. }
            | Change::QueueSet(_)
            | Change::QueueDeleted(_)
            | Change::Acked { .. }
            | Change::Dropped { .. }
            | Change::Stayed { .. }
            | Change::Redriven { .. }
            | Change::Purged(_)
            | Change::TaskSet(_)
            | Change::DocumentSet { .. } => {}
        }
    }

    fn at(&mut self, batch: BatchNumber) -> &mut Arrived {
        if self.batches.back().is_none_or(|newest| newest.batch != batch) {
            self.batches.push_back(Arrived {
                batch,
                first: HashMap::new(),
                last: None,
                rewritten: HashSet::new(),
            });
        }
        self.batches.back_mut().expect("a batch was pushed if the list was empty")
    }

    /// Everything up to this batch is as durable as it has to be.
    pub(crate) fn forget(&mut self, through: BatchNumber) {
        while self.batches.front().is_some_and(|oldest| oldest.batch <= through) {
            self.batches.pop_front();
        }
    }

    /// The newest batch that a message as it is now rests on; `None` when it has long been durable.
    pub(crate) fn arrived_in(&self, queue: QueueId, sequence: Sequence) -> Option<BatchNumber> {
        let rests = |batch: &&Arrived| {
            batch.first.get(&queue).is_some_and(|first| *first <= sequence)
                || batch.rewritten.contains(&(queue, sequence))
        };
        self.batches.iter().rev().find(rests).map(|batch| batch.batch)
    }
}

impl Arrived {
    fn entered(&mut self, queue: QueueId, sequence: Sequence) {
        if self.last != Some(queue) {
            self.first.entry(queue).or_insert(sequence);
            self.last = Some(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: QueueId = QueueId(3);

    fn arrivals() -> Arrivals {
        let mut arrivals = Arrivals::default();
        arrivals.at(BatchNumber(5)).entered(QUEUE, Sequence(10));
        arrivals.at(BatchNumber(5)).entered(QUEUE, Sequence(11));
        arrivals.at(BatchNumber(5)).entered(QueueId(4), Sequence(1));
        arrivals.at(BatchNumber(5)).entered(QUEUE, Sequence(12));
        arrivals.at(BatchNumber(7)).entered(QUEUE, Sequence(13));
        arrivals.at(BatchNumber(8)).rewritten.insert((QUEUE, Sequence(2)));
        arrivals
    }

    fn rests_on(arrivals: &Arrivals, queue: QueueId, sequence: u64) -> Option<u64> {
        arrivals.arrived_in(queue, Sequence(sequence)).map(|batch| batch.0)
    }

    #[test]
    fn message_rests_on_the_batch_it_came_in_until_that_is_durable() {
        let mut arrivals = arrivals();
        let rests = |arrivals: &Arrivals| [9, 10, 12, 13].map(|at| rests_on(arrivals, QUEUE, at));
        assert_eq!(rests(&arrivals), [None, Some(5), Some(5), Some(7)]);
        assert_eq!(rests_on(&arrivals, QueueId(4), 1), Some(5));
        arrivals.forget(BatchNumber(6));
        assert_eq!(rests(&arrivals), [None, None, None, Some(7)]);
        arrivals.forget(BatchNumber(7));
        assert_eq!(rests(&arrivals), [None; 4]);
    }

    #[test]
    fn content_that_was_replaced_rests_on_its_batch() {
        let mut arrivals = arrivals();
        assert_eq!(rests_on(&arrivals, QUEUE, 2), Some(8));
        arrivals.forget(BatchNumber(8));
        assert_eq!(rests_on(&arrivals, QUEUE, 2), None);
    }
}
