//! Shards that come to this node and leave it: by the map of the fleet, one look after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{ListMoves, ReleaseOwners};
use kew_core::{Ask, Outcome, QueueId, QueueKey, ShardId, TaskState, Text, ask};
use kew_engine::{Brought, Engine};
use kew_peer::Request;
use kew_store::Store;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::contracts::{Home, Kept};
use crate::fleet::Fleet;
use crate::inner::Inner;
use crate::map::FleetMap;
use crate::map::NodeId;
use crate::places::Place;
use crate::plan::Looks;

/// How often it is looked whether a shard is still owned.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Shards that are opened beside each other.
const OPENS_MAX: usize = 4;
/// Shards that a node which leaves closes beside each other.
const CLOSES_MAX: usize = 4;
/// The pause before a shard is tried again that could not be taken.
const TRIES_AGAIN: Duration = Duration::from_millis(500);

/// What an operator should know of shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardNews {
    /// This node keeps the shard from now on.
    Came(ShardId),
    /// This node has given the shard away.
    Left(ShardId, Option<NodeId>),
    /// This node owns the shard no more.
    Lost(ShardId, String),
    /// The shard could not be opened; it is tried again.
    NotOpened(ShardId, String),
}

/// What a node is to do with its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It keeps its share of them.
    Staying,
    /// It hands them to other nodes, and serves those that no other takes.
    Leaving,
    /// It closes them.
    Closing,
}

/// Takes shards and gives them away.
pub struct Keeper {
    fleet: Arc<Inner>,
    home: Arc<dyn Home>,
    tell: Box<dyn Fn(ShardNews) + Send + Sync>,
    kept: BTreeMap<ShardId, Kept>,
    opening: BTreeSet<ShardId>,
    closing: BTreeSet<ShardId>,
    not_before: BTreeMap<ShardId, Instant>,
    looks: Looks,
    begun: Instant,
    done: (mpsc::UnboundedSender<Done>, mpsc::UnboundedReceiver<Done>),
}

/// What ended beside the keeper.
enum Done {
    Opened(ShardId, Result<Option<Kept>, String>),
    Closed(ShardId),
}

impl Keeper {
    /// A keeper of a node's shards, which lie in `home`.
    pub fn new(fleet: &Fleet, home: Arc<dyn Home>, tell: impl Fn(ShardNews) + Send + Sync + 'static) -> Self {
        Self {
            fleet: Arc::clone(&fleet.0),
            home,
            tell: Box::new(tell),
            kept: BTreeMap::new(),
            opening: BTreeSet::new(),
            closing: BTreeSet::new(),
            not_before: BTreeMap::new(),
            looks: Looks::default(),
            begun: Instant::now(),
            done: mpsc::unbounded_channel(),
        }
    }

    /// Follows the map of the fleet until the node is to close. It runs where the engine does. `handed_over` becomes
    /// true when a node that leaves keeps no shard that another node could keep.
    pub async fn run(
        mut self,
        mut maps: watch::Receiver<Arc<FleetMap>>,
        phase: watch::Receiver<Phase>,
        handed_over: watch::Sender<bool>,
    ) {
        let informed = tokio::spawn(Arc::clone(&self.fleet).stay_informed());
        loop {
            let is_news = tokio::select! {
                biased;
                Some(done) = self.done.1.recv() => {
                    self.done(done).await;
                    false
                }
                changed = tokio::time::timeout(LOOKS_EVERY, maps.changed()) => match changed {
                    Ok(Ok(())) => true,
                    Ok(Err(_)) => break,
                    Err(_) => false,
                },
            };
            let map = Arc::clone(&maps.borrow_and_update());
            if is_news {
                self.fleet.directory.map_read();
            }
            self.drop_lost();
            self.follow(&map);
            let phase = *phase.borrow();
            match phase {
                Phase::Staying => self.act(&map),
                Phase::Leaving => {
                    begin_to_leave(&self.fleet).await;
                    self.act(&map);
                    handed_over.send_replace(self.has_handed_over(&map));
                }
                Phase::Closing => self.close_all(),
            }
            if phase == Phase::Closing && self.opening.is_empty() && self.closing.is_empty() {
                break;
            }
        }
        informed.abort();
    }

    /// Whether a node that leaves has nothing more to hand over.
    fn has_handed_over(&self, map: &FleetMap) -> bool {
        let is_alone = map.nodes.iter().all(|node| node.id == self.fleet.me);
        self.opening.is_empty() && self.closing.is_empty() && (self.kept.is_empty() || is_alone)
    }

    /// Shards that are owned no more.
    fn drop_lost(&mut self) {
        let lost = self.kept.iter().filter_map(|(shard, kept)| (kept.over)().map(|why| (*shard, why)));
        for (shard, why) in lost.collect::<Vec<_>>() {
            self.close(shard, None);
            (self.tell)(ShardNews::Lost(shard, why));
        }
    }

    /// Notes where the other shards are.
    fn follow(&mut self, map: &Arc<FleetMap>) {
        *self.fleet.map.write() = Arc::clone(map);
        for row in map.shards.iter().filter(|row| !self.kept.contains_key(&row.shard)) {
            let place = match &row.owner {
                Some(node) if *node != self.fleet.me => Place::At(node.clone()),
                _ => Place::Nowhere,
            };
            self.fleet.places.set_if_other(row.shard, place);
        }
    }

    fn act(&mut self, map: &FleetMap) {
        let now = self.begun.elapsed();
        self.looks.note(map, &self.fleet.me, now);
        let leaving = {
            let mut leaving = self.fleet.leaving.lock();
            leaving.retain(|node| *node == self.fleet.me || map.node(node).is_some());
            leaving.clone()
        };
        let plan = self.looks.plan(map, &self.fleet.me, &leaving, now);
        let leaves = leaving.contains(&self.fleet.me);
        for shard in plan.take {
            let is_early = self.not_before.get(&shard).is_some_and(|at| Instant::now() < *at);
            let is_busy = self.kept.contains_key(&shard) || self.closing.contains(&shard);
            if is_early || is_busy || self.opening.len() >= OPENS_MAX || !self.opening.insert(shard) {
                continue;
            }
            let (home, done) = (Arc::clone(&self.home), self.done.0.clone());
            tokio::task::spawn_blocking(move || {
                // The keeper listens for as long as it lives; a shard that comes too late is given up by its drop.
                let _told = done.send(Done::Opened(shard, home.take(shard)));
            });
        }
        if !leaves {
            self.obey(map, &leaving);
        }
        let room = if leaves { CLOSES_MAX } else { 1 };
        for (shard, to) in plan.hand_over {
            if self.closing.len() < room && self.kept.contains_key(&shard) {
                self.close(shard, Some(to.clone()));
                (self.tell)(ShardNews::Left(shard, Some(to)));
            }
        }
    }

    /// Hands over what an operator wants to be elsewhere.
    fn obey(&mut self, map: &FleetMap, leaving: &BTreeSet<NodeId>) {
        let orders = std::mem::take(&mut *self.fleet.orders.lock());
        for (shard, to) in orders {
            let may_have_it = map.node(&to).is_some() && !leaving.contains(&to);
            if may_have_it && self.kept.contains_key(&shard) {
                self.close(shard, Some(to.clone()));
                (self.tell)(ShardNews::Left(shard, Some(to)));
            }
        }
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Closed(shard) => {
                self.closing.remove(&shard);
            }
            Done::Opened(shard, Ok(Some(kept))) => {
                self.opening.remove(&shard);
                match bring(&self.fleet, shard, &*kept.store).await {
                    Ok(brought) => {
                        self.fleet.places.set(shard, Place::Here(Arc::clone(&kept.store)));
                        self.kept.insert(shard, kept);
                        if let Some(engine) = self.fleet.engine() {
                            engine.shard_came(&brought, self.is_of(shard));
                        }
                        (self.tell)(ShardNews::Came(shard));
                    }
                    Err(why) => {
                        self.kept.insert(shard, kept);
                        self.close(shard, None);
                        self.not_opened(shard, why);
                    }
                }
            }
            Done::Opened(shard, Ok(None)) => {
                self.opening.remove(&shard);
                self.not_before.insert(shard, Instant::now() + TRIES_AGAIN);
            }
            Done::Opened(shard, Err(why)) => {
                self.opening.remove(&shard);
                self.not_opened(shard, why);
            }
        }
    }

    fn not_opened(&mut self, shard: ShardId, why: String) {
        self.not_before.insert(shard, Instant::now() + TRIES_AGAIN);
        (self.tell)(ShardNews::NotOpened(shard, why));
    }

    fn close_all(&mut self) {
        for shard in self.kept.keys().copied().collect::<Vec<_>>() {
            self.close(shard, None);
        }
    }

    /// Closes the store of a shard beside everything else, and gives the shard away.
    fn close(&mut self, shard: ShardId, to: Option<NodeId>) {
        let Some(kept) = self.kept.remove(&shard) else { return };
        self.part_with(shard);
        self.closing.insert(shard);
        let done = self.done.0.clone();
        tokio::task::spawn_blocking(move || {
            (kept.close)(to.as_ref());
            // The keeper may have ended meanwhile.
            let _told = done.send(Done::Closed(shard));
        });
    }

    /// Steps of the shard wait for another owner from now on.
    fn part_with(&self, shard: ShardId) {
        self.fleet.directory.left(shard, self.fleet.me.clone());
        self.fleet.places.set(shard, Place::Nowhere);
        if let Some(engine) = self.fleet.engine() {
            engine.shard_left(self.is_of(shard));
        }
    }

    fn is_of(&self, shard: ShardId) -> impl Fn(QueueId) -> bool + use<> {
        let count = self.fleet.places.count;
        move |queue| count.of_queue(queue) == shard
    }
}

/// What a shard brings along. Leases without an end that other nodes took end now: their holders serve it no more.
async fn bring(fleet: &Inner, shard: ShardId, store: &dyn Store) -> Result<Brought, String> {
    let engine = fleet.engine().ok_or_else(|| "the node ends".to_owned())?;
    let queues = match taken::<ask::Queues>(&engine, store, ()).await? {
        Outcome::Queues(queues) => queues,
        _ => Vec::new(),
    };
    let tasks = match taken::<ask::ListMoves>(&engine, store, ListMoves { source: None }).await? {
        Outcome::Moves(tasks) => tasks,
        _ => Vec::new(),
    };
    taken::<ask::ReleaseOwners>(&engine, store, ReleaseOwners { except: engine.owner() }).await?;
    let keys: Vec<QueueKey> = queues.iter().map(|queue| queue.key.clone()).collect();
    let settled = fleet.names.settle(shard, keys).await;
    settled.map_err(|error| format!("its names could not be compared: {error}"))?;
    let tasks = tasks.into_iter().filter(|task| task.state == TaskState::Running).collect();
    Ok(Brought { queues, tasks, newest: store.newest_instant() })
}

/// Has the other nodes give this one no shard, before it hands its own over.
async fn begin_to_leave(fleet: &Arc<Inner>) {
    if fleet.leaving.lock().insert(fleet.me.clone()) {
        fleet.tell_all(Request::Leaves(Text::from(&*fleet.me.0))).await;
    }
}

/// Takes a step in a store that no engine stands on yet.
async fn taken<A: Ask>(engine: &Engine, store: &dyn Store, input: A::Input) -> Result<Outcome, String> {
    let submission = store.step(engine.now().max(store.newest_instant()), &A::command(input));
    store.commit();
    submission.await.map_err(|error| error.to_string())
}
