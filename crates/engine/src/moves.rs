//! Move tasks at work: one driver moves the next messages of each running task, as fast as it can or at its rate.
//!
//! What a task has done lies in the store, so after a crash the driver finds it running and goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::notice::Notice;
use crate::pace::Pace;
use crate::timers::either;
use crate::{Engine, EngineError};
use kew_core::command::{ContinueMove, ListMoves};
use kew_core::{MoveTask, QueueId, RuleError, TaskId, TaskState, Timestamp, ask};
use kew_store::error::OWED_AHEAD;

/// How long a task rests, in engine time, after the store could not go on with it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a task rests, in engine time, that is far ahead of those who carry its messages to another shard.
const REST_WHILE_AHEAD: Duration = Duration::from_millis(20);

impl Engine {
    /// Drives the move tasks until [`Engine::shutdown`]. The builder of the engine spawns it once and joins it.
    pub async fn run_moves(&self) {
        let mut runs = Runs::new();
        let mut resumed = self.options.shards_come;
        while !self.is_shut_down() {
            resumed = resumed || self.resume_moves().await;
            if self.moves_left.swap(false, Ordering::AcqRel) {
                runs.retain(|_, run| self.store.keeps(run.source));
            }
            self.take_on(&mut runs);
            let now = self.now();
            let due: Vec<TaskId> =
                runs.iter().filter(|(_, run)| run.pace.next_at() <= now).map(|(id, _)| *id).collect();
            if due.is_empty() {
                let next = runs.values().map(|run| run.pace.next_at()).min().unwrap_or(Timestamp::NEVER);
                let next = if resumed { next } else { next.min(now.plus(REST_AFTER_FAILURE)) };
                either(self.sleep_until(next), self.moves_bell.notified()).await;
                continue;
            }
            let _busy = self.work.begin();
            for id in due {
                self.drive(&mut runs, id).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Notes a task that may have begun to run.
    pub(crate) fn learn_move(&self, task: &Arc<MoveTask>) {
        if task.state == TaskState::Running {
            self.started_moves.lock().push(Arc::clone(task));
            self.moves_bell.notify_one();
        }
    }

    /// Finds the tasks that ran when the store was last used; false when they must be looked for again.
    async fn resume_moves(&self) -> bool {
        let _busy = self.work.begin();
        match self.list_moves(ListMoves { source: None }).await {
            Ok(tasks) => {
                tasks.iter().for_each(|task| self.learn_move(task));
                true
            }
            Err(error) => {
                (self.options.notices)(Notice::MovesUnknown(error));
                false
            }
        }
    }

    fn take_on(&self, runs: &mut Runs) {
        let started = std::mem::take(&mut *self.started_moves.lock());
        let now = self.now();
        for task in started {
            let pace = || Pace::new((task.rate_max, self.options.move_batch), task.moved, now);
            let run = || Run { source: task.source, moved: task.moved, pace: pace() };
            runs.entry(task.id).or_insert_with(run);
        }
    }

    /// Takes a task's next step.
    async fn drive(&self, runs: &mut Runs, id: TaskId) {
        let Some(Run { source, moved, pace }) = runs.get_mut(&id) else { return };
        if !self.store.keeps(*source) {
            // Its shard has left this node: the owner drives it.
            runs.remove(&id);
            return;
        }
        let next = ContinueMove { task: id, max: pace.step() };
        let begun = self.now();
        match self.answer::<ask::ContinueMove>(next).await {
            Ok(task) if task.state == TaskState::Running => {
                let now = self.now();
                pace.stepped(task.moved, now);
                let by_this_step = task.moved.saturating_sub(*moved);
                // Fewer than asked for: they were large, and keep the disk busy.
                if 0 < by_this_step && by_this_step < u64::from(pace.step()) {
                    pace.rest_as_long_as(now.since(begun), now);
                }
                *moved = task.moved;
            }
            // Completed, failed, or cancelled by somebody: the store remembers which.
            Ok(_) | Err(EngineError::Rule(RuleError::TaskNotFound)) => drop(runs.remove(&id)),
            Err(EngineError::Overloaded { what: OWED_AHEAD }) => {
                pace.rest_until(self.now().plus(REST_WHILE_AHEAD));
            }
            Err(error) => {
                pace.rest_until(self.now().plus(REST_AFTER_FAILURE));
                (self.options.notices)(Notice::MoveFailed(id, error));
            }
        }
    }
}

/// A task that this engine drives.
struct Run {
    source: QueueId,
    /// Messages that it has moved.
    moved: u64,
    pace: Pace,
}

type Runs = BTreeMap<TaskId, Run>;
