//! The end of a batch: each message is acknowledged or given up by its verdict.
//!
//! A message that was given up too often leaves for the dead-letter queue, or for nowhere: the engine decides that by
//! the queue's rule, in the same step. A message that is gone by now (purged, expired, deleted with its queue) needs no
//! verdict.
//! A batch that did not reach its target is withdrawn: its messages are where they were before, and no attempt is
//! counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kew_core::command::{Ack, Release, Withdraw};
use kew_core::outcome::Leased;
use kew_core::rules::dead_letters;
use kew_core::{DeadLetterAction, LeaseToken, Queue, QueueId, QueueKey, ReceiptRule, RuleError};
use kew_engine::{Engine, EngineError};

use crate::batch::Batch;
use crate::delivered::Delivered;
use crate::notice::Notice;
use crate::shared::Shared;
use crate::verdict::{Verdict, judge};

/// How often a step is tried that the store could not take, before a notice of it. It is tried on until the end of this
/// process.
const TRIES: u32 = 8;
/// The real time before the second try; it doubles.
const REST: Duration = Duration::from_millis(100);
/// The longest real time before another try.
const REST_MAX: Duration = Duration::from_secs(10);

/// What became of the messages of a batch.
#[derive(Debug, Default)]
pub(crate) struct Settled<'a> {
    /// How many are done.
    pub(crate) acked: u32,
    /// Those that were brought as often as their queue allows and left it.
    pub(crate) given_up: Vec<&'a Leased>,
    /// Where those went; `None` when they were deleted.
    pub(crate) to: Option<QueueKey>,
}

/// A batch could not be settled. There was a notice of it.
#[derive(Debug)]
pub(crate) struct Unsettled;

/// Settles a batch.
pub(crate) async fn settle<'a>(
    shared: &Shared,
    batch: &'a Batch,
    delivered: &Delivered,
    retry_delay: Duration,
) -> Result<Settled<'a>, Unsettled> {
    let Some(queue) = batch.messages.first().map(|leased| leased.message.queue) else {
        return Ok(Settled::default());
    };
    let (engine, report) = (&shared.engine, &delivered.report);
    let mut done: Vec<LeaseToken> = Vec::with_capacity(batch.messages.len());
    let mut again: Vec<(LeaseToken, Duration)> = Vec::new();
    let mut tried: Vec<&Leased> = Vec::new();
    for leased in &batch.messages {
        match judge(report, &leased.message.id, retry_delay) {
            Verdict::Done => done.push(leased.token),
            Verdict::Retry(delay) => {
                again.push((leased.token, delay));
                tried.push(leased);
            }
        }
    }
    note_failures(engine, queue, &tried, delivered).await;
    let acked = u32::try_from(done.len()).unwrap_or(u32::MAX);
    let definition = engine.queue_by_id(queue);
    let steps = [
        (!done.is_empty()).then_some(Step::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens: done })),
        (!again.is_empty()).then_some(Step::Release(Release {
            queue,
            receipt: ReceiptRule::Current,
            entries: again,
        })),
    ];
    let released = Settling::of(shared, batch).persist_both(steps).await?;
    let mut settled = Settled { acked, ..Settled::default() };
    if let Some(definition) = definition
        && let Some(to) = way_out(engine, &definition)
    {
        let rule = definition.policy.dead_letters.as_deref();
        let left = tried.into_iter().zip(released).filter(|(leased, released)| {
            *released && dead_letters::is_exhausted(leased.message.attempts, rule)
        });
        settled.given_up = left.map(|(leased, _)| leased).collect();
        settled.to = to;
    }
    Ok(settled)
}

/// Tells the history why messages are delivered again. It is best effort: they are settled whatever comes of it.
async fn note_failures(engine: &Engine, queue: QueueId, tried: &[&Leased], delivered: &Delivered) {
    if tried.is_empty() {
        return;
    }
    let note = |leased: &&Leased| {
        let (why, detail) = delivered.failure_of(&leased.message.id);
        (leased.message.sequence, why, detail)
    };
    let _best_effort = engine.note_failures(queue, tried.iter().map(note).collect()).await;
}

/// Where messages go that were brought too often: to a queue, or to nowhere. `None` when they stay.
fn way_out(engine: &Engine, queue: &Queue) -> Option<Option<QueueKey>> {
    match &queue.policy.dead_letters.as_deref()?.then {
        DeadLetterAction::Drop => Some(None),
        DeadLetterAction::MoveTo(key) => engine.queue(key).is_some().then(|| Some(key.clone())),
    }
}

/// Withdraws the leases of a batch that did not reach its target.
pub(crate) async fn withdraw(shared: &Shared, batch: &Batch, delivered: &Delivered) {
    let Some(queue) = batch.messages.first().map(|leased| leased.message.queue) else { return };
    let all: Vec<&Leased> = batch.messages.iter().collect();
    note_failures(&shared.engine, queue, &all, delivered).await;
    give_back(shared, batch).await;
}

/// Ends the leases of a batch as if they had never been taken.
pub(crate) async fn give_back(shared: &Shared, batch: &Batch) {
    let Some(queue) = batch.messages.first().map(|leased| leased.message.queue) else { return };
    let settling = Settling::of(shared, batch);
    let tokens = batch.messages.iter().map(|leased| leased.token).collect();
    let undone = settling.persist(Some(Step::Withdraw(Withdraw { queue, tokens }))).await;
    let Ok(undone) = undone else { return };
    if undone.iter().filter(|undone| **undone).count() < batch.messages.len() {
        // A lease that was changed meanwhile cannot be undone; it ends like any other.
        let entries = batch.messages.iter().map(|leased| (leased.token, Duration::ZERO)).collect();
        let release = Release { queue, receipt: ReceiptRule::Current, entries };
        let _there_was_a_notice = settling.persist(Some(Step::Release(release))).await;
    }
}

enum Step {
    Ack(Ack),
    Release(Release),
    Withdraw(Withdraw),
}

impl Step {
    /// Takes it, and says of how many messages in turn it was true.
    async fn take(&self, engine: &Engine) -> Result<Vec<bool>, EngineError> {
        match self {
            Self::Ack(ack) => Ok(engine.ack(ack.clone()).await?.iter().map(Result::is_ok).collect()),
            Self::Release(release) => {
                Ok(engine.release(release.clone()).await?.iter().map(Result::is_ok).collect())
            }
            Self::Withdraw(withdraw) => Ok(vec![true; engine.withdraw(withdraw.clone()).await? as usize]),
        }
    }
}

/// The steps that settle a batch.
struct Settling<'a> {
    shared: &'a Shared,
    batch: &'a Batch,
    /// There was a notice that they could not be taken: one of a batch is enough.
    is_noticed: AtomicBool,
}

impl<'a> Settling<'a> {
    fn of(shared: &'a Shared, batch: &'a Batch) -> Self {
        Self { shared, batch, is_noticed: AtomicBool::new(false) }
    }

    /// Tries again while the store cannot be reached: a lease that stays open is open until the next start. At the end
    /// of this process it is tried no more, once there was a notice of it.
    async fn persist(&self, step: Option<Step>) -> Result<Vec<bool>, Unsettled> {
        let (Some(step), stop) = (step, &self.shared.stop) else { return Ok(Vec::new()) };
        let (mut tries, mut rest) = (1, REST);
        loop {
            let error = match step.take(&self.shared.engine).await {
                Err(EngineError::Rule(RuleError::QueueNotFound)) => return Ok(Vec::new()),
                Err(error) => error,
                Ok(settled) => return Ok(settled),
            };
            let is_last = !may_pass(&error) || (tries >= TRIES && stop.is_closing());
            if is_last || tries == TRIES {
                self.notice(error);
            }
            if is_last {
                return Err(Unsettled);
            }
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = stop.closing(), if tries >= TRIES => {}
            }
            (tries, rest) = (tries + 1, REST_MAX.min(2 * rest));
        }
    }

    /// What came of the second one. Both are in the store before either is durable, so that they share a commit.
    async fn persist_both(&self, steps: [Option<Step>; 2]) -> Result<Vec<bool>, Unsettled> {
        let [first, second] = steps.map(|step| self.persist(step));
        let (first, second) = tokio::join!(first, second);
        first.and(second)
    }

    fn notice(&self, error: EngineError) {
        if !self.is_noticed.swap(true, Ordering::Relaxed) {
            (self.shared.settings.notices)(Notice::SettleFailed(self.batch.queue.clone(), error));
        }
    }
}

/// Whether a step that failed may be taken later.
fn may_pass(error: &EngineError) -> bool {
    matches!(error, EngineError::Unavailable { .. } | EngineError::Overloaded { .. } | EngineError::NoSpace)
}
