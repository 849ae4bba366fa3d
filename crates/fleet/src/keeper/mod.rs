//! Shards that come to this node and leave it: by the map of the fleet, one look after the other.

mod moving;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use kew_core::{QueueId, ShardId, Text};
use kew_peer::Request;
use kew_store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::bringing::{Ready, bring, hold_expiry};
use crate::carrying::Others;
use crate::contracts::{CopiedShard, Goes, Home, Kept};
use crate::fleet::Fleet;
use crate::inner::Inner;
use crate::map::{FleetMap, MapPart, NodeId};
use crate::places::Place;
use crate::plan::{Looks, Plan};

use moving::{Moving, Tried};

/// How often it is looked whether a shard is still owned.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// Shards of one database that are opened beside each other.
const OPENS_MAX: usize = 4;
/// Shards of one database that a node which leaves closes beside each other.
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
    /// The shard was copied to another database, and is about to lie there.
    Moves(ShardId, u16),
    /// The shard could not be copied to another database; it is tried again.
    NotMoved(ShardId, u16, String),
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
    /// The shard that is being copied to another database.
    moving: Option<Moving>,
    /// Shards whose move was tried.
    tried: BTreeMap<ShardId, Tried>,
    not_before: BTreeMap<ShardId, Instant>,
    /// Shards whose names are still to be compared, and when that is tried next; `None` while it is under way.
    uncompared: BTreeMap<ShardId, Option<Instant>>,
    /// What it remembers of the shards of each database.
    looks: Vec<Looks>,
    /// Whether the others know that this node leaves, once it does.
    told_of_leaving: Option<bool>,
    begun: Instant,
    done: (mpsc::UnboundedSender<Done>, mpsc::UnboundedReceiver<Done>),
}

/// What ended beside the keeper.
enum Done {
    Opened(ShardId, Result<Option<Kept>, String>),
    Brought(ShardId, Kept, Result<Ready, String>),
    Prepared(ShardId, NodeId),
    Closed(ShardId),
    Copied(ShardId, u16, Result<CopiedShard, String>),
    GaveCopyUp,
    Compared(ShardId, Result<(), StoreError>),
    Fell(Box<dyn Any + Send>),
    ToldOfLeaving,
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
            moving: None,
            tried: BTreeMap::new(),
            not_before: BTreeMap::new(),
            uncompared: BTreeMap::new(),
            looks: Vec::new(),
            told_of_leaving: None,
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
        let mut beside = JoinSet::new();
        beside.spawn(Arc::clone(&self.fleet).stay_informed());
        beside.spawn(Arc::clone(&self.fleet).release_later());
        beside.spawn(Arc::clone(&self.fleet).carry_owed());
        beside.spawn(Arc::clone(&self.fleet).find_owners());
        loop {
            tokio::select! {
                biased;
                Some(ended) = beside.join_next() => fall(ended),
                Some(done) = self.done.1.recv() => self.done(done),
                changed = tokio::time::timeout(LOOKS_EVERY, maps.changed()) => {
                    if let Ok(Err(_)) = changed {
                        break;
                    }
                }
            }
            let map = Arc::clone(&maps.borrow_and_update());
            self.fleet.directory.map_read(&map);
            self.drop_lost();
            self.compare_names();
            self.follow(&map);
            self.fleet.note_known();
            let phase = *phase.borrow();
            self.move_what_is_wanted(&map, phase == Phase::Staying);
            match phase {
                Phase::Staying => self.act(&map),
                Phase::Leaving => {
                    if self.has_told_of_leaving() {
                        self.act(&map);
                        handed_over.send_replace(self.has_handed_over(&map));
                    }
                }
                Phase::Closing => {
                    self.end_moves();
                    self.close_all();
                }
            }
            if phase == Phase::Closing && self.opening.is_empty() && self.closing.is_empty() {
                break;
            }
        }
    }

    /// Has the other nodes give this one no shard, before it hands its own over. Whether they know.
    fn has_told_of_leaving(&mut self) -> bool {
        if self.told_of_leaving.is_none() {
            self.told_of_leaving = Some(false);
            let (fleet, done) = (Arc::clone(&self.fleet), self.done.0.clone());
            fleet.note_leaving(fleet.me.clone());
            tokio::spawn(async move {
                fleet.tell_all(Request::Leaves(Text::from(&*fleet.me.0))).await;
                // The keeper may have ended meanwhile.
                let _told = done.send(Done::ToldOfLeaving);
            });
        }
        self.told_of_leaving == Some(true)
    }

    /// Whether a node that leaves has nothing more to hand over.
    fn has_handed_over(&self, map: &FleetMap) -> bool {
        // Nodes that leave too take nothing.
        let leaving = self.fleet.leaving(map);
        let is_alone =
            |shard: &ShardId| map.part_of(*shard).nodes.iter().all(|node| leaving.contains(&node.id));
        let stays = |shard: &ShardId| map.is_beside_silence(map.part_of(*shard)) || is_alone(shard);
        self.opening.is_empty() && self.closing.is_empty() && self.kept.keys().all(stays)
    }

    /// Shards that are owned no more.
    fn drop_lost(&mut self) {
        let lost = self.kept.iter().filter_map(|(shard, kept)| (kept.over)().map(|why| (*shard, why)));
        for (shard, why) in lost.collect::<Vec<_>>() {
            self.close(shard, Goes::Free);
            (self.tell)(ShardNews::Lost(shard, why));
        }
        let kept = self.kept.keys().copied();
        let instead = kept.filter_map(|shard| self.fleet.kept_instead(shard).map(|node| (shard, node)));
        for (shard, node) in instead.collect::<Vec<_>>() {
            self.close(shard, Goes::Free);
            let why = format!("the shard's database does not answer this node, and {node} keeps it");
            (self.tell)(ShardNews::Lost(shard, why));
        }
    }

    /// Notes where the other shards are.
    fn follow(&mut self, map: &Arc<FleetMap>) {
        *self.fleet.map.write() = Arc::clone(map);
        for part in map.parts() {
            let is_fresh = part.is_fresh();
            for row in part.shards.iter().filter(|row| !self.kept.contains_key(&row.shard)) {
                // What its owner says itself is newer than a database that is silent.
                let found = if is_fresh { None } else { self.fleet.found(row.shard) };
                let place = match found.as_ref().or(row.owner.as_ref()) {
                    Some(node) if *node != self.fleet.me => Place::At(node.clone()),
                    _ => Place::Nowhere,
                };
                self.fleet.places.set_if_other(row.shard, place);
            }
        }
    }

    fn act(&mut self, map: &FleetMap) {
        let now = self.begun.elapsed();
        let leaving = self.fleet.leaving(map);
        let plans = self.plans(map, &leaving, now);
        for shard in plans.iter().flat_map(|plan| &plan.take).copied() {
            let is_early = self.not_before.get(&shard).is_some_and(|at| Instant::now() < *at);
            let is_busy = self.kept.contains_key(&shard) || self.closing.contains(&shard);
            let has_room = beside_it(&self.opening, map, shard) < OPENS_MAX;
            if is_early || is_busy || !has_room || !self.opening.insert(shard) {
                continue;
            }
            let home = Arc::clone(&self.home);
            // A shard that comes when the keeper has ended is given up by its drop.
            self.beside(move || Done::Opened(shard, home.take(shard)));
        }
        let leaves = leaving.contains(&self.fleet.me);
        if !leaves {
            self.obey(map, &leaving);
        }
        let room = if leaves { CLOSES_MAX } else { 1 };
        for (shard, to) in plans.into_iter().flat_map(|plan| plan.hand_over) {
            // What was copied of a shard that is moved would be in vain.
            if self.is_moving(shard) && !leaves {
                continue;
            }
            if beside_it(&self.closing, map, shard) < room && !self.closing.contains(&shard) {
                self.prepare(shard, to);
            }
        }
    }

    /// What is to be done with the shards of each database.
    fn plans(&mut self, map: &FleetMap, leaving: &BTreeSet<NodeId>, now: Duration) -> Vec<Plan> {
        self.looks.resize_with(map.parts().len(), Looks::default);
        let mut lying = vec![0; map.parts().len()];
        self.fleet.places.count.all().for_each(|shard| lying[map.database_of(shard)] += 1);
        let mut before = 0;
        for (looks, lie) in self.looks.iter_mut().zip(lying) {
            looks.note_before(before);
            before += lie;
        }
        let each = self.looks.iter_mut().zip(map.parts());
        let plan = |(looks, part): (&mut Looks, &MapPart)| {
            looks.note(part, &self.fleet.by_hand, now);
            let plan = looks.plan(part, &self.fleet.me, leaving, now);
            // What is done in a database that is silent fails after a while.
            if map.is_beside_silence(part) { Plan::default() } else { plan }
        };
        each.map(plan).collect()
    }

    /// Hands over what an operator wants to be elsewhere.
    fn obey(&mut self, map: &FleetMap, leaving: &BTreeSet<NodeId>) {
        let orders = std::mem::take(&mut *self.fleet.orders.lock());
        for (shard, to) in orders {
            let may_have_it = map.part_of(shard).node(&to).is_some() && !leaving.contains(&to);
            if may_have_it && !self.closing.contains(&shard) {
                self.prepare(shard, to);
            }
        }
    }

    /// Has a shard ready to be closed in a moment, while it is served. Then it is handed over.
    fn prepare(&mut self, shard: ShardId, to: NodeId) {
        let Some(kept) = self.kept.get(&shard) else { return };
        self.closing.insert(shard);
        let prepare = Arc::clone(&kept.prepare);
        self.beside(move || {
            prepare();
            Done::Prepared(shard, to)
        });
    }

    /// Does on another thread what may take long. The keeper falls with it if it panics.
    fn beside(&self, work: impl FnOnce() -> Done + Send + 'static) {
        let done = self.done.0.clone();
        tokio::task::spawn_blocking(move || {
            let did = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(Done::Fell);
            // The keeper may have ended meanwhile.
            let _told = done.send(did);
        });
    }

    fn hand_over(&mut self, shard: ShardId, to: NodeId) {
        // It may be lost, or closed since the node ends.
        if !self.kept.contains_key(&shard) {
            return;
        }
        if self.fleet.map.read().part_of(shard).node(&to).is_none() {
            // It died meanwhile: the next plan knows.
            self.closing.remove(&shard);
            return;
        }
        self.close(shard, Goes::To(to.clone()));
        (self.tell)(ShardNews::Left(shard, Some(to)));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Closed(shard) => {
                self.closing.remove(&shard);
                self.wait_with_move(shard);
            }
            Done::Copied(shard, database, copied) => self.copied(shard, database, copied),
            Done::GaveCopyUp => {}
            Done::Fell(panic) => resume_unwind(panic),
            Done::Compared(shard, compared) => self.compared(shard, compared),
            Done::Prepared(shard, to) => self.hand_over(shard, to),
            Done::ToldOfLeaving => self.told_of_leaving = Some(true),
            // It goes on counting as being opened until it is ready.
            Done::Opened(shard, Ok(Some(kept))) => {
                kept.store.know_others(Arc::new(Others(Arc::downgrade(&self.fleet))));
                let (fleet, store) = (Arc::clone(&self.fleet), Arc::clone(&kept.store));
                let done = self.done.0.clone();
                let brought = tokio::spawn(bring(fleet, shard, store));
                tokio::spawn(async move {
                    let did = match brought.await.map_err(JoinError::try_into_panic) {
                        Ok(brought) => Done::Brought(shard, kept, brought),
                        Err(Ok(panic)) => Done::Fell(panic),
                        // The runtime ends.
                        Err(Err(_cancelled)) => return,
                    };
                    // The keeper may have ended meanwhile.
                    let _told = done.send(did);
                });
            }
            Done::Brought(shard, kept, Ok(ready)) => {
                self.opening.remove(&shard);
                self.kept.insert(shard, kept);
                self.came(shard, ready);
            }
            Done::Brought(shard, kept, Err(why)) => {
                self.opening.remove(&shard);
                self.kept.insert(shard, kept);
                self.close(shard, Goes::Free);
                self.not_opened(shard, why);
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

    /// This node serves a shard from now on.
    fn came(&mut self, shard: ShardId, ready: Ready) {
        let Some(engine) = self.fleet.engine() else { return };
        let Ready { store, mut brought, is_compared } = ready;
        if !is_compared {
            self.uncompared.insert(shard, Some(Instant::now()));
        }
        // Once more: the clock may have leapt since the shard was opened.
        brought.hold = hold_expiry(&engine, &*store);
        self.fleet.places.set(shard, Place::Here(store));
        engine.shard_came(&brought, self.is_of(shard));
        self.fleet.owed.notify_one();
        (self.tell)(ShardNews::Came(shard));
    }

    /// Has the names of shards compared whose names were out of reach when they came.
    fn compare_names(&mut self) {
        let kept = &self.kept;
        self.uncompared.retain(|shard, _| kept.contains_key(shard));
        for (shard, next) in &mut self.uncompared {
            if next.is_none_or(|next| Instant::now() < next) {
                continue;
            }
            *next = None;
            let (fleet, done, shard) = (Arc::clone(&self.fleet), self.done.0.clone(), *shard);
            tokio::spawn(async move {
                let compared = fleet.compare_names(shard).await;
                // The keeper may have ended meanwhile.
                let _told = done.send(Done::Compared(shard, compared));
            });
        }
    }

    fn compared(&mut self, shard: ShardId, compared: Result<(), StoreError>) {
        match compared {
            Ok(()) => drop(self.uncompared.remove(&shard)),
            Err(StoreError::Unavailable { .. }) => {
                let next = Instant::now() + TRIES_AGAIN;
                self.uncompared.entry(shard).and_modify(|due| *due = Some(next));
            }
            Err(error) => {
                self.close(shard, Goes::Free);
                self.not_opened(shard, format!("its names could not be compared: {error}"));
            }
        }
    }

    fn not_opened(&mut self, shard: ShardId, why: String) {
        self.not_before.insert(shard, Instant::now() + TRIES_AGAIN);
        (self.tell)(ShardNews::NotOpened(shard, why));
    }

    fn close_all(&mut self) {
        for shard in self.kept.keys().copied().collect::<Vec<_>>() {
            self.close(shard, Goes::Free);
        }
    }

    /// Closes the store of a shard beside everything else, and gives the shard away.
    fn close(&mut self, shard: ShardId, goes: Goes) {
        let Some(kept) = self.kept.remove(&shard) else { return };
        self.part_with(shard);
        self.closing.insert(shard);
        self.beside(move || {
            (kept.close)(goes);
            Done::Closed(shard)
        });
    }

    /// Steps of the shard wait for another owner from now on.
    fn part_with(&self, shard: ShardId) {
        // One that did not come was never shown here.
        if self.fleet.places.is_here(shard) {
            self.fleet.note_left(shard);
        }
        self.fleet.places.set(shard, Place::Nowhere);
        self.fleet.holds.forget(shard);
        self.fleet.resting.forget(shard);
        if let Some(engine) = self.fleet.engine() {
            engine.shard_left(self.is_of(shard));
        }
    }

    fn is_of(&self, shard: ShardId) -> impl Fn(QueueId) -> bool + use<> {
        let count = self.fleet.places.count;
        move |queue| count.of_queue(queue) == shard
    }
}

/// How many of these shards lie in the same database as one: what is done in a silent one takes long, and holds no
/// other up.
fn beside_it(shards: &BTreeSet<ShardId>, map: &FleetMap, shard: ShardId) -> usize {
    shards.iter().filter(|other| map.database_of(**other) == map.database_of(shard)).count()
}

/// A task without which the node knows less and less has ended: the keeper ends with it, and so does the node.
fn fall(ended: Result<(), JoinError>) {
    match ended.map_err(JoinError::try_into_panic) {
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime ends.
        Err(Err(_cancelled)) => {}
        Ok(()) => unreachable!("it goes on for as long as it is polled"),
    }
}
