//! Shards that come to this node and leave it, and queues that other nodes keep.
//!
//! A store may keep some shards itself and ask other nodes for the others ([`kew_store::Store::keeps`]). The engine
//! shows the queues of all of them. It leads lines, timers and move tasks for those that are kept here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashSet;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Command, MoveTask, Outcome, Queue, QueueId, ShardId};

use crate::{Engine, EngineError};

/// What a shard brings along.
#[derive(Clone, Debug, Default)]
pub struct Brought {
    /// Its queues.
    pub queues: Vec<Arc<Queue>>,
    /// Its running move tasks.
    pub tasks: Vec<Arc<MoveTask>>,
    /// How its expiry is held.
    pub hold: Option<ExpiryHold>,
}

impl Engine {
    /// The store keeps a shard from now on. `is_of` says which queues are in it.
    pub fn shard_came(&self, brought: &Brought, is_of: impl Fn(QueueId) -> bool) {
        if let Some(hold) = brought.hold {
            self.see_to_hold(hold);
        }
        self.show_all(&brought.queues, is_of);
        brought.tasks.iter().for_each(|task| self.learn_move(task));
        self.rearm(&mut self.pass());
    }

    /// The store knows of something more that is due.
    pub fn look_at_due(&self) {
        self.rearm(&mut self.pass());
    }

    /// Takes a look in one shard that is otherwise taken in all of them.
    pub async fn look_in(&self, shard: ShardId, command: Command) -> Result<Outcome, EngineError> {
        let submission = self.step_in(shard, &command);
        Ok(submission.await?)
    }

    /// The store keeps a shard no more: receives that wait for its queues end empty, and what rings for consumers of
    /// its queues rings. The queues are shown as before.
    pub fn shard_left(&self, is_of: impl Fn(QueueId) -> bool) {
        let mut pass = self.pass();
        for queue in pass.waiters.queues().into_iter().filter(|queue| is_of(*queue)) {
            self.end_line(&mut pass, queue);
        }
        for queue in self.snapshots.all().into_iter().filter(|queue| is_of(queue.id)) {
            pass.watches.changed(queue.id, &self.work);
        }
        self.moves_left.store(true, Ordering::Release);
        self.moves_bell.notify_one();
    }

    /// Shows these queues as all there are of a shard. `is_of` says which queues are in it.
    fn show_all(&self, queues: &[Arc<Queue>], is_of: impl Fn(QueueId) -> bool) {
        let there: HashSet<QueueId> = queues.iter().map(|queue| queue.id).collect();
        let gone = self.snapshots.all().into_iter().map(|queue| queue.id);
        for queue in gone.filter(|queue| is_of(*queue) && !there.contains(queue)) {
            self.hide_queue(queue);
        }
        queues.iter().for_each(|queue| self.show_queue(queue));
    }

    /// Shows a queue that was made or changed elsewhere, unless a newer state of it is shown already.
    pub fn show_queue(&self, queue: &Arc<Queue>) {
        self.snapshots.put(queue);
        self.pass().watches.changed(queue.id, &self.work);
    }

    /// Shows a queue no more that was deleted elsewhere.
    pub fn hide_queue(&self, queue: QueueId) {
        self.queue_is_gone(&mut self.pass(), queue);
    }
}
