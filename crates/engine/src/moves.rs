//! Move tasks at work: one driver moves the next messages of each running task, as fast as it can or at its rate.
//!
//! Tasks of one shard take their steps in turn, each when the one before it is answered. Shards do not wait for each
//! other: one whose store is slow holds up no tasks but its own. What a task has done lies in the store, so after a
//! crash the driver finds it running and goes on.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use crate::asked::Answering;
use crate::notice::Notice;
use crate::pace::Pace;
use crate::timers::either;
use crate::{Engine, EngineError};
use kew_core::command::{ContinueMove, ListMoves};
use kew_core::{MoveTask, QueueId, RuleError, ShardId, TaskId, TaskState, Timestamp, ask};
use kew_store::error::OWED_AHEAD;

/// How long a task rests, in engine time, after the store could not go on with it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How long a task rests, in engine time, that is far ahead of those who carry its messages to another shard.
const REST_WHILE_AHEAD: Duration = Duration::from_millis(20);

impl Engine {
    /// Drives the move tasks until [`Engine::shutdown`]. The builder of the engine spawns it once and joins it.
    pub async fn run_moves(&self) {
        let (mut runs, mut steps) = (Runs::new(), Steps::default());
        let mut resumed = self.options.shards_come;
        while !self.is_shut_down() {
            resumed = resumed || self.resume_moves().await;
            if self.moves_left.swap(false, Ordering::AcqRel) {
                runs.retain(|_, run| self.store.keeps(run.source));
            }
            self.take_on(&mut runs);
            let next = self.begin_steps(&mut runs, &mut steps);
            let next = if resumed { next } else { next.min(self.now().plus(REST_AFTER_FAILURE)) };
            let mut ended = None;
            let woken = either(self.sleep_until(next), self.moves_bell.notified());
            either(async { ended = Some(steps.ended().await) }, woken).await;
            if let Some(ended) = ended {
                let _busy = self.work.begin();
                self.step_ended(&mut runs, ended);
                tokio::task::yield_now().await;
            }
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
            let run = || Run { source: task.source, moved: task.moved, pace: pace(), stepped: 0 };
            runs.entry(task.id).or_insert_with(run);
        }
    }

    /// Takes the next steps of tasks that are due, of each shard that one whose last step lies back furthest. Answers
    /// when another task is due.
    fn begin_steps<'a>(&'a self, runs: &mut Runs, steps: &mut Steps<'a>) -> Timestamp {
        let now = self.now();
        let is_due = |run: &Run| run.pace.next_at() <= now;
        let mut due: Vec<(u64, TaskId)> =
            runs.iter().filter(|(_, run)| is_due(run)).map(|(id, run)| (run.stepped, *id)).collect();
        due.sort_unstable();
        for (_, task) in due {
            let run = runs.get_mut(&task).expect("tasks that are due are run");
            if !self.store.keeps(run.source) {
                // Its shard has left this node: the owner drives it.
                runs.remove(&task);
                continue;
            }
            let shard = self.store.shard_of(run.source);
            if !steps.are_of(shard) {
                run.stepped = steps.next_number();
                let next = ContinueMove { task, max: run.pace.step() };
                let answer = self.answer::<ask::ContinueMove>(next);
                steps.under_way.push(Step { task, shard, begun: now, answer });
            }
        }
        let later = runs.values().filter(|run| !is_due(run)).map(|run| run.pace.next_at());
        later.min().unwrap_or(Timestamp::NEVER)
    }

    /// A task's step was answered.
    fn step_ended(&self, runs: &mut Runs, (id, begun, answer): Ended) {
        let Some(Run { moved, pace, .. }) = runs.get_mut(&id) else { return };
        match answer {
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
    /// The number of its last step.
    stepped: u64,
}

/// A step that is on its way.
struct Step<'a> {
    task: TaskId,
    shard: ShardId,
    begun: Timestamp,
    answer: Answering<'a, ask::ContinueMove>,
}

/// A task whose step has ended, when that began, and the answer.
type Ended = (TaskId, Timestamp, Result<Arc<MoveTask>, EngineError>);

/// The steps of all tasks.
#[derive(Default)]
struct Steps<'a> {
    /// One for each shard at most.
    under_way: Vec<Step<'a>>,
    /// Steps that were ever taken.
    taken: u64,
}

impl Steps<'_> {
    /// Whether one of this shard is under way.
    fn are_of(&self, shard: ShardId) -> bool {
        self.under_way.iter().any(|step| step.shard == shard)
    }

    fn next_number(&mut self) -> u64 {
        self.taken += 1;
        self.taken
    }

    /// Waits for the next one that ends: for ever while none is under way.
    async fn ended(&mut self) -> Ended {
        let next = |cx: &mut std::task::Context<'_>| {
            for place in 0..self.under_way.len() {
                if let Poll::Ready(answer) = Pin::new(&mut self.under_way[place].answer).poll(cx) {
                    // The others keep their order, the oldest first: none is left behind steps that end at once.
                    let Step { task, begun, .. } = self.under_way.remove(place);
                    return Poll::Ready((task, begun, answer));
                }
            }
            Poll::Pending
        };
        poll_fn(next).await
    }
}

type Runs = BTreeMap<TaskId, Run>;
