//! Receives: what is there now, or a seat in a line until a message comes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{Lease, OverLimit};
use kew_core::outcome::Leased;
use kew_core::{Command, LeaseToken, QueueId, Room, RuleError};
use kew_store::{StoreError, Submission};
use tokio::sync::oneshot;

use crate::agenda::Alarm;
use crate::commit::{Abandon, Committing, Found, look};
use crate::pass::Pass;
use crate::room::{self, Held};
use crate::waiters::{Call, Next, Seat, Waiter};
use crate::{Engine, EngineError, answers};

/// A lease that was refused when it was to be answered.
#[derive(Debug)]
pub struct UnansweredLease {
    /// Why.
    pub error: EngineError,
    /// What was leased nevertheless: it may last, and then it is their owner's to end it.
    pub taken: Vec<LeaseToken>,
}

impl Engine {
    /// Claims what is there now, maybe nothing.
    pub fn lease(&self, mut lease: Lease) -> impl Future<Output = Result<Vec<Leased>, EngineError>> + '_ {
        let queue = lease.queue;
        // Not as `async fn`: that keeps room for what it was given and for what becomes of it.
        async move {
            let abandon = self.abandon(&lease);
            let over_limit = refuse_over_limit(&mut lease);
            let submission = self.attempt(&mut self.pass(), queue, &Command::Lease(lease));
            self.leased(
                queue,
                self.limited(queue, over_limit, self.committing(queue, submission, abandon).await),
            )
        }
    }

    /// The same for an owner, whose leases nothing ends by itself. Only of a queue that is kept here, and nothing of
    /// another: a lease whose answer was lost on its way would never end.
    pub async fn lease_as_owner(&self, mut lease: Lease) -> Result<Vec<Leased>, UnansweredLease> {
        let queue = lease.queue;
        if !self.store.keeps(queue) {
            return Ok(Vec::new());
        }
        let abandon = self.abandon(&lease);
        let over_limit = refuse_over_limit(&mut lease);
        let submission = self.attempt(&mut self.pass(), queue, &Command::Lease(lease));
        let taken = answers::receipts(&submission);
        let answer = self.limited(queue, over_limit, self.committing(queue, submission, abandon).await);
        self.leased(queue, answer).map_err(|error| UnansweredLease { error, taken })
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
    /// too many messages are in flight a waiting receive finds nothing. While `room` is full only what is small is
    /// leased. Where there is only something larger a receive that waits gets it when there is room; at the end of the
    /// wait that is an error. A receive whose queue goes to another node waits there for the rest of its time.
    pub fn lease_within(
        &self,
        mut lease: Lease,
        mut wait: Duration,
        room: Option<Arc<dyn Room>>,
    ) -> impl Future<Output = Result<Vec<Leased>, EngineError>> + '_ {
        let queue = lease.queue;
        async move {
            let abandon = self.abandon(&lease);
            let mut over_limit = refuse_over_limit(&mut lease);
            let submission = loop {
                if wait.is_zero() {
                    room::portion(room.as_ref(), &mut lease, |queue| self.store.keeps(queue))?;
                    break self.attempt(&mut self.pass(), queue, &Command::Lease(lease));
                }
                if room::is_full(room.as_ref()) && !self.store.keeps(queue) {
                    return Err(room::FULL.into());
                }
                if let Some(submission) = self.store.lease_elsewhere(&lease, wait) {
                    break submission;
                }
                match self.wait_here(lease, wait, room.clone(), (over_limit, abandon)).await? {
                    Waited::Answer(leased) => return Ok(leased),
                    Waited::Left(rest) => (lease, wait) = *rest,
                }
                if wait.is_zero() {
                    over_limit = OverLimit::FindNothing;
                }
            };
            let _held = Held::of(room.as_ref(), &submission);
            let answer = self.committing(queue, submission, abandon).await;
            self.leased(queue, self.limited(queue, over_limit, answer))
        }
    }

    /// The same; where there is no room for what there is, and the wait is not over, once more when `freed` says that
    /// there is.
    pub async fn lease_when_free<E: From<EngineError>>(
        &self,
        lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
        freed: impl Future<Output = Result<(), E>>,
    ) -> Result<Vec<Leased>, E> {
        let again = lease.clone();
        let deadline = (!wait.is_zero()).then(|| self.now().plus(wait));
        let is_over = || deadline.is_some_and(|deadline| self.now() >= deadline);
        let answer = match self.lease_within(lease, wait, room.clone()).await {
            Err(error) if error == room::FULL.into() && !is_over() => {
                freed.await?;
                let rest = deadline.map_or(Duration::ZERO, |deadline| deadline.since(self.now()));
                Box::pin(self.lease_within(again, rest, room.clone())).await
            }
            answer => answer,
        };
        if let (Err(error), Some(room)) = (&answer, &room)
            && *error == room::FULL.into()
        {
            room.count_refused();
        }
        Ok(answer?)
    }

    /// The same for a receive that came from another node, which alone goes on elsewhere: `None` when the queue left
    /// this node before the wait was over. Nothing was leased then.
    pub async fn lease_here(
        &self,
        mut lease: Lease,
        wait: Duration,
    ) -> Result<Option<Vec<Leased>>, EngineError> {
        if wait.is_zero() {
            return self.lease(lease).await.map(Some);
        }
        let abandon = self.abandon(&lease);
        let over_limit = refuse_over_limit(&mut lease);
        match self.wait_here(lease, wait, None, (over_limit, abandon)).await? {
            Waited::Answer(leased) => Ok(Some(leased)),
            Waited::Left(_) => Ok(None),
        }
    }

    /// Claims what is there now, or waits for it while the queue is kept here.
    async fn wait_here(
        &self,
        lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
        (over_limit, abandon): (OverLimit, Abandon),
    ) -> Result<Waited, EngineError> {
        let queue = lease.queue;
        match self.begin_wait(lease, wait, room)? {
            Begun::Claimed(submission, _held) => {
                let answer = self.committing(queue, submission, abandon).await;
                self.leased(queue, self.limited(queue, over_limit, answer)).map(Waited::Answer)
            }
            Begun::Over => self.nothing_came(queue).map(Waited::Answer),
            // Most find something at once. The room that waiting takes is for those who wait.
            Begun::Waiting(seat) => Box::pin(self.wait_in(seat)).await,
        }
    }

    /// Waits in a line until there is something, the wait is over, or the queue goes to another node.
    async fn wait_in(&self, mut seat: Seat<'_>) -> Result<Waited, EngineError> {
        let queue = seat.lease.queue;
        loop {
            let (seen, _busy) = match seat.next().await {
                Next::Over => return self.end_of_wait(&seat),
                Next::Freed => {
                    seat.has_room_again();
                    continue;
                }
                Next::Crowded(seen, busy) => {
                    seat.is_crowded = true;
                    (seen, Some(busy))
                }
                Next::Claimed(submission, seen, (busy, _held)) => {
                    let committing = self.committing(queue, submission, Abandon::Withdraw);
                    drop(busy);
                    match committing.await {
                        Ok(leases) if leases.is_empty() => {}
                        Err(StoreError::Rule(RuleError::TooManyInFlight)) => {
                            self.pass().waiters.set_limited(queue, true);
                        }
                        answer => return self.leased(queue, answer).map(Waited::Answer),
                    }
                    (seen, None)
                }
            };
            if !seat.again(seen) {
                return self.end_of_wait(&seat);
            }
        }
    }

    /// What becomes of a receive that has no place in the line any more.
    fn end_of_wait(&self, seat: &Seat<'_>) -> Result<Waited, EngineError> {
        let (queue, rest) = (seat.lease.queue, seat.deadline.since(self.now()));
        // A queue that is shown no more was deleted.
        let has_left = !self.store.keeps(queue) && self.queue_by_id(queue).is_some();
        if has_left && !rest.is_zero() && !self.is_shut_down() {
            return Ok(Waited::Left(Box::new((seat.lease.clone(), rest))));
        }
        if seat.is_crowded && self.queue_by_id(queue).is_some() && !self.is_shut_down() {
            // One more look, which says whether there is still something without room.
            return Ok(Waited::Left(Box::new((seat.lease.clone(), Duration::ZERO))));
        }
        self.nothing_came(queue).map(Waited::Answer)
    }

    /// The answer of a receive whose wait is over. A store that may not answer by now has not said that nothing came.
    fn nothing_came(&self, queue: QueueId) -> Result<Vec<Leased>, EngineError> {
        self.store.health_for(queue)?;
        self.leased(queue, Ok(Vec::new()))
    }

    /// The one attempt at once (which is refused over the limit) and, if it finds nothing, a seat in the same pass, so
    /// that no message is missed.
    fn begin_wait(
        &self,
        mut lease: Lease,
        wait: Duration,
        room: Option<Arc<dyn Room>>,
    ) -> Result<Begun<'_>, EngineError> {
        let queue = lease.queue;
        let whole = (lease.body_bytes_max, lease.first);
        let has_room = room::portion(room.as_ref(), &mut lease, |queue| self.store.keeps(queue)).is_ok();
        let mut pass = self.pass();
        let (mut limited, mut crowded) = (false, !has_room);
        let mut on_its_way = None;
        let command = Command::Lease(lease);
        let found = match has_room {
            true => look(self.attempt(&mut pass, queue, &command)),
            false => Found::Nothing,
        };
        let Command::Lease(mut lease) = command else { unreachable!("the command built above is a Lease") };
        (lease.body_bytes_max, lease.first) = whole;
        match found {
            Found::Leases(submission) => {
                let held = Held::of(room.as_ref(), &submission);
                return Ok(Begun::Claimed(submission, held));
            }
            Found::Refused(StoreError::Rule(RuleError::TooManyInFlight)) => limited = true,
            Found::Refused(StoreError::Rule(RuleError::FirstTooLarge)) => crowded = true,
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
        let seat = self.take_seat(&mut pass, lease, wait, (room, crowded), on_its_way);
        if limited {
            if self.store.keeps(queue) {
                self.stats.limited_receives.add(1);
            }
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
        (room, is_crowded): (Option<Arc<dyn Room>>, bool),
        on_its_way: Option<Submission>,
    ) -> Seat<'_> {
        let queue = lease.queue;
        pass.waiters.sit(queue);
        self.stats.waiting_receives.set(u64::from(pass.waiters.seats()));
        let (answer, calls) = oneshot::channel();
        let ticket = pass.ticket();
        let deadline = self.now().plus(wait);
        let seat = Seat { engine: self, lease, deadline, ticket, room, calls, trying: false, is_crowded };
        match on_its_way {
            Some(submission) => {
                let (seen, busy) = (pass.waiters.news(queue), self.work.begin());
                let held = Held::default();
                drop(answer.send(Call::Claimed { submission, late: true, seen, busy, held }));
            }
            None => {
                let (lease, room) = (seat.lease.clone(), seat.room.clone());
                let waiter = Waiter { lease, deadline, room, is_crowded, answer };
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
        queue: QueueId,
        over_limit: OverLimit,
        answer: Result<Vec<Leased>, StoreError>,
    ) -> Result<Vec<Leased>, StoreError> {
        let Err(StoreError::Rule(RuleError::TooManyInFlight)) = answer else { return answer };
        if self.store.keeps(queue) {
            self.stats.limited_receives.add(1);
        }
        match over_limit {
            OverLimit::Refuse => answer,
            OverLimit::FindNothing => Ok(Vec::new()),
        }
    }

    /// A receive's answer, counted where its queue is kept: what another node answered is counted there.
    fn leased(
        &self,
        queue: QueueId,
        answer: Result<Vec<Leased>, StoreError>,
    ) -> Result<Vec<Leased>, EngineError> {
        if answer.as_ref().is_ok_and(Vec::is_empty) && self.store.keeps(queue) {
            self.stats.empty_receives.add(1);
        }
        if self.clock.is_virtual() {
            self.stats.answered_receives.add(1);
        }
        match answer {
            Err(StoreError::Rule(RuleError::FirstTooLarge)) => Err(room::FULL.into()),
            answer => Ok(answer?),
        }
    }
}

/// Asks the store to refuse a lease over the limit, which tells a queue at its limit from an empty one. Returns what
/// the asker wants to be answered then.
fn refuse_over_limit(lease: &mut Lease) -> OverLimit {
    std::mem::replace(&mut lease.over_limit, OverLimit::Refuse)
}

/// How a seat in the line ends.
enum Waited {
    /// With what was leased, or with nothing.
    Answer(Vec<Leased>),
    /// The queue went to another node, or there was no room: what to lease again, and for how long to wait.
    Left(Box<(Lease, Duration)>),
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
