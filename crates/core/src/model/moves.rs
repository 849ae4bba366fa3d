//! Messages that go from queue to queue: dead letters, move tasks, and what a person chooses to move.

use std::sync::Arc;

use super::Model;
use super::send::Entering;
use crate::command::{ContinueMove, ListMoves, MoveChosen, StartMove};
use crate::rules::{dead_letters, delay};
use crate::{
    DeadLetterAction, DeduplicationId, EventKind, LeaseToken, MessageId, MoveReason, MoveTask, Origin,
    Outcome, QueueKey, Return, RuleError, Sequence, State, TaskFailure, TaskId, TaskState, Text, Timestamp,
};

/// Finished tasks that are kept.
const FINISHED_KEPT: usize = 100;

impl Model {
    /// Sends a message to where its queue's rule says. False, and nothing done, when that is nowhere.
    pub(super) fn depart(&mut self, index: usize, sequence: Sequence, at: Timestamp) -> bool {
        let rule = self.queues[index]
            .definition
            .policy
            .dead_letters
            .clone()
            .expect("an exhausted message has a rule");
        let key = match rule.then {
            DeadLetterAction::Drop => {
                self.remove(index, sequence);
                self.note(at, index, sequence, EventKind::Dropped);
                return true;
            }
            DeadLetterAction::MoveTo(key) => key,
        };
        // A queue that sends to itself has no dead-letter queue: the message stays where it is.
        let usable = |target: &usize| {
            *target != index && self.queues[*target].is_fifo() == self.queues[index].is_fifo()
        };
        let Some(target) = self.index_of_key(&key).filter(usable) else { return false };
        let held = self.remove(index, sequence);
        let arrival =
            dead_letters::arrival(rule.carries, at, held.sent_at, held.attempts, held.first_leased_at);
        let visible_at = if arrival.delayed { at.plus(self.delay_of(target)) } else { at };
        let token = self.enter(
            target,
            at,
            Entering {
                id: held.id,
                content: held.content,
                group: held.group,
                deduplication: self.own_deduplication(target, held.id),
                sent_at: arrival.sent_at,
                expiry: held.expiry,
                attempts: arrival.attempts,
                first_leased_at: arrival.first_leased_at,
                origin: Some(self.origin(index, MoveReason::AttemptsExhausted, at)),
                rank: at,
                visible_at,
                fresh: arrival.delayed,
            },
        );
        let to = self.queues[target].id();
        self.note(at, index, sequence, EventKind::DeadLettered { to, sequence: token.sequence });
        let from = self.queues[index].id();
        self.note(at, target, token.sequence, EventKind::Arrived { from, sequence });
        true
    }

    /// Sends a message as a new one to another queue; only its content, group and expiry are the old ones.
    fn redrive(&mut self, now: Timestamp, index: usize, sequence: Sequence, target: usize) -> Sequence {
        let id = MessageId::from_chance(self.entropy.wide_bits());
        let held = self.remove(index, sequence);
        let visible_at = now.plus(self.delay_of(target));
        let token = self.enter(
            target,
            now,
            Entering {
                id,
                content: held.content,
                group: held.group,
                deduplication: self.own_deduplication(target, id),
                sent_at: now,
                expiry: held.expiry,
                attempts: 0,
                first_leased_at: None,
                origin: Some(self.origin(index, MoveReason::Redriven, now)),
                rank: delay::rank(Return::InPlace, now, visible_at),
                visible_at,
                fresh: true,
            },
        );
        let to = self.queues[target].id();
        self.note(now, index, sequence, EventKind::Redriven { to, sequence: token.sequence });
        self.note(now, target, token.sequence, EventKind::Sent { id, visible_at });
        token.sequence
    }

    fn origin(&self, index: usize, reason: MoveReason, at: Timestamp) -> Origin {
        Origin { queue: self.queues[index].definition.key.clone(), reason, at }
    }

    /// A moved FIFO message is its own identity, so that no window of the target swallows it.
    fn own_deduplication(&self, target: usize, id: MessageId) -> Option<DeduplicationId> {
        self.queues[target].is_fifo().then(|| DeduplicationId(Text::from(id.to_string())))
    }

    fn delay_of(&self, index: usize) -> std::time::Duration {
        self.queues[index].definition.policy.delay
    }

    pub(super) fn start_move(&mut self, now: Timestamp, start: StartMove) -> Result<Outcome, RuleError> {
        let source = &self.queues[self.index(start.source)?];
        if start.destination.as_ref().is_some_and(|key| self.index_of_key(key).is_none()) {
            return Err(RuleError::QueueNotFound);
        }
        let running = |task: &MoveTask| task.source == start.source && task.state == TaskState::Running;
        if self.tasks.iter().any(running) {
            return Err(RuleError::TaskRunning);
        }
        let account = source.definition.key.account;
        let beside =
            |task: &&MoveTask| task.state == TaskState::Running && task.source_key.account == account;
        if self.tasks.iter().filter(beside).count() as u64 >= u64::from(start.running_max) {
            return Err(RuleError::TooManyTasks);
        }
        let to_move = source.counts().visible;
        let task = MoveTask {
            id: TaskId(self.tasks_made + 1),
            source: start.source,
            source_key: source.definition.key.clone(),
            destination: start.destination,
            rate_max: start.rate_max,
            state: if to_move == 0 { TaskState::Completed } else { TaskState::Running },
            moved: 0,
            to_move,
            started_at: now,
        };
        self.tasks_made += 1;
        self.tasks.push(task.clone());
        self.forget_old_tasks();
        Ok(Outcome::Move(Arc::new(task)))
    }

    pub(super) fn continue_move(&mut self, now: Timestamp, step: ContinueMove) -> Result<Outcome, RuleError> {
        let mut task = self.running_task(step.task)?;
        task.state = match self.index(task.source) {
            _ if task.is_over(now) => TaskState::Failed(TaskFailure::TookTooLong),
            Ok(index) => self.move_some(now, index, u64::from(step.max), &mut task),
            Err(_) => TaskState::Failed(TaskFailure::SourceMissing),
        };
        Ok(self.keep_task(task))
    }

    pub(super) fn cancel_move(&mut self, task: TaskId) -> Result<Outcome, RuleError> {
        let task = self.running_task(task)?;
        Ok(self.keep_task(MoveTask { state: TaskState::Cancelled, ..task }))
    }

    fn running_task(&mut self, task: TaskId) -> Result<MoveTask, RuleError> {
        let task = self.task(task)?;
        if task.state == TaskState::Running { Ok(task.clone()) } else { Err(RuleError::TaskNotFound) }
    }

    fn keep_task(&mut self, task: MoveTask) -> Outcome {
        *self.task(task.id).expect("the task exists") = task.clone();
        self.forget_old_tasks();
        Outcome::Move(Arc::new(task))
    }

    fn forget_old_tasks(&mut self) {
        let finished = self.tasks.iter().filter(|task| task.state != TaskState::Running);
        let too_many = finished.count().saturating_sub(FINISHED_KEPT);
        for _ in 0..too_many {
            let oldest = self.tasks.iter().position(|task| task.state != TaskState::Running);
            self.tasks.remove(oldest.expect("finished tasks are over the maximum, so one exists"));
        }
    }

    pub(super) fn list_moves(&self, list: ListMoves) -> Outcome {
        let wanted = |task: &&MoveTask| list.source.is_none_or(|source| task.source == source);
        Outcome::Moves(self.tasks.iter().rev().filter(wanted).cloned().map(Arc::new).collect())
    }

    /// Moves what one step may, in lease order, and says where the task stands then.
    fn move_some(&mut self, now: Timestamp, index: usize, max: u64, task: &mut MoveTask) -> TaskState {
        for _ in 0..max.min(task.to_move - task.moved) {
            let Some(next) = self.queues[index].in_lease_order().first().copied() else { break };
            let origin = self.queues[index].find(next).and_then(|held| held.origin.as_ref());
            let died = origin.is_some_and(|origin| origin.reason == MoveReason::AttemptsExhausted);
            if task.destination.is_none() && !died {
                return TaskState::Failed(TaskFailure::OriginUnknown);
            }
            match self.destination(index, next, task.destination.as_ref()) {
                Ok(target) => self.redrive(now, index, next, target),
                Err(why) => return TaskState::Failed(why),
            };
            task.moved += 1;
        }
        let nothing_ready = self.queues[index].in_lease_order().is_empty();
        if task.moved >= task.to_move || nothing_ready { TaskState::Completed } else { TaskState::Running }
    }

    /// Where a message is to go: where the caller says, or back to its origin.
    fn destination(
        &self,
        index: usize,
        sequence: Sequence,
        given: Option<&QueueKey>,
    ) -> Result<usize, TaskFailure> {
        let origin = self.queues[index].find(sequence).and_then(|held| held.origin.as_ref());
        let key = given.or(origin.map(|origin| &origin.queue)).ok_or(TaskFailure::OriginUnknown)?;
        let target = self.index_of_key(key).ok_or(TaskFailure::DestinationMissing)?;
        if self.queues[target].is_fifo() == self.queues[index].is_fifo() {
            Ok(target)
        } else {
            Err(TaskFailure::KindMismatch)
        }
    }

    pub(super) fn move_chosen(&mut self, now: Timestamp, chosen: MoveChosen) -> Result<Outcome, RuleError> {
        let index = self.index(chosen.source)?;
        if chosen.destination.as_ref().is_some_and(|key| self.index_of_key(key).is_none()) {
            return Err(RuleError::QueueNotFound);
        }
        let mut move_one = |token: &LeaseToken| {
            let held = self.check_token(index, token)?;
            if held.state != State::Ready {
                return Err(RuleError::LeaseEnded);
            }
            // Leased since it was looked at: it may not be what was chosen any more.
            if held.nonce != token.nonce {
                return Err(RuleError::TokenStale);
            }
            let target = self.destination(index, token.sequence, chosen.destination.as_ref());
            let target = target.map_err(|why| match why {
                TaskFailure::KindMismatch => RuleError::KindChange,
                _ => RuleError::QueueNotFound,
            })?;
            Ok(self.redrive(now, index, token.sequence, target))
        };
        Ok(Outcome::MovedChosen(chosen.tokens.iter().map(&mut move_one).collect()))
    }
}
