//! Move tasks at work: one driver moves the next messages of each running task, as fast as it can or at its rate.
//!
//! What a task has done lies in the store, so after a crash the driver finds it running and goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::notice::Notice;
use crate::timers::either;
use crate::{Engine, EngineError};
use kew_core::command::{ContinueMove, ListMoves};
use kew_core::{MoveTask, RuleError, TaskId, TaskState, Timestamp, ask};

/// Steps a second of a throttled task that is fast enough for them.
const STEPS_PER_SECOND: u32 = 10;
/// How long a task rests, in engine time, after the store could not go on with it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A task that is later than this does not hurry to catch up.
const LATENESS_MADE_GOOD: Duration = Duration::from_secs(1);

impl Engine {
    /// Drives the move tasks until [`Engine::shutdown`]. The builder of the engine spawns it once and joins it.
    pub async fn run_moves(&self) {
        let mut runs = Runs::new();
        let mut resumed = false;
        while !self.is_shut_down() {
            resumed = resumed || self.resume_moves().await;
            self.take_on(&mut runs);
            let now = self.now();
            let due: Vec<TaskId> =
                runs.iter().filter(|(_, run)| run.next_at <= now).map(|(id, _)| *id).collect();
            if due.is_empty() {
                let next = runs.values().map(|run| run.next_at).min().unwrap_or(Timestamp::NEVER);
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
            runs.entry(task.id).or_insert_with(|| Run::new(&task, self.options.move_batch, now));
        }
    }

    /// Takes a task's next step.
    async fn drive(&self, runs: &mut Runs, id: TaskId) {
        let Some(run) = runs.get_mut(&id) else { return };
        let next = ContinueMove { task: id, max: run.step };
        match self.answer::<ask::ContinueMove>(next).await {
            Ok(task) if task.state == TaskState::Running => {
                run.stepped(task.moved, self.now());
            }
            // Completed, failed, or cancelled by somebody: the store remembers which.
            Ok(_) | Err(EngineError::Rule(RuleError::TaskNotFound)) => drop(runs.remove(&id)),
            Err(error) => {
                run.next_at = self.now().plus(REST_AFTER_FAILURE);
                (self.options.notices)(Notice::MoveFailed(id, error));
            }
        }
    }
}

type Runs = BTreeMap<TaskId, Run>;

/// One running task and its pace.
struct Run {
    /// Messages a second; `None` is as fast as possible.
    rate: Option<u64>,
    /// Messages in one step.
    step: u32,
    /// Where the pace counts from.
    since: Timestamp,
    /// Messages that were moved by then.
    moved_before: u64,
    next_at: Timestamp,
}

impl Run {
    fn new(task: &MoveTask, batch: u32, now: Timestamp) -> Self {
        let batch = batch.max(1);
        let step = task.rate_max.map_or(batch, |rate| (rate / STEPS_PER_SECOND).clamp(1, batch));
        Self {
            rate: task.rate_max.map(|rate| u64::from(rate.max(1))),
            step,
            since: now,
            moved_before: task.moved,
            next_at: now,
        }
    }

    /// Sets the instant of the next step, after `moved` messages in all: a step may move fewer than it
    /// was asked to, when they are large.
    fn stepped(&mut self, moved: u64, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        // Counted from the beginning, so that nothing is lost to rounding.
        let passed = moved.saturating_sub(self.moved_before).saturating_mul(1_000) / rate;
        self.next_at = self.since.plus(Duration::from_millis(passed));
        if now.since(self.next_at) > LATENESS_MADE_GOOD {
            self.since = now;
            self.moved_before = moved;
            self.next_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: u32) -> Run {
        let task = MoveTask {
            id: TaskId(1),
            source: kew_core::QueueId(1),
            source_key: kew_core::QueueKey::new(kew_core::AccountId(0), "r", "q"),
            destination: None,
            rate_max: Some(rate),
            state: TaskState::Running,
            moved: 0,
            to_move: 1_000,
            started_at: Timestamp(0),
        };
        Run::new(&task, 100, Timestamp(0))
    }

    fn instants(rate: u32, count: usize) -> Vec<(u64, u32)> {
        let (mut run, mut moved, mut instants) = (run(rate), 0, Vec::new());
        for _ in 0..count {
            instants.push((run.next_at.0, run.step));
            moved += u64::from(run.step);
            run.stepped(moved, run.next_at);
        }
        instants
    }

    #[test]
    fn a_step_that_moved_fewer_than_asked_is_followed_sooner() {
        let mut run = run(500);
        run.stepped(5, Timestamp(0));
        assert_eq!(run.next_at, Timestamp(10), "5 of 500 a second");
    }

    #[test]
    fn slow_task_moves_one_message_at_a_time() {
        assert_eq!(instants(3, 4), [(0, 1), (333, 1), (666, 1), (1_000, 1)]);
    }

    #[test]
    fn fast_task_moves_a_tenth_of_a_seconds_worth_at_a_time() {
        assert_eq!(instants(500, 3), [(0, 50), (100, 50), (200, 50)]);
        assert_eq!(instants(20_000, 3), [(0, 100), (5, 100), (10, 100)]);
    }

    #[test]
    fn long_pause_is_not_made_good_by_a_burst() {
        let mut run = run(10);
        run.stepped(1, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_000));
        run.stepped(2, Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_100));
    }
}
