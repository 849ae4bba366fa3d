//! What clients ask for, made up by seed: few queues, much that is repeated, bodies that fill segments.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{
    Ack, CreateQueue, Extend, Extension, FirstReceipts, Lease, Purge, PutDocuments, Release, Send,
};
use kew_core::{
    AccountId, Carries, Command, DeadLetterAction, DeadLetterRule, DeduplicationId, DocumentKey, GroupId,
    LeaseToken, MessageId, NewMessage, Outcome, Policy, Queue, QueueId, QueueKey, ReceiptRule, Text,
    Timestamp,
};
use kew_store::contract::model::Random;

/// Receipts that are remembered.
const HELD_MAX: usize = 24;

/// Makes up one command after the other.
pub struct History {
    random: Random,
    pub now: Timestamp,
    queues: Vec<Arc<Queue>>,
    held: Vec<(QueueId, LeaseToken)>,
    unique: u64,
}

fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "here", name)
}

/// The queues of every history.
fn policies() -> [(&'static str, Policy); 3] {
    let rule = DeadLetterRule {
        attempts_max: 2,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    [
        ("dead", Policy::standard()),
        ("plain", Policy { dead_letters: Some(rule.into()), ..Policy::standard() }),
        ("row.fifo", Policy::fifo()),
    ]
}

impl History {
    /// A history that begins at an instant, on a store that may hold something.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        let unique = seed.wrapping_mul(1_000_003) << 20;
        Self { random: Random::new(seed), now, queues: Vec::new(), held: Vec::new(), unique }
    }

    /// The first commands: whatever queues are missing are made, and then all are looked at.
    pub fn beginning(&self, has_dead_letters: bool) -> Vec<Command> {
        let create = |(name, policy): (&str, Policy)| {
            let dead_letters = policy.dead_letters.filter(|_| has_dead_letters);
            let policy = Policy { dead_letters, ..policy };
            Command::CreateQueue(CreateQueue { key: key(name), policy, documents: Vec::new() })
        };
        policies().into_iter().map(create).chain([Command::Queues]).collect()
    }

    /// The next command, at `self.now`.
    pub fn next(&mut self) -> Command {
        self.pass_time();
        let queues = [0, 1, 1, 2, 2, 2];
        let place = queues[self.random.below(6) as usize];
        let Some(queue) = self.queues.get(place).cloned() else { return Command::Queues };
        match self.random.weighted(&[40, 24, 18, 5, 4, 3, 2, 1]) {
            0 => self.send(&queue),
            1 => Command::Lease(Lease::of(queue.id, 1 + self.random.below(4) as u32, self.now)),
            2 => self.ack(queue.id),
            3 => self.release(queue.id),
            4 => self.extend(queue.id),
            5 => Command::Counts(queue.id),
            6 => self.document(),
            _ => Command::Purge(Purge { queue: queue.id }),
        }
    }

    /// Takes note of what a command did.
    pub fn learn(&mut self, command: &Command, outcome: Option<&Outcome>) {
        match (command, outcome) {
            (_, Some(Outcome::Queues(queues))) => {
                let named = |name: &str| queues.iter().find(|queue| &*queue.key.name == name).cloned();
                self.queues = policies().iter().filter_map(|(name, _)| named(name)).collect();
            }
            (Command::Lease(lease), Some(Outcome::Leased(leased))) => {
                self.held.extend(leased.iter().map(|leased| (lease.queue, leased.token)));
                let surplus = self.held.len().saturating_sub(HELD_MAX);
                self.held.drain(..surplus);
            }
            _ => {}
        }
    }

    fn pass_time(&mut self) {
        let later = match self.random.below(100) {
            0..60 => 0,
            60..85 => self.random.below(5_000),
            85..97 => self.random.below(40_000),
            _ => self.random.below(400_000),
        };
        self.now = self.now.plus(Duration::from_millis(later));
    }

    fn send(&mut self, queue: &Queue) -> Command {
        let is_fifo = queue.policy.kind.is_fifo();
        let messages = (0..1 + self.random.below(3)).map(|_| self.message(is_fifo)).collect();
        Command::Send(Send { queue: queue.id, messages, receipts: FirstReceipts::Told })
    }

    fn message(&mut self, is_fifo: bool) -> NewMessage {
        self.unique += 1;
        let bytes = if self.random.chance(8) { 1_500 } else { 8 + self.random.below(300) };
        let body: String = format!("body {} ", self.unique).chars().cycle().take(bytes as usize).collect();
        let delay = self.random.chance(8).then(|| Duration::from_secs(self.random.below(30)));
        let message = NewMessage::text(MessageId::from_chance(u128::from(self.unique) << 40), body);
        if !is_fifo {
            return NewMessage { delay, ..message };
        }
        let group = Text::from(format!("g{}", self.random.below(3)));
        // Mostly a new one; the others come again.
        let id = if self.random.chance(70) { self.unique } else { self.unique - self.random.below(12) };
        let id = Text::from(format!("id {id}"));
        NewMessage { group: Some(GroupId(group)), deduplication: Some(DeduplicationId(id)), ..message }
    }

    /// Receipts of a queue; each is used once.
    fn tokens(&mut self, queue: QueueId) -> Vec<LeaseToken> {
        let most = 1 + self.random.below(4) as usize;
        let mut taken = Vec::new();
        self.held.retain(|(of, token)| {
            let takes = *of == queue && taken.len() < most;
            if takes {
                taken.push(*token);
            }
            !takes
        });
        taken
    }

    fn ack(&mut self, queue: QueueId) -> Command {
        Command::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens: self.tokens(queue) })
    }

    fn release(&mut self, queue: QueueId) -> Command {
        let hidden = Duration::from_millis(self.random.below(3) * 500);
        let entries = self.tokens(queue).into_iter().map(|token| (token, hidden)).collect();
        Command::Release(Release { queue, receipt: ReceiptRule::Any, entries })
    }

    fn extend(&mut self, queue: QueueId) -> Command {
        let length = Duration::from_secs(self.random.below(90));
        let entries =
            self.tokens(queue).into_iter().map(|token| Extension { token, length, content: None }).collect();
        Command::Extend(Extend {
            queue,
            receipt: ReceiptRule::Any,
            when_free: kew_core::WhenFree::Ignore,
            renew: false,
            entries,
        })
    }

    fn document(&mut self) -> Command {
        self.unique += 1;
        let bytes = bytes::Bytes::from(format!("document {}", self.unique));
        let documents = vec![(DocumentKey::new("sqs", "tags"), Some(bytes))];
        Command::PutDocuments(PutDocuments {
            account: AccountId(self.random.below(2)),
            if_is: None,
            documents,
        })
    }
}
