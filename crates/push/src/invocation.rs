//! What was leased together, from there to its end: brought to its target, settled by the verdict, noted.
//!
//! It is one batch, or, where one message may fail the others, several that are brought one after the other. When the
//! target cannot be reached they are all withdrawn.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{MessageId, QueueKey, Timestamp};
use kew_engine::{Busy, EngineError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::attempts::Attempt;
use crate::batch::Batch;
use crate::consumer::Consumer;
use crate::delivered::Delivered;
use crate::notice::Notice;
use crate::rules::circuit::Round;
use crate::settle::{give_back, settle, withdraw};
use crate::shared::Shared;
use crate::verdict::Ending;

/// The real time a jump of the virtual clock waits for a target: what answers at once is settled at the instant it was
/// asked, what does not may take minutes.
const HELD_FOR: Duration = Duration::from_millis(500);

/// How long a place among all batches under way is kept while the verdict of a batch is written, for the next one.
const PLACE_KEPT_FOR: Duration = Duration::from_secs(1);

/// What was leased.
pub(crate) struct Invocation {
    pub(crate) consumer: Arc<Consumer>,
    /// Never empty.
    pub(crate) batches: Vec<Batch>,
    pub(crate) left_at: Timestamp,
    /// The round of the consumer's circuit that it left in.
    pub(crate) round: Round,
}

/// What has ended.
pub(crate) struct Finished {
    pub(crate) queue: QueueKey,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) round: Round,
    /// Failed if any batch of it did.
    pub(crate) ending: Ending,
    pub(crate) hold: Option<Duration>,
    /// Why the target could not be reached, if it could not.
    pub(crate) unreached: Option<String>,
    /// Messages to bring one by one next time.
    pub(crate) alone: Vec<MessageId>,
    /// Not all of it was brought: this node may not answer for the store.
    pub(crate) is_held_back: bool,
    pub(crate) busy: Busy,
}

impl Finished {
    /// What has ended well, as it is before any of it was brought.
    fn well(queue: QueueKey, consumer: Arc<Consumer>, round: Round, busy: Busy) -> Self {
        Self {
            queue,
            consumer,
            round,
            ending: Ending::Returned,
            hold: None,
            unreached: None,
            alone: Vec::new(),
            is_held_back: false,
            busy,
        }
    }
}

/// Brings what was leased to its target and settles it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    invocation: Invocation,
    busy: Busy,
    place: OwnedSemaphorePermit,
) -> Finished {
    let Invocation { consumer, batches, left_at, round } = invocation;
    let queue = batches.first().map(|batch| batch.queue.clone()).expect("something was leased");
    let mut finished = Finished::well(queue, Arc::clone(&consumer), round, busy);
    let (mut place, mut left) = (Some(place), batches.len());
    for (number, batch) in batches.iter().enumerate() {
        shared.targets.look_ahead(&consumer, batch).await;
        // Only now: it may have waited for that, and for those before it.
        let leased_from = batch.messages.first().map(|leased| leased.message.queue);
        if !leased_from.is_some_and(|queue| shared.engine.may_answer_for(queue)) {
            place.take();
            hold_back(&shared, &batches[number..], &mut finished).await;
            break;
        }
        let begun = Instant::now();
        let (delivered, busy) = deliver(&shared, &consumer, batch, finished.busy).await;
        left -= 1;
        if left == 0 {
            // The target is free; what is left is the store's.
            place.take();
        }
        finished.busy = busy;
        finished.hold = finished.hold.max(delivered.hold);
        if delivered.ending() != Ending::Returned {
            finished.ending = Ending::Failed;
        }
        finished.alone.extend_from_slice(&delivered.alone);
        if delivered.ending() == Ending::Unreached {
            place.take();
            withdraw_all(&shared, &batches[number..], &delivered, &mut finished).await;
            finished.unreached = delivered.error.clone();
            note(&shared, &consumer, batch, (left_at, begun), (delivered, 0));
            break;
        }
        let acked = settled_in_time(&mut place, settled(&shared, &consumer, batch, &delivered)).await;
        if left > 0 && place.is_none() {
            place = Some(shared.place().await);
        }
        note(&shared, &consumer, batch, (left_at, begun), (delivered, acked));
    }
    finished
}

/// Waits until a batch is settled. Where a store takes no verdicts for long, batches of other stores get the place.
async fn settled_in_time(
    place: &mut Option<OwnedSemaphorePermit>,
    settling: impl Future<Output = u32>,
) -> u32 {
    let mut settling = std::pin::pin!(settling);
    if let Ok(acked) = tokio::time::timeout(PLACE_KEPT_FOR, &mut settling).await {
        return acked;
    }
    place.take();
    settling.await
}

/// These are not brought: another node may have leased their messages by now. If none has, they are where they were
/// before.
async fn hold_back(shared: &Shared, batches: &[Batch], finished: &mut Finished) {
    let notices = &shared.settings.notices;
    finished.is_held_back = true;
    let cause = "this node may not answer for its store".to_owned();
    notices(Notice::LeaseFailed(finished.queue.clone(), EngineError::Unavailable { cause }));
    for batch in batches {
        give_back(shared, batch).await;
        keep_apart(batch, batches, finished);
    }
}

/// A message that comes alone still has to next time.
fn keep_apart(batch: &Batch, batches: &[Batch], finished: &mut Finished) {
    if let ([only], true) = (batch.messages.as_slice(), batches.len() > 1) {
        finished.alone.push(only.message.id);
    }
}

/// Nothing of these was heard of: they are as if they had never been leased.
async fn withdraw_all(shared: &Shared, batches: &[Batch], delivered: &Delivered, finished: &mut Finished) {
    for batch in batches {
        withdraw(shared, batch, delivered).await;
        keep_apart(batch, batches, finished);
    }
}

/// Settles a batch, and says how many of its messages are done.
async fn settled(shared: &Shared, consumer: &Consumer, batch: &Batch, delivered: &Delivered) -> u32 {
    let Ok(settled) = settle(shared, batch, delivered, consumer.retry_delay).await else { return 0 };
    for leased in settled.given_up {
        let (message, attempts) = (leased.message.id, leased.message.attempts);
        let (queue, to) = (batch.queue.clone(), settled.to.clone());
        (shared.settings.notices)(Notice::GivenUp { queue, message, attempts, to });
    }
    settled.acked
}

/// Tells what came of a batch.
fn note(
    shared: &Shared,
    consumer: &Consumer,
    batch: &Batch,
    (left_at, begun): (Timestamp, Instant),
    (delivered, acked): (Delivered, u32),
) {
    let notices = &shared.settings.notices;
    if let Some(ids) = delivered.strange_ids.clone() {
        notices(Notice::StrangeIds { queue: batch.queue.clone(), batch: batch.id_text(), ids });
    }
    let attempt = Arc::new(Attempt {
        at: left_at,
        queue: batch.queue.clone(),
        consumer: consumer.id,
        target: consumer.push().map(|push| push.target.to_string()).unwrap_or_default(),
        batch: batch.id_text(),
        messages: u32::try_from(batch.messages.len()).unwrap_or(u32::MAX),
        acked,
        ending: delivered.ending(),
        took: begun.elapsed(),
        status: delivered.status,
        error: delivered.error,
        trace: batch.trace.clone(),
    });
    (shared.settings.brought)(&attempt);
    shared.attempts.note(Arc::clone(&attempt));
    if attempt.ending == Ending::Failed {
        notices(Notice::BatchFailed(attempt));
    }
}

async fn deliver(shared: &Shared, consumer: &Consumer, batch: &Batch, busy: Busy) -> (Delivered, Busy) {
    let mut delivery = std::pin::pin!(shared.targets.deliver(consumer, batch));
    tokio::select! {
        delivered = &mut delivery => return (delivered, busy),
        () = tokio::time::sleep(HELD_FOR) => drop(busy),
    }
    let delivered = delivery.await;
    (delivered, shared.engine.begin_work())
}
