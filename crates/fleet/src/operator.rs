//! What operators ask of a fleet: that a shard goes to another node, and what another node shows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kew_core::{ShardId, Text};
use kew_peer::{Refusal, Reply, Request};
use kew_store::StoreError;

use crate::asking::away;
use crate::contracts::{Lost, Shows};
use crate::fleet::Fleet;
use crate::inner::Inner;
use crate::map::NodeId;

/// How long another node is waited for that is asked what it shows.
const LOOK_MAX: Duration = Duration::from_secs(1);

impl Fleet {
    /// Answers with `shows` what other nodes want to see of this one. Called once.
    pub fn show_with(&self, shows: Box<Shows>) {
        assert!(self.0.shows.set(shows).is_ok(), "a node shows itself in one way");
    }

    /// Asks another node what it shows. `None` if it does not answer within a second.
    pub async fn look_at(&self, node: &NodeId, question: &str) -> Option<String> {
        let looked = self.0.carrier.carry(node, Request::Look(Text::from(question)));
        match tokio::time::timeout(LOOK_MAX, looked).await {
            Ok(Ok(Ok(Reply::Seen(text)))) => Some(text.to_string()),
            _ => None,
        }
    }

    /// Has the owner of a shard hand it over to a node. Returns when that is begun; the map says when it is done.
    pub async fn hand_over(&self, shard: ShardId, to: &NodeId) -> Result<(), StoreError> {
        let request = Request::HandOver { shard, to: Text::from(&*to.0) };
        // The one that is to have it hears of it first, so that it does not give it back.
        let heard = if *to == self.0.me {
            self.0.serve(request.clone()).await
        } else {
            let heard = tokio::time::timeout(LOOK_MAX, self.0.carrier.carry(to, request.clone())).await;
            heard.unwrap_or(Err(Lost::NotSent)).unwrap_or(Err(Refusal::NotTheOwner))
        };
        heard.map_err(|_| away("the node that is to have the shard has gone, or does not answer"))?;
        self.0.ask_owner(shard, request).await.map(drop)
    }

    /// Whether a node is about to stop, as far as this one has heard.
    pub fn is_leaving(&self, node: &NodeId) -> bool {
        self.0.leaving.lock().contains_key(node)
    }
}

impl Inner {
    /// Notes that a shard of this node is to go to another, which the keeper sees to at its next look; or that one is
    /// to come here.
    pub(crate) fn begin_to_hand_over(&self, shard: ShardId, to: NodeId) -> Result<Reply, Refusal> {
        if to == self.me {
            self.by_hand.store(true, Ordering::Release);
            return Ok(Reply::Shown);
        }
        self.must_keep(shard)?;
        if self.map.read().part_of(shard).node(&to).is_none() || self.leaving.lock().contains_key(&to) {
            return Err(Refusal::Store(away("the node that is to have the shard has gone")));
        }
        self.orders.lock().insert(shard, to);
        Ok(Reply::Shown)
    }

    /// What another node wants to see of this one.
    pub(crate) async fn show(self: &Arc<Self>, question: Text) -> Result<Reply, Refusal> {
        let Some(shows) = self.shows.get() else { return Err(Refusal::Store(away("the node starts"))) };
        Ok(Reply::Seen(Text::from(shows(question.to_string()).await)))
    }
}
