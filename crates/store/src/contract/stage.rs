//! What the contracts are played on: one store, one clock that is moved by hand, and short words for the commands.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{
    Ack, CreateQueue, Extend, Extension, FirstReceipts, Lease, Peek, Release, Send, UpdateQueue, View,
    Withdraw,
};
use kew_core::outcome::{Extended, Leased, Sent};
use kew_core::{
    AccountId, Carries, Command, Counts, DeadLetterAction, DeadLetterRule, DeduplicationId, GroupId,
    LeaseTerms, LeaseToken, Message, MessageId, NewMessage, Outcome, Policy, Queue, QueueId, QueueKey,
    ReceiptRule, RuleError, Text, Timestamp, WhenFree,
};

use super::model::subject::block_on;
use super::{Ending, Factory};
use crate::{Store, StoreError};

/// The instant every contract begins.
const START: Timestamp = Timestamp(1_700_000_000_000);

/// A number of seconds.
pub(super) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// One store and its time.
pub(super) struct Stage<'a> {
    factory: &'a dyn Factory,
    /// Taken out only while it is reopened.
    store: Option<Arc<dyn Store>>,
    now: Timestamp,
    made: u64,
}

impl<'a> Stage<'a> {
    pub fn new(factory: &'a dyn Factory) -> Self {
        Self { factory, store: Some(factory.open()), now: START, made: 0 }
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_deref().expect("the store is open between two steps")
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Lets time pass.
    pub fn pass(&mut self, length: Duration) {
        self.now = self.now.plus(length);
    }

    /// Lets the smallest time pass.
    pub fn tick(&mut self) {
        self.now = self.now.next();
    }

    /// Goes to this number of seconds after the beginning.
    pub fn at_second(&mut self, second: u64) {
        self.at(START.plus(seconds(second)));
    }

    pub fn at(&mut self, now: Timestamp) {
        assert!(now >= self.now, "time never runs back");
        self.now = now;
    }

    /// Ends the store and opens it again. False, said aloud, for a store that forgets.
    pub fn reopen(&mut self, ending: Ending) -> bool {
        if !self.factory.remembers() {
            println!("not run: this store forgets when it is closed");
            return false;
        }
        self.store = self.store.take().map(|store| self.factory.reopen(store, ending));
        true
    }

    pub fn try_step(&self, command: Command) -> Result<Outcome, StoreError> {
        let submission = self.store().step(self.now, &command);
        self.store().commit();
        block_on(submission)
    }

    pub fn step(&self, command: Command) -> Outcome {
        self.try_step(command).expect("the step is allowed")
    }

    /// Why the laws refuse this step.
    pub fn refused(&self, command: Command) -> RuleError {
        match self.try_step(command) {
            Err(StoreError::Rule(error)) => error,
            other => panic!("the laws should refuse it, but: {other:?}"),
        }
    }

    // --- Queues ----------------------------------------------------------------------------------

    pub fn key(name: &str) -> QueueKey {
        QueueKey::new(AccountId(0), "region", name)
    }

    pub fn create(&self, key: QueueKey, policy: Policy) -> Arc<Queue> {
        let command = Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() });
        expect_queue(self.step(command))
    }

    pub fn named(&self, name: &str, policy: Policy) -> QueueId {
        self.create(Self::key(name), policy).id
    }

    /// A standard queue with the usual settings.
    pub fn standard(&self) -> QueueId {
        self.named("standard", Policy::standard())
    }

    /// A FIFO queue with the usual settings.
    pub fn fifo(&self) -> QueueId {
        self.named("fifo", Policy::fifo())
    }

    pub fn update(queue: QueueId) -> UpdateQueue {
        UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename: None }
    }

    pub fn set_policy(&self, queue: QueueId, policy: Policy) -> Arc<Queue> {
        let update = UpdateQueue { policy: Some(policy), ..Self::update(queue) };
        expect_queue(self.step(Command::UpdateQueue(update)))
    }

    pub fn rename(&self, queue: QueueId, name: &str) -> Arc<Queue> {
        let update = UpdateQueue { rename: Some(Self::key(name)), ..Self::update(queue) };
        expect_queue(self.step(Command::UpdateQueue(update)))
    }

    pub fn queues(&self) -> Vec<Arc<Queue>> {
        match self.step(Command::Queues) {
            Outcome::Queues(queues) => queues,
            other => panic!("queues are expected: {other:?}"),
        }
    }

    pub fn queue(&self, id: QueueId) -> Arc<Queue> {
        self.queues().into_iter().find(|queue| queue.id == id).expect("the queue exists")
    }

    // --- Sending ---------------------------------------------------------------------------------

    /// A message with a name of its own.
    pub fn message(&mut self, body: &str) -> NewMessage {
        self.made += 1;
        NewMessage::text(MessageId::from_chance(u128::from(self.made) << 64), body.to_owned())
    }

    /// A FIFO message that repeats nothing.
    pub fn grouped(&mut self, group: &str, body: &str) -> NewMessage {
        let message = self.message(body);
        let own = DeduplicationId(Text::from(format!("unique-{}", self.made)));
        NewMessage { group: Some(GroupId(Text::from(group))), deduplication: Some(own), ..message }
    }

    pub fn send_all(&self, queue: QueueId, messages: Vec<NewMessage>) -> Vec<Sent> {
        match self.step(Command::Send(Send { queue, messages, receipts: FirstReceipts::Told })) {
            Outcome::Sent(sent) => sent,
            other => panic!("sends are expected: {other:?}"),
        }
    }

    pub fn send(&self, queue: QueueId, message: NewMessage) -> Sent {
        self.send_all(queue, vec![message]).pop().expect("a send of one message answers one")
    }

    /// Sends these bodies one by one.
    pub fn send_text(&mut self, queue: QueueId, bodies: &[&str]) -> Vec<Sent> {
        bodies
            .iter()
            .map(|body| {
                let message = self.message(body);
                self.send(queue, message)
            })
            .collect()
    }

    /// Sends many bodies, a hundred with each command, which is sooner done than one by one.
    pub fn send_backlog(&mut self, queue: QueueId, bodies: &[String]) -> Vec<Sent> {
        let mut sent = Vec::with_capacity(bodies.len());
        for hundred in bodies.chunks(100) {
            let messages = hundred.iter().map(|body| self.message(body)).collect();
            sent.extend(self.send_all(queue, messages));
        }
        sent
    }

    /// Sends `group-body` messages to a FIFO queue, one by one.
    pub fn send_groups(&mut self, queue: QueueId, messages: &[&str]) -> Vec<Sent> {
        messages
            .iter()
            .map(|body| {
                let group = body.split('-').next().unwrap_or_default();
                let message = self.grouped(group, body);
                self.send(queue, message)
            })
            .collect()
    }

    // --- Leasing ---------------------------------------------------------------------------------

    /// A lease of this length with the cap of twelve hours.
    pub fn asking(&self, queue: QueueId, max: u32, length: Duration) -> Lease {
        let terms = LeaseTerms { length: Some(length), cap: Some(seconds(43_200)), ..LeaseTerms::default() };
        Lease { terms, ..Lease::of(queue, max, self.now) }
    }

    pub fn lease_as(&self, lease: Lease) -> Vec<Leased> {
        match self.step(Command::Lease(lease)) {
            Outcome::Leased(leased) => leased,
            other => panic!("leases are expected: {other:?}"),
        }
    }

    pub fn lease_for(&self, queue: QueueId, max: u32, length: Duration) -> Vec<Leased> {
        self.lease_as(self.asking(queue, max, length))
    }

    /// Leases for thirty seconds.
    pub fn lease(&self, queue: QueueId, max: u32) -> Vec<Leased> {
        self.lease_for(queue, max, seconds(30))
    }

    /// Leases one message for thirty seconds; there must be one.
    pub fn lease_one(&self, queue: QueueId) -> Leased {
        self.lease(queue, 1).pop().expect("a message is offered")
    }

    /// The bodies a lease of thirty seconds brings, up to ten.
    pub fn leased_bodies(&self, queue: QueueId) -> Vec<String> {
        bodies(&self.lease(queue, 10))
    }

    pub fn withdraw(&self, queue: QueueId, leased: &[Leased]) -> u32 {
        let tokens = leased.iter().map(|leased| leased.token).collect();
        match self.step(Command::Withdraw(Withdraw { queue, tokens })) {
            Outcome::Withdrawn(count) => count,
            other => panic!("withdrawals are expected: {other:?}"),
        }
    }

    // --- Receipts --------------------------------------------------------------------------------

    pub fn ack_by(&self, receipt: ReceiptRule, token: LeaseToken) -> Result<(), RuleError> {
        let ack = Ack { queue: token.queue, receipt, tokens: vec![token] };
        match self.step(Command::Ack(ack)) {
            Outcome::Acked(mut acked) => acked.pop().expect("a single receipt has a single answer"),
            other => panic!("acks are expected: {other:?}"),
        }
    }

    pub fn ack(&self, token: LeaseToken) -> Result<(), RuleError> {
        self.ack_by(ReceiptRule::Current, token)
    }

    pub fn extending(token: LeaseToken, length: Duration) -> Extend {
        Extend {
            queue: token.queue,
            receipt: ReceiptRule::Current,
            when_free: WhenFree::Ignore,
            renew: false,
            entries: vec![Extension { token, length, content: None }],
        }
    }

    pub fn extend_as(&self, extend: Extend) -> Result<Extended, RuleError> {
        match self.step(Command::Extend(extend)) {
            Outcome::Extended(mut extended) => extended.pop().expect("a single lease has a single answer"),
            other => panic!("extensions are expected: {other:?}"),
        }
    }

    pub fn extend(&self, token: LeaseToken, length: Duration) -> Result<Extended, RuleError> {
        self.extend_as(Self::extending(token, length))
    }

    pub fn release(&self, token: LeaseToken, delay: Duration) -> Result<Timestamp, RuleError> {
        let release =
            Release { queue: token.queue, receipt: ReceiptRule::Current, entries: vec![(token, delay)] };
        match self.step(Command::Release(release)) {
            Outcome::Released(mut released) => released.pop().expect("a single lease has a single answer"),
            other => panic!("releases are expected: {other:?}"),
        }
    }

    // --- Looking ---------------------------------------------------------------------------------

    pub fn counts(&self, queue: QueueId) -> Counts {
        match self.step(Command::Counts(queue)) {
            Outcome::Counts(counts) => counts,
            other => panic!("counts are expected: {other:?}"),
        }
    }

    /// Visible, in flight, delayed.
    pub fn figures(&self, queue: QueueId) -> (u64, u64, u64) {
        let counts = self.counts(queue);
        (counts.visible, counts.in_flight, counts.delayed)
    }

    pub fn peek_as(&self, peek: Peek) -> Vec<(Message, LeaseToken)> {
        match self.step(Command::Peek(peek)) {
            Outcome::Peeked(seen) => seen,
            other => panic!("a look is expected: {other:?}"),
        }
    }

    pub fn looking(queue: QueueId, view: View) -> Peek {
        Peek { queue, view, skip: 0, max: 100, body_bytes_max: 8 << 20 }
    }

    pub fn peek(&self, queue: QueueId, view: View) -> Vec<Message> {
        self.peek_as(Self::looking(queue, view)).into_iter().map(|(message, _)| message).collect()
    }

    pub fn peeked_bodies(&self, queue: QueueId, view: View) -> Vec<String> {
        self.peek(queue, view).iter().map(body).collect()
    }
}

pub(super) fn expect_queue(outcome: Outcome) -> Arc<Queue> {
    match outcome {
        Outcome::Queue(queue) => queue,
        other => panic!("a queue is expected: {other:?}"),
    }
}

/// A rule that sends messages to `name` once they were leased so often.
pub(super) fn dead_letters(name: &str, attempts_max: u32, carries: Carries) -> Option<Box<DeadLetterRule>> {
    let then = DeadLetterAction::MoveTo(Stage::key(name));
    Some(Box::new(DeadLetterRule { attempts_max, then, carries, written_by: "contract".into() }))
}

/// The body of a message as text.
pub(super) fn body(message: &Message) -> String {
    String::from_utf8_lossy(&message.content.body).into_owned()
}

/// The bodies of leased messages, in order.
pub(super) fn bodies(leased: &[Leased]) -> Vec<String> {
    leased.iter().map(|leased| body(&leased.message)).collect()
}

pub(super) fn group(name: &str) -> Option<GroupId> {
    Some(GroupId(Text::from(name)))
}

pub(super) fn id(text: &str) -> Option<DeduplicationId> {
    Some(DeduplicationId(Text::from(text)))
}

/// The receipt a message has from its send.
pub fn first_receipt(sent: &Sent) -> LeaseToken {
    sent.token.expect("the stage asks for receipts")
}
