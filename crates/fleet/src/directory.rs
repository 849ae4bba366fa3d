//! What each node knows of all queues, and how it comes to know it.
//!
//! Every node shows every queue of the fleet. The owner of a shard tells of each change before it answers the client
//! that asked for it: to all nodes that live or have just read a list of it, until each has confirmed or is cut off. A
//! node that is cut off knows that itself, and from then on does not know all names. It knows them again when it has
//! read the lists of those shards' owners.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::{QueueId, ShardId};
use kew_peer::{Refusal, Reply, Request};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::contracts::Lost;
use crate::inner::Inner;
use crate::known::Known;
use crate::map::NodeId;
use crate::places::Place;
use crate::times::TELLS_MAX;

/// The pause before another node is notified, or asked, again.
const PAUSE: Duration = Duration::from_millis(50);

/// The conversation in which a shard's owner is heard, and the epoch of its newest owner.
type Tenure = (Option<u64>, Option<i64>);

impl Inner {
    /// Whether every queue there is is known here.
    pub(crate) fn knows_all(&self) -> bool {
        (self.of_one_process.is_some() || self.directory.are_maps_fresh())
            && self.places.count.all().all(|shard| self.knows(shard))
    }

    fn knows(&self, shard: ShardId) -> bool {
        match self.places.of(shard) {
            Place::Here(_) => true,
            Place::At(node) => self.is_known(shard, &node),
            // Its last owner was this node, or has notified it of all it answered for, and no other has answered yet.
            Place::Nowhere => self.directory.known(shard).is_some_and(|known| {
                known.epoch == self.epoch(shard)
                    && (known.heard_in.is_none() || known.heard_in == self.carrier.heard_in(&known.from))
            }),
        }
    }

    /// Whether a shard's list was read from the node that keeps it, and nothing was missed since then.
    pub(crate) fn is_known(&self, shard: ShardId, node: &NodeId) -> bool {
        let heard_in = self.carrier.heard_in(node);
        let known = Known { from: node.clone(), heard_in, epoch: self.epoch(shard) };
        heard_in.is_some() && self.directory.known(shard) == Some(known)
    }

    /// The epoch of a shard's newest owner, as far as the map says.
    fn epoch(&self, shard: ShardId) -> Option<i64> {
        self.map.read().row(shard).map(|row| row.epoch)
    }

    /// This node keeps a shard no more. It knows all its queues until another node does, if the map shows already that
    /// this one was the owner.
    pub(crate) fn note_left(&self, shard: ShardId) {
        let map = Arc::clone(&self.map.read());
        let mine = map.row(shard).filter(|row| row.owner.as_ref() == Some(&self.me));
        let known = mine.map(|row| Known { from: self.me.clone(), heard_in: None, epoch: Some(row.epoch) });
        self.directory.set_known(shard, known);
    }

    /// Reads the lists of shards that are not known, for as long as it is polled.
    pub(crate) async fn stay_informed(self: Arc<Self>) {
        let mut changes = self.places.changes();
        loop {
            changes.mark_unchanged();
            for shard in self.places.count.all() {
                let Place::At(node) = self.places.of(shard) else { continue };
                if self.is_known(shard, &node) {
                    continue;
                }
                // Of before the list is read: what changes in a later conversation, or epoch, is not missed.
                let (heard_in, epoch) = (self.carrier.heard_in(&node), self.epoch(shard));
                if heard_in.is_some() && self.read_list(shard, &node, (heard_in, epoch)).await {
                    self.directory.set_known(shard, Some(Known { from: node, heard_in, epoch }));
                }
            }
            self.note_known();
            let _changed = tokio::time::timeout(PAUSE, changes.changed()).await;
        }
    }

    /// Reads the list of a shard's queues; false if that failed.
    async fn read_list(&self, shard: ShardId, node: &NodeId, before: Tenure) -> bool {
        self.directory.begin_list();
        let is_read = self.read_pages(shard, node, before).await.is_some();
        self.directory.end_list();
        is_read
    }

    /// Shows the queues of a shard, a page at a time, and those no more that are on none. `None` if that failed, if
    /// another node keeps the shard by now (this one may) or did in between, or if the conversation has ended in which
    /// changes are heard.
    async fn read_pages(&self, shard: ShardId, node: &NodeId, before: Tenure) -> Option<()> {
        let still = || self.is_at(shard, node) && (self.carrier.heard_in(node), self.epoch(shard)) == before;
        let (mut there, mut after) = (HashSet::new(), QueueId(0));
        loop {
            let page = self.carrier.carry(node, Request::Queues { shard, after }).await;
            let Ok(Ok(Reply::Queues(some, is_last))) = page else { return None };
            let engine = self.engine().filter(|_| still())?;
            self.directory.beside_list(|meanwhile| {
                let shown = some.iter().filter(|queue| !meanwhile.hidden.contains(&queue.id));
                shown.for_each(|queue| engine.show_queue(queue));
            });
            there.extend(some.iter().map(|queue| queue.id));
            match some.last() {
                Some(last) if !is_last => after = last.id,
                _ => break,
            }
        }
        let (engine, count) = (self.engine()?, self.places.count);
        for some in engine.queues_in_slices(move |queue| count.of_queue(queue) == shard) {
            if !still() {
                return None;
            }
            self.directory.beside_list(|meanwhile| {
                let unlisted = some.iter().map(|queue| queue.id).filter(|queue| !there.contains(queue));
                let gone = unlisted.filter(|queue| !meanwhile.shown.contains(queue));
                gone.for_each(|queue| engine.hide_queue(queue));
            });
            tokio::task::yield_now().await;
        }
        Some(())
    }

    fn is_at(&self, shard: ShardId, node: &NodeId) -> bool {
        matches!(self.places.of(shard), Place::At(at) if at == *node)
    }

    /// Tells all other nodes of a change. Returns when each of them knows it, or knows that it is cut off.
    pub(crate) async fn tell_all(self: &Arc<Self>, news: Request) {
        let map = Arc::clone(&self.map.read());
        let mut others: BTreeSet<NodeId> =
            map.nodes_to_tell().into_iter().map(|node| node.id.clone()).collect();
        others.extend(self.directory.askers());
        others.remove(&self.me);
        let mut telling = JoinSet::new();
        for node in others {
            telling.spawn(Arc::clone(self).tell(node, news.clone()));
        }
        let _all = telling.join_all().await;
    }

    async fn tell(self: Arc<Self>, node: NodeId, news: Request) {
        let until = Instant::now() + TELLS_MAX;
        while Instant::now() < until {
            let notified = tokio::time::timeout_at(until, self.carrier.carry(&node, news.clone())).await;
            match notified {
                Ok(Ok(Ok(_))) => return,
                // A node that ends shows nothing any more.
                Ok(Ok(Err(Refusal::Store(_) | Refusal::NotTheOwner | Refusal::NameIsIn(_)))) => return,
                Ok(Err(Lost::NotSent | Lost::Unknown)) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
