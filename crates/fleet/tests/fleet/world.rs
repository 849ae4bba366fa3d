//! A fleet in one process: nodes that reach each other by calls, and shards that outlive them in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_core::command::{Ack, CreateQueue, Lease, Send};
use kew_core::{
    AccountId, Command, NewMessage, Policy, Queue, QueueKey, ReceiptRule, ShardCount, ShardId, ShardPlace,
    Timestamp,
};
use kew_engine::{Engine, EngineError, Options, TimeSource};
use kew_fleet::{
    Agreed, Carried, Carrier, Fleet, FleetMap, Home, Keeper, Kept, Lost, Names, NodeId, NodeRow, Phase,
    ShardRow,
};
use kew_peer::Request;
use kew_store::ledger::Bounds;
use kew_store::{MemoryStore, Store, StoreError, Submission};
use kew_testing::CountingEntropy;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// What outlives the nodes: the shards, who owns them, and the names.
pub struct World {
    count: ShardCount,
    stores: Vec<Arc<MemoryStore>>,
    state: Mutex<State>,
    maps: watch::Sender<Arc<FleetMap>>,
    begun: Instant,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<NodeId, Arc<Fleet>>,
    owners: BTreeMap<ShardId, (NodeId, Arc<AtomicBool>)>,
    wanted: BTreeMap<ShardId, NodeId>,
    epochs: BTreeMap<ShardId, i64>,
    names: HashMap<QueueKey, ShardId>,
    /// Pairs of nodes that do not hear each other.
    cut: Vec<(NodeId, NodeId)>,
    /// How often nodes were cut off.
    cuts: u64,
}

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
        let count = ShardCount::new(shards).expect("a world has a shard");
        let entropy = Arc::new(CountingEntropy::default());
        let store = |shard| {
            let place = ShardPlace { shard, of: count };
            Arc::new(MemoryStore::shard(Arc::clone(&entropy) as _, Bounds::default(), place))
        };
        Arc::new(Self {
            count,
            stores: count.all().map(store).collect(),
            state: Mutex::default(),
            maps: watch::Sender::default(),
            begun: Instant::now(),
        })
    }

    /// Starts a node.
    pub async fn start(self: &Arc<Self>, name: &str) -> Node {
        let id = NodeId(name.into());
        let reach = Arc::new(Reach { world: Arc::clone(self), me: id.clone() });
        let fleet =
            Arc::new(Fleet::new(id.clone(), self.count, Arc::clone(&reach) as _, Arc::clone(&reach) as _));
        let entropy = Arc::new(CountingEntropy::from(u64::from(name.as_bytes()[0]) << 32));
        let source = Arc::new(Passing(self.begun));
        let engine = Engine::start(
            Arc::clone(&fleet) as _,
            source,
            entropy,
            Options { shards_come: true, ..Options::default() },
        )
        .await
        .expect("starts");
        fleet.serve_with(&engine);
        self.state.lock().nodes.insert(id.clone(), Arc::clone(&fleet));
        self.publish();
        let (phase, phases) = watch::channel(Phase::Staying);
        let (hands_over, handed_over) = watch::channel(false);
        let keeper = Keeper::new(&fleet, reach, |_| {});
        let mut maps = self.maps.subscribe();
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
        let nodes = state.nodes.keys().map(|id| NodeRow {
            id: id.clone(),
            name: Arc::clone(&id.0),
            address: Arc::clone(&id.0),
            version: "1".into(),
        });
        let lives = |id: &NodeId| state.nodes.contains_key(id);
        let shards = self.count.all().map(|shard| ShardRow {
            shard,
            epoch: state.epochs.get(&shard).copied().unwrap_or_default(),
            owner: state.owners.get(&shard).map(|(node, _)| node.clone()).filter(lives),
            wanted: state.wanted.get(&shard).cloned().filter(lives),
        });
        let map = FleetMap { nodes: nodes.collect(), shards: shards.collect() };
        self.maps.send_replace(Arc::new(map));
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
        state.cuts += 1;
        state.cut.push((one.id.clone(), other.id.clone()));
        state.cut.push((other.id.clone(), one.id.clone()));
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

/// Time as it passes in the test.
struct Passing(Instant);

impl TimeSource for Passing {
    fn system(&self) -> Timestamp {
        let passed = u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp(1_700_000_000_000 + passed)
    }

    fn steady(&self) -> Duration {
        self.0.elapsed()
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

impl Carrier for Reach {
    fn carry(&self, node: &NodeId, request: Request) -> Carried {
        let fleet = self.world.state.lock().nodes.get(node).cloned();
        let is_cut = self.is_cut(node);
        Box::pin(async move {
            match fleet {
                Some(fleet) if !is_cut => {
                    tokio::time::sleep(Duration::from_micros(300)).await;
                    Ok(fleet.serve(request).await)
                }
                _ => Err(Lost::NotSent),
            }
        })
    }

    fn heard_in(&self, node: &NodeId) -> Option<u64> {
        let is_cut = self.is_cut(node);
        let state = self.world.state.lock();
        (!is_cut && state.nodes.contains_key(node)).then_some(state.cuts)
    }
}

impl Names for Reach {
    fn claim(&self, shard: ShardId, key: &QueueKey) -> Agreed<ShardId> {
        let owner = *self.world.state.lock().names.entry(key.clone()).or_insert(shard);
        Box::pin(std::future::ready(Ok(owner)))
    }

    fn release(&self, shard: ShardId, key: &QueueKey) -> Agreed<()> {
        let mut state = self.world.state.lock();
        if state.names.get(key) == Some(&shard) {
            state.names.remove(key);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle(&self, shard: ShardId, keys: Vec<QueueKey>) -> Agreed<()> {
        let mut state = self.world.state.lock();
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
        let alive = Arc::new(AtomicBool::new(true));
        state.owners.insert(shard, (self.me.clone(), Arc::clone(&alive)));
        state.wanted.remove(&shard);
        *state.epochs.entry(shard).or_default() += 1;
        drop(state);
        let inner = Arc::clone(&self.world.stores[usize::from(shard.0)]);
        let store = Arc::new(Owned { inner, alive: Arc::clone(&alive) });
        let (world, watched) = (Arc::clone(&self.world), Arc::clone(&alive));
        Ok(Some(Kept {
            store,
            over: Box::new(move || {
                (!watched.load(Ordering::Acquire)).then(|| "another node owns it".to_owned())
            }),
            close: Box::new(move |to| {
                let mut state = world.state.lock();
                if alive.swap(false, Ordering::AcqRel) {
                    state.owners.remove(&shard);
                    if let Some(to) = to {
                        state.wanted.insert(shard, to.clone());
                    }
                }
                drop(state);
                world.publish();
            }),
        }))
    }
}

/// A store that answers only while its node owns it.
struct Owned {
    inner: Arc<MemoryStore>,
    alive: Arc<AtomicBool>,
}

impl Store for Owned {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        if self.alive.load(Ordering::Acquire) {
            return self.inner.step(now, command);
        }
        Submission::settled(Err(StoreError::Unavailable { cause: "it is another node's".to_owned() }))
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.inner.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.inner.newest_instant()
    }

    fn may_answer(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }
}
