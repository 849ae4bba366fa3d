//! The shards that this server keeps. Each node shows its own: together the nodes show all.

use super::text::Text;
use crate::board::Running;
use crate::fleet::OwnShard;

/// Writes a series for each shard, and in a fleet what this node sees of all.
pub(super) fn write(text: &mut Text, running: &Running, own: &[OwnShard]) {
    let node = match &running.fleet {
        Some(fleet) => {
            let now = fleet.now();
            now.called(&now.me)
        }
        None => running.place.owner.clone(),
    };
    let numbered: Vec<(String, &OwnShard)> = own.iter().map(|own| (own.shard.to_string(), own)).collect();
    let name = "kew_shard_serving";
    text.family(
        name,
        "gauge",
        "1 of each shard that this node keeps and answers for, 0 where it may not answer.",
    );
    for (shard, own) in &numbered {
        let labels = [("shard", shard.as_str()), ("node", node.as_str())];
        text.sample(name, &labels, u64::from(own.refusal.is_none()));
    }
    let name = "kew_shard_epoch";
    text.family(name, "gauge", "Raised by every owner of the shard.");
    for (shard, own) in &numbered {
        text.sample(name, &[("shard", shard.as_str())], own.epoch);
    }
    let name = "kew_shard_append_seconds";
    text.family(name, "summary", "How long batches of the shard took to be durable, lately.");
    for (shard, own) in &numbered {
        let Some((half, most)) = own.append_ms else { continue };
        for (quantile, ms) in [("0.5", half), ("0.99", most)] {
            text.sample_seconds(name, &[("shard", shard.as_str()), ("quantile", quantile)], ms / 1_000.0);
        }
    }
    let name = "kew_shard_taken_over_timestamp_seconds";
    text.family(name, "gauge", "When this node took the shard.");
    for (shard, own) in &numbered {
        text.sample(name, &[("shard", shard.as_str())], own.taken_at.0 / 1_000);
    }
    // A store that one node serves alone has no map of nodes.
    let (nodes, free) = running.fleet.as_ref().map_or((1, 0), |fleet| {
        let now = fleet.now();
        (now.nodes.len() as u64, now.shards.iter().filter(|row| row.owner.is_none()).count() as u64)
    });
    let name = "kew_fleet_nodes";
    text.family(name, "gauge", "Nodes that live, as this one reads in the database.");
    text.sample(name, &[], nodes);
    let name = "kew_fleet_shards_without_owner";
    text.family(name, "gauge", "Shards that no node keeps, as this one reads in the database.");
    text.sample(name, &[], free);
}
