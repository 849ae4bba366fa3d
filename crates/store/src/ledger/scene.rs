//! A ledger in memory for tests of what is done in slices: queues, messages in them, and figures.

use std::sync::Arc;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{
    AccountId, Command, DeduplicationId, GroupId, MessageId, NewMessage, Outcome, Policy, QueueId, QueueKey,
    Text, Timestamp,
};

use super::{Bounds, Ledger};
use crate::contract::model::SeededEntropy;
use crate::memory::MemoryShelf;
use crate::token::TokenKey;

/// When queues are made and messages sent.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// A ledger, and how many messages were sent to it.
pub(super) struct Scene {
    pub(super) ledger: Ledger<MemoryShelf>,
    sent: u128,
}

impl Scene {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (key, entropy) = (TokenKey([7; 16]), Arc::new(SeededEntropy::new(7)));
        Self { ledger: Ledger::new(MemoryShelf::default(), key, entropy, bounds), sent: 0 }
    }

    pub(super) fn step(&mut self, at: Timestamp, command: &Command) -> Outcome {
        self.ledger.step(at, command).expect("the step is allowed")
    }

    pub(super) fn queue(&mut self, name: &str, policy: Policy) -> QueueId {
        let key = QueueKey::new(AccountId(0), "r", name);
        match self.step(NOW, &Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() })) {
            Outcome::Queue(queue) => queue.id,
            other => panic!("a queue is expected: {other:?}"),
        }
    }

    pub(super) fn send(&mut self, queue: QueueId) {
        self.send_to(queue, None);
    }

    pub(super) fn send_to(&mut self, queue: QueueId, group: Option<&str>) {
        self.sent += 1;
        let message = NewMessage::text(MessageId::from_chance(self.sent << 64), "body".to_owned());
        let group = group.map(|group| GroupId(Text::from(group)));
        let deduplication = group.is_some().then(|| DeduplicationId(Text::from(format!("n{}", self.sent))));
        let message = NewMessage { group, deduplication, ..message };
        let receipts = FirstReceipts::Told;
        self.step(NOW, &Command::Send(Send { queue, messages: vec![message], receipts }));
    }

    /// Visible, in flight, delayed.
    pub(super) fn figures(&self, queue: QueueId) -> (u64, u64, u64) {
        let counts = self.ledger.book(queue).expect("the queue was made by this test").numbers();
        (counts.visible, counts.in_flight, counts.delayed)
    }

    /// Messages among those that are offered.
    pub(super) fn offered(&self, queue: QueueId) -> usize {
        self.ledger.book(queue).expect("the queue was made by this test").ready_items().count()
    }
}
