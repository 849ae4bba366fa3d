//! The end of a batch: each message is acknowledged or given up by its verdict.
//!
//! A message that was given up too often leaves for the dead-letter queue, or for nowhere: the engine decides that by
//! the queue's rule, in the same step. A message that is gone by now (purged, expired, deleted with its queue) needs no
//! verdict.

use std::time::Duration;

use kew_core::command::{Ack, Release};
use kew_core::{LeaseToken, ReceiptRule};
use kew_engine::{Engine, EngineError};

use crate::batch::Batch;
use crate::verdict::{Report, Verdict, judge};

/// How often a step is tried that the store could not take.
const TRIES: u32 = 8;
/// The real time before the second try; it doubles.
const REST: Duration = Duration::from_millis(100);

/// Settles a batch, and says how many of its messages are done.
pub(crate) async fn settle(
    engine: &Engine,
    batch: &Batch,
    report: &Report,
    retry_delay: Duration,
) -> Result<u32, EngineError> {
    let Some(queue) = batch.messages.first().map(|leased| leased.message.queue) else { return Ok(0) };
    let mut done: Vec<LeaseToken> = Vec::with_capacity(batch.messages.len());
    let mut again: Vec<(LeaseToken, Duration)> = Vec::new();
    for leased in &batch.messages {
        match judge(report, &leased.message.id, retry_delay) {
            Verdict::Done => done.push(leased.token),
            Verdict::Retry(delay) => again.push((leased.token, delay)),
        }
    }
    let acked = u32::try_from(done.len()).unwrap_or(u32::MAX);
    let steps = [
        (!done.is_empty()).then_some(Step::Ack(Ack { queue, receipt: ReceiptRule::Any, tokens: done })),
        (!again.is_empty()).then_some(Step::Release(Release {
            queue,
            receipt: ReceiptRule::Current,
            entries: again,
        })),
    ];
    let [acks, releases] = steps.map(|step| persist(engine, step));
    // Both are in the store before either is durable, so that they share a commit.
    let (acks, releases) = tokio::join!(acks, releases);
    acks.and(releases).map(|()| acked)
}

enum Step {
    Ack(Ack),
    Release(Release),
}

impl Step {
    async fn take(&self, engine: &Engine) -> Result<(), EngineError> {
        match self {
            Self::Ack(ack) => engine.ack(ack.clone()).await.map(drop),
            Self::Release(release) => engine.release(release.clone()).await.map(drop),
        }
    }
}

/// Tries again while the store cannot be reached: a lease that stays open is open until the next start.
async fn persist(engine: &Engine, step: Option<Step>) -> Result<(), EngineError> {
    let Some(step) = step else { return Ok(()) };
    let mut rest = REST;
    for _ in 1..TRIES {
        match step.take(engine).await {
            Err(EngineError::Unavailable { .. } | EngineError::Overloaded { .. } | EngineError::NoSpace) => {}
            Err(EngineError::QueueNotFound) => return Ok(()),
            settled => return settled,
        }
        tokio::time::sleep(rest).await;
        rest *= 2;
    }
    step.take(engine).await
}
