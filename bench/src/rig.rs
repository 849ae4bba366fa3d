//! The thing measured: an engine over a log store on a counted disk, driven as one event loop would.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use kew_core::command::{Ack, CreateQueue, FirstReceipts, Lease, Send};
use kew_core::time::millis;
use kew_core::{
    AccountId, Entropy, LeaseToken, NewMessage, Policy, QueueId, QueueKey, ReceiptRule, Timestamp,
};
use kew_engine::{Engine, Options, TimeSource};
use kew_store_log::{Drive, LogOptions, LogStore, OpenReport};

use crate::answers::Answers;
use crate::counting::{self, Counts, syncs_of_this_thread};

/// Sends, leases and acks of one pass: 171 each, 513 commands in one commit.
pub const CYCLES_PER_COMMIT: u64 = 171;

/// An engine on its store.
pub struct Rig {
    pub engine: Arc<Engine>,
    pub store: Arc<LogStore>,
    pub clock: Arc<MachineTime>,
    pub counts: Arc<Counts>,
    pub report: OpenReport,
}

impl Rig {
    /// Opens the store in `dir`, committing in the caller's loop.
    pub fn open(dir: &Path) -> Self {
        Self::open_at(dir, Duration::ZERO, Drive::Loop)
    }

    /// The same, on a clock that is ahead by so much.
    pub fn open_at(dir: &Path, ahead: Duration, drive: Drive) -> Self {
        let clock = MachineTime::new();
        clock.advance(ahead);
        Self::open_with(dir, clock, Chance::default(), drive)
    }

    /// The same every time: a clock that stands unless it is moved, chance that begins at a fixed place.
    pub fn open_repeatable(dir: &Path, now: Timestamp) -> Self {
        Self::open_with(dir, MachineTime::standing(now), Chance(AtomicU64::new(1)), Drive::Loop)
    }

    fn open_with(dir: &Path, clock: MachineTime, chance: Chance, drive: Drive) -> Self {
        let (disk, counts) = counting::open(dir).expect("the directory can be made");
        let (clock, entropy) = (Arc::new(clock), Arc::new(chance));
        let options = LogOptions { drive, ..LogOptions::default() };
        let (store, report) = LogStore::open(Arc::new(disk), options, entropy.clone(), clock.system())
            .expect("the store opens");
        // The spare files are there before anything is measured: a step that finds no room is put off.
        store.keep_up().expect("upkeep makes the spare files");
        let store = Arc::new(store);
        let start = Engine::start(store.clone(), clock.clone(), entropy, Options::default());
        let engine = finish(start).expect("the engine starts");
        Self { engine, store, clock, counts, report }
    }

    /// Makes a queue. Its leases outlast any pause of a busy machine.
    pub fn queue(&self, name: &str, policy: Policy) -> QueueId {
        let policy = Policy { lease_length: Duration::from_secs(6 * 3600), ..policy };
        let create = CreateQueue { key: queue_key(name), policy, documents: Vec::new() };
        let mut answers = Answers::new();
        answers.ask(self.engine.create_queue(create));
        self.engine.commit();
        let made = answers.take(&self.engine).next();
        made.expect("the engine answered the one command").expect("the queue is new").id
    }

    /// The queue made under this name before.
    pub fn queue_again(&self, name: &str) -> QueueId {
        self.engine.queue(&queue_key(name)).expect("the queue is there").id
    }

    /// A plain message.
    pub fn message(&self, body: &Bytes) -> NewMessage {
        NewMessage::text(self.engine.message_id(), body.clone())
    }

    /// Sends messages, `per_command` in each command and `per_commit` in each commit. `make` says to which queue and
    /// which message the n-th one is; those of one command go to one queue.
    pub fn fill(&self, messages: u64, per_command: u64, make: impl Fn(u64) -> (QueueId, NewMessage)) {
        const PER_COMMIT: u64 = 2_000;
        let mut answers = Answers::new();
        let mut next = 0;
        while next < messages {
            let end = messages.min(next + PER_COMMIT);
            while next < end {
                let (queue, first) = make(next);
                let rest = (next + 1..end.min(next + per_command)).map(|number| make(number).1);
                let batch: Vec<NewMessage> = std::iter::once(first).chain(rest).collect();
                next += batch.len() as u64;
                answers.ask(self.engine.send(Send {
                    queue,
                    messages: batch,
                    receipts: FirstReceipts::Untold,
                }));
            }
            self.engine.commit();
            let sent = answers.take(&self.engine);
            sent.for_each(|sent| drop(sent.expect("the send is fine")));
        }
    }

    /// How many messages a queue holds.
    pub fn stored(&self, queue: QueueId) -> u64 {
        let mut answers = Answers::new();
        answers.ask(self.engine.counts(queue));
        answers
            .take(&self.engine)
            .next()
            .expect("the engine answered the one command")
            .expect("the queue is there")
            .stored()
    }

    /// Commits a number of passes of send, lease and ack on a queue. Each lease takes one message, and each message is
    /// acknowledged in the pass after the one it was leased in.
    pub fn churn(&self, queue: QueueId, body: &Bytes, commits: u64, leased: &mut Vec<LeaseToken>) -> Syncs {
        let engine = &*self.engine;
        let (mut sends, mut leases, mut acks) = (Answers::new(), Answers::new(), Answers::new());
        let mut syncs = Syncs::default();
        for _ in 0..commits {
            // Requests are stamped where they arrive, which is not measured here: once for all of a pass.
            let arrived = engine.now();
            let mut tokens = std::mem::take(leased).into_iter();
            for _ in 0..CYCLES_PER_COMMIT {
                sends.ask(engine.send(Send {
                    queue,
                    messages: vec![self.message(body)],
                    receipts: FirstReceipts::Untold,
                }));
                leases.ask(engine.lease(Lease::of(queue, 1, arrived)));
                if let Some(token) = tokens.next() {
                    let tokens = vec![token];
                    acks.ask(engine.ack(Ack { queue, receipt: ReceiptRule::Any, tokens }));
                }
            }
            syncs.count(&self.store, || engine.commit());
            sends.take(engine).for_each(|sent| assert_eq!(sent.expect("the send is fine").len(), 1));
            // One beside a send that was put off may have found nothing.
            for found in leases.take(engine) {
                if let [first] = &found.expect("the lease is fine")[..] {
                    leased.push(first.token);
                }
            }
            acks.take(engine).for_each(|acked| assert_eq!(acked.expect("the ack is fine"), [Ok(())]));
        }
        syncs
    }
}

/// Commits of the loop's thread, and the syncs in them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Syncs {
    pub commits: u64,
    pub syncs: u64,
    /// Commits that went on in a new segment, and so synced the old one too.
    pub segments_opened: u64,
    /// Commits that found their batch taken along by a checkpoint.
    pub empty: u64,
}

impl Syncs {
    fn count(&mut self, store: &LogStore, commit: impl FnOnce() -> bool) {
        let before = syncs_of_this_thread();
        let number = store.segments().next_number();
        if commit() {
            self.commits += 1;
        } else {
            self.empty += 1;
        }
        let syncs = syncs_of_this_thread() - before;
        self.syncs += syncs;
        self.segments_opened += u64::from(syncs > 1 && store.segments().next_number() > number);
    }

    pub fn add(&mut self, more: Self) {
        self.commits += more.commits;
        self.syncs += more.syncs;
        self.segments_opened += more.segments_opened;
        self.empty += more.empty;
    }
}

/// Runs a future that needs nothing of a runtime but to be polled.
pub fn finish<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime of one thread").block_on(future)
}

pub fn queue_key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(0), "bench", name)
}

/// A body of this many bytes.
pub fn body(bytes: usize) -> Bytes {
    (0..bytes).map(|place| b'a' + (place % 23) as u8).collect::<Vec<u8>>().into()
}

/// The machine's clock, which may be moved ahead; or one that only moves when it is moved.
pub struct MachineTime {
    ahead_millis: AtomicU64,
    begun: Instant,
    standing: Option<Timestamp>,
}

impl MachineTime {
    fn new() -> Self {
        Self { ahead_millis: AtomicU64::new(0), begun: Instant::now(), standing: None }
    }

    fn standing(now: Timestamp) -> Self {
        Self { standing: Some(now), ..Self::new() }
    }

    /// Lets time pass at once.
    pub fn advance(&self, by: Duration) {
        self.ahead_millis.fetch_add(millis(by), Ordering::Relaxed);
    }
}

impl TimeSource for MachineTime {
    fn system(&self) -> Timestamp {
        let now = self.standing.unwrap_or_else(|| {
            Timestamp(millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()))
        });
        Timestamp(now.0 + self.ahead_millis.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Duration {
        match self.standing {
            Some(_) => Duration::from_millis(self.ahead_millis.load(Ordering::Relaxed)),
            None => self.begun.elapsed(),
        }
    }
}

/// Chance that costs next to nothing: what is measured is the queue, not the system's random numbers.
pub struct Chance(AtomicU64);

impl Default for Chance {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(AtomicU64::new(since.subsec_nanos().into()))
    }
}

impl Entropy for Chance {
    fn bits(&self) -> u64 {
        let mut bits = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
