//! A fleet in one process: nodes that reach each other by calls, and shards that outlive them in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use kew_core::command::{Ack, CreateQueue, Lease, Send};
use kew_core::rules::retention::ExpiryHold;
use kew_core::{
    AccountId, Command, NewMessage, Policy, Queue, QueueKey, ReceiptRule, ShardCount, ShardId, ShardPlace,
    Timestamp,
};
use kew_engine::{Engine, EngineError, Options, TimeSource};
use kew_fleet::{
    Agreed, Carried, Carrier, CopiedShard, Fleet, FleetMap, Goes, Home, Keeper, Kept, Lost, MapPart, Names,
    NodeId, NodeRow, Phase, ShardRow,
};
use kew_peer::Request;
use kew_store::ledger::Bounds;
use kew_store::{BatchNumber, Elsewhere, Gate, MemoryStore, Store, StoreError, Submission};
use kew_testing::CountingEntropy;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// What outlives the nodes: the shards, who owns them, and the names.
pub struct World {
    count: ShardCount,
    databases: u16,
    stores: Vec<Arc<MemoryStore>>,
    state: Mutex<State>,
    begun: Instant,
    /// Milliseconds that the database's clock has leapt ahead.
    leapt: AtomicU64,
    /// Whether answers to claims of names are under way for as long as this holds.
    claims_late: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<NodeId, Arc<Fleet>>,
    owners: BTreeMap<ShardId, (NodeId, Arc<AtomicBool>)>,
    wanted: BTreeMap<ShardId, NodeId>,
    epochs: BTreeMap<ShardId, i64>,
    /// The databases of shards that were moved, and how often they were.
    lies: BTreeMap<ShardId, (u16, i32)>,
    /// The databases that shards are wanted in.
    wanted_in: BTreeMap<ShardId, u16>,
    names: HashMap<QueueKey, ShardId>,
    /// Claims of names are not answered, and carried out this much later.
    claims_lost: Option<Duration>,
    /// Names are not released just now.
    keeps_names: bool,
    /// What each node sees of the map, and those that see nothing new.
    maps: BTreeMap<NodeId, watch::Sender<Arc<FleetMap>>>,
    blind: Vec<(NodeId, u16)>,
    /// Nodes that a database hears of no more, and those it has not heard of yet.
    unheard: Vec<(NodeId, u16)>,
    /// What is wrong with shards.
    faults: BTreeMap<ShardId, Arc<Faults>>,
    /// Pairs of nodes that do not hear each other.
    cut: Vec<(NodeId, NodeId)>,
    /// How often two nodes were cut off from each other.
    cuts: BTreeMap<(NodeId, NodeId), u64>,
}

impl State {
    fn database_of(&self, shard: ShardId, databases: u16) -> u16 {
        self.lies.get(&shard).map_or(shard.0 % databases, |(database, _)| *database)
    }
}

/// What is wrong with a shard.
#[derive(Default)]
pub struct Faults {
    /// It may not answer just now, as one whose row is locked.
    pub stalled: AtomicBool,
    /// No node takes it, although none owns it.
    pub untaken: AtomicBool,
    /// Its names are not compared just now: that fails after a while.
    pub unsettled: AtomicBool,
    /// Its commits take as long as this is held.
    pub commits: Mutex<()>,
    /// How often it was committed.
    pub committed: AtomicUsize,
    /// What is done at each step, if anything.
    pub at_step: Mutex<Option<AtStep>>,
    /// What is done while it is made ready for another node, if anything.
    pub at_prepare: Mutex<Option<AtPrepare>>,
    /// How it refuses every queue that is made, changed or deleted, if it does.
    pub refuses: Mutex<Option<StoreError>>,
    /// It carries out every queue that is made, changed or deleted, and answers that it is not known whether it did.
    pub unsaid: AtomicBool,
    /// Why it cannot be copied to another database, if so.
    pub cannot_copy: Mutex<Option<String>>,
}

/// Called with each command that a shard takes.
pub type AtStep = Box<dyn Fn(&Command) + std::marker::Send>;
/// Called when a shard is made ready for another node.
pub type AtPrepare = Box<dyn Fn() + std::marker::Send>;

/// A node that runs.
pub struct Node {
    pub id: NodeId,
    pub engine: Arc<Engine>,
    pub fleet: Arc<Fleet>,
    phase: watch::Sender<Phase>,
    handed_over: watch::Receiver<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    keeper: tokio::task::JoinHandle<()>,
}

impl World {
    pub fn of(shards: u16) -> Arc<Self> {
        Self::over(shards, 1)
    }

    /// The same, with the shards spread over several databases.
    pub fn over(shards: u16, databases: u16) -> Arc<Self> {
        let count = ShardCount::new(shards).expect("a world has a shard");
        let entropy = Arc::new(CountingEntropy::default());
        let store = |shard| {
            let place = ShardPlace { shard, of: count };
            Arc::new(MemoryStore::shard(Arc::clone(&entropy) as _, Bounds::default(), place))
        };
        Arc::new(Self {
            count,
            databases,
            stores: count.all().map(store).collect(),
            state: Mutex::default(),
            begun: Instant::now(),
            leapt: AtomicU64::new(0),
            claims_late: watch::Sender::new(false),
        })
    }

    /// What the database's clock shows.
    pub fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp(1_700_000_000_000 + passed + self.leapt.load(Ordering::Acquire))
    }

    /// The database's clock leaps ahead.
    pub fn leap(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.leapt.fetch_add(by, Ordering::AcqRel);
    }

    /// Starts a node.
    pub async fn start(self: &Arc<Self>, name: &str) -> Node {
        let id = NodeId(name.into());
        let reach = Arc::new(Reach { world: Arc::clone(self), me: id.clone() });
        let fleet =
            Arc::new(Fleet::new(id.clone(), self.count, Arc::clone(&reach) as _, Arc::clone(&reach) as _));
        let entropy = Arc::new(CountingEntropy::from(u64::from(name.as_bytes()[0]) << 32));
        let source = Arc::new(Passing(Arc::clone(self)));
        let engine = Engine::start(
            Arc::clone(&fleet) as _,
            source,
            entropy,
            Options { shards_come: true, ..Options::default() },
        )
        .await
        .expect("starts");
        fleet.serve_with(&engine);
        let (sender, mut maps) = watch::channel(Arc::new(FleetMap::of_databases(self.databases)));
        {
            let mut state = self.state.lock();
            state.nodes.insert(id.clone(), Arc::clone(&fleet));
            state.maps.insert(id.clone(), sender);
        }
        self.publish();
        let (phase, phases) = watch::channel(Phase::Staying);
        let (hands_over, handed_over) = watch::channel(false);
        let keeper = Keeper::new(&fleet, reach, |_| {});
        maps.mark_changed();
        let keeper = tokio::spawn(keeper.run(maps, phases, hands_over));
        let (timers, moves) = (Arc::clone(&engine), Arc::clone(&engine));
        let tasks = vec![
            tokio::spawn(async move { timers.run_timers().await }),
            tokio::spawn(async move { moves.run_moves().await }),
        ];
        Node { id, engine, fleet, phase, handed_over, tasks, keeper }
    }

    /// Shows the map as it is now, as each node reads it twice a second.
    pub fn publish(&self) {
        let state = self.state.lock();
        for database in 0..self.databases {
            let part = self.part(&state, database);
            let sees = |node: &NodeId| !state.blind.contains(&(node.clone(), database));
            for (_, maps) in state.maps.iter().filter(|(node, _)| sees(node)) {
                maps.send_modify(|map| *map = Arc::new(map.with(database, part.clone())));
            }
        }
    }

    /// What a database says.
    fn part(&self, state: &State, database: u16) -> MapPart {
        let lives =
            |id: &NodeId| state.nodes.contains_key(id) && !state.unheard.contains(&(id.clone(), database));
        let nodes = state.nodes.keys().filter(|id| lives(id)).map(|id| NodeRow {
            id: id.clone(),
            name: Arc::clone(&id.0),
            address: Arc::clone(&id.0),
            version: "1".into(),
        });
        let lies = |shard: &ShardId| state.database_of(*shard, self.databases) == database;
        let shards = self.count.all().filter(lies);
        let shards = shards.map(|shard| ShardRow {
            shard,
            epoch: state.epochs.get(&shard).copied().unwrap_or_default(),
            owner: state.owners.get(&shard).map(|(node, _)| node.clone()).filter(lives),
            wanted: state.wanted.get(&shard).cloned().filter(lives),
            moves: state.lies.get(&shard).map_or(0, |(_, moves)| *moves),
            wanted_in: state.wanted_in.get(&shard).copied(),
        });
        let (nodes, shards, read_at) = (nodes.collect(), shards.collect(), Some(Instant::now()));
        MapPart { nodes, shards, read_at, ..MapPart::default() }
    }

    /// The number of the database that a shard lies in.
    pub fn database_of(&self, shard: ShardId) -> u16 {
        self.state.lock().database_of(shard, self.databases)
    }

    /// An operator wants a shard to be in a database, or where it is.
    pub fn want_in(&self, shard: ShardId, database: Option<u16>) {
        let mut state = self.state.lock();
        match database {
            Some(database) => drop(state.wanted_in.insert(shard, database)),
            None => drop(state.wanted_in.remove(&shard)),
        }
    }

    /// A node sees nothing new of the map from now on, though it goes on being shown the old one.
    pub fn blind(&self, node: &Node) {
        let each = (0..self.databases).map(|database| (node.id.clone(), database));
        self.state.lock().blind.extend(each);
    }

    /// A database and a node hear nothing of each other for longer than an owner may answer: it owns nothing there.
    pub fn silence(&self, node: &Node, database: u16) {
        let mut state = self.state.lock();
        state.blind.push((node.id.clone(), database));
        state.unheard.push((node.id.clone(), database));
        for (shard, (owner, alive)) in &state.owners {
            if *owner == node.id && state.database_of(*shard, self.databases) == database {
                alive.store(false, Ordering::Release);
            }
        }
        state.owners.retain(|_, (_, alive)| alive.load(Ordering::Acquire));
    }

    /// They hear of each other again.
    pub fn hear(&self, node: &Node, database: u16) {
        let mut state = self.state.lock();
        let both = (node.id.clone(), database);
        state.blind.retain(|blind| *blind != both);
        state.unheard.retain(|unheard| *unheard != both);
    }

    /// Shows a node the map again that it has.
    pub fn show_again(&self, node: &Node) {
        if let Some(maps) = self.state.lock().maps.get(&node.id) {
            maps.send_modify(|_| {});
        }
    }

    /// The owner of a shard owns it no more; it is kept for another node.
    pub fn give(&self, shard: ShardId, to: &Node) {
        let mut state = self.state.lock();
        if let Some((_, alive)) = state.owners.remove(&shard) {
            alive.store(false, Ordering::Release);
        }
        state.wanted.insert(shard, to.id.clone());
        drop(state);
        self.publish();
    }

    /// Names cannot be released, or can again.
    pub fn keep_names(&self, keeps: bool) {
        self.state.lock().keeps_names = keeps;
    }

    /// Claims of names are carried out at once, and answered when this ends.
    pub fn answer_claims_late(&self, late: bool) {
        self.claims_late.send_replace(late);
    }

    /// Claims of names are not answered from now on, and carried out this much later. `None` ends that.
    pub fn lose_claims(&self, late: Option<Duration>) {
        self.state.lock().claims_lost = late;
    }

    /// A shard has a name of no queue, as one has whose owner ended between two steps.
    pub fn leave_name(&self, name: &str, shard: ShardId) {
        self.state.lock().names.insert(key(name), shard);
    }

    /// Which shard has a name.
    pub fn named(&self, name: &str) -> Option<ShardId> {
        self.state.lock().names.get(&key(name)).copied()
    }

    /// What is wrong with a shard.
    pub fn faults(&self, shard: ShardId) -> Arc<Faults> {
        Arc::clone(self.state.lock().faults.entry(shard).or_default())
    }

    /// The store of a shard, behind whatever owns it.
    pub fn store(&self, shard: ShardId) -> &MemoryStore {
        &self.stores[usize::from(shard.0)]
    }

    /// Reads the map again and again, as a database's renewals do.
    pub fn keep_publishing(self: &Arc<Self>) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(500)).await;
                world.publish();
            }
        });
    }

    /// Two nodes do not hear each other from now on.
    pub fn cut(&self, one: &Node, other: &Node) {
        let mut state = self.state.lock();
        for pair in [(&one.id, &other.id), (&other.id, &one.id)] {
            let pair = (pair.0.clone(), pair.1.clone());
            *state.cuts.entry(pair.clone()).or_default() += 1;
            state.cut.push(pair);
        }
    }

    /// All nodes hear each other again.
    pub fn mend(&self) {
        self.state.lock().cut.clear();
    }

    /// How many shards each node owns.
    pub fn owned(&self) -> Vec<usize> {
        let state = self.state.lock();
        let owned = |id: &NodeId| state.owners.values().filter(|(owner, _)| owner == id).count();
        state.nodes.keys().map(owned).collect()
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < end, "it never came: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until each shard is kept and each node knows all queues.
    pub async fn settled(&self, nodes: &[&Node]) {
        let all = usize::from(self.count.get());
        self.until("each shard is kept and known", || {
            nodes.iter().map(|node| node.fleet.kept().len()).sum::<usize>() == all
                && nodes.iter().all(|node| node.fleet.knows_all())
        })
        .await;
    }
}

impl Node {
    /// Ends it as a crash does: its shards are free at once, and what it still does counts for nothing.
    pub fn kill(self, world: &World) {
        let mut state = world.state.lock();
        state.nodes.remove(&self.id);
        for (owner, alive) in state.owners.values() {
            if *owner == self.id {
                alive.store(false, Ordering::Release);
            }
        }
        drop(state);
        self.keeper.abort();
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        world.publish();
    }

    /// Ends it in order.
    pub async fn leave(mut self, world: &World) {
        self.phase.send_replace(Phase::Leaving);
        self.handed_over.wait_for(|done| *done).await.expect("the keeper runs");
        self.phase.send_replace(Phase::Closing);
        self.keeper.await.expect("the keeper ends in order");
        self.engine.shutdown();
        world.state.lock().nodes.remove(&self.id);
        world.publish();
    }

    pub async fn make(&self, name: &str) -> Result<Arc<Queue>, EngineError> {
        self.make_with(name, Policy::standard()).await
    }

    pub async fn make_with(&self, name: &str, policy: Policy) -> Result<Arc<Queue>, EngineError> {
        let create = CreateQueue { key: key(name), policy, documents: Vec::new() };
        self.engine.create_queue(create).await
    }

    pub fn finds(&self, name: &str) -> Option<Arc<Queue>> {
        self.engine.queue(&key(name))
    }

    pub async fn send(&self, queue: &Queue, body: &'static str) -> Result<(), EngineError> {
        let message = NewMessage::text(self.engine.message_id(), body);
        let send = Send {
            queue: queue.id,
            messages: vec![message],
            receipts: kew_core::command::FirstReceipts::Untold,
        };
        self.engine.send(send).await.map(drop)
    }

    /// Receives one message, deletes it, and says what it was.
    pub async fn take(&self, queue: &Queue, wait: Duration) -> Result<Option<String>, EngineError> {
        let lease = Lease::of(queue.id, 1, self.engine.now());
        let Some(leased) = self.engine.lease_waiting(lease, wait).await?.pop() else { return Ok(None) };
        let ack = Ack { queue: queue.id, receipt: ReceiptRule::Any, tokens: vec![leased.token] };
        let acked = self.engine.ack(ack).await?.pop().expect("an ack answers each receipt");
        acked?;
        Ok(Some(String::from_utf8_lossy(&leased.message.content.body).into_owned()))
    }
}

pub fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(1), "r", name)
}

/// Time as it passes in the test, by the database's clock.
struct Passing(Arc<World>);

impl TimeSource for Passing {
    fn system(&self) -> Timestamp {
        self.0.now()
    }

    fn steady(&self) -> Duration {
        self.0.begun.elapsed()
    }
}

/// What one node reaches.
struct Reach {
    world: Arc<World>,
    me: NodeId,
}

impl Reach {
    fn is_cut(&self, node: &NodeId) -> bool {
        self.world.state.lock().cut.contains(&(self.me.clone(), node.clone()))
    }
}

/// How long a node waits for an answer about a name.
const NAMES_WAITED_FOR: Duration = Duration::from_secs(5);

/// What is said of a database that does not answer.
fn silent<T: std::marker::Send + 'static>() -> Agreed<T> {
    let cause = "the database is away".to_owned();
    Box::pin(std::future::ready(Err(StoreError::Unavailable { cause })))
}

/// What a node hears of names whose database it does not hear: nothing, for as long as it waits.
fn no_names<T: std::marker::Send + 'static>() -> Agreed<T> {
    Box::pin(async {
        tokio::time::sleep(NAMES_WAITED_FOR).await;
        silent().await
    })
}

impl Reach {
    /// Names are in the first database.
    fn hears_no_names(&self) -> bool {
        self.world.state.lock().unheard.contains(&(self.me.clone(), 0))
    }
}

impl Carrier for Reach {
    fn carry(&self, node: &NodeId, request: Request) -> Carried {
        let fleet = self.world.state.lock().nodes.get(node).cloned();
        let (is_cut, me) = (self.is_cut(node), self.me.clone());
        Box::pin(async move {
            match fleet {
                Some(fleet) if !is_cut => {
                    tokio::time::sleep(Duration::from_micros(300)).await;
                    Ok(fleet.serve(&me, request).await)
                }
                _ => Err(Lost::NotSent),
            }
        })
    }

    fn heard_in(&self, node: &NodeId) -> Option<u64> {
        let is_cut = self.is_cut(node);
        let state = self.world.state.lock();
        let cuts = state.cuts.get(&(self.me.clone(), node.clone())).copied().unwrap_or_default();
        (!is_cut && state.nodes.contains_key(node)).then_some(cuts)
    }
}

impl Names for Reach {
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        if self.hears_no_names() {
            return no_names();
        }
        let lost = self.world.state.lock().claims_lost;
        if let Some(late) = lost {
            let (world, key) = (Arc::clone(&self.world), key.clone());
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                world.state.lock().names.entry(key).or_insert(shard);
            });
            return silent();
        }
        let owner = *self.world.state.lock().names.entry(key.clone()).or_insert(shard);
        let mut late = self.world.claims_late.subscribe();
        Box::pin(async move {
            late.wait_for(|late| !late).await.expect("the world outlives its nodes");
            Ok(owner)
        })
    }

    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()> {
        if self.hears_no_names() {
            return no_names();
        }
        let mut state = self.world.state.lock();
        if state.keeps_names {
            return silent();
        }
        if state.names.get(key) == Some(&shard) {
            state.names.remove(key);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle(&self, shard: ShardId, keys: Vec<QueueKey>) -> Agreed<()> {
        if self.hears_no_names() {
            return no_names();
        }
        if self.world.faults(shard).unsettled.load(Ordering::Acquire) {
            return Box::pin(async {
                tokio::time::sleep(Duration::from_millis(800)).await;
                silent().await
            });
        }
        let mut state = self.world.state.lock();
        let other = |key: &QueueKey| state.names.get(key).copied().filter(|owner| *owner != shard);
        if let Some(owner) = keys.iter().find_map(other) {
            let what = format!("the name of a queue in shard {shard} is in shard {owner}");
            return Box::pin(std::future::ready(Err(StoreError::Damaged { what })));
        }
        state.names.retain(|_, owner| *owner != shard);
        state.names.extend(keys.into_iter().map(|key| (key, shard)));
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Home for Reach {
    fn take(&self, shard: ShardId) -> Result<Option<Kept>, String> {
        let mut state = self.world.state.lock();
        if state.owners.get(&shard).is_some_and(|(owner, _)| state.nodes.contains_key(owner)) {
            return Ok(None);
        }
        if !state.nodes.contains_key(&self.me) {
            return Err("the node is dead".to_owned());
        }
        let lies = state.database_of(shard, self.world.databases);
        if state.unheard.contains(&(self.me.clone(), lies)) {
            return Err("the database is silent".to_owned());
        }
        if state.faults.entry(shard).or_default().untaken.load(Ordering::Acquire) {
            return Ok(None);
        }
        let alive = Arc::new(AtomicBool::new(true));
        state.owners.insert(shard, (self.me.clone(), Arc::clone(&alive)));
        state.wanted.remove(&shard);
        *state.epochs.entry(shard).or_default() += 1;
        let faults = Arc::clone(state.faults.entry(shard).or_default());
        drop(state);
        let inner = Arc::clone(&self.world.stores[usize::from(shard.0)]);
        let (prepared, copied) = (Arc::clone(&faults), Arc::clone(&faults));
        let (mover, me) = (Arc::clone(&self.world), self.me.clone());
        let store = Arc::new(Owned { inner, alive: Arc::clone(&alive), faults });
        let (world, watched) = (Arc::clone(&self.world), Arc::clone(&alive));
        Ok(Some(Kept {
            store,
            over: Box::new(move || {
                (!watched.load(Ordering::Acquire)).then(|| "another node owns it".to_owned())
            }),
            prepare: Arc::new(move || {
                if let Some(at_prepare) = &*prepared.at_prepare.lock() {
                    at_prepare();
                }
            }),
            copy_to: Arc::new(move |database, goes_on| {
                if let Some(why) = copied.cannot_copy.lock().clone() {
                    return Err(why);
                }
                if !goes_on.load(Ordering::Acquire) {
                    return Err("it is not wanted any more".to_owned());
                }
                let (world, me) = (Arc::clone(&mover), me.clone());
                let finish = move || {
                    let mut state = world.state.lock();
                    let moves = state.lies.get(&shard).map_or(0, |(_, moves)| *moves);
                    state.lies.insert(shard, (database, moves + 1));
                    state.wanted_in.remove(&shard);
                    state.wanted.insert(shard, me);
                    Ok(())
                };
                Ok(CopiedShard { finish: Box::new(finish), give_up: Box::new(|| {}) })
            }),
            close: Box::new(move |goes| {
                let mut state = world.state.lock();
                let is_owned = alive.swap(false, Ordering::AcqRel);
                if is_owned {
                    state.owners.remove(&shard);
                }
                drop(state);
                match goes {
                    Goes::To(to) if is_owned => drop(world.state.lock().wanted.insert(shard, to)),
                    Goes::Moved(copied) if is_owned => (copied.finish)().expect("nothing is in its way"),
                    _ => {}
                }
                world.publish();
            }),
        }))
    }
}

/// What was applied may last or not.
struct Broken;

impl Gate for Broken {
    fn poll_open(&self, _: u64, _: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        Poll::Ready(Err(StoreError::Unavailable { cause: "the outcome is not known".to_owned() }))
    }
}

/// A store that answers only while its node owns it.
struct Owned {
    inner: Arc<MemoryStore>,
    alive: Arc<AtomicBool>,
    faults: Arc<Faults>,
}

impl Store for Owned {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        if let Some(at_step) = &*self.faults.at_step.lock() {
            at_step(command);
        }
        let defines =
            matches!(command, Command::CreateQueue(_) | Command::UpdateQueue(_) | Command::DeleteQueue(_));
        if let Some(error) = self.faults.refuses.lock().clone().filter(|_| defines) {
            return Submission::settled(Err(error));
        }
        if self.may_answer() {
            let submission = self.inner.step(now, command);
            if defines && self.faults.unsaid.load(Ordering::Acquire) {
                let outcome = submission.peek().cloned().expect("the step is carried out");
                return Submission::applied(outcome, BatchNumber::FIRST, Arc::new(Broken))
                    .freeing(submission.freed);
            }
            return submission;
        }
        Submission::settled(Err(StoreError::Unavailable { cause: "it is another node's".to_owned() }))
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.inner.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.inner.newest_instant()
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.inner.expiry_hold()
    }

    fn commit(&self) -> bool {
        let _takes_so_long = self.faults.commits.lock();
        self.faults.committed.fetch_add(1, Ordering::AcqRel);
        true
    }

    fn commit_at_once(&self, _may_sync: bool) -> bool {
        if self.faults.commits.try_lock().is_none() {
            return false;
        }
        self.commit()
    }

    fn may_answer(&self) -> bool {
        self.alive.load(Ordering::Acquire) && !self.faults.stalled.load(Ordering::Acquire)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.inner.know_others(elsewhere);
    }
}
