//! Shards and nodes, as all nodes together know them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{QueueId, Timestamp};
use kew_http::{Distribution, Histogram};
use serde_json::{Value, json};

use super::Peers;
use crate::board::Running;
use crate::fleet::{Fleet, FleetNow, OwnNode, OwnShard};

/// Every shard and node, with what their owners say of them.
pub(crate) struct Holding {
    pub(crate) now: FleetNow,
    /// By the ids of nodes; nothing of those that are silent.
    said: HashMap<String, OwnNode>,
}

impl Peers {
    /// Asks each node what it knows of itself.
    pub(crate) async fn holding(&self, fleet: &Arc<dyn Fleet>) -> Holding {
        let now = fleet.now();
        let others = now.nodes.iter().filter(|node| node.id != now.me);
        let questions = others.map(|node| (node.id.clone(), json!({ "node": true }))).collect();
        let answers = self.ask_all(fleet, questions).await.into_iter();
        let mut said: HashMap<String, OwnNode> =
            answers.filter_map(|(node, answer)| Some((node, read(answer?.get("node")?)?))).collect();
        said.insert(now.me.clone(), fleet.own());
        Holding { now, said }
    }
}

/// When a shard was taken from another node, and by which.
pub(crate) struct Taken {
    pub(crate) at: Timestamp,
    pub(crate) node: String,
}

impl Peers {
    /// When the shard of a queue was taken over last; nothing of one that has had one owner, or whose owner is silent.
    pub(crate) async fn taken(
        &self,
        running: &Running,
        appends: &Histogram,
        queue: QueueId,
    ) -> Option<Taken> {
        let Some(fleet) = &running.fleet else {
            let own = own_shards(running, appends).pop()?;
            let node = running.place.owner.clone();
            return (own.epoch > 1).then_some(Taken { at: own.taken_at, node });
        };
        let shard = fleet.shard_of(queue);
        let holding = self.holding(fleet).await;
        let row = holding.now.shards.iter().find(|row| row.shard == shard)?;
        let owner = row.owner.as_deref()?;
        let own = holding.of_shard(owner, shard).filter(|own| own.epoch > 1)?;
        Some(Taken { at: own.taken_at, node: holding.now.called(owner) })
    }
}

impl Holding {
    /// What a node says of itself, if it does.
    pub(crate) fn of(&self, node: &str) -> Option<&OwnNode> {
        self.said.get(node)
    }

    /// What the owner of a shard says of it.
    pub(crate) fn of_shard(&self, owner: &str, shard: u64) -> Option<&OwnShard> {
        self.of(owner)?.shards.iter().find(|own| own.shard == shard)
    }
}

/// The shards that this server serves: those of its part in a fleet, or the one of a store of its own.
pub(crate) fn own_shards(running: &Running, appends: &Histogram) -> Vec<OwnShard> {
    if let Some(fleet) = &running.fleet {
        return fleet.own().shards;
    }
    let appends = appends.distribution();
    let shard = OwnShard {
        shard: 0,
        epoch: running.place.epoch,
        refusal: running.engine.health().err().map(|error| error.to_string()),
        append_ms: quantile_ms(&appends, 0.50).zip(quantile_ms(&appends, 0.99)),
        taken_at: running.place.since,
    };
    vec![shard]
}

/// The upper end of the bucket in which a share of all values is reached; none before the first value.
fn quantile_ms(distribution: &Distribution, share: f64) -> Option<f64> {
    let seconds = distribution.quantile(share)?;
    Some((seconds * 1_000_000.0).round() / 1_000.0)
}

/// What this node shows of itself.
pub(super) fn show(fleet: &dyn Fleet) -> Value {
    let OwnNode { heard, shards } = fleet.own();
    let heard = u64::try_from(heard.as_millis()).unwrap_or(u64::MAX);
    let shards: Vec<Value> = shards.iter().map(written).collect();
    json!({ "heard_ms": heard, "shards": shards })
}

fn written(own: &OwnShard) -> Value {
    json!({
        "shard": own.shard,
        "epoch": own.epoch,
        "refusal": own.refusal,
        "append_ms_p50": own.append_ms.map(|(half, _)| half),
        "append_ms_p99": own.append_ms.map(|(_, most)| most),
        "taken_at_ms": own.taken_at.0,
    })
}

fn read(node: &Value) -> Option<OwnNode> {
    let heard = Duration::from_millis(node.get("heard_ms")?.as_u64()?);
    let shards = node.get("shards")?.as_array()?.iter().map(read_shard).collect::<Option<Vec<_>>>()?;
    Some(OwnNode { heard, shards })
}

fn read_shard(row: &Value) -> Option<OwnShard> {
    let whole = |name: &str| row.get(name).and_then(Value::as_u64);
    let number = |name: &str| row.get(name).and_then(Value::as_f64);
    Some(OwnShard {
        shard: whole("shard")?,
        epoch: whole("epoch")?,
        refusal: row.get("refusal").and_then(Value::as_str).map(str::to_owned),
        append_ms: number("append_ms_p50").zip(number("append_ms_p99")),
        taken_at: Timestamp(whole("taken_at_ms")?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_of_a_shard_is_read_as_it_was_written() {
        let quiet = OwnShard { shard: 3, epoch: 9, taken_at: Timestamp(7), ..OwnShard::default() };
        let busy = OwnShard { append_ms: Some((1.5, 20.0)), refusal: Some("full".into()), ..quiet.clone() };
        for own in [quiet, busy] {
            assert_eq!(read_shard(&written(&own)), Some(own));
        }
    }
}
