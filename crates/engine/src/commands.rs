//! What may be asked of the engine: one method per command, each one step of the store where nothing has to wait.
//! Receives are in `leasing.rs`.
//!
//! A command is taken when its future is first polled. Dropping the future of a lease withdraws it, until it is
//! committed; dropping any other leaves the step done and its answer unheard.

use std::sync::Arc;

use bytes::Bytes;
use kew_core::command::{
    Ack, CreateQueue, DeleteQueue, Documents, Extend, History, Identify, ListMoves, MoveChosen, Peek, Purge,
    PutDocuments, Release, ReleaseOwners, Send, StartMove, UpdateQueue, Withdraw,
};
use kew_core::outcome::{Extended, Sent};
use kew_core::{
    Ask, Command, Counts, DocumentKey, Event, LeaseToken, Message, MessageId, MoveTask, Outcome, Queue,
    QueueId, RuleError, Sequence, TaskId, Timestamp, ask,
};
use kew_store::Submission;

use crate::asked::Asked;
use crate::{Engine, EngineError};

/// What became of two steps that were handed over together, each for itself.
#[derive(Debug)]
pub struct Settled {
    /// Of the receipts whose messages were to be deleted.
    pub acked: Result<Vec<Result<(), RuleError>>, EngineError>,
    /// Of those whose messages were to be given up: when each shows again.
    pub released: Result<Vec<Result<Timestamp, RuleError>>, EngineError>,
}

impl Engine {
    /// Makes a queue, unless its account has the maximum number of queues. Queues that are made at the same time, in
    /// any dialect, do not exceed it.
    pub async fn create_queue(&self, create: CreateQueue) -> Result<Arc<Queue>, EngineError> {
        let key = create.key.clone();
        let command = Command::CreateQueue(create);
        let begun = {
            let mut pass = self.pass();
            let is_new = self.snapshots.by_name((&key).into()).is_none();
            let max = self.options.queues_max;
            if is_new && self.snapshots.count(key.account) >= max as usize {
                return Err(EngineError::TooManyQueues { max });
            }
            match self.store.define(&command) {
                Some(submission) => Defining::Agreed(submission),
                None => Defining::Taken(self.ask_in(&mut pass, command)),
            }
        };
        Ok(ask::CreateQueue::answer(self.defined(begun).await?))
    }

    /// Changes a queue's settings, documents or name.
    pub async fn update_queue(&self, update: UpdateQueue) -> Result<Arc<Queue>, EngineError> {
        let renamed = update.rename.as_ref().and_then(|_| self.queue_by_id(update.queue));
        let begun = self.begin_to_define(ask::UpdateQueue::command(update));
        let queue = ask::UpdateQueue::answer(self.defined(begun).await?);
        if renamed.is_some_and(|before| before.key != queue.key && self.snapshots.names(&before.key)) {
            // A store that answers from elsewhere: other queues' rules have followed the name there.
            self.load_queues().await?;
        }
        Ok(queue)
    }

    /// Deletes a queue and says how many messages went with it. Its waits end empty.
    pub async fn delete_queue(&self, delete: DeleteQueue) -> Result<u64, EngineError> {
        let queue = delete.queue;
        let begun = self.begin_to_define(ask::DeleteQueue::command(delete));
        let messages = ask::DeleteQueue::answer(self.defined(begun).await?);
        self.queue_is_gone(&mut self.pass(), queue);
        Ok(messages)
    }

    fn begin_to_define(&self, command: Command) -> Defining<'_> {
        match self.store.define(&command) {
            Some(submission) => Defining::Agreed(submission),
            None => Defining::Taken(self.ask(command)),
        }
    }

    async fn defined(&self, begun: Defining<'_>) -> Result<Outcome, EngineError> {
        match begun {
            Defining::Taken(asked) => asked.await,
            Defining::Agreed(submission) => {
                let answer = submission.await;
                self.learn_late(&answer);
                Ok(answer?)
            }
        }
    }

    /// Adds messages, all or none.
    pub async fn send(&self, send: Send) -> Result<Vec<Sent>, EngineError> {
        self.answer::<ask::Send>(send).await
    }

    /// Deletes messages by their receipts, each for itself.
    pub async fn ack(&self, ack: Ack) -> Result<Vec<Result<(), RuleError>>, EngineError> {
        self.answer::<ask::Ack>(ack).await
    }

    /// Gives leases another end, each for itself.
    pub async fn extend(&self, extend: Extend) -> Result<Vec<Result<Extended, RuleError>>, EngineError> {
        self.answer::<ask::Extend>(extend).await
    }

    /// Gives leases up, each for itself; says when each message shows again.
    pub async fn release(&self, release: Release) -> Result<Vec<Result<Timestamp, RuleError>>, EngineError> {
        self.answer::<ask::Release>(release).await
    }

    /// Deletes some messages and gives others up: both steps are handed over before either is awaited, so that they
    /// reach the disk together unless it is between them that it fails. One that names nothing is not taken.
    pub async fn ack_and_release(&self, ack: Ack, release: Release) -> Settled {
        let acked = (!ack.tokens.is_empty()).then(|| self.ask(Command::Ack(ack)));
        let released = (!release.entries.is_empty()).then(|| self.ask(Command::Release(release)));
        let acked = match acked {
            Some(acked) => acked.await.map(ask::Ack::answer),
            None => Ok(Vec::new()),
        };
        let released = match released {
            Some(released) => released.await.map(ask::Release::answer),
            None => Ok(Vec::new()),
        };
        Settled { acked, released }
    }

    /// Undoes leases whose messages were never delivered: no attempt is counted, and each is where it was before. Says
    /// how many were undone; a lease that has ended or was changed is left as it is.
    pub async fn withdraw(&self, withdraw: Withdraw) -> Result<u32, EngineError> {
        self.answer::<ask::Withdraw>(withdraw).await
    }

    /// Releases every endless lease of owners other than this one.
    pub async fn release_owners(&self, release: ReleaseOwners) -> Result<(), EngineError> {
        self.answer::<ask::ReleaseOwners>(release).await
    }

    /// Shows messages without touching them.
    pub async fn peek(&self, peek: Peek) -> Result<Vec<(Message, LeaseToken)>, EngineError> {
        self.answer::<ask::Peek>(peek).await
    }

    /// Says which message a receipt is of, whatever the receipt may still do.
    pub async fn identify(&self, identify: Identify) -> Result<MessageId, EngineError> {
        self.answer::<ask::Identify>(identify).await
    }

    /// Deletes everything in a queue and says how many messages that were.
    pub async fn purge(&self, purge: Purge) -> Result<u64, EngineError> {
        self.answer::<ask::Purge>(purge).await
    }

    /// Counts a queue's messages.
    pub async fn counts(&self, queue: QueueId) -> Result<Counts, EngineError> {
        self.answer::<ask::Counts>(queue).await
    }

    /// Counts a queue's messages as they are, durable or not: for figures that must not wait for a disk.
    pub async fn counts_so_far(&self, queue: QueueId) -> Result<Counts, EngineError> {
        let submission = self.submit(&Command::Counts(queue));
        if let Some(Outcome::Counts(counts)) = submission.peek() {
            return Ok(*counts);
        }
        Ok(ask::Counts::answer(submission.await?))
    }

    /// Starts emptying a queue; the driver goes on by itself.
    pub async fn start_move(&self, start: StartMove) -> Result<Arc<MoveTask>, EngineError> {
        self.answer::<ask::StartMove>(start).await
    }

    /// Stops a move task; what was moved stays moved.
    pub async fn cancel_move(&self, task: TaskId) -> Result<Arc<MoveTask>, EngineError> {
        self.answer::<ask::CancelMove>(task).await
    }

    /// Lists move tasks, newest first.
    pub async fn list_moves(&self, list: ListMoves) -> Result<Vec<Arc<MoveTask>>, EngineError> {
        self.answer::<ask::ListMoves>(list).await
    }

    /// Moves messages a person chose, each for itself; says which message each became.
    pub async fn move_chosen(
        &self,
        chosen: MoveChosen,
    ) -> Result<Vec<Result<Sequence, RuleError>>, EngineError> {
        self.answer::<ask::MoveChosen>(chosen).await
    }

    /// Reads an account's documents of one owner.
    pub async fn documents(&self, documents: Documents) -> Result<Vec<(DocumentKey, Bytes)>, EngineError> {
        self.answer::<ask::Documents>(documents).await
    }

    /// Writes or removes an account's documents.
    pub async fn put_documents(&self, documents: PutDocuments) -> Result<(), EngineError> {
        self.answer::<ask::PutDocuments>(documents).await
    }

    /// What happened to one message, oldest first, as far as it is remembered.
    pub async fn history(&self, queue: QueueId, sequence: Sequence) -> Result<Vec<Event>, EngineError> {
        let history = History { queue, sequence };
        self.answer::<ask::History>(history).await
    }

    /// Takes a step that another node asks for, whose kind it alone knows.
    pub async fn carry_out(&self, command: Command) -> Result<Outcome, EngineError> {
        self.ask(command).await
    }
}

/// A queue that is being made, changed or deleted.
enum Defining<'a> {
    /// The step was taken.
    Taken(Asked<'a>),
    /// Other nodes agree to it first.
    Agreed(Submission),
}
