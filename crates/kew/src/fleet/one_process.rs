//! The shards of one process as the console shows them: one node, which keeps all of them.

use std::sync::Arc;
use std::time::Duration;

use kew_console::{Begun, FleetNode, FleetNow, FleetShard, OwnNode, OwnShard, Seen};
use kew_core::{QueueId, Timestamp};
use kew_fleet::Fleet;
use kew_http::Histogram;
use kew_store::Store;

/// What the console reads of the shards of a process.
pub struct ShownProcess {
    /// Of the loop that the console asks.
    fleet: Arc<Fleet>,
    /// The store of each shard, and how long its syncs take.
    shards: Vec<(Arc<dyn Store>, Arc<Histogram>)>,
    node: String,
    since: Timestamp,
}

impl ShownProcess {
    /// The shards of a process that is called `node` and serves since an instant.
    pub fn new(
        (fleets, stores): (&[Arc<Fleet>], Vec<Arc<dyn Store>>),
        syncs: Vec<Arc<Histogram>>,
        node: &str,
        since: Timestamp,
    ) -> Self {
        let fleet = Arc::clone(fleets.first().expect("a process has at least one event loop"));
        Self { fleet, shards: stores.into_iter().zip(syncs).collect(), node: node.to_owned(), since }
    }
}

impl kew_console::Fleet for ShownProcess {
    fn now(&self) -> FleetNow {
        let node = FleetNode {
            id: self.node.clone(),
            name: self.node.clone(),
            address: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            is_leaving: false,
        };
        let row = |shard| FleetShard {
            shard,
            database: 1,
            moving_to: None,
            epoch: 0,
            owner: Some(self.node.clone()),
        };
        let shards = (0..self.shards.len() as u64).map(row).collect();
        FleetNow { me: self.node.clone(), databases: 1, nodes: vec![node], shards }
    }

    fn shard_of(&self, queue: QueueId) -> u64 {
        self.fleet.shard_of(queue).0.into()
    }

    fn own(&self) -> OwnNode {
        let own = |(shard, (store, syncs)): (u64, &(Arc<dyn Store>, Arc<Histogram>))| OwnShard {
            shard,
            epoch: 0,
            refusal: store.health().err().map(|error| error.to_string()),
            append_ms: append_ms(syncs),
            taken_at: self.since,
        };
        OwnNode { heard: Duration::ZERO, shards: (0..).zip(&self.shards).map(own).collect() }
    }

    fn look_at(&self, _node: &str, _question: &str) -> Seen {
        // There is no other node.
        Box::pin(std::future::ready(None))
    }

    fn hand_over(&self, shard: u64, _to: &str) -> Begun {
        let why = format!("the shard {shard} lies in a directory: no other node can keep it");
        Box::pin(std::future::ready(Err(why)))
    }

    fn move_shard(&self, shard: u64, _database: u64) -> Begun {
        let why = format!("the shard {shard} lies in a directory, and in no database");
        Box::pin(std::future::ready(Err(why)))
    }
}

/// The upper ends of the buckets in which half of all syncs, and 99 of 100, are reached.
fn append_ms(syncs: &Histogram) -> Option<(f64, f64)> {
    let took = syncs.distribution();
    let ms = |share| took.quantile(share).map(|seconds: f64| (seconds * 1_000_000.0).round() / 1_000.0);
    ms(0.50).zip(ms(0.99))
}
