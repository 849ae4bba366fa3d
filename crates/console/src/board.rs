//! The program's state: whether it is waiting, starting, serving or stopping, and with which engine.

use std::sync::Arc;

use kew_core::QueueId;
use kew_engine::{Engine, EngineError, HeldExpiry};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use crate::fleet::Fleet;
use crate::sources::{Backups, LatestPushes, OpenCircuits, PushAttempts, StoreBytes, StoreDisk, StorePlace};

/// Where the program tells what there is to show.
#[derive(Default)]
pub struct Board {
    /// Guards the phase; read for each request, written some times in a server's life.
    phase: RwLock<Phase>,
}

/// Where a server is in its life.
#[derive(Clone, Default)]
pub(crate) enum Phase {
    /// The store is being opened.
    #[default]
    Starting,
    /// The store cannot be opened yet, for this reason: another node owns it, or its database does not answer.
    Waiting(Arc<str>),
    /// Requests are served.
    Serving(Arc<Running>),
    /// No new requests are taken.
    Stopping,
}

/// A server that serves.
pub struct Running {
    /// Its engine.
    pub engine: Arc<Engine>,
    /// Those of the other event loops of this process, one for each further shard.
    pub others: Vec<Arc<Engine>>,
    /// The event loop that the engine's work happens on: time is moved there.
    pub home: Handle,
    /// Batches brought to consumers, by how they ended.
    pub push_attempts: Box<PushAttempts>,
    /// The latest of them.
    pub latest_pushes: Box<LatestPushes>,
    /// Consumers that cannot be reached.
    pub open_circuits: Box<OpenCircuits>,
    /// What its store takes on disk; `None` where it lies in memory.
    pub store_bytes: Option<Box<StoreBytes>>,
    /// The disk that its store lies on; `None` where that is not this machine's.
    pub disk: Option<Box<StoreDisk>>,
    /// Backs its store up; `None` where that is done by other means.
    pub backups: Option<Arc<dyn Backups>>,
    /// What and where its store is.
    pub place: StorePlace,
    /// The fleet that it is a node of; `None` where its store has one owner.
    pub fleet: Option<Arc<dyn Fleet>>,
}

impl Running {
    /// All engines of this process.
    pub(crate) fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        std::iter::once(&self.engine).chain(&self.others)
    }

    /// Whether every loop of this process can serve.
    pub(crate) fn health(&self) -> Result<(), EngineError> {
        self.engines().try_for_each(|engine| engine.health())
    }

    /// How expiry is held, where a loop of this process holds it.
    pub(crate) fn held_expiry(&self) -> Option<HeldExpiry> {
        self.engines().find_map(|engine| engine.held_expiry())
    }

    /// The number of the shard that a queue is in.
    pub(crate) fn shard_of(&self, queue: QueueId) -> u64 {
        self.fleet.as_ref().map_or(0, |fleet| fleet.shard_of(queue))
    }
}

impl Board {
    /// Requests are served from now on.
    pub fn serving(&self, running: Running) {
        *self.phase.write() = Phase::Serving(Arc::new(running));
    }

    /// The store cannot be opened yet, and why.
    pub fn waiting(&self, why: &str) {
        *self.phase.write() = Phase::Waiting(why.into());
    }

    /// The store can be opened now.
    pub fn starting(&self) {
        *self.phase.write() = Phase::Starting;
    }

    /// The end has begun. What was served until now, for a last look at it.
    pub fn stopping(&self) -> Option<Arc<Running>> {
        match std::mem::replace(&mut *self.phase.write(), Phase::Stopping) {
            Phase::Serving(running) => Some(running),
            Phase::Starting | Phase::Waiting(_) | Phase::Stopping => None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.read().clone()
    }
}
