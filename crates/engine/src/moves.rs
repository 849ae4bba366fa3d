//! Move tasks at work: one driver moves the next messages of each running task, as fast as it can or at its rate.
//!
//! What a task has done lies in the store, so after a crash the driver finds it running and goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::unexpected;
use crate::options::Notice;
use crate::timers::either;
use crate::{Engine, EngineError};
use kew_core::command::{ContinueMove, ListMoves};
use kew_core::{Command, MoveTask, Outcome, TaskId, TaskState, Timestamp};

/// Steps a second of a throttled task that is fast enough for them.
const STEPS_PER_SECOND: u32 = 10;
/// How long a task rests, in engine time, after the store could not go on with it.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A task that is later than this does not hurry to catch up.
const LATENESS_MADE_GOOD: Duration = Duration::from_secs(1);

impl Engine {
    /// Drives the move tasks until [`Engine::shutdown`]. Whoever builds the engine spawns it once and joins it.
    pub async fn run_moves(&self) {
        let mut runs = Runs::new();
        self.resume_moves().await;
        while !self.is_shut_down() {
            self.take_on(&mut runs);
            let now = self.now();
            let due: Vec<TaskId> =
                runs.iter().filter(|(_, run)| run.next_at <= now).map(|(id, _)| *id).collect();
            if due.is_empty() {
                let next = runs.values().map(|run| run.next_at).min().unwrap_or(Timestamp::NEVER);
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

    /// Finds the tasks that ran when the store was last used.
    async fn resume_moves(&self) {
        let _busy = self.work.begin();
        match self.list_moves(ListMoves { source: None }).await {
            Ok(tasks) => tasks.iter().for_each(|task| self.learn_move(task)),
            Err(error) => (self.options.notices)(Notice::MovesUnknown(error)),
        }
    }

    fn take_on(&self, runs: &mut Runs) {
        let started = std::mem::take(&mut *self.started_moves.lock());
        let now = self.now();
        for task in started {
            runs.entry(task.id).or_insert_with(|| Run::new(task.rate_max, self.options.move_batch, now));
        }
    }

    /// Takes a task's next step.
    async fn drive(&self, runs: &mut Runs, id: TaskId) {
        let Some(run) = runs.get_mut(&id) else { return };
        let command = Command::ContinueMove(ContinueMove { task: id, max: run.step });
        match self.ask(&command).await {
            Ok(Outcome::Move(task)) if task.state == TaskState::Running => run.stepped(self.now()),
            // Completed, failed, or cancelled by somebody: the store remembers which.
            Ok(Outcome::Move(_)) | Err(EngineError::TaskNotFound) => drop(runs.remove(&id)),
            Ok(other) => unexpected("continue move", &other),
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
    steps: u64,
    next_at: Timestamp,
}

impl Run {
    fn new(rate_max: Option<u32>, batch: u32, now: Timestamp) -> Self {
        let batch = batch.max(1);
        let step = rate_max.map_or(batch, |rate| (rate / STEPS_PER_SECOND).clamp(1, batch));
        Self { rate: rate_max.map(|rate| u64::from(rate.max(1))), step, since: now, steps: 0, next_at: now }
    }

    /// Sets the instant of the next step.
    fn stepped(&mut self, now: Timestamp) {
        let Some(rate) = self.rate else { return };
        self.steps += 1;
        // Counted from the beginning, so that nothing is lost to rounding.
        let passed = self.steps.saturating_mul(u64::from(self.step)).saturating_mul(1_000) / rate;
        self.next_at = self.since.plus(Duration::from_millis(passed));
        if now.since(self.next_at) > LATENESS_MADE_GOOD {
            self.since = now;
            self.steps = 0;
            self.next_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants(rate: u32, count: usize) -> Vec<(u64, u32)> {
        let mut run = Run::new(Some(rate), 100, Timestamp(0));
        let mut instants = Vec::new();
        for _ in 0..count {
            instants.push((run.next_at.0, run.step));
            run.stepped(run.next_at);
        }
        instants
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
        let mut run = Run::new(Some(10), 100, Timestamp(0));
        run.stepped(Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_000));
        run.stepped(Timestamp(60_000));
        assert_eq!(run.next_at, Timestamp(60_100));
    }
}
