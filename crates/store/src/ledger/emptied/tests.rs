//! Purged and deleted queues: what they held is given back in slices.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, DeleteQueue, FirstReceipts, Lease, Purge, Send};
use kew_core::{
    AccountId, Command, Counts, DeduplicationId, GroupId, LeaseTerms, MessageId, NewMessage, Outcome, Policy,
    QueueId, QueueKey, Text, Timestamp,
};

use crate::contract::model::SeededEntropy;
use crate::ledger::{Bounds, Ledger};
use crate::memory::MemoryShelf;
use crate::token::TokenKey;

const SLICE: usize = 10;
const NOW: Timestamp = Timestamp(1_700_000_000_000);

struct Scene {
    ledger: Ledger<MemoryShelf>,
    queue: QueueId,
    is_fifo: bool,
    sent: u64,
}

impl Scene {
    fn new(policy: Policy) -> Self {
        let bounds = Bounds { slice: SLICE, ..Bounds::default() };
        let (key, entropy) = (TokenKey([7; 16]), Arc::new(SeededEntropy::new(7)));
        let ledger = Ledger::new(MemoryShelf::default(), key, entropy, bounds);
        let is_fifo = policy.kind.is_fifo();
        let mut scene = Self { ledger, queue: QueueId(0), is_fifo, sent: 0 };
        scene.queue = scene.create(policy);
        scene
    }

    fn step(&mut self, at: Timestamp, command: &Command) -> Outcome {
        self.ledger.step(at, command).expect("the step is allowed")
    }

    fn create(&mut self, policy: Policy) -> QueueId {
        let key = QueueKey::new(AccountId(0), "r", "q");
        match self.step(NOW, &Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() })) {
            Outcome::Queue(queue) => queue.id,
            other => panic!("a queue is expected: {other:?}"),
        }
    }

    /// Sends messages: on a standard queue every third is hidden for a while. Then leases some.
    fn fill(&mut self, messages: u64) {
        for _ in 0..messages {
            self.sent += 1;
            let name = Text::from(format!("n{}", self.sent));
            let message =
                NewMessage::text(MessageId::from_chance(u128::from(self.sent) << 64), "body".to_owned());
            let hidden = (!self.is_fifo && self.sent.is_multiple_of(3)).then(|| Duration::from_secs(60));
            let message = NewMessage {
                group: self.is_fifo.then(|| GroupId(name.clone())),
                deduplication: self.is_fifo.then_some(DeduplicationId(name)),
                delay: hidden,
                ..message
            };
            let (queue, receipts) = (self.queue, FirstReceipts::Told);
            self.step(NOW, &Command::Send(Send { queue, messages: vec![message], receipts }));
        }
        self.lease(7);
    }

    fn lease(&mut self, max: u32) -> usize {
        let terms = LeaseTerms { length: Some(Duration::from_secs(900)), ..LeaseTerms::default() };
        match self.step(NOW, &Command::Lease(Lease { terms, ..Lease::of(self.queue, max, NOW) })) {
            Outcome::Leased(leased) => leased.len(),
            other => panic!("leases are expected: {other:?}"),
        }
    }

    fn counts(&mut self) -> Counts {
        match self.step(NOW, &Command::Counts(self.queue)) {
            Outcome::Counts(counts) => counts,
            other => panic!("counts are expected: {other:?}"),
        }
    }

    fn kept(&self) -> usize {
        self.ledger.shelf.kept()
    }

    /// A step, and how many contents it gave back.
    fn given_back_by(&mut self, at: Timestamp, command: &Command) -> usize {
        let before = self.kept();
        self.step(at, command);
        before - self.kept()
    }

    /// Does what is due until nothing is left of what was purged. No step does more than a slice.
    fn finish(&mut self) -> usize {
        let mut steps = 0;
        while let Some(at) = self.ledger.next_due().filter(|at| *at < NOW.plus(Duration::from_secs(30))) {
            let given = self.given_back_by(at, &Command::Due);
            assert!(given <= SLICE, "{given} in one step");
            steps += 1;
            assert!(steps < 10_000, "it must end");
        }
        steps
    }
}

#[test]
fn a_purge_is_seen_at_once_and_gives_back_at_most_a_slice_in_a_step() {
    for policy in [Policy::standard(), Policy::fifo()] {
        for messages in [0, 1, SLICE as u64 - 1, SLICE as u64, SLICE as u64 + 1, 700] {
            let mut scene = Scene::new(policy.clone());
            scene.fill(messages);
            let given = scene.given_back_by(NOW, &Command::Purge(Purge { queue: scene.queue }));
            assert!(given <= SLICE, "{given} of {messages} in the step of the purge");
            assert_eq!((scene.counts(), scene.lease(10)), (Counts::default(), 0));
            let steps = scene.finish();
            assert_eq!(scene.kept(), 0, "of {messages}");
            assert!(steps * SLICE <= 8 * messages as usize + SLICE, "{steps} steps for {messages}");
        }
    }
}

#[test]
fn a_purge_gives_nothing_back_of_what_is_sent_after_it() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let mut scene = Scene::new(policy);
        scene.fill(100);
        scene.step(NOW, &Command::Purge(Purge { queue: scene.queue }));
        scene.fill(50);
        scene.step(NOW, &Command::Purge(Purge { queue: scene.queue }));
        scene.fill(30);
        assert!(scene.kept() > 100, "little was given back so far");
        let before = scene.counts();
        scene.finish();
        assert_eq!((scene.kept(), scene.counts()), (30, before));
    }
}

#[test]
fn a_deleted_queue_can_be_made_again_while_it_is_given_back() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let mut scene = Scene::new(policy.clone());
        scene.fill(100);
        let delete = Command::DeleteQueue(DeleteQueue { queue: scene.queue, if_version: None });
        let given = scene.given_back_by(NOW, &delete);
        assert!(given <= SLICE, "{given} in the step of the deletion");
        scene.queue = scene.create(policy);
        assert_eq!(scene.counts(), Counts::default());
        scene.fill(5);
        scene.finish();
        assert_eq!((scene.kept(), scene.counts().stored()), (5, 5));
    }
}

#[test]
fn only_due_work_gives_back_and_the_next_slice_is_due_a_millisecond_later() {
    let mut scene = Scene::new(Policy::standard());
    scene.fill(100);
    scene.step(NOW, &Command::Purge(Purge { queue: scene.queue }));
    assert_eq!(scene.given_back_by(NOW, &Command::Queues), 0);
    assert_eq!(scene.ledger.next_due(), Some(NOW.next()));
    assert!(scene.given_back_by(NOW.next(), &Command::Due) > 0);
    assert_eq!(scene.ledger.next_due(), Some(NOW.next().next()));
}
