//! A small store with a bit of everything in it, for tests of tools and of bad days.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{Ack, CreateQueue, FirstReceipts, Lease, PutDocuments, Send};
use kew_core::outcome::{Leased, Sent};
use kew_core::{
    AccountId, Carries, Command, DeadLetterAction, DeadLetterRule, DeduplicationId, DocumentKey, Entropy,
    GroupId, MessageId, NewMessage, Outcome, Policy, QueueId, QueueKey, ReceiptRule, Text, Timestamp,
};
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::model::subject::block_on;
use kew_store::ledger::Bounds;
use kew_store::{Store, StoreError, Submission};
use kew_store_log::{
    Address, Disk, Drive, LogError, LogOptions, LogStore, Manifest, OpenReport, SegmentKind, SegmentOptions,
    SimDisk, export,
};

pub const START: Timestamp = Timestamp(1_700_000_000_000);

pub fn options() -> LogOptions {
    let segments = SegmentOptions {
        first_bytes: 4 << 10,
        largest_bytes: 4 << 10,
        reserve_spares: 1,
        spares_max: 2,
        open_max: 4,
    };
    LogOptions {
        segments,
        recent_bytes: 0,
        checkpoint_bytes: 1 << 10,
        slack_bytes: 0,
        drive: Drive::Manual,
        bounds: Bounds { deduplication_ids: 2, ..Bounds::default() },
        ..LogOptions::default()
    }
}

pub fn entropy(seed: u64) -> Arc<dyn Entropy> {
    Arc::new(SeededEntropy::of_start(seed))
}

pub fn open(disk: &SimDisk) -> Result<(LogStore, OpenReport), LogError> {
    LogStore::open(Arc::new(disk.clone()), options(), entropy(3), Timestamp(0))
}

pub fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "here", name)
}

/// The answer, if it may leave by now.
pub fn answer_of(answer: &mut Submission) -> Option<Result<Outcome, StoreError>> {
    match Pin::new(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// A store and an instant, asked one thing at a time.
pub struct Asked {
    pub store: LogStore,
    pub now: Timestamp,
    messages: AtomicU64,
}

impl Asked {
    pub fn of(store: LogStore) -> Self {
        let now = START.max(store.newest_instant());
        Self { store, now, messages: AtomicU64::new(now.0 << 8) }
    }

    pub fn later(&mut self, by: Duration) {
        self.now = self.now.plus(by);
    }

    pub fn try_ask(&self, command: Command) -> Result<Outcome, StoreError> {
        loop {
            let answer = self.store.step(self.now, &command);
            let is_put_off = answer.is_put_off();
            self.store.commit();
            let answer = block_on(answer);
            // Put off, a step changed nothing and may be taken again, as the engine does.
            if !(is_put_off && matches!(answer, Err(StoreError::Overloaded { .. }))) {
                return answer;
            }
        }
    }

    /// Sends a message, and does not wait for the answer.
    pub fn sending(&self, queue: QueueId, body: &str) -> Submission {
        let messages = vec![self.message(body)];
        self.store.step(self.now, &Command::Send(Send { queue, messages, receipts: FirstReceipts::Told }))
    }

    pub fn ask(&self, command: Command) -> Outcome {
        self.try_ask(command).unwrap()
    }

    pub fn queue(&self, name: &str, policy: Policy) -> QueueId {
        let documents = vec![(DocumentKey::new("sqs", "tags"), Bytes::from_static(b"a=1"))];
        match self.ask(Command::CreateQueue(CreateQueue { key: key(name), policy, documents })) {
            Outcome::Queue(queue) => queue.id,
            other => panic!("{other:?}"),
        }
    }

    pub fn find(&self, name: &str) -> QueueId {
        let Outcome::Queues(queues) = self.ask(Command::Queues) else { panic!("no queues") };
        queues.iter().find(|queue| &*queue.key.name == name).unwrap().id
    }

    pub fn message(&self, body: &str) -> NewMessage {
        let number = self.messages.fetch_add(1, Ordering::Relaxed);
        NewMessage::text(MessageId::from_chance(u128::from(number) << 64), body.to_owned())
    }

    pub fn row(&self, body: &str, group: &str, id: &str) -> NewMessage {
        NewMessage {
            group: Some(GroupId(Text::from(group))),
            deduplication: Some(DeduplicationId(Text::from(id))),
            ..self.message(body)
        }
    }

    pub fn try_send(&self, queue: QueueId, message: NewMessage) -> Result<Sent, StoreError> {
        match self.try_ask(Command::Send(Send {
            queue,
            messages: vec![message],
            receipts: FirstReceipts::Told,
        }))? {
            Outcome::Sent(mut sent) => Ok(sent.remove(0)),
            other => panic!("{other:?}"),
        }
    }

    pub fn send(&self, queue: QueueId, body: &str) -> Sent {
        self.try_send(queue, self.message(body)).unwrap()
    }

    pub fn lease(&self, queue: QueueId, max: u32) -> Vec<Leased> {
        self.try_lease(queue, max).unwrap()
    }

    pub fn try_lease(&self, queue: QueueId, max: u32) -> Result<Vec<Leased>, StoreError> {
        match self.try_ask(Command::Lease(Lease::of(queue, max, self.now)))? {
            Outcome::Leased(leased) => Ok(leased),
            other => panic!("{other:?}"),
        }
    }

    pub fn try_ack(&self, queue: QueueId, leased: &[Leased]) -> Result<(), StoreError> {
        let tokens = leased.iter().map(|leased| leased.token).collect();
        match self.try_ask(Command::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens }))? {
            Outcome::Acked(acked) => acked.into_iter().try_for_each(|acked| acked.map_err(StoreError::from)),
            other => panic!("{other:?}"),
        }
    }

    pub fn ack(&self, queue: QueueId, leased: &[Leased]) {
        self.try_ack(queue, leased).unwrap();
    }

    /// Sends and acks until the store has moved on by some segments.
    pub fn churn(&self, queue: QueueId, messages: u32) {
        for _ in 0..messages {
            self.send(queue, &"churn ".repeat(40));
            let leased = self.lease(queue, 1);
            self.ack(queue, &leased);
            self.store.keep_up().unwrap();
        }
    }
}

/// Queues of both kinds, documents, old messages, survivors, ids in memory and put away, and a journal after the last
/// checkpoint. Nothing in it is leased unless the caller does so.
pub fn a_bit_of_everything(disk: Arc<dyn Disk>) -> Asked {
    let (store, _) = LogStore::open(disk.clone(), options(), entropy(1), START).unwrap();
    let mut asked = Asked::of(store);
    let dead = asked.queue("dead", Policy::standard());
    let rule = DeadLetterRule {
        attempts_max: 3,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    let plain = asked.queue("plain", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    let row = asked.queue("row.fifo", Policy::fifo());
    let busy = asked.queue("busy", Policy::standard());
    let document = (DocumentKey::new("azure", "service"), Some(Bytes::from_static(b"<cors/>\xff")));
    asked.ask(Command::PutDocuments(PutDocuments {
        account: AccountId(7),
        if_is: None,
        documents: vec![document],
    }));
    asked.send(plain, "the oldest message");
    asked.send(dead, "a dead letter");
    for number in 0..6 {
        let message =
            asked.row(&format!("in row {number}"), &format!("g{}", number % 2), &format!("d{number}"));
        asked.try_send(row, message).unwrap();
        asked.later(Duration::from_secs(11));
    }
    // The first segments are nearly dead now: what lives in them moves together.
    asked.churn(busy, 40);
    let delayed = NewMessage { delay: Some(Duration::from_secs(600)), ..asked.message("a later message") };
    asked.try_send(plain, delayed).unwrap();
    for number in 0..10 {
        asked.send(plain, &format!("old message {number} {}", "x".repeat(700)));
    }
    asked.store.checkpoint().unwrap();
    for number in 6..9 {
        asked.send(plain, &format!("new message {number}"));
    }
    let touched = asked.lease(plain, 1);
    asked.later(Duration::from_secs(31));
    asked.ask(Command::Due);
    assert_eq!(touched.len(), 1);
    let segments = asked.store.segments().list();
    assert!(segments.iter().any(|segment| segment.kind() == SegmentKind::Survivor), "survivors are there");
    let manifest = Manifest::load(&*disk).unwrap().unwrap();
    assert!(!manifest.fields.sidecars.is_empty(), "ids were put away");
    let start = manifest.fields.replay.address;
    let is_old = |kind: SegmentKind, end: Address| kind == SegmentKind::Journal && end <= start;
    assert!(segments.iter().any(|segment| is_old(segment.kind(), segment.end())), "old segments are there");
    asked
}

/// Everything the store holds, as text.
pub fn text_of(store: &LogStore) -> Result<String, LogError> {
    let mut text = Vec::new();
    export(store, &mut text)?;
    let text = String::from_utf8(text).unwrap();
    // Ids are written generation by generation, and one may have come into another generation.
    let (mut ids, mut rest): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with("{\"remembered\""));
    ids.sort_unstable();
    rest.append(&mut ids);
    Ok(rest.join("\n"))
}

/// A file's bytes.
pub fn bytes_of(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// All files of a store.
pub fn files_of(disk: &dyn Disk) -> Vec<String> {
    ["", "segments", "checkpoints", "dedup"]
        .iter()
        .flat_map(|folder| disk.list(folder).unwrap().into_iter().map(move |name| (*folder, name)))
        .map(|(folder, name)| if folder.is_empty() { name } else { format!("{folder}/{name}") })
        .collect()
}

/// Where a text lies in the files of a folder, newest file last.
pub fn places_of(disk: &dyn Disk, text: &str) -> Vec<(String, u64)> {
    let is_segment = |name: &String| name.ends_with(".seg");
    let names = files_of(disk).into_iter().filter(is_segment);
    names
        .flat_map(|name| {
            let bytes = bytes_of(disk, &name);
            let hits = bytes.windows(text.len()).enumerate().filter(|(_, window)| *window == text.as_bytes());
            hits.map(|(at, _)| (name.clone(), at as u64)).collect::<Vec<_>>()
        })
        .collect()
}
