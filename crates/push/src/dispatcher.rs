//! The dispatcher: one lane for each queue that has a consumer to bring batches to.
//!
//! It starts by releasing what an earlier start has left leased, follows the queues' definitions, and ends by letting
//! the batches under way finish. All lanes share the places for batches under way, and take them in turn: a queue with
//! a long backlog cannot keep the others waiting for longer than one batch of each.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::ReleaseOwners;
use kew_core::{Queue, QueueId};
use kew_engine::{Busy, Engine};
use kew_http::Drain;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinError, JoinSet};

use crate::attempts::Attempts;
use crate::batch::FINISH_WITHIN;
use crate::lane::Lane;
use crate::notice::Notice;
use crate::rules::circuit::Circuits;
use crate::shared::{Settings, Shared};
use crate::target::Targets;
use crate::webhook::Webhooks;
use crate::workers::Workers;

/// What was cut off is settled within this time.
const SETTLE_WITHIN: Duration = Duration::from_secs(3);
/// The real time between two tries to release what an earlier start left behind.
const REST: Duration = Duration::from_secs(1);

/// Brings batches to consumers, for as long as [`Dispatcher::run`] is polled.
pub struct Dispatcher {
    shared: Arc<Shared>,
}

impl Dispatcher {
    /// A dispatcher over an engine; it ends when `stop` is closed. Consumers that are Workers wait while there are no
    /// `workers`.
    pub fn new(engine: Arc<Engine>, settings: Settings, workers: Option<Arc<Workers>>, stop: Drain) -> Self {
        let webhooks = Webhooks::new(settings.reach, Arc::clone(&settings.clock));
        let places = Arc::new(Semaphore::new(settings.batches_max.max(1) as usize));
        let entropy = Arc::clone(&settings.entropy);
        let shared = Shared {
            engine,
            entropy,
            settings,
            targets: Arc::new(Targets { webhooks, workers }),
            attempts: Arc::default(),
            circuits: Arc::default(),
            stop,
            places,
        };
        Self { shared: Arc::new(shared) }
    }

    /// A dispatcher over the engine of another shard of this process. It shares targets, bounds and figures with this
    /// one, and the end.
    pub fn beside(&self, engine: Arc<Engine>) -> Self {
        Self { shared: Arc::new(Shared { engine, ..(*self.shared).clone() }) }
    }

    /// What came of the batches.
    pub fn attempts(&self) -> &Arc<Attempts> {
        &self.shared.attempts
    }

    /// Consumers whose targets cannot be reached.
    pub fn circuits(&self) -> &Arc<Circuits> {
        &self.shared.circuits
    }

    /// Brings batches to consumers until the end is called, and lets those under way finish.
    pub async fn run(self) {
        let over = async {
            self.shared.stop.closing().await;
            tokio::time::sleep(FINISH_WITHIN).await;
        };
        let mut serving = std::pin::pin!(self.serve());
        tokio::select! {
            () = &mut serving => return,
            () = over => {}
        }
        // What Workers have acknowledged by now holds, and is still written down.
        self.shared.targets.cut_off();
        if tokio::time::timeout(SETTLE_WITHIN, &mut serving).await.is_ok() {
            return;
        }
        let free = self.shared.places.available_permits();
        let batches = (self.shared.settings.batches_max as usize).saturating_sub(free);
        (self.shared.settings.notices)(Notice::CutOff { batches });
    }

    async fn serve(&self) {
        if !self.release_left_behind().await {
            return;
        }
        let mut lanes = Lanes::default();
        let definitions = self.shared.engine.watch_definitions();
        let queues = self.shared.engine.all_queues();
        queues.iter().for_each(|queue| lanes.open(&self.shared, queue));
        drop(queues);
        loop {
            tokio::select! {
                biased;
                () = self.shared.stop.closing() => break,
                Some(ended) = lanes.tasks.join_next_with_id(), if !lanes.tasks.is_empty() => {
                    lanes.ended(&self.shared, ended);
                }
                (changed, _busy) = definitions.rung() => {
                    let queues = changed.iter().filter_map(|id| self.shared.engine.queue_by_id(*id));
                    queues.for_each(|queue| lanes.open(&self.shared, &queue));
                }
            }
        }
        drop(definitions);
        lanes.finish().await;
    }

    /// Releases the leases of earlier starts as failed deliveries; false when the end was called before it could.
    async fn release_left_behind(&self) -> bool {
        let engine = &self.shared.engine;
        while let Err(error) = engine.release_owners(ReleaseOwners { except: engine.owner() }).await {
            (self.shared.settings.notices)(Notice::ReleaseFailed(error));
            tokio::select! {
                () = self.shared.stop.closing() => return false,
                () = tokio::time::sleep(REST) => {}
            }
        }
        !self.shared.stop.is_closing()
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("targets", &self.shared.targets).finish_non_exhaustive()
    }
}

/// The lanes that are open.
#[derive(Default)]
struct Lanes {
    tasks: JoinSet<QueueId>,
    open: HashMap<QueueId, Id>,
}

impl Lanes {
    /// Opens a lane for a queue that has a consumer and no lane.
    fn open(&mut self, shared: &Arc<Shared>, queue: &Queue) {
        let id = queue.id;
        if self.open.contains_key(&id) || shared.served(queue).is_none() {
            return;
        }
        let lane = Lane::new(Arc::clone(shared), id);
        let begun: Busy = shared.engine.begin_work();
        let task = self.tasks.spawn(async move {
            lane.run(begun).await;
            id
        });
        self.open.insert(id, task.id());
    }

    /// A lane has ended: its queue has no consumer any more, unless it was given one in this very moment.
    fn ended(&mut self, shared: &Arc<Shared>, ended: Result<(Id, QueueId), JoinError>) {
        match ended {
            Ok((_, queue)) => {
                self.open.remove(&queue);
                if let Some(queue) = shared.engine.queue_by_id(queue) {
                    self.open(shared, &queue);
                }
            }
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    async fn finish(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
