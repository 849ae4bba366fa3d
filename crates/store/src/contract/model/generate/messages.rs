//! Sends and leases.

use std::time::Duration;

use kew_core::command::{FirstMessage, FirstReceipts, Lease, OverLimit, Send};
use kew_core::event::Tag;
use kew_core::rules::dedup::Identity;
use kew_core::{Command, LeaseTerms, OwnerId, QueueId};

use super::Generator;
use crate::contract::model::run::Run;

const HOURS_12: Duration = Duration::from_secs(43_200);

impl Generator {
    pub(super) fn send(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let fifo = Self::is_fifo(run, queue);
        // Enough to collide, few enough that no step looks at hundreds; of a crowd on a FIFO queue, several runs of
        // 64.
        let crowd = self.crowded;
        let full = run.model.messages(queue).len() > if crowd { 160 } else { 40 };
        if full && self.random.chance(95) {
            return None;
        }
        let tick = Duration::from_millis(1);
        let mut closing = run.model.remembered();
        closing.retain(|(_, _, end)| (end.minus(tick)..=end.plus(tick)).contains(&self.now));
        if let Some((queue, identity, _)) = self.random.pick(&closing).filter(|_| self.random.chance(70)) {
            return Some(self.send_again(*queue, identity));
        }
        let count = 1 + self.random.below(if crowd { 25 } else { 4 });
        let messages = (0..count).map(|_| self.message(fifo)).collect();
        Some(Command::Send(Send { queue, messages, receipts: self.receipts() }))
    }

    pub(super) fn receipts(&mut self) -> FirstReceipts {
        if self.random.chance(80) { FirstReceipts::Told } else { FirstReceipts::Untold }
    }

    /// The same id again, at the instant that decides whether it counts as the same.
    pub(super) fn send_again(&mut self, queue: QueueId, identity: &Identity) -> Command {
        let mut message = self.message(true);
        message.deduplication = Some(identity.id.clone());
        message.group = identity.group.clone().or(message.group);
        Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told })
    }

    pub(super) fn lease(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        let fifo = Self::is_fifo(run, queue);
        let length = match self.random.below(100) {
            0..25 => None,
            25..40 => Some(Duration::ZERO),
            _ => Some(self.random.millis(&[1, 1_000, 1_000, 5_000, 5_000, 30_000, 100_000])),
        };
        let cap = match self.random.below(100) {
            0..50 => None,
            50..80 => Some(HOURS_12),
            _ => Some(self.random.millis(&[6_000, 40_000])),
        };
        let lapse_delay =
            if self.random.chance(80) { Duration::ZERO } else { self.random.millis(&[1, 2_000]) };
        let attempt = self.random.chance(if fifo { 45 } else { 5 }).then(|| self.text("a", 3));
        let again = self.last_attempt.clone().filter(|_| self.random.chance(30));
        let (queue, attempt) = match again {
            Some((queue, attempt)) => (queue, Some(attempt)),
            None => (queue, attempt),
        };
        self.last_attempt = attempt.clone().map(|attempt| (queue, attempt)).or(self.last_attempt.take());
        let small = self.random.chance(15);
        let max = if self.crowded {
            20
        } else {
            *self.random.pick(&[1, 1, 2, 3, 10]).expect("a list with entries has a pick")
        };
        let body_bytes_max = if self.random.chance(80) { 8 << 20 } else { self.random.below(40) };
        let first =
            if body_bytes_max % 3 == 0 { FirstMessage::FitsOrStays } else { FirstMessage::AlwaysFits };
        Some(Command::Lease(Lease {
            queue,
            max,
            body_bytes_max,
            first,
            terms: LeaseTerms { length, cap, lapse_delay, returns: self.returns() },
            received_at: if self.random.chance(70) {
                self.now
            } else {
                self.now.minus(Duration::from_secs(3))
            },
            attempt,
            owner: self.random.chance(7).then(|| OwnerId(1 + self.random.below(3))),
            in_flight_max: if small { self.random.below(6) as u32 } else { 120_000 },
            over_limit: if self.random.chance(50) { OverLimit::Refuse } else { OverLimit::FindNothing },
            by: Tag::new("history"),
        }))
    }
}
