//! One pass: a step, what it means for those who wait, and when the timers must look next.
//!
//! The pass is one lock around the store's step and everything that follows from it. So a receive that finds nothing
//! stands in line before the next message can come; a step that frees messages serves the lines at once; and a new
//! receive never overtakes. The work list is a loop: serving one queue may free another, and nothing calls back into
//! itself. Order of locks: the pass, then any one of the store's, the clock's or the snapshots'; none of those calls
//! back.

use std::sync::Arc;

use kew_core::command::{Lease, Withdraw};
use kew_core::{Command, Outcome, Queue, QueueId, RuleError, ShardId, Timestamp};
use kew_store::{StoreError, Submission};
use smallvec::SmallVec;

pub(crate) use crate::state::Pass;

use crate::Engine;
use crate::agenda::Ticket;
use crate::answers::{self, Found};
use crate::lines::{Call, Waiter};
use crate::room::{self, Held};

type Freed = SmallVec<[QueueId; 2]>;

/// Lines served after one step. A store that names ever more queues is not followed for ever.
const LINES_PER_STEP: usize = 10_000;
/// Slices of due work done for one newcomer before it takes its turn.
const SLICES_BEFORE_A_TURN: usize = 64;

impl Engine {
    /// Takes a step now, and serves whom it concerns.
    pub(crate) fn submit(&self, command: &Command) -> Submission {
        let mut pass = self.pass();
        let now = self.now();
        self.step(&mut pass, now, command)
    }

    /// Takes a lease now, after those who wait already.
    pub(crate) fn attempt(&self, pass: &mut Pass, queue: QueueId, lease: &Command) -> Submission {
        let now = self.now();
        if pass.waiters.first(queue).is_some() {
            self.catch_up(pass, now);
        }
        self.step(pass, now, lease)
    }

    /// Serves a queue's line on news from elsewhere: messages may have become available in it.
    pub fn wake(&self, queue: QueueId) {
        let mut pass = self.pass();
        self.serve(&mut pass, queue);
    }

    /// Undoes a lease whose receive went away, if it is not committed, and serves the next in line.
    pub(crate) fn withdraw_unanswered(&self, queue: QueueId, submission: Submission) {
        let tokens = answers::uncommitted(submission);
        if !tokens.is_empty() {
            self.stats.withdrawn_leases.add(tokens.len() as u64);
            drop(self.submit(&Command::Withdraw(Withdraw { queue, tokens })));
        }
    }

    #[inline]
    pub(crate) fn step(&self, pass: &mut Pass, now: Timestamp, command: &Command) -> Submission {
        // A lease that ends makes room even where it frees no message.
        let has_room = pass.waiters.any_limited() && self.is_due(now);
        let submission = self.raw_step(pass, now, command);
        let effect = Effect::of(command);
        if effect.concerns_queues() || !pass.waiters.is_empty() || !pass.watches.is_empty() {
            self.follow(pass, now, effect, &submission, has_room);
        } else if effect.may_set_instants() {
            self.rearm(pass);
        }
        submission
    }

    /// Does what follows from a step for others than its asker.
    fn follow(
        &self,
        pass: &mut Pass,
        now: Timestamp,
        effect: Effect,
        submission: &Submission,
        has_room: bool,
    ) {
        let mut freed = Freed::new();
        if has_room {
            freed.extend(pass.waiters.limited_queues());
        }
        match (effect, submission.peek()) {
            (Effect::Settings, Some(Outcome::Queue(queue))) => self.publish(pass, now, queue),
            (Effect::Deletes(queue), Some(_)) => self.queue_is_gone(pass, queue),
            (Effect::StartsMove, Some(Outcome::Move(task))) => self.learn_move(task),
            (Effect::Returns(queue), _) => freed.push(queue),
            (Effect::MakesRoom(queue), _) if pass.waiters.is_limited(queue) => freed.push(queue),
            (Effect::Claims(queue), Some(Outcome::Leased(leased)))
                if !leased.is_empty() && pass.waiters.any_crowded(queue) =>
            {
                freed.push(queue);
            }
            (_, _) => {}
        }
        let mut ahead = effect.may_set_instants();
        if !pass.waiters.is_empty() || !pass.watches.is_empty() {
            freed.extend_from_slice(&submission.freed);
            ahead |= !freed.is_empty();
            self.serve_all(pass, now, now, freed);
        }
        if ahead {
            self.rearm(pass);
        }
    }

    /// Does what is due at `at`, and serves as of that instant with leases that begin now.
    pub(crate) fn step_due(&self, pass: &mut Pass, at: Timestamp, now: Timestamp) -> Submission {
        let submission = self.raw_step(pass, at, &Command::Due);
        self.stats.due_steps.add(1);
        self.serve_after(pass, (at, now), &submission);
        submission
    }

    /// Serves those who wait, after a step that may have done due work: that frees messages, and makes room where it
    /// frees none.
    pub(crate) fn serve_after(
        &self,
        pass: &mut Pass,
        (as_of, now): (Timestamp, Timestamp),
        submission: &Submission,
    ) {
        let mut freed = Freed::new();
        if pass.waiters.any_limited() {
            freed.extend(pass.waiters.limited_queues());
        }
        freed.extend_from_slice(&submission.freed);
        self.serve_all(pass, as_of, now, freed);
        self.rearm(pass);
    }

    pub(crate) fn serve(&self, pass: &mut Pass, queue: QueueId) {
        let now = self.now();
        self.serve_all(pass, now, now, Freed::from_slice(&[queue]));
        self.rearm(pass);
    }

    /// Rings for the timers when something is due before they look next.
    #[inline]
    pub(crate) fn rearm(&self, pass: &mut Pass) {
        let next = self.next_instant(pass);
        if next < pass.armed {
            pass.armed = next;
            self.alarm.notify_one();
        }
    }

    /// The next instant at which something happens by itself.
    #[inline]
    pub(crate) fn next_instant(&self, pass: &Pass) -> Timestamp {
        let due = self.store.next_due().unwrap_or(Timestamp::NEVER);
        due.min(pass.agenda.first_at().unwrap_or(Timestamp::NEVER))
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.store.next_due().is_some_and(|due| due <= now)
    }

    /// Ends the waits on a queue.
    pub(crate) fn end_line(&self, pass: &mut Pass, queue: QueueId) {
        for (ticket, waiter) in pass.waiters.take_line(queue) {
            self.end_wait(pass, ticket, waiter);
        }
    }

    /// Ends one wait, whose entry was taken out of the line.
    pub(crate) fn end_wait(&self, pass: &mut Pass, ticket: Ticket, waiter: Waiter) {
        pass.agenda.cancel(waiter.deadline, ticket);
        // The receive may just be going away and listen no more.
        drop(waiter.answer.send(Call::Ended(self.work.begin())));
    }

    #[inline]
    fn raw_step(&self, pass: &mut Pass, now: Timestamp, command: &Command) -> Submission {
        // Before any step sees the time after the leap.
        self.hold_expiry_after_a_leap(pass);
        pass.stepped = pass.stepped.max(now);
        self.stats.store_steps.count_in_turn();
        self.store.step(pass.stepped, command)
    }

    /// Takes a look in one shard. Like any step it may do due work.
    pub(crate) fn step_in(&self, shard: ShardId, command: &Command) -> Submission {
        let mut pass = self.pass();
        let now = self.now();
        self.hold_expiry_after_a_leap(&mut pass);
        pass.stepped = pass.stepped.max(now);
        self.stats.store_steps.count_in_turn();
        let submission = self.store.step_in(shard, pass.stepped, command);
        self.serve_after(&mut pass, (now, now), &submission);
        submission
    }

    /// Has the store record the time. Like any step it may do due work.
    pub(crate) fn record_in_store(&self) {
        let mut pass = self.pass();
        let now = self.now();
        self.hold_expiry_after_a_leap(&mut pass);
        pass.stepped = pass.stepped.max(now);
        let submission = self.store.record_time(pass.stepped);
        self.serve_after(&mut pass, (now, now), &submission);
    }

    /// Does everything due, so that those in line get theirs before a newcomer looks.
    fn catch_up(&self, pass: &mut Pass, now: Timestamp) {
        for _ in 0..SLICES_BEFORE_A_TURN {
            if !self.is_due(now) || answers::refusal(&mut self.step_due(pass, now, now)).is_some() {
                return;
            }
        }
    }

    /// Shows a queue as it is after this step; a new name is followed by other queues' rules.
    fn publish(&self, pass: &mut Pass, now: Timestamp, queue: &Arc<Queue>) {
        let before = self.snapshots.by_id(queue.id);
        self.snapshots.put(queue);
        pass.watches.changed(queue.id, &self.work);
        let renamed = before.filter(|before| before.key != queue.key);
        if renamed.is_some_and(|before| self.snapshots.names(&before.key)) {
            let all = self.raw_step(pass, now, &Command::Queues);
            if let Some(Outcome::Queues(queues)) = all.peek() {
                queues.iter().for_each(|queue| self.snapshots.put(queue));
            }
        }
    }

    pub(crate) fn queue_is_gone(&self, pass: &mut Pass, queue: QueueId) {
        self.snapshots.remove(queue);
        pass.watches.changed(queue, &self.work);
        self.end_line(pass, queue);
    }

    /// Leases on behalf of those in line, until no message is left or no receive waits.
    fn serve_all(&self, pass: &mut Pass, as_of: Timestamp, now: Timestamp, mut freed: Freed) {
        let mut next = 0;
        while let Some(queue) = freed.get(next).copied() {
            next += 1;
            pass.waiters.tell(queue);
            self.serve_line(pass, as_of, now, queue, &mut freed);
            pass.watches.stirred(queue, &self.work);
        }
    }

    fn serve_line(
        &self,
        pass: &mut Pass,
        as_of: Timestamp,
        now: Timestamp,
        queue: QueueId,
        freed: &mut Freed,
    ) {
        // Those behind whom the line goes on: there is no room for what they would get.
        let (mut passed, mut is_first_too_large) = (None, false);
        while let Some((ticket, waiter)) = pass.waiters.first_behind(queue, passed) {
            if waiter.answer.is_closed() || waiter.deadline < as_of {
                self.end_first(pass, queue, ticket);
                continue;
            }
            let Some(lease) = self.lease_with_room(waiter, is_first_too_large) else {
                passed = self.pass_over(pass, queue, ticket);
                continue;
            };
            match self.claim_in_line(pass, now, lease, freed) {
                Found::Refused(StoreError::Rule(RuleError::FirstTooLarge)) => {
                    (passed, is_first_too_large) = (self.pass_over(pass, queue, ticket), true);
                    if pass.waiters.note_first_too_large(queue) {
                        break;
                    }
                }
                Found::Leases(submission) => {
                    self.hand_over(pass, now, (queue, ticket), submission, false);
                    if std::mem::take(&mut is_first_too_large) {
                        // It is gone: there may be something small for those who were passed.
                        passed = None;
                    }
                }
                Found::Nothing => return pass.waiters.set_limited(queue, false),
                Found::Refused(StoreError::Rule(RuleError::TooManyInFlight)) => {
                    return pass.waiters.set_limited(queue, true);
                }
                Found::Refused(error) => {
                    self.hand_over(pass, now, (queue, ticket), Submission::settled(Err(error)), false);
                }
                // One try at a time: the receive serves the next when it has its answer.
                Found::Unknown(submission) => {
                    return self.hand_over(pass, now, (queue, ticket), submission, true);
                }
            }
        }
        if passed.is_none() || is_first_too_large {
            pass.waiters.set_limited(queue, false);
        }
    }

    /// What is leased for a receive in line; `None` where there is no room for it.
    fn lease_with_room(&self, waiter: &Waiter, is_first_too_large: bool) -> Option<Lease> {
        let room = waiter.room.as_ref();
        if is_first_too_large && room::is_full(room) {
            return None;
        }
        let mut lease = waiter.lease.clone();
        room::portion(room, &mut lease, |queue| self.store.keeps(queue)).ok().map(|()| lease)
    }

    fn claim_in_line(&self, pass: &mut Pass, now: Timestamp, lease: Lease, freed: &mut Freed) -> Found {
        let queue = lease.queue;
        let submission = self.raw_step(pass, now, &Command::Lease(lease));
        let others = submission.freed.iter().copied().filter(|other| *other != queue);
        freed.extend(others.take(LINES_PER_STEP.saturating_sub(freed.len())));
        answers::look(submission)
    }

    /// The line goes on behind this receive. It learns, once, that there is no room for what there is, and takes its
    /// place again.
    fn pass_over(&self, pass: &mut Pass, queue: QueueId, ticket: Ticket) -> Option<Ticket> {
        if let Some(waiter) = pass.waiters.take_unless_crowded(queue, ticket) {
            pass.agenda.cancel(waiter.deadline, ticket);
            let call = Call::Crowded { seen: pass.waiters.news(queue), busy: self.work.begin() };
            // One that went away needs no room.
            let _gone = waiter.answer.send(call);
        }
        Some(ticket)
    }

    fn end_first(&self, pass: &mut Pass, queue: QueueId, ticket: Ticket) {
        if let Some(waiter) = pass.waiters.take(queue, ticket) {
            self.end_wait(pass, ticket, waiter);
        }
    }

    fn hand_over(
        &self,
        pass: &mut Pass,
        now: Timestamp,
        (queue, ticket): (QueueId, Ticket),
        submission: Submission,
        late: bool,
    ) {
        let Some(waiter) = pass.waiters.take(queue, ticket) else { return };
        pass.agenda.cancel(waiter.deadline, ticket);
        let held = Held::of(waiter.room.as_ref(), &submission);
        let (seen, busy) = (pass.waiters.news(queue), self.work.begin());
        let call = Call::Claimed { submission, late, seen, busy, held };
        match waiter.answer.send(call) {
            Ok(()) => self.stats.served_waiters.add(1),
            Err(Call::Claimed { submission, .. }) => {
                // It went away in this very moment, so the lease was never answered: undone, committed or not.
                let tokens = answers::receipts(&submission);
                if !tokens.is_empty() {
                    self.stats.withdrawn_leases.add(tokens.len() as u64);
                    drop(self.raw_step(pass, now, &Command::Withdraw(Withdraw { queue, tokens })));
                }
            }
            Err(Call::Crowded { .. } | Call::Ended(_)) => {}
        }
    }
}

/// What a command may mean beyond its outcome.
#[derive(Clone, Copy)]
enum Effect {
    /// A queue's definition changes.
    Settings,
    /// A queue goes away.
    Deletes(QueueId),
    /// A move task may begin to run.
    StartsMove,
    /// Messages come back as if they had never been leased.
    Returns(QueueId),
    /// Fewer messages may be in flight.
    MakesRoom(QueueId),
    /// Messages are claimed: what was too large for the room there is may be gone.
    Claims(QueueId),
    /// Messages come or move.
    Stirs,
    /// Somebody looks.
    None,
}

impl Effect {
    #[inline]
    fn of(command: &Command) -> Self {
        match command {
            Command::CreateQueue(_) | Command::UpdateQueue(_) => Self::Settings,
            Command::DeleteQueue(delete) => Self::Deletes(delete.queue),
            Command::StartMove(_) => Self::StartsMove,
            Command::Withdraw(withdraw) => Self::Returns(withdraw.queue),
            Command::Ack(ack) => Self::MakesRoom(ack.queue),
            Command::Extend(extend) => Self::MakesRoom(extend.queue),
            Command::Release(release) => Self::MakesRoom(release.queue),
            Command::Purge(purge) => Self::MakesRoom(purge.queue),
            Command::Lease(lease) => Self::Claims(lease.queue),
            Command::Send(_)
            | Command::Bring(_)
            | Command::TakeBack(_)
            | Command::ReleaseOwners(_)
            | Command::ContinueMove(_)
            | Command::MoveChosen(_)
            | Command::Promote(_)
            | Command::HoldExpiry(_)
            | Command::Due => Self::Stirs,
            Command::Peek(_)
            | Command::Browse(_)
            | Command::Groups(_)
            | Command::FirstSend(_)
            | Command::Trace(_)
            | Command::Note(_)
            | Command::Identify(_)
            | Command::Counts(_)
            | Command::CancelMove(_)
            | Command::ListMoves(_)
            | Command::Queues
            | Command::Owing
            | Command::Carry(_)
            | Command::Settle(_)
            | Command::PutDocuments(_)
            | Command::Documents(_)
            | Command::History(_) => Self::None,
        }
    }

    /// Whether it also wakes the watches, beside the receives that wait for messages.
    #[inline]
    fn concerns_queues(self) -> bool {
        matches!(self, Self::Settings | Self::Deletes(_) | Self::StartsMove)
    }

    /// Whether something may be due earlier than before. Due work that comes with any step does not count: the timers
    /// were about to do it, and look again anyway.
    fn may_set_instants(self) -> bool {
        match self {
            // What a deleted queue held is given back by and by.
            Self::Settings | Self::Deletes(_) | Self::Returns(_) | Self::MakesRoom(_) => true,
            Self::Claims(_) | Self::Stirs => true,
            Self::StartsMove | Self::None => false,
        }
    }
}
