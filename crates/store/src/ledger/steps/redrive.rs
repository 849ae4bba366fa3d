//! Move tasks and moves by hand: messages enter the target as new ones.

use std::sync::Arc;

use kew_core::command::{ContinueMove, ListMoves, MoveChosen, StartMove};
use kew_core::{
    Content, DeduplicationId, MessageId, MoveReason, MoveTask, Origin, Outcome, Queue, QueueId, QueueKey,
    RuleError, Sequence, TaskFailure, TaskId, TaskState, Text, Timestamp, own,
};

use smallvec::SmallVec;

use super::owed::{NOTE_BYTES, Target};
use super::send::MESSAGE_BYTES;
use crate::StoreError;
use crate::error::OWED_AHEAD;
use crate::ledger::Ledger;
use crate::ledger::change::{Change, Sent};
use crate::ledger::item::Item;
use crate::ledger::shelf::Shelf;

/// Messages that are owed to one queue of another shard before move tasks rest.
const OWED_BY_TASKS_MAX: u64 = 20_000;

/// Bytes of content that one step of a task moves at most, beyond its first message: a caller waits for no more
/// than that.
const MOVED_BYTES_MAX: u64 = 1 << 20;

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn start_move(
        &mut self,
        now: Timestamp,
        command: &StartMove,
    ) -> Result<Outcome, StoreError> {
        let source = self.book(command.source)?;
        let (source_key, to_move) = (source.queue.key.clone(), source.visible());
        self.must_be_there(command.destination.as_ref())?;
        let running =
            |task: &Arc<MoveTask>| task.source == command.source && task.state == TaskState::Running;
        if self.tasks.values().any(running) {
            return Err(RuleError::TaskRunning.into());
        }
        let beside = |task: &&Arc<MoveTask>| {
            task.state == TaskState::Running && task.source_key.account == source_key.account
        };
        if self.tasks.values().filter(beside).count() as u64 >= u64::from(command.running_max) {
            return Err(RuleError::TooManyTasks.into());
        }
        let task = MoveTask {
            id: TaskId(self.place.number_from(self.next_task.0)),
            source: command.source,
            source_key,
            destination: command.destination.clone(),
            rate_max: command.rate_max,
            state: if to_move == 0 { TaskState::Completed } else { TaskState::Running },
            moved: 0,
            to_move,
            started_at: now,
        };
        Ok(Outcome::Move(self.set_task(now, task)))
    }

    /// Refuses a move to a queue that is in no shard.
    fn must_be_there(&self, destination: Option<&QueueKey>) -> Result<(), StoreError> {
        let Some(key) = destination else { return Ok(()) };
        self.found(key)?.map(drop).ok_or_else(|| RuleError::QueueNotFound.into())
    }

    fn set_task(&mut self, now: Timestamp, task: MoveTask) -> Arc<MoveTask> {
        let task = Arc::new(task);
        self.enact(now, &Change::TaskSet(task.clone()));
        task
    }

    fn running_task(&self, task: TaskId) -> Result<MoveTask, RuleError> {
        let task = self.tasks.get(&task).filter(|task| task.state == TaskState::Running);
        task.map(|task| MoveTask::clone(task)).ok_or(RuleError::TaskNotFound)
    }

    pub(in crate::ledger) fn continue_move(
        &mut self,
        now: Timestamp,
        command: ContinueMove,
    ) -> Result<Outcome, StoreError> {
        let mut task = self.running_task(command.task)?;
        if task.is_over(now) {
            task.state = TaskState::Failed(TaskFailure::TookTooLong);
        }
        let max = u64::from(command.max).min(task.to_move.saturating_sub(task.moved));
        if task.state == TaskState::Running {
            self.next_at_hand(task.source, max)?;
        }
        let (before, mut bytes, mut passed_over) = (task.moved, 0, 0);
        while task.moved - before + passed_over < max && task.state == TaskState::Running {
            match self.move_next(now, &task, MOVED_BYTES_MAX.saturating_sub(bytes), task.moved == before) {
                Ok(Moved::One(moved)) => (task.moved, bytes) = (task.moved + 1, bytes + moved),
                Ok(Moved::PassedOver) => {
                    passed_over += 1;
                    task.to_move -= 1;
                }
                Ok(Moved::Enough) => break,
                // More becomes ready before its next step.
                Ok(Moved::Nothing) if self.may_become_ready(task.source) => break,
                Ok(Moved::Nothing) => task.state = TaskState::Completed,
                Err(MoveError::Failure(failure)) => task.state = TaskState::Failed(failure),
                // What was moved stays moved and counted; the task goes on when there is room again.
                Err(MoveError::Store(error)) if task.moved == before && passed_over == 0 => {
                    return Err(error);
                }
                Err(MoveError::Store(_)) => break,
            }
        }
        let is_empty = self.first_offered(task.source).is_none() && !self.may_become_ready(task.source);
        let is_done = task.moved >= task.to_move || is_empty;
        if task.state == TaskState::Running && is_done {
            task.state = if self.books.contains_key(&task.source) {
                TaskState::Completed
            } else {
                TaskState::Failed(TaskFailure::SourceMissing)
            };
        }
        Ok(Outcome::Move(self.set_task(now, task)))
    }

    /// Makes sure that the messages of a step can be read: those that have to be waited for are read together.
    fn next_at_hand(&mut self, source: QueueId, max: u64) -> Result<(), StoreError> {
        self.first_turn(source);
        let Some(book) = self.books.get(&source) else { return Ok(()) };
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let is_fifo = book.queue.policy.kind.is_fifo();
        let items: SmallVec<[Item; 8]> =
            if is_fifo { book.offered().take(max).collect() } else { book.ready_items().take(max).collect() };
        let (mut at_hand, mut bytes) = (Ok(()), 0);
        for (index, item) in items.iter().enumerate() {
            bytes += u64::from(item.record_bytes.max(item.body_bytes));
            if bytes > MOVED_BYTES_MAX && index > 0 {
                break;
            }
            // One that is damaged is met when its turn comes.
            if let Err(error @ StoreError::Overloaded { .. }) = self.shelf.at_hand(item.place()) {
                at_hand = Err(error);
            }
        }
        at_hand
    }

    /// Whether messages may be offered here that are not yet, without that anything happens to them.
    fn may_become_ready(&self, queue: QueueId) -> bool {
        self.is_lapsing(queue) || self.is_expiring(queue)
    }

    fn first_offered(&mut self, queue: QueueId) -> Option<Item> {
        let group = self.first_turn(queue);
        let book = self.books.get_mut(&queue)?;
        match group {
            Some(group) => book.head_of(group),
            None => book.front(),
        }
    }

    /// Moves the next ready message of a task, unless it has more than `bytes_max` bytes and is not the first of its
    /// step. One that is damaged is set aside, so that it keeps none behind it.
    fn move_next(
        &mut self,
        now: Timestamp,
        task: &MoveTask,
        bytes_max: u64,
        is_first: bool,
    ) -> Result<Moved, MoveError> {
        let book = self.books.get(&task.source).ok_or(TaskFailure::SourceMissing)?;
        let source = book.queue.clone();
        let Some(item) = self.first_offered(task.source) else { return Ok(Moved::Nothing) };
        let bytes = u64::from(item.record_bytes.max(item.body_bytes));
        if bytes > bytes_max && !is_first {
            return Ok(Moved::Enough);
        }
        if task.destination.is_none() && !self.is_dead_letter(task.source, &item) {
            return Err(TaskFailure::OriginUnknown.into());
        }
        let target = self.destination(&source, task.destination.as_ref(), &item)?;
        if self.is_far_ahead(&target) {
            return Err(StoreError::Overloaded { what: OWED_AHEAD }.into());
        }
        match self.redrive(now, &source, &target, &item) {
            Ok(_) => Ok(Moved::One(bytes)),
            Err(error @ StoreError::Damaged { .. }) => {
                self.set_aside(now, task.source, item.sequence, &error)?;
                Ok(Moved::PassedOver)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a message was tried too often where it came from. One that a task or a person brought has no source to
    /// go back to: it came to stay.
    fn is_dead_letter(&self, queue: QueueId, item: &Item) -> bool {
        let origin = self.books.get(&queue).and_then(|book| book.origin_of(item));
        origin.is_some_and(|(_, reason)| *reason == MoveReason::AttemptsExhausted)
    }

    /// Where a message of `source` goes: to the queue named, or back to where it came from.
    fn destination(
        &self,
        source: &Queue,
        named: Option<&QueueKey>,
        item: &Item,
    ) -> Result<Target, MoveError> {
        let book = self.books.get(&source.id).ok_or(TaskFailure::SourceMissing)?;
        let key = match named {
            Some(key) => key,
            None => &book.origin_of(item).ok_or(TaskFailure::OriginUnknown)?.0,
        };
        let target = self.found(key)?.ok_or(TaskFailure::DestinationMissing)?;
        if target.queue().policy.kind.is_fifo() != source.policy.kind.is_fifo() {
            return Err(TaskFailure::KindMismatch.into());
        }
        Ok(target)
    }

    /// Whether as many messages are owed to a queue as a task may be ahead of those that carry them.
    fn is_far_ahead(&self, target: &Target) -> bool {
        let Target::Elsewhere(queue) = target else { return false };
        let outbox = self.named(&own::outbox(queue.id)).and_then(|outbox| self.books.get(&outbox.id));
        outbox.is_some_and(|book| book.stored() >= OWED_BY_TASKS_MAX)
    }

    /// A message leaves, and a new one with its content enters the target.
    fn redrive(
        &mut self,
        now: Timestamp,
        source: &Queue,
        target: &Target,
        item: &Item,
    ) -> Result<Sequence, StoreError> {
        let stored = self.shelf.read(item.place())?;
        let content: &Content = &stored.content;
        self.shelf
            .room((content.body.len() + content.annotations.len()) as u64 + 2 * MESSAGE_BYTES + NOTE_BYTES)?;
        let landing = self.landing(now, target);
        let origin = Origin { queue: target.origin(source), reason: MoveReason::Redriven, at: now };
        let target = &*landing;
        let is_owed = self.outboxes.contains(&target.id);
        let id = MessageId::from_chance(self.entropy.wide_bits());
        let is_fifo = target.policy.kind.is_fifo();
        let deduplication = is_fifo.then(|| DeduplicationId(Text::from(id.to_string())));
        let left = Change::Redriven {
            queue: source.id,
            sequence: item.sequence,
            to: target.id,
            as_sequence: self.next_sequence(target),
        };
        self.enact(now, &left);
        let sequence = self.next_sequence(target);
        let sent = Sent {
            queue: target.id,
            sequence,
            id,
            content,
            group: stored.group.as_ref(),
            deduplication: deduplication.as_ref(),
            identity: None,
            visible_at: now.plus(target.policy.delay),
            // An outbox is carried in the order of its places.
            rank: if is_owed { Timestamp::ZERO } else { now },
            expiry: item.expiry,
            origin: Some(&origin),
        };
        self.enact(now, &Change::Sent(sent));
        Ok(sequence)
    }

    pub(in crate::ledger) fn cancel_move(
        &mut self,
        now: Timestamp,
        task: TaskId,
    ) -> Result<Outcome, StoreError> {
        let task = MoveTask { state: TaskState::Cancelled, ..self.running_task(task)? };
        Ok(Outcome::Move(self.set_task(now, task)))
    }

    pub(in crate::ledger) fn list_moves(&self, command: ListMoves) -> Outcome {
        let wanted = |task: &&Arc<MoveTask>| command.source.is_none_or(|source| task.source == source);
        Outcome::Moves(self.tasks.values().rev().filter(wanted).cloned().collect())
    }

    pub(in crate::ledger) fn move_chosen(
        &mut self,
        now: Timestamp,
        command: &MoveChosen,
    ) -> Result<Outcome, StoreError> {
        let source = self.book(command.source)?.queue.clone();
        self.must_be_there(command.destination.as_ref())?;
        // Room for all of them first: a step is done whole or not at all.
        let chosen = command.tokens.iter().filter_map(|token| self.chosen(&source, token).ok());
        let chosen: Vec<Item> = chosen.collect();
        let bytes: u64 = chosen
            .iter()
            .map(|item| u64::from(item.record_bytes.max(item.body_bytes)) + 2 * MESSAGE_BYTES + NOTE_BYTES)
            .sum();
        self.shelf.room(bytes)?;
        let is_at_hand = |all: Result<(), StoreError>, item: &Item| {
            all.and(match self.shelf.at_hand(item.place()) {
                // That one stays; the others are moved.
                Err(StoreError::Damaged { .. }) => Ok(()),
                at_hand => at_hand,
            })
        };
        chosen.iter().fold(Ok(()), is_at_hand)?;
        let mut results = Vec::with_capacity(command.tokens.len());
        for token in &command.tokens {
            results.push(match self.chosen(&source, token) {
                Err(error) => Err(error),
                Ok(item) => match self.destination(&source, command.destination.as_ref(), &item) {
                    Err(MoveError::Failure(TaskFailure::KindMismatch)) => Err(RuleError::KindChange),
                    Err(_) => Err(RuleError::QueueNotFound),
                    Ok(target) => match self.redrive(now, &source, &target, &item) {
                        // Nothing of it was changed, and those before it in the step are moved.
                        Err(StoreError::Damaged { .. }) => Err(RuleError::MessageNotFound),
                        moved => Ok(moved?),
                    },
                },
            });
        }
        Ok(Outcome::MovedChosen(results))
    }

    fn chosen(&self, source: &Queue, token: &kew_core::LeaseToken) -> Result<Item, RuleError> {
        self.key.verify(token)?;
        if token.queue != source.id {
            return Err(RuleError::TokenOfOtherQueue);
        }
        let book = self.book(source.id)?;
        let (item, _) = book.find(token.sequence).ok_or(RuleError::MessageNotFound)?;
        if !book.is_ready(token.sequence) {
            return Err(RuleError::LeaseEnded);
        }
        // Leased since it was looked at: it may not be what was chosen any more.
        if self.newest_nonce(source.id, &item) == token.nonce { Ok(item) } else { Err(RuleError::TokenStale) }
    }
}

/// What became of a task's next message.
enum Moved {
    /// It moved, and had this number of bytes.
    One(u64),
    /// It is damaged and was set aside.
    PassedOver,
    /// It is left for the next step.
    Enough,
    /// There is none.
    Nothing,
}

/// Why a task's next message was not moved.
enum MoveError {
    Failure(TaskFailure),
    Store(StoreError),
}

impl From<TaskFailure> for MoveError {
    fn from(failure: TaskFailure) -> Self {
        Self::Failure(failure)
    }
}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
