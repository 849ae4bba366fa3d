//! Carries what shards of this node owe to queues of other shards.
//!
//! One outbox after the other, one batch of each at a time: it is read where it is durable, taken in by the owner of
//! the target, durably as well, and settled after that. Whatever ends in between is done again from the outbox; the
//! target passes over what it has. So a message is never in two queues, and none is lost.

use std::collections::HashSet;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::command::{Bring, Carry, Settle, TakeBack};
use kew_core::{Command, Outcome, OwedMessage, Owing, Queue, QueueId, QueueKey, RuleError, Sequence};
use kew_engine::{Engine, EngineError};
use kew_peer::{Reply, Request};
use kew_store::{Elsewhere, StoreError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::asking::away;
use crate::inner::Inner;

/// Messages of one batch.
const BATCH: u32 = 500;
/// Bytes of one batch; a larger message goes alone.
const BATCH_BYTES: u64 = 1 << 20;
/// Batches for one shard that are held in memory at once, each of another outbox.
pub(crate) const BATCHES_FOR_A_SHARD: usize = 4;
/// Messages that go back in one step.
const BACK: u32 = 100;
/// How often outboxes are looked for, beside the notice that a step gives at once.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// The pause after a batch could not be carried; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// An outbox that could not be carried for this long is logged, and then again this often.
const TOLD_AFTER: Duration = Duration::from_secs(15);
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What the stores of this node know of queues in other shards: all that the node shows.
pub(crate) struct Others(pub(crate) Weak<Inner>);

impl Elsewhere for Others {
    fn find(&self, key: &QueueKey) -> Result<Option<Arc<Queue>>, StoreError> {
        let fleet = self.0.upgrade().ok_or_else(|| away("the node ends"))?;
        let engine = fleet.engine().ok_or_else(|| away("the node ends"))?;
        match engine.queue(key) {
            None if !fleet.knew_all() => Err(away("not every queue is known just now")),
            found => Ok(found),
        }
    }
}

impl Inner {
    /// Notes whether every queue is known. When it has come to that, stores look again at what they could not decide
    /// before.
    pub(crate) fn note_known(self: &Arc<Self>) {
        let knows_all = self.knows_all();
        if self.knew_all.swap(knows_all, Ordering::AcqRel) || !knows_all {
            return;
        }
        for (_, store) in self.places.all_here().iter() {
            store.know_others(Arc::new(Others(Arc::downgrade(self))));
        }
        if let Some(engine) = self.engine() {
            engine.look_at_due();
        }
    }
}

/// How the carrying of a batch ended.
enum BatchEnd {
    /// There may be more.
    Some,
    /// The outbox is empty, is gone, or is carried by another node.
    All,
}

/// An outbox that cannot be carried.
#[derive(Default)]
struct Trouble {
    pause: Option<Duration>,
    since: Option<Instant>,
    told_at: Option<Instant>,
}

impl Trouble {
    /// Says how long to wait. It is logged when it lasts longer than a take-over.
    fn goes_on(&mut self, engine: &Engine, target: QueueId, error: EngineError) -> Duration {
        let now = Instant::now();
        let lasts = now.duration_since(*self.since.get_or_insert(now));
        if lasts >= TOLD_AFTER && self.told_at.is_none_or(|at| now.duration_since(at) >= TOLD_EVERY) {
            self.told_at = Some(now);
            engine.tell_of_carrying(target, Some(error));
        }
        let pause = self.pause.map_or(PAUSE, |last| (last * 2).min(PAUSE_MAX));
        self.pause = Some(pause);
        pause
    }

    fn is_over(&mut self, engine: &Engine, target: QueueId) {
        if std::mem::take(self).told_at.is_some() {
            engine.tell_of_carrying(target, None);
        }
    }
}

impl Inner {
    /// Carries what is owed, for as long as it is polled.
    pub(crate) async fn carry_owed(self: Arc<Self>) {
        let (mut under_way, mut carrying) = (HashSet::new(), JoinSet::new());
        loop {
            for owing in self.owing().await {
                if under_way.insert(owing.outbox) {
                    carrying.spawn(Arc::clone(&self).carry_all_of(owing));
                }
            }
            tokio::select! {
                () = self.owed.notified() => {}
                Some(ended) = carrying.join_next() => match ended {
                    Ok(outbox) => drop(under_way.remove(&outbox)),
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => resume_unwind(panic),
                        // The runtime ends.
                        Err(_cancelled) => return pending().await,
                    },
                },
                () = tokio::time::sleep(LOOKS_EVERY) => {}
            }
        }
    }

    /// The outboxes of this node that have something in them, or whose target is not there any more.
    async fn owing(&self) -> Vec<Owing> {
        let Some(engine) = self.engine() else { return Vec::new() };
        let Ok(Outcome::Owing(mut owing)) = engine.carry_out(Command::Owing).await else { return Vec::new() };
        engine.note_owed(owing.iter().map(|owing| owing.messages).sum());
        owing.retain(|owing| {
            let is_left_over = || self.knew_all() && engine.queue_by_id(owing.target).is_none();
            owing.messages > 0 || is_left_over()
        });
        owing
    }

    /// Carries an outbox until it is empty. Answers which.
    async fn carry_all_of(self: Arc<Self>, Owing { outbox, target, .. }: Owing) -> QueueId {
        let mut trouble = Trouble::default();
        while let Some(engine) = self.engine().filter(|_| self.keeps_queue(outbox)) {
            match self.carry_batch(&engine, outbox, target).await {
                Ok(BatchEnd::Some) => trouble.is_over(&engine, target),
                Ok(BatchEnd::All) => {
                    trouble.is_over(&engine, target);
                    break;
                }
                Err(error) => {
                    // Its target's owner is not there just now, or has no room: everything stays owed meanwhile.
                    let pause = trouble.goes_on(&engine, target, error);
                    drop(engine);
                    tokio::time::sleep(pause).await;
                }
            }
        }
        outbox
    }

    /// Limits how many batches are under way to the shard of a queue.
    fn carries_to(&self, target: QueueId) -> &Semaphore {
        let shard = self.places.count.of_queue(target);
        &self.carries[usize::from(shard.0)]
    }

    fn keeps_queue(&self, queue: QueueId) -> bool {
        self.places.is_here(self.places.count.of_queue(queue))
    }

    async fn carry_batch(
        self: &Arc<Self>,
        engine: &Engine,
        outbox: QueueId,
        target: QueueId,
    ) -> Result<BatchEnd, EngineError> {
        let permit = self.carries_to(target).acquire().await.map_err(|_closed| away("the node ends"))?;
        let carry = Carry { outbox, max: BATCH, bytes_max: BATCH_BYTES };
        let messages = match engine.carry_out(Command::Carry(carry)).await {
            Ok(Outcome::Owed(messages)) => messages,
            Ok(_) | Err(EngineError::Rule(RuleError::QueueNotFound)) => return Ok(BatchEnd::All),
            Err(error) => return Err(error),
        };
        let is_empty = messages.is_empty();
        if is_empty && engine.queue_by_id(target).is_some() {
            return Ok(BatchEnd::All);
        }
        let count = messages.len() as u64;
        // An empty outbox whose target is not known asks whether that is there at all.
        match self.bring(target, outbox, messages).await {
            Ok(Some(through)) => {
                engine.carry_out(Command::Settle(Settle { outbox, through })).await?;
                engine.note_carried(count);
                Ok(if is_empty { BatchEnd::All } else { BatchEnd::Some })
            }
            // The target is gone. An outbox that is empty by now was forgotten there, and goes away.
            Ok(None) => {
                // No batch is held any more, and an outbox with much in it keeps no other from this shard.
                drop(permit);
                while self.take_back(engine, outbox).await? == BACK {}
                Ok(BatchEnd::Some)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Some of what is owed to a queue that is gone goes back. Answers how many messages.
    async fn take_back(&self, engine: &Engine, outbox: QueueId) -> Result<u32, EngineError> {
        match engine.carry_out(Command::TakeBack(TakeBack { outbox, max: BACK })).await {
            Ok(Outcome::TakenBack(messages)) => Ok(messages),
            Ok(_) | Err(EngineError::Rule(RuleError::QueueNotFound)) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Has the owner of a queue take messages in. Answers through which one it has them; `None` if the queue is gone.
    async fn bring(
        self: &Arc<Self>,
        target: QueueId,
        outbox: QueueId,
        messages: Vec<OwedMessage>,
    ) -> Result<Option<Sequence>, StoreError> {
        let shard = self.places.count.of_queue(target);
        let command = Command::Bring(Bring { target, outbox, messages });
        match self.ask_owner(shard, Request::Step { shard, command }).await? {
            Reply::Done(Outcome::Brought(through)) => Ok(through),
            _ => Err(away("the owner answered another request")),
        }
    }
}
