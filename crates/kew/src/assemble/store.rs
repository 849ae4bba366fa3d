//! The store that was chosen, opened, and what runs over it: the event loop, then the consumers.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{ShardCount, ShardPlace};
use kew_engine::{ClockKind, Options, TimeSource};
use kew_log_pg::{Ending, PgDisk, PgStore};
use kew_push::workers::OtherNodes;
use kew_store::ledger::Bounds;
use kew_store::{MemoryStore, Store};
use kew_store_log::{Drive, LogOptions, LogStore, SegmentOptions, laid_out};

use super::Parts;
use super::loops::Loops;
use crate::bind::{self, Bound};
use crate::config::{PgUrl, StoreChoice};
use crate::consumers::push::{Pushes, WorkersWanted};
use crate::fleet::{self, FleetNode, Opens, PeerPlace, ShownProcess};
use crate::listen::{Begin, Entrance, EventLoop, FrontEndSettings, Serves, Started};
use crate::log::{Area, Level};
use crate::machine::{self, DatabaseTime, SystemTimeSource};
use crate::reports::shards::FailingShards;
use crate::start_error::StartError;
use crate::store::backups::StoreBackups;
use crate::store::fresh;
use crate::store::kept::{Kept, KeptStore};
use crate::store::opening::Standing;
use crate::{notices, opening};

/// The pause before a store that was lost while it was being opened is taken again.
const OPENS_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// It doubles up to this: each try reads the store, from a database that may be in trouble.
const OPENS_AGAIN_MAX: Duration = Duration::from_secs(30);

/// Files that each shard of a directory may have open, however many shards there are.
const OPEN_FILES_MIN: usize = 8;

/// The store in PostgreSQL that this node owns, and its log.
pub(super) struct Owned {
    disk: PgDisk,
    store: Arc<LogStore>,
}

impl Parts<'_> {
    /// Owns the store in PostgreSQL and opens it, if that is where it is. While another node owns it, nothing listens
    /// but the admin API: clients are refused at once and go to the other node. A store that is lost while it is being
    /// opened is waited for again.
    pub(super) fn own_store(
        &self,
        entrances: &mut Vec<(Serves, TcpListener)>,
        bound: &mut Bound,
        ending: &Ending,
    ) -> Result<Option<Owned>, StartError> {
        let StoreChoice::Postgres(url) = &self.settings.server.store else { return Ok(None) };
        let node = self.settings.server.node.as_deref();
        let (log, mut standing) = (self.log.of(Area::Store), Standing::default());
        let (mut waited, mut pause) = (false, OPENS_AGAIN_AFTER);
        loop {
            let disk =
                opening::own_postgres(url, node, &*self.entropy, (log, &mut standing), ending, |why| {
                    entrances.clear();
                    waited = true;
                    self.board.waiting(why);
                })?;
            if std::mem::take(&mut waited) {
                self.board.starting();
                *entrances = bind::bind_entrances(&self.settings.server, bound)?;
            }
            let opened = self.open_owned(url, &disk, |why| {
                // Clients are refused at once meanwhile.
                entrances.clear();
                waited = true;
                self.board.waiting(&format!("the store cannot be opened yet: {why}"));
            });
            match opened {
                Ok(store) => {
                    if waited {
                        self.board.starting();
                        *entrances = bind::bind_entrances(&self.settings.server, bound)?;
                    }
                    return Ok(Some(Owned { disk, store }));
                }
                Err(error) if !ending.is_over() && opening::was_lost(&disk, &error) => {
                    let why = error.to_string();
                    standing.lost(log, url, &why);
                    // Clients are refused at once meanwhile, and go to another node.
                    entrances.clear();
                    waited = true;
                    self.board.waiting(&why);
                    // The next try is another node to the database: it waits for none that was left behind.
                    disk.give_up();
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(OPENS_AGAIN_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Joins the fleet of a store in PostgreSQL, where other nodes are to reach this one. While its database cannot be
    /// used nothing listens but the admin API.
    pub(super) fn join_fleet(
        &self,
        entrances: &mut Vec<(Serves, TcpListener)>,
        bound: &mut Bound,
        ending: &Ending,
    ) -> Result<Option<FleetNode>, StartError> {
        let server = &self.settings.server;
        let (StoreChoice::Postgres(url), Some(peer)) = (&server.store, server.peer.socket()) else {
            return Ok(None);
        };
        let name = self.node_name();
        let (log, mut standing) = (self.log.of(Area::Store), Standing::default());
        let mut waited = false;
        loop {
            let place = PeerPlace { socket: bind::bind_peer(peer)?, is_encrypted: server.peer_tls };
            let founding = opening::founding_of_fleet(&*self.entropy);
            let joined = fleet::join((url, &name), (place, founding), &self.entropy, self.opens(), log);
            match joined {
                Ok(node) => {
                    if waited {
                        self.board.starting();
                        *entrances = bind::bind_entrances(server, bound)?;
                    }
                    return Ok(Some(node));
                }
                Err(error) if !ending.is_over() && may_pass(&error) => {
                    standing.lost(log, url, &error.to_string());
                    entrances.clear();
                    waited = true;
                    self.board.waiting(&format!("the database cannot be used yet: {error}"));
                    std::thread::sleep(OPENS_AGAIN_AFTER);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What operators call this node.
    pub(super) fn node_name(&self) -> String {
        self.settings.server.node.clone().unwrap_or_else(machine::host_name)
    }

    fn opens(&self) -> Opens {
        let mut options = self.log_options();
        // Ids that were put away would be read from the database while steps wait.
        options.bounds.deduplication_ids_max = self.settings.limits.dedup_ids;
        Opens {
            options,
            entropy: Arc::clone(&self.entropy),
            reports: Arc::new(FailingShards::new(Arc::clone(&self.upkeep) as _)),
            log: self.log.of(Area::Store),
        }
    }

    /// Runs the event loop over the shards of a fleet.
    pub(super) fn run_in_fleet(
        &self,
        node: FleetNode,
        entrances: Vec<Entrance>,
    ) -> Result<Loops, StartError> {
        let (store, time) = (node.store(), node.time());
        self.run(store, time, entrances, Some(node))
    }

    fn open_owned(
        &self,
        url: &PgUrl,
        disk: &PgDisk,
        waits: impl FnMut(&str),
    ) -> Result<Arc<LogStore>, StartError> {
        let mut options = self.log_options();
        // Ids that were put away would be read from the database while steps wait.
        options.bounds.deduplication_ids_max = self.settings.limits.dedup_ids;
        let (entropy, log) = (Arc::clone(&self.entropy), self.log.of(Area::Store));
        opening::open_postgres(disk, url, options, entropy, log, waits)
    }

    /// Opens the store that was chosen, and runs the event loops over it.
    pub(super) fn open_and_run(
        &self,
        owned: Option<Owned>,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Loops, Option<ShownProcess>), StartError> {
        match (&self.settings.server.store, owned) {
            (StoreChoice::Memory, _) => self.run_in_memory(entrances),
            (StoreChoice::Postgres(url), owned) => {
                let owned = owned.expect("the store in PostgreSQL was opened before anything runs over it");
                self.run_on_postgres(url, owned, entrances)
            }
            (StoreChoice::Directory(path), _) => self.run_on_directory(path, entrances),
        }
    }

    fn run_in_memory(
        &self,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Loops, Option<ShownProcess>), StartError> {
        let warning = "messages are kept in memory only and are gone when the server stops";
        self.log.tell(Level::Warn, warning, &[]);
        let of = self.settings.server.shards.unwrap_or(ShardCount::ONE);
        if of == ShardCount::ONE {
            let store = MemoryStore::with_bounds(Arc::clone(&self.entropy), self.bounds());
            let loops = self.run(Arc::new(store), Arc::new(SystemTimeSource), entrances, None)?;
            return Ok((Kept::default(), loops, None));
        }
        let bounds = share_of(self.bounds(), of);
        let store = |shard| MemoryStore::shard(Arc::clone(&self.entropy), bounds, ShardPlace { shard, of });
        let stores = of.all().map(|shard| Arc::new(store(shard)) as Arc<dyn Store>).collect();
        let (loops, shown) = self.run_on_shards(stores, entrances)?;
        Ok((Kept::default(), loops, Some(shown)))
    }

    fn run_on_postgres(
        &self,
        url: &PgUrl,
        Owned { disk, store: log }: Owned,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Loops, Option<ShownProcess>), StartError> {
        let tenure = Arc::clone(disk.tenure());
        log.report_to(Arc::clone(&self.upkeep) as _);
        let store = Arc::new(PgStore::new(Arc::clone(&log), Arc::clone(&tenure)));
        let time = Arc::new(DatabaseTime::new(tenure));
        let running = self.run(store, time, entrances, None)?;
        let kept = KeptStore { store: log, place: url.to_string(), owned: Some(disk) };
        Ok((kept.into(), running, None))
    }

    fn run_on_directory(
        &self,
        path: &Path,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Loops, Option<ShownProcess>), StartError> {
        let cannot_be_used = |cause| StartError::Directory { path: path.to_owned(), cause };
        if let Some(occupied) = fresh::stands_in_the_way(path).map_err(cannot_be_used)? {
            return Err(occupied.into());
        }
        let shards = self.shards_of(path)?;
        if shards != ShardCount::ONE {
            return self.run_on_folders(path, shards, entrances);
        }
        let store =
            opening::open(path, self.log_options(), Arc::clone(&self.entropy), self.log.of(Area::Store))?;
        store.report_to(Arc::clone(&self.upkeep) as _);
        opening::scrub(&store, path, self.settings.scrub)?;
        let place = path.display().to_string();
        let kept = KeptStore { store: Arc::clone(&store), place, owned: None };
        Ok((kept.into(), self.run(store, Arc::new(SystemTimeSource), entrances, None)?, None))
    }

    /// How many shards a store in a directory has: as many as it was made with.
    fn shards_of(&self, path: &Path) -> Result<ShardCount, StartError> {
        let laid = laid_out(path).map_err(|cause| StartError::Store { path: path.to_owned(), cause })?;
        let server = &self.settings.server;
        let shards = match (laid.shards(), server.shards) {
            (None, wanted) => wanted.unwrap_or(ShardCount::ONE),
            (Some(has), Some(wanted)) if has != wanted => {
                let (has, wanted) = (has.get(), wanted.get());
                return Err(StartError::OtherShards { path: path.to_owned(), has, wanted });
            }
            (Some(has), _) => has,
        };
        if shards != ShardCount::ONE && server.clock == ClockKind::Virtual {
            return Err(StartError::VirtualClock { path: path.to_owned(), has: shards.get() });
        }
        Ok(shards)
    }

    fn run_on_folders(
        &self,
        path: &Path,
        shards: ShardCount,
        entrances: Vec<Entrance>,
    ) -> Result<(Kept, Loops, Option<ShownProcess>), StartError> {
        let usual = self.log_options();
        let files = (usual.segments.open_max / usize::from(shards.get())).max(OPEN_FILES_MIN);
        let segments = SegmentOptions { open_max: files, ..usual.segments };
        let options = LogOptions { bounds: share_of(usual.bounds, shards), segments, ..usual };
        let log = self.log.of(Area::Store);
        let (folders, stores) = opening::open_shards(path, shards, options, &self.entropy, log)?;
        let reports = Arc::new(FailingShards::new(Arc::clone(&self.upkeep) as _));
        for (shard, store) in shards.all().zip(&stores) {
            store.report_to(Arc::new(reports.of(shard)));
            opening::scrub(store, &folders.path(shard), self.settings.scrub)?;
        }
        let served = stores.iter().map(|store| Arc::clone(store) as Arc<dyn Store>).collect();
        let (loops, shown) = self.run_on_shards(served, entrances)?;
        Ok((Kept::of_shards(stores, folders), loops, Some(shown)))
    }

    fn log_options(&self) -> LogOptions {
        LogOptions {
            drive: Drive::Loop,
            durability: self.settings.server.durability,
            bounds: self.bounds(),
            segments: segments(),
            ..LogOptions::default()
        }
    }

    fn bounds(&self) -> Bounds {
        let limits = &self.settings.limits;
        Bounds { deduplication_ids: limits.dedup_ids, events: limits.history_events, ..Bounds::default() }
    }

    /// Runs the only event loop of a server.
    fn run<S: Store + 'static>(
        &self,
        store: Arc<S>,
        source: Arc<dyn TimeSource>,
        entrances: Vec<Entrance>,
        fleet: Option<FleetNode>,
    ) -> Result<Loops, StartError> {
        let mut event_loop = self.event_loop(store, source, entrances, self.front_ends()?);
        event_loop.options.shards_come = fleet.is_some();
        event_loop.beside = fleet.map(on_loop);
        Ok(begin(event_loop)?.into())
    }

    /// An event loop over a store.
    pub(super) fn event_loop<S: Store + 'static>(
        &self,
        store: Arc<S>,
        source: Arc<dyn TimeSource>,
        entrances: Vec<Entrance>,
        front_ends: FrontEndSettings,
    ) -> EventLoop<S> {
        let (log, limits, upkeep) =
            (self.log.of(Area::Clock), &self.settings.limits, Arc::clone(&self.upkeep));
        let options = Options {
            clock: self.settings.server.clock,
            clock_leap_max: self.settings.server.clock_leap_max,
            clock_settle: self.settings.server.clock_settle,
            waiters_max: limits.waiters_max,
            waiters_per_queue_max: limits.waiters_per_queue_max,
            queues_max: limits.queues_max,
            notices: Arc::new(move |notice| notices::tell(log, &*upkeep, notice)),
            ..Options::default()
        };
        EventLoop {
            name: "kew-loop".to_owned(),
            store,
            source,
            entropy: Arc::clone(&self.entropy),
            options,
            beside: None,
            front_ends,
            entrances,
            syncs: Arc::clone(&self.syncs),
            own_syncs: None,
            bodies: self.bodies.clone(),
            limits: self.limits(self.connections_max),
            replies: self.replies.clone(),
            witnesses: self.witnesses(),
            drain: self.drain.clone(),
            others_ended: self.others_ended.clone(),
        }
    }

    pub(super) fn consumers(
        &self,
        bound: &Bound,
        running: &Loops,
        others: Option<Arc<dyn OtherNodes>>,
    ) -> Result<Pushes, StartError> {
        let token = Arc::clone(&self.inner_token);
        let workers = WorkersWanted { bound, token, place: Arc::clone(&self.workers), others };
        let engines = running.engines();
        let news = (self.log.of(Area::Push), Arc::clone(&self.upkeep));
        let pushes = Pushes::start(&engines, self.settings, Arc::clone(&self.entropy), workers, news);
        pushes.map_err(StartError::Consumers)
    }

    /// Backups of a store in a directory; other stores are backed up by other means.
    pub(super) fn backups(&self, kept: &Kept) -> Result<Option<Arc<StoreBackups>>, StartError> {
        let (StoreChoice::Directory(path), Some(kept)) = (&self.settings.server.store, kept.only()) else {
            return Ok(None);
        };
        let log = self.log.of(Area::Store);
        let backups = StoreBackups::new(Arc::clone(&kept.store), path, Arc::clone(&self.entropy), log);
        let backups = backups.map_err(|cause| StartError::Directory { path: path.clone(), cause })?;
        Ok(Some(Arc::new(backups)))
    }
}

/// A shard's part of what a whole server may keep in memory.
fn share_of(bounds: Bounds, shards: ShardCount) -> Bounds {
    let share = |most: usize| most / usize::from(shards.get());
    Bounds {
        deduplication_ids: share(bounds.deduplication_ids).max(1),
        deduplication_ids_max: share(bounds.deduplication_ids_max).max(1),
        events: share(bounds.events),
        ..bounds
    }
}

/// Segments, of whose files a quarter of all open ones may be open where the system allows few.
fn segments() -> SegmentOptions {
    let usual = SegmentOptions::default();
    let quarter = usize::try_from(machine::raise_open_files() / 4).unwrap_or(usize::MAX);
    SegmentOptions { open_max: usual.open_max.min(quarter), ..usual }
}

/// Whether an error of a database may be gone a moment later.
fn may_pass(error: &StartError) -> bool {
    matches!(error, StartError::Postgres { cause, .. } if cause.may_pass())
}

/// Starts an event loop.
pub(super) fn begin<S: Store + 'static>(event_loop: EventLoop<S>) -> Result<Started, StartError> {
    event_loop.start().map_err(|cause| StartError::Machine { doing: "starting the event loop", cause })
}

/// Keeps shards on the event loop, until it ends.
fn on_loop(node: FleetNode) -> Begin {
    Box::new(move |engine| Ok(Box::new(node.run(engine)?)))
}
