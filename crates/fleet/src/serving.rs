//! What other nodes ask of this one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::ListMoves;
use kew_core::{Command, Outcome, Queue, QueueId, ShardId};
use kew_engine::{Engine, EngineError};
use kew_store::StoreError;

use crate::asking::away;
use crate::inner::{Inner, Listed};
use crate::map::NodeId;
use kew_peer::{Refusal, Reply, Request};

/// Queues on one page.
pub(crate) const PAGE: usize = 500;
/// A page behind this one is empty: who asks for it wants to know whether this node keeps the shard.
pub(crate) const BEHIND_ALL: QueueId = QueueId(u64::MAX);

impl Inner {
    /// Answers a request of a shard that is kept here, or of the directory.
    pub(crate) async fn serve(self: &Arc<Self>, request: Request) -> Result<Reply, Refusal> {
        let engine = self.engine().ok_or_else(|| Refusal::Store(away("the node ends")))?;
        match request {
            Request::Step { shard, command } => self.step_here(&engine, shard, command).await,
            Request::Lease { shard, lease, wait } => {
                self.must_keep(shard)?;
                let leased = engine.lease_here(lease, wait).await.map_err(refusal)?;
                // The one who asks goes on waiting where the shard went.
                leased.map(|leased| Reply::Done(Outcome::Leased(leased))).ok_or(Refusal::NotTheOwner)
            }
            Request::Queues { shard, after } => {
                self.must_answer(shard)?;
                self.page_of(&engine, shard, after).await
            }
            Request::Show(queues) => {
                for queue in &queues {
                    self.directory.shown(queue);
                    engine.show_queue(queue);
                }
                Ok(Reply::Shown)
            }
            Request::Leaves(node) => {
                self.note_leaving(NodeId(node.to_string().into()));
                Ok(Reply::Shown)
            }
            Request::Pause { pause, until } => {
                engine.note_pause(&pause, until);
                Ok(Reply::Shown)
            }
            Request::HandOver { shard, to } => self.begin_to_hand_over(shard, NodeId(to.to_string().into())),
            Request::Look(question) => self.show(question).await,
            Request::Hide(queue) => {
                self.directory.hidden(queue);
                engine.hide_queue(queue);
                Ok(Reply::Shown)
            }
        }
    }

    async fn step_here(
        self: &Arc<Self>,
        engine: &Engine,
        shard: ShardId,
        command: Command,
    ) -> Result<Reply, Refusal> {
        self.must_keep(shard)?;
        let done = match command {
            Command::CreateQueue(_) | Command::UpdateQueue(_) | Command::DeleteQueue(_) => {
                return self.define_here(shard, command).await.map(Reply::Done);
            }
            // Dropped before it is committed, it is withdrawn.
            Command::Lease(lease) => {
                engine.lease_within(lease, Duration::ZERO, None).await.map(Outcome::Leased)
            }
            // One that is asked of all shards is asked of each by itself.
            Command::ListMoves(ListMoves { source: None }) | Command::Trace(_) => {
                engine.look_in(shard, command).await
            }
            command => engine.carry_out(command).await,
        };
        done.map(Reply::Done).map_err(refusal)
    }

    pub(crate) fn must_keep(&self, shard: ShardId) -> Result<(), Refusal> {
        if self.places.is_here(shard) { Ok(()) } else { Err(Refusal::NotTheOwner) }
    }

    /// The same for what is answered without a step: what an owner knows that may not answer can be old.
    fn must_answer(&self, shard: ShardId) -> Result<(), Refusal> {
        let store = self.places.here(shard).ok_or(Refusal::NotTheOwner)?;
        if store.may_answer() { Ok(()) } else { Err(Refusal::NotTheOwner) }
    }

    /// The queues of a shard, of greater numbers than `after`. They are listed for the first page; what changes from
    /// then on is sent to the asker beside its pages.
    async fn page_of(&self, engine: &Engine, shard: ShardId, after: QueueId) -> Result<Reply, Refusal> {
        if after == BEHIND_ALL {
            return Ok(Reply::Queues(Vec::new(), true));
        }
        if after != QueueId(0)
            && let Some(page) = next_page(&mut self.lists.lock(), shard, after)
        {
            return Ok(page);
        }
        let list = self.list(engine, shard).await;
        // The shard may have left while they were listed.
        self.must_answer(shard)?;
        let mut lists = self.lists.lock();
        lists.insert(shard, list);
        Ok(next_page(&mut lists, shard, after).expect("the shard's list was put there just now"))
    }
}

/// The queues of greater numbers than `after` in the list of a shard, if there is one. It is gone after its last page.
fn next_page(lists: &mut BTreeMap<ShardId, Listed>, shard: ShardId, after: QueueId) -> Option<Reply> {
    let mut behind = lists.get(&shard)?.range((Bound::Excluded(after), Bound::Unbounded));
    let page: Vec<Arc<Queue>> = behind.by_ref().take(PAGE).map(|(_, queue)| Arc::clone(queue)).collect();
    let is_last = behind.next().is_none();
    if is_last {
        lists.remove(&shard);
    }
    Some(Reply::Queues(page, is_last))
}

/// What another node is answered where this one's engine did not do it.
pub(crate) fn refusal(error: EngineError) -> Refusal {
    Refusal::Store(match error {
        EngineError::Rule(rule) => StoreError::Rule(rule),
        EngineError::NoSpace => StoreError::NoSpace,
        EngineError::Overloaded { what } => StoreError::Overloaded { what },
        EngineError::Damaged { what } => StoreError::Damaged { what },
        // It may be kept by another node a moment later.
        EngineError::FailStopped { cause } | EngineError::Unavailable { cause } => {
            StoreError::Unavailable { cause }
        }
        error @ (EngineError::TooManyQueues { .. }
        | EngineError::NotAllKnown
        | EngineError::ClockNotVirtual) => away(&error.to_string()),
    })
}
