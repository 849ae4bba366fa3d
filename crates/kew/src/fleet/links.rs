//! Requests over the links between nodes.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use kew_fleet::{CUT_OFF_AFTER, Carried, Carrier, Fleet, Lost, NodeId};
use kew_log_pg::PgNode;
use kew_peer::link::{Link, LinkError, Peers, Serve, Serving};
use kew_peer::wire::{decode, encode};
use kew_peer::{Refusal, Request, Response};
use kew_store::StoreError;

use super::shares::Shares;

/// The links of this node.
pub(super) struct Links {
    peers: Peers,
    /// Says in which database a shard lies.
    node: PgNode,
    shares: Shares,
}

impl Links {
    pub fn new(peers: Peers, node: PgNode) -> Self {
        let shares = Shares::of(node.shards(), node.databases());
        Self { peers, node, shares }
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }
}

impl Carrier for Links {
    fn carry(&self, node: &NodeId, request: Request) -> Carried {
        let (peers, id) = (self.peers.clone(), kew_peer::link::NodeId::new(&node.0));
        let encoded = Bytes::from(encode(&request));
        let share = match &request {
            Request::Step { shard, .. } => {
                Some(self.shares.take(*shard, &|shard| self.node.database_of(shard), encoded.len()))
            }
            _ => None,
        };
        Box::pin(async move {
            let id = id.ok_or(Lost::NotSent)?;
            let _taken = match share {
                Some(share) => share.await,
                None => None,
            };
            match peers.ask(&id, encoded).await {
                Ok(answer) => Ok(request.read_response(&answer).unwrap_or_else(|error| {
                    let cause = format!("the answer of another node cannot be read: {error}");
                    Err(Refusal::Store(StoreError::Unavailable { cause }))
                })),
                Err(LinkError::NotSent(_)) => Err(Lost::NotSent),
                Err(LinkError::Unknown(_)) => Err(Lost::Unknown),
            }
        })
    }

    fn heard_in(&self, node: &NodeId) -> Option<u64> {
        let links = self.peers.links();
        let link = links.iter().find(|link| link.peer().id.as_str() == &*node.0)?;
        (link.surely_heard().elapsed() < CUT_OFF_AFTER).then(|| link.conversation())
    }
}

/// Answers what other nodes ask, once there is a fleet to answer with.
#[derive(Default)]
pub(super) struct Answers {
    fleet: OnceLock<Weak<Fleet>>,
}

impl Answers {
    pub fn serve_with(&self, fleet: &Arc<Fleet>) {
        assert!(self.fleet.set(Arc::downgrade(fleet)).is_ok(), "a node answers for one fleet");
    }
}

impl Serve for Answers {
    fn serve(&self, link: &Link, request: Bytes) -> Serving {
        let fleet = self.fleet.get().and_then(Weak::upgrade);
        let asker = NodeId(link.peer().id.as_str().into());
        Box::pin(async move {
            let unavailable = |cause: String| Err(Refusal::Store(StoreError::Unavailable { cause }));
            let response: Response = match (decode::<Request>(&request), fleet) {
                (Ok(request), Some(fleet)) => fleet.serve(&asker, request).await,
                (Ok(_), None) => Err(Refusal::NotTheOwner),
                (Err(error), _) => {
                    unavailable(format!("the request of another node cannot be read: {error}"))
                }
            };
            encode(&response).into()
        })
    }
}
