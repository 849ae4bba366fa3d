//! Planted bugs: each breaks one law at one edge, and the random histories must notice.
//!
//! A bug sits between the history and a subject that is right: it alters what is asked or what is answered, and where
//! the alteration itself would show it is painted over, so that only the behaviour gives it away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstMessage, Lease};
use kew_core::rules::dedup;
use kew_core::{
    Carries, Command, DeduplicationId, DeduplicationScope, Expiry, GroupId, LeaseToken, Message, Outcome,
    Policy, Queue, QueueId, QueueKind, ReceiptRule, Return, Sequence, State, Text, Timestamp, outcome,
};

use super::Ending;
use super::model::{Answer, MakeSubject, Subject, differs};

/// One planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// Leases end one tick late.
    OfferedOneTickLate,
    /// Leases end one tick early.
    HiddenOneTickShort,
    /// A receipt of a lease that has ended still counts.
    LateReceiptCounts,
    /// A lease that ends by itself shows its message at once, whatever delay it was taken with.
    LapseDelayForgotten,
    /// A released message shows at once, whatever delay was asked for.
    ReleaseDelayForgotten,
    /// A message always returns to its old place.
    AlwaysReturnsInPlace,
    /// One leased message does not lock its group.
    GroupLockIgnored,
    /// An id is remembered one tick too long.
    WindowOneTickLong,
    /// A group's id counts for the whole queue.
    ScopeIgnored,
    /// A repeated receive raises attempts.
    RepeatRaisesAttempts,
    /// A lease of no length raises no attempts.
    ZeroSecondLeaseNotCounted,
    /// A message's own time to live is ignored.
    OwnTimeToLiveIgnored,
    /// A message is leased once more than its rule allows.
    DeadLetterOneAttemptLate,
    /// A dead letter keeps its past whatever its rule says.
    DeadLetterKeepsItsPast,
    /// Delayed messages count as visible.
    DelayedCountedAsVisible,
    /// A batch takes no heed of bytes.
    BatchBytesIgnored,
    /// A first message that should stay because of its size is leased.
    FirstMessageAlwaysFits,
    /// An extension makes no new receipt.
    RenewalForgotten,
    /// Waiting receives do not learn that messages became available.
    WakeForgotten,
    /// The next instant at which something is due is reported one tick late.
    NextDueLate,
}

/// All of them.
pub const ALL: [Bug; 20] = [
    Bug::OfferedOneTickLate,
    Bug::HiddenOneTickShort,
    Bug::LateReceiptCounts,
    Bug::LapseDelayForgotten,
    Bug::ReleaseDelayForgotten,
    Bug::AlwaysReturnsInPlace,
    Bug::GroupLockIgnored,
    Bug::WindowOneTickLong,
    Bug::ScopeIgnored,
    Bug::RepeatRaisesAttempts,
    Bug::ZeroSecondLeaseNotCounted,
    Bug::OwnTimeToLiveIgnored,
    Bug::DeadLetterOneAttemptLate,
    Bug::DeadLetterKeepsItsPast,
    Bug::DelayedCountedAsVisible,
    Bug::BatchBytesIgnored,
    Bug::FirstMessageAlwaysFits,
    Bug::RenewalForgotten,
    Bug::WakeForgotten,
    Bug::NextDueLate,
];

/// The first seed up to `seeds_max` whose history notices this bug in an otherwise right subject.
pub fn first_seed_that_notices(bug: Bug, seeds_max: u64, make: &MakeSubject<'_>) -> Option<u64> {
    let mutant = |seed| Box::new(Mutant::new(bug, make(seed))) as Box<dyn Subject>;
    (1..=seeds_max).find(|seed| differs(*seed, &mutant))
}

/// A subject with a bug.
pub struct Mutant<'a> {
    bug: Bug,
    inner: Box<dyn Subject + 'a>,
    /// Messages sent so far; names the one-message groups of a queue without locks.
    sent: u64,
    groups: BTreeMap<GroupId, GroupId>,
    /// Ids in use: when they were first accepted, and what was answered then.
    windows: BTreeMap<(QueueId, DeduplicationId), (Timestamp, outcome::Sent)>,
    /// Seconds a message was to live.
    lives: BTreeMap<(QueueId, Sequence), u32>,
    /// Attempts shown too many, or too few.
    attempts: BTreeMap<(QueueId, Sequence), i64>,
    /// Settings as they were asked for.
    asked: BTreeMap<QueueId, Policy>,
    /// Receipts given out by receives.
    receipts: BTreeSet<LeaseToken>,
}

impl<'a> Mutant<'a> {
    /// `inner` with this bug.
    pub fn new(bug: Bug, inner: Box<dyn Subject + 'a>) -> Self {
        Self {
            bug,
            inner,
            sent: 0,
            groups: BTreeMap::new(),
            windows: BTreeMap::new(),
            lives: BTreeMap::new(),
            attempts: BTreeMap::new(),
            asked: BTreeMap::new(),
            receipts: BTreeSet::new(),
        }
    }

    fn step(&mut self, now: Timestamp, asked: Command) -> Answer {
        if let Some(outcome) = self.instead(now, &asked) {
            return Answer { result: Ok(outcome), freed: None };
        }
        let altered = self.before(asked.clone());
        let mut answers = self.inner.steps(vec![(now, altered)]);
        let mut answer = answers.pop().expect("a subject answers every step");
        if let Ok(outcome) = &mut answer.result {
            self.after(now, &asked, outcome);
        }
        if self.bug == Bug::WakeForgotten {
            answer.freed = Some(Vec::new());
        }
        answer
    }

    /// What is answered without asking.
    fn instead(&self, now: Timestamp, asked: &Command) -> Option<Outcome> {
        let Command::Send(send) = asked else { return None };
        let [message] = send.messages.as_slice() else { return None };
        let id = message.deduplication.clone().filter(|_| self.bug == Bug::WindowOneTickLong)?;
        let (first_at, first) = self.windows.get(&(send.queue, id))?;
        let repeat = outcome::Sent {
            sent_at: now,
            visible_at: now,
            expires_at: None,
            duplicate: true,
            ..first.clone()
        };
        (now == first_at.plus(dedup::WINDOW)).then(|| Outcome::Sent(vec![repeat]))
    }

    fn before(&mut self, mut asked: Command) -> Command {
        const TICK: Duration = Duration::from_millis(1);
        match (self.bug, &mut asked) {
            (Bug::OfferedOneTickLate, Command::Lease(lease)) => alter_length(lease, |length| length + TICK),
            (Bug::HiddenOneTickShort, Command::Lease(lease)) => {
                alter_length(lease, |length| length.saturating_sub(TICK));
            }
            (Bug::LateReceiptCounts, Command::Ack(ack)) => ack.receipt = lenient(ack.receipt),
            (Bug::LateReceiptCounts, Command::Extend(extend)) => extend.receipt = lenient(extend.receipt),
            (Bug::LapseDelayForgotten, Command::Lease(lease)) => lease.terms.lapse_delay = Duration::ZERO,
            (Bug::ReleaseDelayForgotten, Command::Release(release)) => {
                release.entries.iter_mut().for_each(|(_, delay)| *delay = Duration::ZERO);
            }
            (Bug::AlwaysReturnsInPlace, Command::Lease(lease)) => lease.terms.returns = Return::InPlace,
            (Bug::AlwaysReturnsInPlace, Command::Send(send)) => {
                send.messages.iter_mut().for_each(|message| message.returns = Return::InPlace);
            }
            (Bug::GroupLockIgnored, Command::Send(send)) => {
                for message in &mut send.messages {
                    self.sent += 1;
                    if let Some(group) = &mut message.group {
                        let alone = GroupId(Text::from(format!("alone{}", self.sent)));
                        let shared = std::mem::replace(group, alone.clone());
                        self.groups.insert(alone, shared);
                    }
                }
            }
            (Bug::OwnTimeToLiveIgnored, Command::Send(send)) => {
                for message in &mut send.messages {
                    if matches!(message.expiry, Expiry::After { .. }) {
                        message.expiry = Expiry::Never;
                    }
                }
            }
            (Bug::BatchBytesIgnored, Command::Lease(lease)) => lease.body_bytes_max = u64::MAX,
            (Bug::FirstMessageAlwaysFits, Command::Lease(lease)) => lease.first = FirstMessage::AlwaysFits,
            (Bug::RenewalForgotten, Command::Extend(extend)) => extend.renew = false,
            (_, Command::CreateQueue(CreateQueue { policy, .. })) => self.alter_policy(policy),
            (_, Command::UpdateQueue(update)) => {
                if let Some(policy) = &mut update.policy {
                    self.alter_policy(policy);
                }
            }
            _ => {}
        }
        asked
    }

    fn alter_policy(&self, policy: &mut Policy) {
        match (self.bug, &mut policy.kind, &mut policy.dead_letters) {
            (Bug::ScopeIgnored, QueueKind::Fifo { scope, .. }, _) => *scope = DeduplicationScope::Queue,
            (Bug::DeadLetterOneAttemptLate, _, Some(rule)) => rule.attempts_max += 1,
            (Bug::DeadLetterKeepsItsPast, _, Some(rule)) => rule.carries = Carries::History,
            _ => {}
        }
    }

    fn after(&mut self, now: Timestamp, asked: &Command, outcome: &mut Outcome) {
        match outcome {
            Outcome::Sent(sent) => self.after_send(now, asked, sent),
            Outcome::Leased(leased) => self.after_lease(asked, leased),
            Outcome::Peeked(seen) => seen.iter_mut().for_each(|(message, _)| self.paint(message)),
            Outcome::Counts(counts) if self.bug == Bug::DelayedCountedAsVisible => {
                counts.visible += std::mem::take(&mut counts.delayed);
            }
            Outcome::Queue(queue) => {
                let policy = match asked {
                    Command::CreateQueue(create) => Some(&create.policy),
                    Command::UpdateQueue(update) => update.policy.as_ref(),
                    _ => None,
                };
                self.asked.extend(policy.map(|policy| (queue.id, policy.clone())));
                *queue = self.painted(queue);
            }
            Outcome::Queues(queues) => queues.iter_mut().for_each(|queue| *queue = self.painted(queue)),
            _ => {}
        }
    }

    fn after_send(&mut self, now: Timestamp, asked: &Command, sent: &mut [outcome::Sent]) {
        let Command::Send(send) = asked else { return };
        for (message, sent) in send.messages.iter().zip(sent) {
            if let Some(id) = message.deduplication.clone().filter(|_| !sent.duplicate) {
                self.windows.insert((send.queue, id), (now, sent.clone()));
            }
            if let (Bug::OwnTimeToLiveIgnored, Expiry::After { seconds }, false) =
                (self.bug, message.expiry, sent.duplicate)
            {
                self.lives.insert((send.queue, sent.sequence), seconds);
                sent.expires_at = Some(now.plus(Duration::from_secs(seconds.into())));
            }
        }
    }

    fn after_lease(&mut self, asked: &Command, leased: &mut [outcome::Leased]) {
        let Command::Lease(lease) = asked else { return };
        for each in leased {
            let key = (each.message.queue, each.message.sequence);
            let repeated = !self.receipts.insert(each.token);
            let shown = self.attempts.entry(key).or_default();
            match self.bug {
                Bug::RepeatRaisesAttempts if repeated => *shown += 1,
                Bug::ZeroSecondLeaseNotCounted if lease.terms.length == Some(Duration::ZERO) => *shown -= 1,
                Bug::OfferedOneTickLate if lease.terms.length.is_some() => repaint_end(each, -1),
                Bug::HiddenOneTickShort if lease.terms.length.is_some_and(|length| !length.is_zero()) => {
                    repaint_end(each, 1);
                }
                _ => {}
            }
            self.paint(&mut each.message);
        }
    }

    /// Shows a message as it would be without the bug, as far as that does not hide what the bug does.
    fn paint(&self, message: &mut Message) {
        let key = (message.queue, message.sequence);
        if let Some(shared) = message.group.as_ref().and_then(|group| self.groups.get(group)) {
            message.group = Some(shared.clone());
        }
        if let Some(seconds) = self.lives.get(&key) {
            message.expires_at = Some(message.sent_at.plus(Duration::from_secs((*seconds).into())));
        }
        let by = self.attempts.get(&key).copied().unwrap_or_default();
        message.attempts = u32::try_from(i64::from(message.attempts) + by).unwrap_or_default();
    }

    /// Shows a queue with the settings that were asked for; a rule's target may have been renamed since.
    fn painted(&self, queue: &Arc<Queue>) -> Arc<Queue> {
        let Some(asked) = self.asked.get(&queue.id) else { return queue.clone() };
        let mut policy = Policy { kind: asked.kind, ..queue.policy.clone() };
        if let (Some(rule), Some(asked)) = (&mut policy.dead_letters, &asked.dead_letters) {
            rule.attempts_max = asked.attempts_max;
            rule.carries = asked.carries;
        }
        Arc::new(Queue { policy, ..Queue::clone(queue) })
    }
}

impl Subject for Mutant<'_> {
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer> {
        batch.into_iter().map(|(now, asked)| self.step(now, asked)).collect()
    }

    fn restart(&mut self, ending: Ending) -> bool {
        self.inner.restart(ending)
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        let late = |due: Option<Timestamp>| due.map(Timestamp::next);
        let due = self.inner.next_due();
        if self.bug == Bug::NextDueLate { due.map(late) } else { due }
    }
}

fn alter_length(lease: &mut Lease, alter: impl Fn(Duration) -> Duration) {
    lease.terms.length = lease.terms.length.map(alter);
}

fn repaint_end(leased: &mut outcome::Leased, by: i64) {
    if leased.until != Timestamp::NEVER {
        leased.until = Timestamp(leased.until.0.saturating_add_signed(by));
        leased.message.state = State::Leased { until: leased.until };
    }
}

fn lenient(rule: ReceiptRule) -> ReceiptRule {
    if rule == ReceiptRule::Unexpired { ReceiptRule::Current } else { rule }
}

#[cfg(test)]
mod tests {
    use super::super::model::ModelSubject;
    use super::*;

    #[test]
    fn every_planted_bug_is_noticed_within_sixty_histories() {
        let make = |seed| Box::new(ModelSubject::new(seed)) as Box<dyn Subject>;
        for bug in ALL {
            let noticed = first_seed_that_notices(bug, 60, &make);
            println!("{bug:?} is noticed by the history of seed {noticed:?}");
            assert!(noticed.is_some(), "{bug:?} goes unnoticed");
        }
    }
}
