//! Move tasks, and messages that are moved by hand.

use kew_core::command::{ContinueMove, ListMoves, MoveChosen, StartMove};
use kew_core::{Command, QueueKey, TaskId, TaskState};

use super::Generator;
use super::things::is_ready;
use crate::contract::model::run::Run;

impl Generator {
    /// Where messages of a queue go: mostly home, or to a queue of the same kind.
    fn destination(&mut self, fifo: bool) -> Option<QueueKey> {
        match self.random.below(100) {
            0..30 => None,
            30..92 => Some(self.key_of_kind(fifo)),
            _ => Some(self.any_key()),
        }
    }

    pub(super) fn start_move(&mut self, run: &Run<'_>) -> Option<Command> {
        let source = self.queue_with(run, is_ready)?;
        let destination = self.destination(Self::is_fifo(run, source));
        let (rate_max, running_max) = match self.random.below(100) {
            0..30 => (Some(5), 100),
            30..50 => (None, 1),
            _ => (None, 100),
        };
        Some(Command::StartMove(StartMove { source, destination, rate_max, running_max }))
    }

    pub(super) fn some_task(&mut self, run: &Run<'_>) -> Option<TaskId> {
        let newest = run.model.tasks().last()?.id.0;
        let running = run.model.tasks().iter().filter(|task| task.state == TaskState::Running);
        let running: Vec<_> = running.map(|task| task.id).collect();
        let any = TaskId(1 + self.random.below(newest + 1));
        if self.random.chance(90) { self.random.pick(&running).copied() } else { Some(any) }
    }

    pub(super) fn continue_move(&mut self, run: &Run<'_>) -> Option<Command> {
        let max = *self.random.pick(&[1, 2, 3, 100, 0]).expect("a list with entries has a pick");
        Some(Command::ContinueMove(ContinueMove { task: self.some_task(run)?, max }))
    }

    pub(super) fn cancel_move(&mut self, run: &Run<'_>) -> Option<Command> {
        Some(Command::CancelMove(self.some_task(run)?))
    }

    pub(super) fn list_moves(&mut self, run: &Run<'_>) -> Option<Command> {
        let queue = self.queue(run)?;
        Some(Command::ListMoves(ListMoves { source: self.random.chance(50).then_some(queue) }))
    }

    pub(super) fn move_chosen(&mut self, run: &Run<'_>) -> Option<Command> {
        let source = self.queue_with(run, is_ready)?;
        let destination = self.destination(Self::is_fifo(run, source));
        let tokens = self.tokens(run, source, is_ready)?;
        Some(Command::MoveChosen(MoveChosen { source, destination, tokens }))
    }
}
