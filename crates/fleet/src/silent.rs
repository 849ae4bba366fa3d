//! A database of several that does not answer this node: it may be down, or this node is cut off from it.
//!
//! The shards there that this node keeps may have another owner by now, and it cannot read which. So it asks the nodes
//! that it hears of. Who keeps a shard there and may answer for it reaches the database: then this node alone is cut
//! off, and parts with its own stores there. Where no node does it keeps them, and goes on when the database is back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kew_core::ShardId;
use kew_peer::{Reply, Request};
use kew_store::StoreError;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::inner::Inner;
use crate::known::Found;
use crate::map::{FleetMap, MapPart, NodeId};
use crate::places::Place;
use crate::serving::BEHIND_ALL;
use crate::times::{OUTLIVES_SILENCE, UNREADY_AFTER};

/// The pause between two rounds of questions.
const ASKS_EVERY: Duration = Duration::from_millis(500);
/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// Shards that are asked about in one round: each of them may be asked of all nodes.
const ASKED_MAX: usize = 64;

impl Inner {
    /// Finds the owners of shards whose database is silent, for as long as it is polled.
    pub(crate) async fn find_owners(self: Arc<Self>) {
        let mut next = 0;
        loop {
            tokio::time::sleep(ASKS_EVERY).await;
            let map = Arc::clone(&self.map.read());
            // With one database there is none that another node could hear beside this one's silence.
            if map.parts().len() == 1 || map.parts().all(MapPart::is_fresh) {
                self.found.lock().clear();
                continue;
            }
            let silent = |shard: &ShardId| !map.part_of(*shard).is_fresh() && !self.may_answer_here(*shard);
            let silent: Vec<ShardId> = self.places.count.all().filter(silent).collect();
            self.found.lock().retain(|shard, _| silent.contains(shard));
            let begin = if next < silent.len() { next } else { 0 };
            let asked: Vec<ShardId> = silent.into_iter().skip(begin).take(ASKED_MAX).collect();
            next = begin + asked.len();
            let mut finding = JoinSet::new();
            for shard in asked {
                let (fleet, map) = (Arc::clone(&self), Arc::clone(&map));
                finding.spawn(async move { fleet.find_owner(shard, &map).await });
            }
            let _all = finding.join_all().await;
        }
    }

    /// Finds the owner of a shard: the node that was it last is asked first.
    async fn find_owner(self: &Arc<Self>, shard: ShardId, map: &FleetMap) {
        let last = self.found(shard).or_else(|| match self.places.of(shard) {
            Place::At(node) => Some(node),
            Place::Here(_) | Place::Nowhere => None,
        });
        if let Some(node) = &last
            && let Some(asked) = self.keeps(node, shard).await
        {
            self.note_found(shard, node.clone(), asked);
            return;
        }
        let mut others: BTreeSet<NodeId> = map.nodes().into_iter().map(|node| node.id.clone()).collect();
        others.extend(self.directory.askers());
        let mut asking = JoinSet::new();
        for node in others.into_iter().filter(|node| *node != self.me && last.as_ref() != Some(node)) {
            let fleet = Arc::clone(self);
            asking.spawn(async move { Some((fleet.keeps(&node, shard).await?, node)) });
        }
        while let Some(answer) = asking.join_next().await {
            if let Ok(Some((asked, node))) = answer {
                self.note_found(shard, node, asked);
                return;
            }
        }
        self.found.lock().remove(&shard);
    }

    /// When a node was asked whether it keeps a shard, if it says that it does.
    async fn keeps(&self, node: &NodeId, shard: ShardId) -> Option<Instant> {
        self.carrier.heard_in(node)?;
        let asked = Instant::now();
        let request = Request::Queues { shard, after: BEHIND_ALL };
        let answer = tokio::time::timeout(ANSWERS_WITHIN, self.carrier.carry(node, request)).await;
        matches!(answer, Ok(Ok(Ok(Reply::Queues(..))))).then_some(asked)
    }

    fn note_found(&self, shard: ShardId, node: NodeId, at: Instant) {
        self.found.lock().insert(shard, Found { node: node.clone(), at });
        // The keeper parts with one that is here. It may have read the map meanwhile.
        if !self.places.is_here(shard) && !self.map.read().part_of(shard).is_fresh() {
            self.places.set_if_other(shard, Place::At(node));
        }
    }

    /// Who keeps a shard whose database is silent, as that node says itself.
    pub(crate) fn found(&self, shard: ShardId) -> Option<NodeId> {
        self.found.lock().get(&shard).map(|found| found.node.clone())
    }

    /// Whether this node keeps a shard, and may answer for it just now.
    fn may_answer_here(&self, shard: ShardId) -> bool {
        self.places.here(shard).is_some_and(|store| store.may_answer())
    }

    /// The node that keeps a shard in place of this one, whose store of it may answer no more.
    pub(crate) fn kept_instead(&self, shard: ShardId) -> Option<NodeId> {
        let is_silent = !self.map.read().part_of(shard).is_fresh();
        self.found(shard).filter(|_| is_silent && !self.may_answer_here(shard))
    }

    /// Whether no node is known to keep a shard, since its database has been silent for this long. Where a store lies
    /// in one database there is none that is better off.
    pub(crate) fn is_out_of_reach(&self, shard: ShardId, long: Duration) -> bool {
        let map = self.map.read();
        if map.parts().len() == 1 {
            return false;
        }
        let is_silent = map.part_of(shard).read_at.is_none_or(|at| at.elapsed() > long);
        is_silent && !self.may_answer_here(shard) && self.found(shard).is_none()
    }

    /// Whether one of several databases has answered this node within the time for which an owner may answer.
    pub(crate) fn hears_one_of_several(&self) -> bool {
        let map = self.map.read();
        map.parts().len() > 1 && map.parts().any(MapPart::is_fresh)
    }

    /// Why clients should find another node, if so. One that no database answers learns of no take-over. One that hears
    /// some of them serves what lies there; where another node hears a database that is silent here, that node is the
    /// better one.
    pub(crate) fn hears_enough(&self) -> Result<(), StoreError> {
        let map = self.map.read();
        let of = map.parts().len();
        let mut hears_none = Ok(());
        for (number, part) in (1..).zip(map.parts()) {
            let which =
                if of == 1 { "the database".to_owned() } else { format!("database {number} of {of}") };
            let cause = match part.read_at.map(|at| at.elapsed()) {
                Some(age) if age <= UNREADY_AFTER => continue,
                Some(age) => format!("{which} has not answered this node for {} s", age.as_secs()),
                None => format!("{which} has not told this node yet who keeps which shard"),
            };
            // An owner goes on answering for a while when its database has gone.
            let is_later = |found: &Found| {
                part.read_at.is_none_or(|at| found.at.saturating_duration_since(at) > OUTLIVES_SILENCE)
            };
            let is_there = |shard: ShardId| map.database_of(shard) + 1 == number;
            let is_heard_elsewhere =
                self.found.lock().iter().any(|(shard, found)| is_there(*shard) && is_later(found));
            if is_heard_elsewhere {
                return Err(StoreError::Unavailable { cause: format!("{cause}, and answers another one") });
            }
            hears_none = Err(StoreError::Unavailable { cause });
        }
        let hears_one = map.parts().any(|part| part.read_at.is_some_and(|at| at.elapsed() <= UNREADY_AFTER));
        if hears_one { Ok(()) } else { hears_none }
    }
}
