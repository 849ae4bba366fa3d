//! What was leased together, from there to its end: brought to its target, settled by the verdict, noted.
//!
//! It is one batch, or, where one message may fail the others, several that are brought one after the other.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{MessageId, Timestamp};
use kew_engine::Busy;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::ConsumerId;
use crate::attempts::Attempt;
use crate::batch::Batch;
use crate::consumer::Consumer;
use crate::dispatcher::Shared;
use crate::notice::Notice;
use crate::settle::settle;
use crate::target::Delivered;
use crate::verdict::Ending;

/// The real time a jump of the virtual clock waits for a target: what answers at once is settled at the instant it was
/// asked, what does not may take minutes.
const HELD_FOR: Duration = Duration::from_millis(500);

/// What was leased.
pub(crate) struct Invocation {
    pub(crate) consumer: Arc<Consumer>,
    /// Never empty.
    pub(crate) batches: Vec<Batch>,
    pub(crate) left_at: Timestamp,
}

/// What has ended.
pub(crate) struct Finished {
    pub(crate) consumer: ConsumerId,
    /// Failed if any batch of it did.
    pub(crate) ending: Ending,
    pub(crate) hold: Option<Duration>,
    pub(crate) unreached: bool,
    /// Messages to bring one by one next time.
    pub(crate) alone: Vec<MessageId>,
    pub(crate) busy: Busy,
}

/// Brings what was leased to its target and settles it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    invocation: Invocation,
    busy: Busy,
    place: OwnedSemaphorePermit,
) -> Finished {
    let Invocation { consumer, batches, left_at } = invocation;
    let (ending, hold, unreached) = (Ending::Returned, None, false);
    let mut finished = Finished { consumer: consumer.id, ending, hold, unreached, alone: Vec::new(), busy };
    let (mut place, mut left) = (Some(place), batches.len());
    for batch in &batches {
        let begun = Instant::now();
        let (delivered, busy) = deliver(&shared, &consumer, batch, finished.busy).await;
        left -= 1;
        if left == 0 {
            // The target is free; what is left is the store's.
            place.take();
        }
        finished.busy = busy;
        finished.hold = finished.hold.max(delivered.hold);
        finished.unreached |= delivered.unreached;
        if delivered.ending() == Ending::Failed {
            finished.ending = Ending::Failed;
        }
        finished.alone.extend_from_slice(&delivered.alone);
        note(&shared, &consumer, batch, (left_at, begun), delivered).await;
    }
    finished
}

/// Settles a batch, and tells what came of it.
async fn note(
    shared: &Shared,
    consumer: &Consumer,
    batch: &Batch,
    (left_at, begun): (Timestamp, Instant),
    delivered: Delivered,
) {
    let acked = match settle(&shared.engine, batch, &delivered.report, consumer.retry_delay).await {
        Ok(acked) => acked,
        Err(error) => {
            (shared.settings.notices)(Notice::SettleFailed(batch.queue.clone(), error));
            0
        }
    };
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
    });
    shared.attempts.note(Arc::clone(&attempt));
    if attempt.ending == Ending::Failed {
        (shared.settings.notices)(Notice::BatchFailed(attempt));
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
