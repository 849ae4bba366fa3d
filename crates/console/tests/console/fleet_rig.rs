//! Two consoles of nodes of one fleet, each over a store that keeps half of the queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kew_console::{Begun, Console, Fleet, FleetNode, FleetNow, FleetShard, OwnNode, OwnShard, Seen};
use kew_core::{QueueId, Timestamp};
use kew_engine::Options;
use kew_store::MemoryStore;
use kew_testing::{CountingEntropy, TestStore, Wrap, Wrapped, start_engine};
use parking_lot::Mutex;

use super::rig::{Parts, Rig, rig_of};

/// Keeps the queues of even or of odd numbers.
struct Half(u64);

impl Wrap<MemoryStore> for Half {
    fn keeps(&self, _store: &MemoryStore, queue: QueueId) -> bool {
        queue.0 % 2 == self.0
    }

    fn sees(&self, store: &MemoryStore, queue: QueueId) -> bool {
        self.keeps(store, queue)
    }
}

/// What the nodes share: who owns which of two shards, and who answers.
#[derive(Default)]
pub struct Shared {
    owners: Mutex<BTreeMap<u64, Option<String>>>,
    consoles: Mutex<BTreeMap<String, Console>>,
    /// Nodes that answer nothing.
    pub is_cut: AtomicBool,
    /// Questions that were answered.
    pub asked: AtomicUsize,
    pub is_leaving: AtomicBool,
    /// Shards that were moved, and those that are being moved, to the numbers of databases.
    databases: Mutex<BTreeMap<u64, u64>>,
    moving_to: Mutex<BTreeMap<u64, u64>>,
    /// A move that begins does not end.
    pub copies_slowly: AtomicBool,
}

impl Shared {
    /// Gives a shard to a node, or to none.
    pub fn own(&self, shard: u64, node: Option<&str>) {
        self.owners.lock().insert(shard, node.map(|node| format!("{node}-id")));
    }
}

/// The fleet as one node sees it.
struct View {
    shared: Arc<Shared>,
    me: &'static str,
}

impl Fleet for View {
    fn now(&self) -> FleetNow {
        let node = |name: &str| FleetNode {
            id: format!("{name}-id"),
            name: name.to_owned(),
            address: format!("{name}:9330"),
            version: "7".to_owned(),
            is_leaving: name == "b" && self.shared.is_leaving.load(Ordering::Acquire),
        };
        let owners = self.shared.owners.lock();
        let shards = owners.iter().map(|(shard, owner)| FleetShard {
            shard: *shard,
            database: self.shared.databases.lock().get(shard).copied().unwrap_or(1 + shard % 2),
            moving_to: self.shared.moving_to.lock().get(shard).copied(),
            epoch: 4,
            owner: owner.clone(),
        });
        FleetNow {
            me: format!("{}-id", self.me),
            databases: 2,
            nodes: vec![node("a"), node("b")],
            shards: shards.collect(),
        }
    }

    fn shard_of(&self, queue: QueueId) -> u64 {
        queue.0 % 2
    }

    fn own(&self) -> OwnNode {
        let now = self.now();
        let own = |row: &FleetShard| OwnShard {
            shard: row.shard,
            epoch: row.epoch,
            refusal: None,
            append_ms: Some((1.5, 20.25)),
            taken_at: Timestamp(77),
        };
        let mine = now.shards.iter().filter(|row| row.owner.as_ref() == Some(&now.me));
        OwnNode { heard: Duration::from_millis(250), shards: mine.map(own).collect() }
    }

    fn look_at(&self, node: &str, question: &str) -> Seen {
        let console = self.shared.consoles.lock().get(node).cloned();
        let (is_cut, question) = (self.shared.is_cut.load(Ordering::Acquire), question.to_owned());
        self.shared.asked.fetch_add(1, Ordering::AcqRel);
        Box::pin(async move {
            match console {
                Some(console) if !is_cut => Some(console.show_to_node(question).await),
                _ => None,
            }
        })
    }

    fn hand_over(&self, shard: u64, to: &str) -> Begun {
        self.shared.owners.lock().insert(shard, Some(to.to_owned()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn move_shard(&self, shard: u64, database: u64) -> Begun {
        self.shared.moving_to.lock().remove(&shard);
        if self.shared.copies_slowly.load(Ordering::Acquire) && database != 1 + shard % 2 {
            self.shared.moving_to.lock().insert(shard, database);
        } else {
            self.shared.databases.lock().insert(shard, database);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Two nodes: `a` keeps the queues of odd numbers and shard 1, `b` the others and shard 0.
pub async fn two() -> (Rig, Rig, Arc<Shared>) {
    let shared = Arc::<Shared>::default();
    shared.own(0, Some("b"));
    shared.own(1, Some("a"));
    let node = async |me: &'static str, kept: u64| {
        let entropy = Arc::new(CountingEntropy::default());
        let store = MemoryStore::new(Arc::clone(&entropy) as _);
        let store = TestStore::of(Arc::new(Wrapped { store, wrap: Half(kept) }));
        let engine = start_engine(&store, entropy, Options::default()).await;
        let fleet: Arc<dyn Fleet> = Arc::new(View { shared: Arc::clone(&shared), me });
        let rig = rig_of(Parts { engine: Some(engine), fleet: Some(fleet), ..Parts::default() }).await;
        shared.consoles.lock().insert(format!("{me}-id"), rig.console.clone());
        rig
    };
    let (a, b) = (node("a", 1).await, node("b", 0).await);
    // Each node knows all queues, under the same numbers.
    for name in ["one", "two"] {
        for rig in [&a, &b] {
            rig.done("POST", "/queues", &format!(r#"{{"name":"{name}"}}"#)).await;
        }
    }
    // What was asked meanwhile is good no more.
    for rig in [&a, &b] {
        *rig.clock.0.lock() += Duration::from_secs(1);
    }
    shared.asked.store(0, Ordering::Release);
    (a, b, shared)
}
