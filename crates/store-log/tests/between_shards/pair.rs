//! Two shards and what carries messages between them, a step at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::command::{Bring, Carry, Lease, Settle, TakeBack};
use kew_core::outcome::Leased;
use kew_core::{
    Carries, Command, DeadLetterAction, DeadLetterRule, Outcome, OwedMessage, Owing, Policy, Queue, QueueId,
    QueueKey, Sequence, ShardCount, ShardId, ShardPlace, Timestamp,
};
use kew_store::{Elsewhere, Store, StoreError};
use kew_store_log::{LogOptions, LogStore, SimDisk};
use parking_lot::Mutex;

use crate::small_store::{Asked, START, entropy, key, options};

/// All queues of both shards.
#[derive(Default)]
pub struct Known {
    queues: Mutex<HashMap<QueueKey, Arc<Queue>>>,
    is_cut_off: AtomicBool,
}

impl Elsewhere for Known {
    fn find(&self, key: &QueueKey) -> Result<Option<Arc<Queue>>, StoreError> {
        match self.queues.lock().get(key) {
            None if self.is_cut_off.load(Ordering::Relaxed) => {
                Err(StoreError::Unavailable { cause: "not every queue is known".to_owned() })
            }
            found => Ok(found.cloned()),
        }
    }
}

/// A shard that runs.
pub struct Shard {
    pub disk: SimDisk,
    pub asked: Asked,
}

pub struct Pair {
    pub shards: [Shard; 2],
    pub known: Arc<Known>,
}

fn options_of(shard: u16) -> LogOptions {
    let of = ShardCount::new(2).unwrap();
    LogOptions { place: ShardPlace { shard: ShardId(shard), of }, ..options() }
}

fn opened(disk: SimDisk, shard: u16, known: &Arc<Known>, now: Timestamp) -> Shard {
    let chance = entropy(u64::from(shard) + now.0);
    let store = LogStore::open(Arc::new(disk.clone()), options_of(shard), chance, now).unwrap().0;
    store.know_others(Arc::clone(known) as _);
    let mut asked = Asked::of(store);
    asked.now = asked.now.max(now);
    Shard { disk, asked }
}

/// A rule that sends what was leased once to another queue.
pub fn rule(to: &str, carries: Carries) -> Option<Box<DeadLetterRule>> {
    let then = DeadLetterAction::MoveTo(key(to));
    Some(DeadLetterRule { attempts_max: 1, then, carries, written_by: "test".into() }.into())
}

impl Pair {
    pub fn new() -> Self {
        let known = Arc::new(Known::default());
        let shards = [0, 1].map(|shard| opened(SimDisk::new(), shard, &known, START));
        Self { shards, known }
    }

    pub fn at(&self, shard: usize) -> &Asked {
        &self.shards[shard].asked
    }

    /// Makes a queue, which both shards know from now on.
    pub fn queue(&self, shard: usize, name: &str, policy: Policy) -> QueueId {
        let id = self.at(shard).queue(name, policy);
        let Outcome::Queues(queues) = self.at(shard).ask(Command::Queues) else { panic!("no queues") };
        let made = queues.iter().find(|queue| queue.id == id).unwrap();
        self.known.queues.lock().insert(key(name), Arc::clone(made));
        id
    }

    /// Deletes a queue; its name leads nowhere after that.
    pub fn delete(&self, shard: usize, name: &str) {
        let id = self.at(shard).find(name);
        let delete = kew_core::command::DeleteQueue { queue: id, if_version: None };
        self.at(shard).ask(Command::DeleteQueue(delete));
        self.known.queues.lock().remove(&key(name));
    }

    /// A queue that is gone is still known.
    pub fn still_knows(&self, name: &str, id: QueueId) {
        let gone = Queue {
            id,
            key: key(name),
            policy: Policy::standard(),
            documents: Default::default(),
            version: 1,
            created_at: START,
            modified_at: START,
        };
        self.known.queues.lock().insert(key(name), Arc::new(gone));
    }

    /// It is not any more.
    pub fn knows_no_more(&self, name: &str) {
        self.known.queues.lock().remove(&key(name));
    }

    /// A queue of a shard is known again.
    pub fn knows(&self, name: &str, shard: usize) {
        let Outcome::Queues(queues) = self.at(shard).ask(Command::Queues) else { panic!("no queues") };
        let known = queues.iter().find(|queue| queue.key == key(name)).unwrap();
        self.known.queues.lock().insert(key(name), Arc::clone(known));
    }

    /// Says to a shard that it knows all queues by now.
    pub fn know_others(&self, shard: usize) {
        self.at(shard).store.know_others(Arc::clone(&self.known) as _);
    }

    /// Names that are not known look like those that no queue has.
    pub fn cut_off(&self, yes: bool) {
        self.known.is_cut_off.store(yes, Ordering::Relaxed);
    }

    /// Both clocks go on.
    pub fn later(&mut self, by: std::time::Duration) {
        self.shards.iter_mut().for_each(|shard| shard.asked.later(by));
    }

    /// A shard goes on from another disk: what its own was found to be after a crash.
    pub fn reopen(&mut self, shard: usize, disk: SimDisk) {
        let number = u16::try_from(shard).unwrap();
        let now = self.at(shard).now;
        self.shards[shard] = opened(disk, number, &self.known, now);
    }

    pub fn owing(&self, shard: usize) -> Vec<Owing> {
        match self.at(shard).ask(Command::Owing) {
            Outcome::Owing(owing) => owing,
            other => panic!("{other:?}"),
        }
    }

    /// The messages of an outbox.
    pub fn owed(&self, shard: usize, outbox: QueueId) -> Vec<OwedMessage> {
        match self.at(shard).ask(carry(outbox, 100)) {
            Outcome::Owed(messages) => messages,
            other => panic!("{other:?}"),
        }
    }

    pub fn bring(
        &self,
        shard: usize,
        target: QueueId,
        outbox: QueueId,
        messages: Vec<OwedMessage>,
    ) -> Option<Sequence> {
        match self.at(shard).ask(Command::Bring(Bring { target, outbox, messages })) {
            Outcome::Brought(through) => through,
            other => panic!("{other:?}"),
        }
    }

    pub fn settle(&self, shard: usize, outbox: QueueId, through: Sequence) {
        assert_eq!(self.at(shard).ask(Command::Settle(Settle { outbox, through })), Outcome::Done);
    }

    /// Carries all that a shard owes; what has no target goes back.
    pub fn carry_all(&self, shard: usize) {
        for Owing { outbox, target, .. } in self.owing(shard) {
            loop {
                let messages = match self.at(shard).try_ask(carry(outbox, 3)) {
                    Ok(Outcome::Owed(messages)) if !messages.is_empty() => messages,
                    _ => break,
                };
                match self.bring(1 - shard, target, outbox, messages) {
                    Some(through) => self.settle(shard, outbox, through),
                    None => drop(self.take_back(shard, outbox)),
                }
            }
        }
    }

    pub fn take_back(&self, shard: usize, outbox: QueueId) -> Outcome {
        self.at(shard).ask(Command::TakeBack(TakeBack { outbox, max: 100 }))
    }

    /// Leases all there is in a queue, and deletes it: the bodies in their order.
    pub fn drain(&self, shard: usize, queue: QueueId) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let leased = self.at(shard).lease(queue, 10);
            if leased.is_empty() {
                return bodies;
            }
            self.at(shard).ack(queue, &leased);
            bodies.extend(leased.iter().map(body));
        }
    }
}

pub fn carry(outbox: QueueId, max: u32) -> Command {
    Command::Carry(Carry { outbox, max, bytes_max: 1 << 20 })
}

pub fn lease(queue: QueueId, max: u32, now: Timestamp) -> Command {
    Command::Lease(Lease::of(queue, max, now))
}

pub fn body(leased: &Leased) -> String {
    String::from_utf8_lossy(&leased.message.content.body).into_owned()
}
