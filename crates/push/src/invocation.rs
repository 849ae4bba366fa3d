//! One batch from its lease to its end: brought to its target, settled by the verdict, noted.

use std::sync::Arc;
use std::time::Duration;

use kew_core::Timestamp;
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

/// A batch that was leased.
pub(crate) struct Invocation {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) batch: Batch,
    pub(crate) left_at: Timestamp,
}

/// A batch that has ended.
pub(crate) struct Finished {
    pub(crate) consumer: ConsumerId,
    pub(crate) ending: Ending,
    pub(crate) hold: Option<Duration>,
    pub(crate) unreached: bool,
    pub(crate) busy: Busy,
}

/// Brings a batch to its target and settles it.
pub(crate) async fn run(
    shared: Arc<Shared>,
    invocation: Invocation,
    busy: Busy,
    place: OwnedSemaphorePermit,
) -> Finished {
    let Invocation { consumer, batch, left_at } = invocation;
    let begun = Instant::now();
    let (delivered, busy) = deliver(&shared, &consumer, &batch, busy).await;
    // The target is free; what is left is the store's.
    drop(place);
    let acked = match settle(&shared.engine, &batch, &delivered.report, consumer.retry_delay).await {
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
        batch: batch.id_text(),
        messages: u32::try_from(batch.messages.len()).unwrap_or(u32::MAX),
        acked,
        ending: delivered.ending(),
        took: begun.elapsed(),
        status: delivered.status,
        error: delivered.error,
    });
    shared.attempts.note(Arc::clone(&attempt));
    let ending = attempt.ending;
    if ending == Ending::Failed {
        (shared.settings.notices)(Notice::BatchFailed(attempt));
    }
    Finished { consumer: consumer.id, ending, hold: delivered.hold, unreached: delivered.unreached, busy }
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
