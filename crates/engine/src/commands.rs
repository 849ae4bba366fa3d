//! What may be asked of the engine: one method per command, each one step of the store where nothing has to wait.
//!
//! A command is taken when its future is first polled. Dropping the future of a lease withdraws it, until it is
//! committed; dropping any other leaves the step done and its answer unheard.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{
    Ack, CreateQueue, DeleteQueue, Documents, Extend, History, Identify, Lease, ListMoves, MoveChosen,
    OverLimit, Peek, Purge, PutDocuments, Release, ReleaseOwners, Send, StartMove, UpdateQueue, Withdraw,
};
use kew_core::outcome::{Extended, Leased, Sent};
use kew_core::{
    Ask, Command, Counts, DocumentKey, Event, LeaseToken, Message, MessageId, MoveTask, Outcome, Queue,
    QueueId, Room, RuleError, Sequence, TaskId, Timestamp, ask,
};
use kew_store::{StoreError, Submission};
use tokio::sync::oneshot;

use crate::agenda::Alarm;
use crate::busy::Busy;
use crate::commit::{Abandon, Committing, Found, look};
use crate::pass::Pass;
use crate::room::{self, Held};
use crate::waiters::{Call, Seat, Waiter};
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

    /// Claims what is there now, maybe nothing.
    pub fn lease(&self, mut lease: Lease) -> impl Future<Output = Result<Vec<Leased>, EngineError>> + '_ {
        let queue = lease.queue;
        // Not as `async fn`: that keeps room for what it was given and for what becomes of it.
        async move {
            let abandon = self.abandon(&lease);
            let over_limit = refuse_over_limit(&mut lease);
            let submission = self.attempt(&mut self.pass(), queue, &Command::Lease(lease));
            self.leased(self.limited(over_limit, self.committing(queue, submission, abandon).await))
        }
    }

    /// Claims what is there now, or waits for it up to `wait`, for an asker who has room for whatever there is.
    pub fn lease_waiting(
        &self,
        lease: Lease,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Leased>, EngineError>> + '_ {
        self.lease_within(lease, wait, None)
    }

    /// Claims what is there now, or waits for it up to `wait`; empty when that is over.
    ///
    /// Waiting receives of a queue are served in order of arrival, each freed message to exactly one of them. While
    /// too many messages are in flight a waiting receive finds nothing. Nothing is leased while `room` is full: that is
    /// an error, for a receive that waits when its turn comes.
    pub fn lease_within(
        &self,
        mut lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
    ) -> impl Future<Output = Result<Vec<Leased>, EngineError>> + '_ {
        let queue = lease.queue;
        async move {
            let abandon = self.abandon(&lease);
            if room::is_full(room.as_ref()) {
                return Err(room::FULL.into());
            }
            let over_limit = refuse_over_limit(&mut lease);
            let begun = match wait {
                Duration::ZERO => {
                    let submission = self.attempt(&mut self.pass(), queue, &Command::Lease(lease));
                    let held = Held::of(room.as_ref(), &submission);
                    Begun::Claimed(submission, held)
                }
                _ => match self.store.lease_elsewhere(&lease, wait) {
                    Some(submission) => {
                        let held = Held::of(room.as_ref(), &submission);
                        Begun::Claimed(submission, held)
                    }
                    None => self.begin_wait(lease, wait, room)?,
                },
            };
            match begun {
                Begun::Claimed(submission, _held) => {
                    self.leased(self.limited(over_limit, self.committing(queue, submission, abandon).await))
                }
                Begun::Over => self.nothing_came(),
                // Most find something at once. The room that waiting takes is for those who wait.
                Begun::Waiting(seat) => Box::pin(self.wait_in(seat)).await,
            }
        }
    }

    /// Waits in a line until there is something, or the wait is over.
    async fn wait_in(&self, mut seat: Seat<'_>) -> Result<Vec<Leased>, EngineError> {
        let queue = seat.lease.queue;
        loop {
            let Some((submission, seen, (busy, _held))) = seat.call().await else {
                return self.nothing_came();
            };
            let committing = self.committing(queue, submission, Abandon::Withdraw);
            drop(busy);
            match committing.await {
                Ok(leases) if leases.is_empty() => {}
                Err(StoreError::Rule(RuleError::TooManyInFlight)) => {
                    self.pass().waiters.set_limited(queue, true);
                }
                answer => return self.leased(answer),
            }
            if !seat.again(seen) {
                return self.nothing_came();
            }
        }
    }

    /// The answer of a receive whose wait is over. A store that may not answer by now has not said that nothing came.
    fn nothing_came(&self) -> Result<Vec<Leased>, EngineError> {
        self.store.health()?;
        self.leased(Ok(Vec::new()))
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

    /// Takes a command's step; what is answered is the command's own kind of answer.
    #[inline(always)]
    pub(crate) fn answer<A: Ask>(&self, input: A::Input) -> Answering<'_, A> {
        Answering { asked: self.ask(A::command(input)), command: PhantomData }
    }

    /// Takes a step; what is answered is its outcome. A step that the store put off is taken again by itself.
    #[inline(always)]
    pub(crate) fn ask(&self, command: Command) -> Asked<'_> {
        self.ask_in(&mut self.pass(), command)
    }

    #[inline(always)]
    fn ask_in(&self, pass: &mut Pass, command: Command) -> Asked<'_> {
        let busy = self.work.begin();
        let submission = self.step(pass, self.now(), &command);
        let late = submission.peek().is_none();
        let again = if submission.is_put_off() { Some(PutOff::new(command)) } else { None };
        Asked { engine: self, submission, late, again, _busy: busy }
    }
}

/// A queue that is being made, changed or deleted.
enum Defining<'a> {
    /// The step was taken.
    Taken(Asked<'a>),
    /// Other nodes agree to it first.
    Agreed(Submission),
}

/// How often a step that was put off is taken again. Each time a spare file was made or a batch was written meanwhile.
const TRIES_MAX: u32 = 64;

/// A step that the store put off: it changed nothing, and is taken again when what stood in its way has been worked on.
struct PutOff {
    command: Command,
    tries_left: u32,
}

impl PutOff {
    #[cold]
    fn new(command: Command) -> Box<Self> {
        Box::new(Self { command, tries_left: TRIES_MAX })
    }
}

/// A step whose outcome is on its way.
pub(crate) struct Asked<'a> {
    engine: &'a Engine,
    submission: Submission,
    /// The store answers from elsewhere: nothing was known of the outcome when the step was taken.
    late: bool,
    again: Option<Box<PutOff>>,
    _busy: Busy,
}

impl Asked<'_> {
    /// Takes a step again that was put off, unless it has been taken often enough or failed for another reason.
    #[cold]
    fn take_again(&mut self, mut again: Box<PutOff>, answer: &Result<Outcome, StoreError>) -> bool {
        if again.tries_left == 0 || !matches!(answer, Err(StoreError::Overloaded { .. })) {
            return false;
        }
        self.submission = self.engine.step_now(&again.command);
        self.late = self.submission.peek().is_none();
        if self.submission.is_put_off() {
            again.tries_left -= 1;
            self.again = Some(again);
        }
        true
    }
}

/// A step on its way, whose outcome becomes the answer of its command.
pub(crate) struct Answering<'a, A> {
    asked: Asked<'a>,
    command: PhantomData<fn() -> A>,
}

impl<A: Ask> Future for Answering<'_, A> {
    type Output = Result<A::Answer, EngineError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.asked).poll(cx).map_ok(A::answer)
    }
}

impl Future for Asked<'_> {
    type Output = Result<Outcome, EngineError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Poll::Ready(answer) = Pin::new(&mut self.submission).poll(cx) else { return Poll::Pending };
            if let Some(again) = self.again.take()
                && self.take_again(again, &answer)
            {
                continue;
            }
            if self.late {
                self.engine.learn_late(&answer);
            }
            return Poll::Ready(answer.map_err(EngineError::from));
        }
    }
}

impl Engine {
    fn step_now(&self, command: &Command) -> Submission {
        self.step(&mut self.pass(), self.now(), command)
    }

    /// Follows what a store answers from elsewhere.
    #[cold]
    fn learn_late(&self, answer: &Result<Outcome, StoreError>) {
        match answer {
            Ok(Outcome::Queue(queue)) => {
                self.snapshots.put(queue);
                self.pass().watches.changed(queue.id, &self.work);
            }
            // Another node drives the tasks of queues that it keeps.
            Ok(Outcome::Move(task)) if self.store.keeps(task.source) => self.learn_move(task),
            _ => {}
        }
    }
}

/// Asks the store to refuse a lease over the limit, which tells a queue at its limit from an empty one. Returns what
/// the asker wants to be answered then.
fn refuse_over_limit(lease: &mut Lease) -> OverLimit {
    std::mem::replace(&mut lease.over_limit, OverLimit::Refuse)
}

/// How a waiting receive begins.
enum Begun<'a> {
    /// It got something, or may get no seat while its answer is on its way.
    Claimed(Submission, Held),
    /// No message was found, and the wait is over.
    Over,
    /// It waits.
    Waiting(Seat<'a>),
}

impl Engine {
    /// The one attempt at once (which is refused over the limit) and, if it finds nothing, a seat in the same pass, so
    /// that no message is missed.
    fn begin_wait(
        &self,
        lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
    ) -> Result<Begun<'_>, EngineError> {
        let queue = lease.queue;
        let mut pass = self.pass();
        let mut limited = false;
        let mut on_its_way = None;
        let command = Command::Lease(lease);
        let found = look(self.attempt(&mut pass, queue, &command));
        let Command::Lease(lease) = command else { unreachable!("the command built above is a Lease") };
        match found {
            Found::Leases(submission) => {
                let held = Held::of(room.as_ref(), &submission);
                return Ok(Begun::Claimed(submission, held));
            }
            Found::Refused(StoreError::Rule(RuleError::TooManyInFlight)) => limited = true,
            Found::Refused(error) => return Err(error.into()),
            Found::Nothing => {}
            Found::Unknown(submission) => on_its_way = Some(submission),
        }
        let claimed = |submission| Begun::Claimed(submission, Held::default());
        if pass.closed {
            return Ok(on_its_way.map_or(Begun::Over, claimed));
        }
        if let Err(error) = self.check_bounds(&pass, queue) {
            return on_its_way.map(claimed).ok_or(error);
        }
        let seat = self.take_seat(&mut pass, lease, wait, room, on_its_way);
        if limited {
            self.stats.limited_receives.add(1);
            pass.waiters.set_limited(queue, true);
        }
        self.rearm(&mut pass);
        Ok(Begun::Waiting(seat))
    }

    /// A seat of this pass, which waits for messages, or for those that may be on their way already.
    fn take_seat(
        &self,
        pass: &mut Pass,
        lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
        on_its_way: Option<Submission>,
    ) -> Seat<'_> {
        let queue = lease.queue;
        pass.waiters.sit(queue);
        self.stats.waiting_receives.set(u64::from(pass.waiters.seats()));
        let (answer, calls) = oneshot::channel();
        let ticket = pass.ticket();
        let deadline = self.now().plus(wait);
        let seat = Seat { engine: self, lease, deadline, ticket, room, calls, trying: false };
        match on_its_way {
            Some(submission) => {
                let (seen, busy) = (pass.waiters.news(queue), self.work.begin());
                let held = Held::default();
                drop(answer.send(Call::Claimed { submission, late: true, seen, busy, held }));
            }
            None => {
                let waiter = Waiter { lease: seat.lease.clone(), deadline, room: seat.room.clone(), answer };
                pass.waiters.enter(queue, ticket, waiter);
                pass.agenda.set(deadline, ticket, Alarm::WaitEnds(queue));
            }
        }
        seat
    }

    fn check_bounds(&self, pass: &Pass, queue: QueueId) -> Result<(), EngineError> {
        if pass.waiters.seats() >= self.options.waiters_max {
            return Err(EngineError::Overloaded { what: "the number of waiting receives" });
        }
        if pass.waiters.seats_at(queue) >= self.options.waiters_per_queue_max {
            return Err(EngineError::Overloaded { what: "the number of receives waiting on this queue" });
        }
        Ok(())
    }

    fn committing(&self, queue: QueueId, submission: Submission, abandon: Abandon) -> Committing<'_> {
        Committing { engine: self, queue, submission: Some(submission), abandon, _busy: self.work.begin() }
    }

    /// What becomes of this lease if its asker goes away at once.
    fn abandon(&self, lease: &Lease) -> Abandon {
        if lease.attempt.is_none() {
            return Abandon::Withdraw;
        }
        let fifo = self.queue_by_id(lease.queue).is_some_and(|queue| queue.policy.kind.is_fifo());
        if fifo { Abandon::Keep } else { Abandon::Withdraw }
    }

    /// The answer of a receive whose queue may be at its limit.
    fn limited(
        &self,
        over_limit: OverLimit,
        answer: Result<Vec<Leased>, StoreError>,
    ) -> Result<Vec<Leased>, StoreError> {
        let Err(StoreError::Rule(RuleError::TooManyInFlight)) = answer else { return answer };
        self.stats.limited_receives.add(1);
        match over_limit {
            OverLimit::Refuse => answer,
            OverLimit::FindNothing => Ok(Vec::new()),
        }
    }

    /// A receive's answer, counted.
    fn leased(&self, answer: Result<Vec<Leased>, StoreError>) -> Result<Vec<Leased>, EngineError> {
        if answer.as_ref().is_ok_and(Vec::is_empty) {
            self.stats.empty_receives.add(1);
        }
        if self.clock.is_virtual() {
            self.stats.answered_receives.add(1);
        }
        Ok(answer?)
    }
}
