//! The event loops of a server: one, or one for each shard of its store.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kew_engine::Engine;
use kew_fleet::{Fleet, LoopStore};
use kew_http::Histogram;
use kew_store::Store;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

use super::Parts;
use super::store::begin;
use crate::fleet::ShownProcess;
use crate::listen::{Begin, Beside, Entrance, Started};
use crate::machine::SystemTimeSource;
use crate::start_error::StartError;

/// How long loops may take to learn each other's queues as they begin.
const KNOWN_WITHIN: Duration = Duration::from_secs(60);
const LOOKS_EVERY: Duration = Duration::from_millis(2);

/// Loops that run.
pub(super) struct Loops {
    first: Started,
    others: Vec<Started>,
}

impl From<Started> for Loops {
    fn from(first: Started) -> Self {
        Self { first, others: Vec::new() }
    }
}

impl Loops {
    /// The engine that the console and Workers stand on.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.first.engine
    }

    /// The loop of that engine.
    pub fn home(&self) -> &Handle {
        &self.first.handle
    }

    /// All engines.
    pub fn engines(&self) -> Vec<Arc<Engine>> {
        self.all().map(|started| Arc::clone(&started.engine)).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Started> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// What resolves when one of them has ended, for whatever reason; it can be had once.
    pub fn ended(&mut self) -> impl Future<Output = ()> + use<> {
        let all: Vec<_> =
            std::iter::once(&mut self.first).chain(&mut self.others).map(Started::ended).collect();
        async move {
            let mut all: JoinSet<()> = all.into_iter().collect();
            // One that is cancelled ends with the runtime.
            let _ended = all.join_next().await;
        }
    }

    /// Ends all waits, and refuses new ones.
    pub fn shut_down(&self) {
        self.all().for_each(|started| started.engine.shutdown());
    }

    /// Waits for their ends, which the drain brings about.
    pub fn join(self) -> std::io::Result<()> {
        let ended: Vec<_> = std::iter::once(self.first).chain(self.others).map(Started::join).collect();
        ended.into_iter().collect()
    }
}

impl Parts<'_> {
    /// Runs an event loop for each of these stores, the shards of one store in order. Each of them listens at every
    /// entrance.
    pub(super) fn run_on_shards(
        &self,
        stores: Vec<Arc<dyn Store>>,
        entrances: Vec<Entrance>,
    ) -> Result<(Loops, ShownProcess), StartError> {
        let failed = |cause| StartError::Shards { store: self.settings.server.store.to_string(), cause };
        let of_loops = kew_fleet::loops_of_process(stores.clone()).map_err(failed)?;
        let fleets: Vec<Arc<Fleet>> = of_loops.iter().map(LoopStore::store).collect();
        let syncs: Vec<Arc<Histogram>> = of_loops.iter().map(|_| Arc::default()).collect();
        let front_ends = self.front_ends()?;
        let mut started = Vec::with_capacity(of_loops.len());
        let each = of_loops.into_iter().zip(share_out(entrances, syncs.len())?).zip(&syncs);
        for (number, ((store, entrances), syncs)) in each.enumerate() {
            let source = Arc::new(SystemTimeSource);
            let mut event_loop = self.event_loop(store.store(), source, entrances, front_ends.clone());
            event_loop.name = format!("kew-loop-{number}");
            event_loop.own_syncs = Some(Arc::clone(syncs));
            event_loop.options.shards_come = true;
            event_loop.beside = Some(keep_shard(store));
            started.push(begin(event_loop)?);
        }
        until_all_known(&fleets).map_err(failed)?;
        let mut started = started.into_iter();
        let first = started.next().expect("a process has at least one event loop");
        let loops = Loops { first, others: started.collect() };
        let shown = ShownProcess::new((&fleets, stores), syncs, &self.node_name(), loops.engine().now());
        Ok((loops, shown))
    }
}

/// The entrances of each loop: all of them.
fn share_out(entrances: Vec<Entrance>, loops: usize) -> Result<Vec<Vec<Entrance>>, StartError> {
    let mut shares: Vec<Vec<Entrance>> = (0..loops).map(|_| Vec::new()).collect();
    for entrance in entrances {
        let of_each = entrance.share_out(loops);
        let of_each = of_each.map_err(|cause| StartError::Machine { doing: "sharing a listener", cause })?;
        shares.iter_mut().zip(of_each).for_each(|(share, entrance)| share.push(entrance));
    }
    Ok(shares)
}

/// Waits until each loop knows the queues of all others: a moment after the last of them has begun.
fn until_all_known(fleets: &[Arc<Fleet>]) -> Result<(), String> {
    let begun = Instant::now();
    while !fleets.iter().all(|fleet| fleet.knows_all()) {
        if begun.elapsed() > KNOWN_WITHIN {
            return Err("an event loop does not say which queues it keeps".to_owned());
        }
        std::thread::sleep(LOOKS_EVERY);
    }
    Ok(())
}

/// Keeps a shard on its event loop, until that ends.
fn keep_shard(store: LoopStore) -> Begin {
    Box::new(move |engine| Ok(Box::new(FleetTasks(store.begin(engine)))))
}

/// What runs on the loop of a shard beside its engine.
struct FleetTasks(JoinSet<()>);

impl Beside for FleetTasks {
    fn fallen(&mut self) -> Pin<Box<dyn Future<Output = Result<(), JoinError>> + Send + '_>> {
        Box::pin(async {
            match self.0.join_next().await {
                Some(ended) => ended,
                None => Ok(()),
            }
        })
    }

    /// What was not carried yet is carried after the next start.
    fn finish(mut self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.0.shutdown().await })
    }
}
