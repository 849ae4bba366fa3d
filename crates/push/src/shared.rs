//! What all lanes share: how batches are brought, where to, and the places for batches under way.

use std::sync::Arc;

use kew_core::{Clock, Entropy, Queue};
use kew_engine::Engine;
use kew_http::Drain;
use kew_http::client::Reach;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::attempts::{Attempt, Attempts};
use crate::consumer::Consumer;
use crate::document;
use crate::notice::Notice;
use crate::rules::circuit::Circuits;
use crate::target::Targets;
use crate::traced::Traces;

/// How batches are brought to consumers.
#[derive(Clone)]
pub struct Settings {
    /// Which addresses webhooks may have.
    pub reach: Reach,
    /// Batches under way at once, of all consumers together.
    pub batches_max: u32,
    /// Messages in flight at once, per queue.
    pub in_flight_max: u32,
    /// The machine's time: what signatures are dated by.
    pub clock: Arc<dyn Clock>,
    /// The machine's chance.
    pub entropy: Arc<dyn Entropy>,
    /// How traces go on from messages to targets.
    pub traces: Traces,
    /// Hears of every batch that was brought, or was not. Must not block.
    pub brought: Arc<dyn Fn(&Attempt) + Send + Sync>,
    /// Reports to the operator. Runs between deliveries, must not block.
    pub notices: Arc<dyn Fn(Notice) + Send + Sync>,
}

/// What all lanes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) settings: Settings,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) targets: Arc<Targets>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) circuits: Arc<Circuits>,
    pub(crate) stop: Drain,
    pub(crate) places: Arc<Semaphore>,
}

impl Shared {
    /// A place among all batches under way, when it is this lane's turn.
    pub(crate) fn place(&self) -> impl Future<Output = OwnedSemaphorePermit> + Send + use<> {
        let place = Arc::clone(&self.places).acquire_owned();
        async { place.await.expect("the places are never closed") }
    }

    /// A place that no lane waits for, if there is one.
    pub(crate) fn free_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// The consumer of a queue, if there is one that batches can be brought to. A queue that another node keeps has no
    /// consumer here.
    pub(crate) fn served(&self, queue: &Queue) -> Option<Consumer> {
        let kept = self.engine.keeps(queue.id).then_some(queue)?;
        pushed(kept).filter(|consumer| self.targets.serve(consumer))
    }
}

/// The consumer of a queue, if it is pushed to.
pub(crate) fn pushed(queue: &Queue) -> Option<Consumer> {
    document::consumers(queue).into_iter().find(|consumer| consumer.push().is_some())
}
