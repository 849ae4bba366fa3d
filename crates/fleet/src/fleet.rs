//! The store of a node in a fleet: each step goes to the shard of its queue, wherever that is kept.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{
    Command, Departures, Outcome, Pause, QueueId, ShardCount, ShardId, Tally, Timestamp, Traffic, Waits,
};
use kew_engine::Engine;
use kew_store::{Fill, Freed, Ring, Store, StoreError, Submission};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};

use crate::asking;
use crate::carrying::BATCHES_FOR_A_SHARD;
use crate::commits::Commits;
use crate::contracts::{Carrier, Names};
use crate::holds::Holds;
use crate::inner::Inner;
use crate::known::Directory;
use crate::map::{FleetMap, NodeId};
use crate::places::{Here, Places};
use crate::unreleased::Unreleased;
use crate::upkeep::{Resting, is_refused};
use kew_peer::{Reply, Request};

/// A store whose shards are kept by several nodes, of which this is one.
pub struct Fleet(pub(crate) Arc<Inner>);

/// Where a step is taken.
enum Reach {
    /// In one shard.
    One(ShardId),
    /// In each shard that is kept here.
    EachHere,
    /// In one shard after the other, wherever they are: a look.
    Around,
}

impl Fleet {
    /// The store of node `me`, which keeps no shard yet.
    pub fn new(me: NodeId, shards: ShardCount, carrier: Arc<dyn Carrier>, names: Arc<dyn Names>) -> Self {
        Self::of(me, shards, (carrier, names), None)
    }

    /// The same. `of_one_process` holds the stores of all shards where all nodes are in this process.
    pub(crate) fn of(
        me: NodeId,
        shards: ShardCount,
        (carrier, names): (Arc<dyn Carrier>, Arc<dyn Names>),
        of_one_process: Option<Here>,
    ) -> Self {
        Self(Arc::new(Inner {
            me,
            places: Places::new(shards),
            of_one_process,
            carrier,
            names,
            engine: OnceLock::new(),
            directory: Directory::new(shards),
            making: Mutex::default(),
            unreleased: Unreleased::default(),
            map: RwLock::default(),
            lists: Mutex::default(),
            found: Mutex::default(),
            resting: Resting::default(),
            holds: Holds::default(),
            commits: Commits::default(),
            leaving: Mutex::default(),
            orders: Mutex::default(),
            by_hand: AtomicBool::new(false),
            shows: OnceLock::new(),
            owed: Notify::new(),
            carries: std::iter::repeat_with(|| Semaphore::new(BATCHES_FOR_A_SHARD))
                .take(usize::from(shards.get()))
                .collect(),
            knew_all: AtomicBool::new(false),
        }))
    }

    /// Serves with the engine that stands on this store. Called once, on the engine's event loop, before the first
    /// shard comes.
    pub fn serve_with(&self, engine: &Arc<Engine>) {
        let under = (Arc::downgrade(engine), tokio::runtime::Handle::current());
        assert!(self.0.engine.set(under).is_ok(), "a fleet's store is under one engine");
        // Counted while there are few, so that no new queue waits for that.
        let _few = engine.queues_of_each_shard(self.0.places.count);
    }

    /// What the database said last.
    pub fn map(&self) -> Arc<FleetMap> {
        Arc::clone(&self.0.map.read())
    }

    /// The shard that a queue is in.
    pub fn shard_of(&self, queue: QueueId) -> ShardId {
        self.0.places.count.of_queue(queue)
    }

    /// Whether this node keeps a shard.
    pub fn keeps_shard(&self, shard: ShardId) -> bool {
        self.0.places.is_here(shard)
    }

    /// The shards that this node keeps.
    pub fn kept(&self) -> Vec<ShardId> {
        self.0.places.all_here().iter().map(|(shard, _)| *shard).collect()
    }

    /// Whether every queue there is is known here. Where it is not, a name that is not found may be one's that another
    /// node has just made.
    pub fn knows_all(&self) -> bool {
        self.0.knows_all()
    }

    /// Answers what another node asks.
    pub async fn serve(&self, asker: &NodeId, request: Request) -> Result<Reply, kew_peer::Refusal> {
        if matches!(request, Request::Queues { .. }) {
            self.0.directory.asked(asker);
        }
        self.0.serve(request).await
    }
}

impl Inner {
    fn reach(&self, command: &Command) -> Reach {
        let count = self.places.count;
        let of = |queue: QueueId| Reach::One(count.of_queue(queue));
        match command {
            // The name was claimed for a shard just before: `defining.rs`.
            Command::CreateQueue(create) => {
                let shard = self.making.lock().get(&create.key).copied();
                Reach::One(shard.unwrap_or(ShardId::OF_ACCOUNTS))
            }
            Command::UpdateQueue(update) => of(update.queue),
            Command::DeleteQueue(delete) => of(delete.queue),
            Command::Send(send) => of(send.queue),
            Command::Lease(lease) => of(lease.queue),
            Command::Withdraw(withdraw) => of(withdraw.queue),
            Command::Ack(ack) => of(ack.queue),
            Command::Extend(extend) => of(extend.queue),
            Command::Release(release) => of(release.queue),
            Command::Peek(peek) => of(peek.queue),
            Command::Browse(browse) => of(browse.queue),
            Command::Groups(groups) => of(groups.queue),
            Command::FirstSend(first) => of(first.queue),
            Command::Note(note) => of(note.queue),
            Command::Promote(promote) => of(promote.queue),
            Command::Identify(identify) => of(identify.queue),
            Command::Purge(purge) => of(purge.queue),
            Command::Counts(queue) => of(*queue),
            Command::StartMove(start) => of(start.source),
            Command::MoveChosen(chosen) => of(chosen.source),
            Command::History(history) => of(history.queue),
            Command::ContinueMove(next) => Reach::One(count.of_task(next.task)),
            Command::CancelMove(task) => Reach::One(count.of_task(*task)),
            Command::ListMoves(list) => list.source.map_or(Reach::Around, of),
            Command::Trace(_) => Reach::Around,
            Command::PutDocuments(_) | Command::Documents(_) => Reach::One(ShardId::OF_ACCOUNTS),
            Command::Carry(carry) => of(carry.outbox),
            Command::Bring(bring) => of(bring.target),
            Command::Settle(settle) => of(settle.outbox),
            Command::TakeBack(back) => of(back.outbox),
            Command::ReleaseOwners(_)
            | Command::HoldExpiry(_)
            | Command::Due
            | Command::Queues
            | Command::Owing => Reach::EachHere,
        }
    }

    /// Takes a step in each shard that is kept here. A shard that refuses rests for a while, and holds no other up.
    fn step_each(&self, now: Timestamp, command: &Command) -> Submission {
        let (mut freed, mut late) = (Freed::new(), None);
        let (mut queues, mut owing) = (Vec::new(), Vec::new());
        for (shard, store) in &*self.places.all_here() {
            let (shard, store) = (*shard, &**store);
            if matches!(command, Command::Due) && !self.resting.is_due(shard, store, now) {
                continue;
            }
            if let Some(_refused) = self.holds.before_step(shard, store) {
                self.rest(shard, now);
                continue;
            }
            let mut submission = match command {
                Command::HoldExpiry(hold) => self.holds.hold((shard, store), now, *hold),
                _ => store.step(now, command),
            };
            self.note_owed(&submission);
            freed.extend_from_slice(&submission.freed);
            match submission.peek() {
                Some(Outcome::Queues(some)) => queues.extend(some.iter().cloned()),
                Some(Outcome::Owing(some)) => owing.extend_from_slice(some),
                Some(_) => {}
                None if submission.is_put_off() => late = late.or(Some(submission)),
                None => {
                    if is_refused(&mut submission) {
                        self.rest(shard, now);
                    }
                }
            }
        }
        if let Some(late) = late {
            return late.freeing(freed);
        }
        let outcome = match command {
            Command::Queues => Outcome::Queues(queues),
            Command::Owing => Outcome::Owing(owing),
            _ => Outcome::Done,
        };
        Submission::settled(Ok(outcome)).freeing(freed)
    }

    /// A shard refused a step at `now`. It rests from the present on, which may be later.
    fn rest(&self, shard: ShardId, now: Timestamp) {
        let present = self.engine().map_or(now, |engine| engine.now().max(now));
        self.resting.begin(shard, present);
    }

    /// The shards whose figures are read here.
    fn seen(&self) -> Here {
        self.of_one_process.as_ref().map_or_else(|| self.places.all_here(), Arc::clone)
    }

    /// What each of these queues has of something, where the figures of its shard are read here.
    fn of_queues<T: Default + Clone>(
        &self,
        queues: &[QueueId],
        look: impl Fn(&dyn Store, &[QueueId]) -> Vec<T>,
    ) -> Vec<T> {
        let mut found = vec![T::default(); queues.len()];
        for (shard, store) in &*self.seen() {
            let of_shard = |queue: &QueueId| self.places.count.of_queue(*queue) == *shard;
            let there: Vec<QueueId> = queues.iter().copied().filter(of_shard).collect();
            if there.is_empty() {
                continue;
            }
            let mut seen = look(&**store, &there).into_iter();
            for (_, place) in queues.iter().zip(&mut found).filter(|(queue, _)| of_shard(queue)) {
                *place = seen.next().unwrap_or_default();
            }
        }
        found
    }
}

/// Whether a command makes, changes or deletes a queue.
fn defines(command: &Command) -> bool {
    matches!(command, Command::CreateQueue(_) | Command::UpdateQueue(_) | Command::DeleteQueue(_))
}

impl Store for Fleet {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        match self.0.reach(command) {
            Reach::One(shard) => match self.0.places.here(shard) {
                Some(store) => {
                    let submission =
                        self.0.holds.before_step(shard, &*store).unwrap_or_else(|| store.step(now, command));
                    self.0.note_owed(&submission);
                    submission
                }
                // Taken while the shard's names are held (`defining.rs`), which another owner would not know.
                None if defines(command) => {
                    Submission::settled(Err(asking::away("the shard has just left this node")))
                }
                None => {
                    let request = Request::Step { shard, command: command.clone() };
                    Submission::remote(asking::outcome(Arc::clone(&self.0), shard, request))
                }
            },
            Reach::EachHere => self.0.step_each(now, command),
            Reach::Around => Submission::remote(asking::around(Arc::clone(&self.0), command.clone())),
        }
    }

    fn step_in(&self, shard: ShardId, now: Timestamp, command: &Command) -> Submission {
        match self.0.places.here(shard) {
            Some(store) => {
                let submission =
                    self.0.holds.before_step(shard, &*store).unwrap_or_else(|| store.step(now, command));
                self.0.note_owed(&submission);
                submission
            }
            None => Submission::settled(Err(asking::away("the shard has just left this node"))),
        }
    }

    fn knows_all(&self) -> bool {
        self.0.knows_all()
    }

    fn define(&self, command: &Command) -> Option<Submission> {
        Some(Submission::remote(Arc::clone(&self.0).define(command.clone())))
    }

    fn keeps(&self, queue: QueueId) -> bool {
        self.0.places.is_here(self.0.places.count.of_queue(queue))
    }

    fn shard_of(&self, queue: QueueId) -> ShardId {
        Self::shard_of(self, queue)
    }

    fn sees(&self, queue: QueueId) -> bool {
        self.0.of_one_process.is_some() || self.keeps(queue)
    }

    fn share(&self, pause: &Pause, until: Timestamp) -> Option<Submission> {
        Some(Submission::remote(Arc::clone(&self.0).share(pause.clone(), until)))
    }

    fn lease_elsewhere(&self, lease: &Lease, wait: Duration) -> Option<Submission> {
        let shard = self.0.places.count.of_queue(lease.queue);
        if self.0.places.is_here(shard) {
            return None;
        }
        let request = Request::Lease { shard, lease: lease.clone(), wait };
        Some(Submission::remote(asking::outcome(Arc::clone(&self.0), shard, request)))
    }

    fn next_due(&self) -> Option<Timestamp> {
        let here = self.0.places.all_here();
        here.iter().filter_map(|(shard, store)| self.0.resting.next_due(*shard, &**store)).min()
    }

    /// Loops of one process begin with the same time.
    fn newest_instant(&self) -> Timestamp {
        let seen = self.0.seen();
        seen.iter().map(|(_, store)| store.newest_instant()).max().unwrap_or(Timestamp::ZERO)
    }

    /// Of the shards of this node the hold that lets the least expire. Each has its own.
    fn expiry_hold(&self) -> Option<ExpiryHold> {
        let here = self.0.places.all_here();
        let held = here.iter().filter_map(|(shard, store)| self.0.holds.of(*shard, &**store));
        held.min_by_key(|hold| hold.through)
    }

    fn record_time(&self, now: Timestamp) -> Submission {
        let mut freed = Freed::new();
        for (shard, store) in &*self.0.places.all_here() {
            if self.0.holds.before_step(*shard, &**store).is_none() {
                freed.extend_from_slice(&store.record_time(now).freed);
            }
        }
        Submission::settled(Ok(Outcome::Done)).freeing(freed)
    }

    fn commit(&self) -> bool {
        self.0.places.all_here().iter().fold(false, |any, (_, store)| store.commit() || any)
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        self.0.commit_each_at_once(may_sync);
        true
    }

    /// Its stores are of one kind.
    fn hand_over(&self) -> Fill {
        let here = self.0.places.all_here();
        here.iter().map(|(_, store)| store.hand_over()).max().unwrap_or(Fill::ByCaller)
    }

    /// Also of shards that come later.
    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.0.places.ring_when_free(ring);
    }

    fn syncs(&self) -> u64 {
        self.0.places.all_here().iter().fold(0, |syncs, (_, store)| syncs.saturating_add(store.syncs()))
    }

    fn tally(&self) -> Tally {
        let seen = self.0.seen();
        seen.iter().fold(Tally::default(), |tally, (_, store)| tally.and(store.tally()))
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.0.of_queues(queues, |store, queues| store.tallies(queues))
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.0.of_queues(queues, |store, queues| store.waits(queues))
    }

    fn take_departures(&self) -> Departures {
        let seen = self.0.seen();
        seen.iter().fold(Departures::default(), |all, (_, store)| all.and(store.take_departures()))
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.0.of_queues(queues, |store, queues| store.traffic(queues))
    }

    fn health(&self) -> Result<(), StoreError> {
        if self.0.of_one_process.is_some() {
            // The other loops answer for their own shards.
            return self.0.places.all_here().iter().try_for_each(|(_, store)| store.health());
        }
        self.0.hears_enough()
    }

    fn health_for(&self, queue: QueueId) -> Result<(), StoreError> {
        self.0.places.here(self.shard_of(queue)).map_or_else(|| self.health(), |store| store.health())
    }

    /// Whether some shard may answer that is kept here. Each answer has passed its own shard's gate; what this is asked
    /// for is whether the node stood still since then, and then all its shards are past their time. Those of a database
    /// that is silent are too: beside them one that has answered just now says as much.
    fn may_answer(&self) -> bool {
        let here = self.0.places.all_here();
        here.is_empty() || here.iter().any(|(_, store)| store.may_answer()) || self.0.hears_one_of_several()
    }

    fn may_answer_for(&self, queue: QueueId) -> bool {
        self.0.places.here(self.shard_of(queue)).is_some_and(|store| store.may_answer())
    }

    fn write(&self) {
        self.0.places.all_here().iter().for_each(|(_, store)| store.write());
    }
}
