//! Shards and nodes: shown, and a shard handed from one node to another.

use std::sync::Arc;
use std::time::Duration;

use kew_http::{Reply, StatusCode};
use serde_json::{Value, json};

use super::Context;
use super::work::render;
use crate::error::{ApiError, answer};
use crate::fleet::{Fleet, FleetNode, FleetNow, FleetShard, OwnShard};
use crate::peers::{Holding, own_shards};

/// How long a reply to a hand-over or a move waits for its end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether that has come.
const LOOKS_EVERY: Duration = Duration::from_millis(25);

/// `GET /shards`.
pub(super) async fn list(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let Some(fleet) = &running.fleet else {
        let own = own_shards(&running, &cx.console.settings.store_syncs);
        let shown = |own: &OwnShard| {
            shard_row((own.shard, 1, None), Some(&running.place.owner), own.epoch, Some(own))
        };
        let rows: Vec<Value> = own.iter().map(shown).collect();
        return Ok(answer(StatusCode::OK, &json!({ "shards": rows, "databases": 1 })));
    };
    let holding = cx.console.peers.holding(fleet).await;
    render(move || {
        let shown = |row: &FleetShard| of_fleet(&holding, row);
        let rows: Vec<Value> = holding.now.shards.iter().map(shown).collect();
        json!({ "shards": rows, "databases": holding.now.databases.max(1) })
    })
    .await
}

/// A shard of a fleet.
fn of_fleet(holding: &Holding, row: &FleetShard) -> Value {
    let place = (row.shard, row.database, row.moving_to);
    let Some(owner) = row.owner.as_deref() else {
        return written(place, None, row.epoch, ("waiting", None));
    };
    let own = holding.of_shard(owner, row.shard);
    let name = holding.now.called(owner);
    match (holding.of(owner), own) {
        (None, _) => written(place, Some(&name), row.epoch, ("unreachable", None)),
        (Some(_), None) => written(place, Some(&name), row.epoch, ("opening", None)),
        (Some(_), Some(own)) => shard_row(place, Some(&name), row.epoch, Some(own)),
    }
}

/// The number of a shard, of the database that it lies in, and of the one that it is being moved to.
type Place = (u64, u64, Option<u64>);

fn shard_row(place: Place, owner: Option<&str>, epoch: u64, own: Option<&OwnShard>) -> Value {
    let is_well = own.is_some_and(|own| own.refusal.is_none());
    written(place, owner, epoch, (if is_well { "serving" } else { "failed" }, own))
}

fn written(
    (shard, database, moving_to): Place,
    owner: Option<&str>,
    epoch: u64,
    (state, own): (&str, Option<&OwnShard>),
) -> Value {
    let append_ms = own.and_then(|own| own.append_ms);
    json!({
        "shard": shard,
        "database": database,
        "moving_to": moving_to,
        "owner": owner,
        "epoch": epoch,
        "state": state,
        "append_ms_p50": append_ms.map(|(half, _)| half),
        "append_ms_p99": append_ms.map(|(_, most)| most),
        "taken_over_at_ms": own.map(|own| own.taken_at.0),
        "reason": own.and_then(|own| own.refusal.as_deref()),
    })
}

/// `GET /nodes`.
pub(super) async fn nodes(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let Some(fleet) = &running.fleet else {
        let state = if running.engine.health().is_ok() { "serving" } else { "failed" };
        let node = json!({
            "node": running.place.owner,
            "id": null,
            "address": null,
            "state": state,
            "shards": [0],
            "heartbeat_age_seconds": 0,
            "version": cx.console.settings.version,
        });
        return Ok(answer(StatusCode::OK, &json!({ "nodes": [node] })));
    };
    let holding = cx.console.peers.holding(fleet).await;
    let rows: Vec<Value> = holding.now.nodes.iter().map(|node| node_row(&holding, node)).collect();
    Ok(answer(StatusCode::OK, &json!({ "nodes": rows })))
}

fn node_row(holding: &Holding, node: &FleetNode) -> Value {
    let own = holding.of(&node.id);
    let state = match own {
        None => "unreachable",
        Some(_) if node.is_leaving => "leaving",
        Some(own) if own.shards.iter().any(|own| own.refusal.is_some()) => "failed",
        Some(_) => "serving",
    };
    let is_of = |row: &&FleetShard| row.owner.as_deref() == Some(&*node.id);
    let shards: Vec<u64> = holding.now.shards.iter().filter(is_of).map(|row| row.shard).collect();
    json!({
        "node": holding.now.called(&node.id),
        "id": node.id,
        "address": node.address,
        "state": state,
        "shards": shards,
        "heartbeat_age_seconds": own.map(|own| own.heard.as_millis() as f64 / 1_000.0),
        "version": node.version,
    })
}

/// `POST /shards/{shard}/hand-over`.
pub(super) async fn hand_over(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let (number, unknown) = asked(cx);
    let shard = number.ok_or_else(&unknown)?;
    let Some(fleet) = &running.fleet else {
        if shard > 0 {
            return Err(unknown());
        }
        let message =
            "the store has one owner: it is taken over by a node that stands by when its owner stops";
        return Err(ApiError::conflict("no_fleet", message));
    };
    let now = fleet.now();
    let row = now.shards.iter().find(|row| row.shard == shard).ok_or_else(&unknown)?;
    let Some(from) = row.owner.as_deref() else {
        let message = format!("no node keeps shard {shard} just now: one is taking it");
        return Err(ApiError::conflict("shard_is_moving", message));
    };
    let to = match cx.body.text("to").filter(|to| !to.is_empty()) {
        Some(name) => named(&now, name)?,
        None => emptiest(&now, from)?,
    };
    let is_there = to.id == from;
    if !is_there {
        fleet.hand_over(shard, &to.id).await.map_err(ApiError::unavailable)?;
    }
    let done = is_there || has_come(fleet, shard, &to.id).await;
    let body = json!({ "shard": shard, "from": now.called(from), "to": now.called(&to.id), "done": done });
    Ok(answer(StatusCode::OK, &body))
}

/// The node of a name or an id that may be given a shard.
fn named<'n>(now: &'n FleetNow, name: &str) -> Result<&'n FleetNode, ApiError> {
    let by_name: Vec<&FleetNode> = now.nodes.iter().filter(|node| node.name == name).collect();
    let node = match (now.node(name), by_name.as_slice()) {
        (Some(node), _) => node,
        (None, [node]) => *node,
        (None, []) => {
            let message = format!("no node {name} lives: GET /nodes says which do");
            return Err(ApiError::conflict("node_not_found", message));
        }
        (None, _) => {
            let message = format!("several nodes are called {name}: give the id of one");
            return Err(ApiError::conflict("node_is_ambiguous", message));
        }
    };
    if node.is_leaving {
        return Err(ApiError::conflict("node_is_leaving", format!("the node {name} is about to stop")));
    }
    Ok(node)
}

/// The node with the fewest shards, other than their owner.
fn emptiest<'n>(now: &'n FleetNow, owner: &str) -> Result<&'n FleetNode, ApiError> {
    let count =
        |node: &FleetNode| now.shards.iter().filter(|row| row.owner.as_deref() == Some(&*node.id)).count();
    let others = now.nodes.iter().filter(|node| node.id != owner && !node.is_leaving);
    let emptiest = others.min_by_key(|node| (count(node), node.id.clone()));
    emptiest.ok_or_else(|| ApiError::conflict("no_other_node", "there is no other node to hand the shard to"))
}

/// Waits until a node keeps a shard; false if that takes too long.
async fn has_come(fleet: &Arc<dyn Fleet>, shard: u64, to: &str) -> bool {
    let is_there = |row: &FleetShard| row.shard == shard && row.owner.as_deref() == Some(to);
    let comes = async {
        while !fleet.now().shards.iter().any(is_there) {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    };
    tokio::time::timeout(ENDS_WITHIN, comes).await.is_ok()
}

/// `POST /shards/{shard}/move`.
pub(super) async fn move_to_database(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let (number, unknown) = asked(cx);
    let shard = number.ok_or_else(&unknown)?;
    let Some(fleet) = &running.fleet else {
        let message =
            "the store does not lie in several databases: kew store create --databases makes one that does";
        return Err(if shard > 0 { unknown() } else { ApiError::conflict("no_other_database", message) });
    };
    let now = fleet.now();
    let row = now.shards.iter().find(|row| row.shard == shard).ok_or_else(&unknown)?;
    let (from, to) = (row.database, cx.body.whole("database").unwrap_or_default());
    if to > now.databases.max(1) {
        let message = format!("the store lies in {} database(s), counted from 1", now.databases.max(1));
        return Err(ApiError::conflict("no_other_database", message));
    }
    // Also where it lies there: another node may have been asked for a move that this one has not heard of.
    fleet.move_shard(shard, to).await.map_err(ApiError::unavailable)?;
    let has_come = async {
        let is_there = |row: &FleetShard| row.shard == shard && row.database == to && row.moving_to.is_none();
        while !fleet.now().shards.iter().any(is_there) {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    };
    let done = tokio::time::timeout(ENDS_WITHIN, has_come).await.is_ok();
    Ok(answer(StatusCode::OK, &json!({ "shard": shard, "from": from, "to": to, "done": done })))
}

/// The number of the shard that a request is about, and the answer where there is none.
fn asked(cx: &Context<'_>) -> (Option<u64>, impl Fn() -> ApiError + use<>) {
    let text = cx.parts.first().cloned().unwrap_or_default();
    let number = text.parse().ok();
    (number, move || {
        ApiError::new(StatusCode::NOT_FOUND, "shard_not_found", format!("there is no shard {text}"))
    })
}
