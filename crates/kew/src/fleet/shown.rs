//! The fleet as the console shows it, and as Workers know it.

use std::sync::Arc;
use std::time::Duration;

use kew_console::{Begun, FleetNode, FleetNow, FleetShard, OwnNode, OwnShard, Seen};
use kew_core::{QueueId, ShardId, Timestamp};
use kew_fleet::{Fleet, NodeId};
use kew_log_pg::{PgDisk, PgNode};
use kew_push::workers::{Answered, NodeName, Nodes, OtherNodes};

use super::home::PgHome;

/// What the console reads of a node's fleet, and asks of it.
pub struct ShownFleet {
    fleet: Arc<Fleet>,
    node: PgNode,
    home: Arc<PgHome>,
}

impl ShownFleet {
    pub(super) fn new(fleet: &Arc<Fleet>, node: &PgNode, home: &Arc<PgHome>) -> Self {
        Self { fleet: Arc::clone(fleet), node: node.clone(), home: Arc::clone(home) }
    }

    fn nodes(&self) -> Vec<FleetNode> {
        let map = self.fleet.map();
        let shown = map.nodes().into_iter().map(|node| FleetNode {
            id: node.id.to_string(),
            name: node.name.to_string(),
            address: node.address.to_string(),
            version: node.version.to_string(),
            is_leaving: self.fleet.is_leaving(&node.id),
        });
        shown.collect()
    }

    fn own_shard(&self, shard: ShardId) -> Option<OwnShard> {
        let (disk, taken_at) = self.home.taken(shard)?;
        let tenure = disk.tenure();
        Some(OwnShard {
            shard: shard.0.into(),
            epoch: u64::try_from(tenure.epoch()).unwrap_or_default(),
            refusal: tenure.over().map(ToOwned::to_owned).or_else(|| tenure.refusal()),
            append_ms: append_ms(&disk),
            taken_at: Timestamp(taken_at),
        })
    }
}

/// How many milliseconds the median of the latest appends took, and the 99th percentile of them.
fn append_ms(disk: &PgDisk) -> Option<(f64, f64)> {
    let mut latest = disk.latest_appends();
    latest.sort_unstable();
    let at = |hundredths: usize| {
        let took = latest.get((latest.len() * hundredths / 100).min(latest.len().checked_sub(1)?))?;
        Some(took.as_micros() as f64 / 1_000.0)
    };
    at(50).zip(at(99))
}

impl kew_console::Fleet for ShownFleet {
    fn now(&self) -> FleetNow {
        let map = self.fleet.map();
        // Also one that has left a database and lies in no other yet.
        let shards = self.node.shards().all().map(|shard| {
            let row = map.row(shard);
            FleetShard {
                shard: shard.0.into(),
                database: map.database_of(shard) as u64 + 1,
                moving_to: row.and_then(|row| row.wanted_in).map(|database| u64::from(database) + 1),
                epoch: row.and_then(|row| u64::try_from(row.epoch).ok()).unwrap_or_default(),
                owner: row.and_then(|row| row.owner.as_ref()).map(ToString::to_string),
            }
        });
        FleetNow {
            me: self.node.node().id.clone(),
            databases: self.node.databases().into(),
            nodes: self.nodes(),
            shards: shards.collect(),
        }
    }

    fn shard_of(&self, queue: QueueId) -> u64 {
        self.fleet.shard_of(queue).0.into()
    }

    fn own(&self) -> OwnNode {
        let heard = (0..self.node.databases()).filter_map(|database| self.node.map(database));
        let heard = heard.map(|map| map.read_at.elapsed()).max().unwrap_or(Duration::ZERO);
        OwnNode {
            heard,
            shards: self.fleet.kept().into_iter().filter_map(|shard| self.own_shard(shard)).collect(),
        }
    }

    fn look_at(&self, node: &str, question: &str) -> Seen {
        let (fleet, node, question) = (Arc::clone(&self.fleet), NodeId(node.into()), question.to_owned());
        Box::pin(async move { fleet.look_at(&node, &question).await })
    }

    fn hand_over(&self, shard: u64, to: &str) -> Begun {
        let (fleet, to) = (Arc::clone(&self.fleet), NodeId(to.into()));
        Box::pin(async move {
            let shard = u16::try_from(shard).map_err(|_| format!("there is no shard {shard}"))?;
            fleet.hand_over(ShardId(shard), &to).await.map_err(|error| error.to_string())
        })
    }

    fn move_shard(&self, shard: u64, database: u64) -> Begun {
        let node = self.node.clone();
        Box::pin(async move {
            let shard = u16::try_from(shard).map_err(|_| format!("there is no shard {shard}"))?;
            let number = database.checked_sub(1).and_then(|number| u16::try_from(number).ok());
            let number = number.ok_or_else(|| format!("there is no database {database}"))?;
            node.want_in(ShardId(shard), number).await.map_err(|error| error.to_string())
        })
    }
}

impl OtherNodes for ShownFleet {
    fn now(&self) -> Nodes {
        let me = self.node.node().id.clone();
        let now = FleetNow { me: me.clone(), nodes: self.nodes(), ..FleetNow::default() };
        let name = |id: &str| NodeName { id: id.to_owned(), called: now.called(id).into() };
        let others = now.nodes.iter().filter(|node| node.id != me).map(|node| name(&node.id)).collect();
        Nodes { own: name(&me), others }
    }

    fn ask(&self, node: &str, question: String) -> Answered {
        kew_console::Fleet::look_at(self, node, &question)
    }
}
