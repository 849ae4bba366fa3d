//! Where batches are brought.

use std::sync::Arc;

use kew_core::AccountId;
use tokio::sync::watch;

use crate::batch::Batch;
use crate::consumer::{Consumer, Delivery, Target};
use crate::delivered::Delivered;
use crate::standing::Standing;
use crate::webhook::{Webhook, Webhooks};
use crate::workers::Workers;

/// All targets there are.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) webhooks: Webhooks,
    /// None where Workers are not run.
    pub(crate) workers: Option<Arc<Workers>>,
}

impl Targets {
    /// Whether there is a way to bring batches to this consumer.
    pub(crate) fn serve(&self, consumer: &Consumer) -> bool {
        match &consumer.delivery {
            Delivery::Push(push) => match &push.target {
                Target::Webhook { .. } => true,
                Target::Worker { .. } => self.workers.is_some(),
            },
            Delivery::Pull(_) => false,
        }
    }

    /// Whether a batch can be brought there at this moment, and why not.
    pub(crate) fn standing(&self, account: AccountId, consumer: &Consumer) -> Standing {
        match (consumer.push().map(|push| &push.target), &self.workers) {
            (Some(Target::Worker { script }), Some(workers)) => workers.standing(account, script),
            (Some(Target::Worker { .. }), None) | (None, _) => Standing::Down,
            (Some(Target::Webhook { .. }), _) => Standing::Up,
        }
    }

    /// Tells whenever [`Targets::standing`] may have changed; nothing where it never does.
    pub(crate) fn watch(&self) -> Option<watch::Receiver<u64>> {
        self.workers.as_ref().map(|workers| workers.watch())
    }

    /// Ends what can be ended of the batches under way.
    pub(crate) fn cut_off(&self) {
        if let Some(workers) = &self.workers {
            workers.kill_all();
        }
    }

    /// Learns what this batch will meet, which may take a moment.
    pub(crate) async fn look_ahead(&self, consumer: &Consumer, batch: &Batch) {
        if let (Some(Target::Worker { script }), Some(workers)) =
            (consumer.push().map(|push| &push.target), &self.workers)
        {
            workers.follow_in_time(batch.queue.account, script).await;
        }
    }

    /// Brings a batch to its consumer, and comes back when its fate is known.
    pub(crate) async fn deliver(&self, consumer: &Consumer, batch: &Batch) -> Delivered {
        match consumer.push().map(|push| &push.target) {
            Some(Target::Webhook { url, secret, timeout }) => {
                let webhook = Webhook { url, secret: secret.as_ref(), timeout: *timeout };
                self.webhooks.deliver(webhook, batch).await
            }
            Some(Target::Worker { script }) => match &self.workers {
                Some(workers) => workers.deliver(script, batch).await,
                None => nowhere(),
            },
            None => nowhere(),
        }
    }
}

/// Such a consumer has no lane; it can only have lost its target in this moment.
fn nowhere() -> Delivered {
    Delivered::unreached("there is no way to this consumer".to_owned())
}
