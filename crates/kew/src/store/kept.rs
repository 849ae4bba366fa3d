//! The store that a server keeps, and how it is closed when the server ends.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use kew_fleet::Goes;
use kew_log_pg::PgDisk;
use kew_store_log::{LogError, LogStore, ShardFolders};

use crate::log::{Level, Log};

/// How long closing may take while the database cannot be reached, or takes no writes. Everything acknowledged is
/// durable there.
const AWAY_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether the database can be reached.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// The stores that a server keeps: none in memory, one, or one for each shard of a directory.
#[derive(Default)]
pub(crate) struct Kept {
    stores: Vec<KeptStore>,
    /// What holds them, where they are shards. Dropped when all are closed.
    folders: Option<ShardFolders>,
}

impl From<KeptStore> for Kept {
    fn from(store: KeptStore) -> Self {
        Self { stores: vec![store], folders: None }
    }
}

impl Kept {
    /// The shards of a directory, in order.
    pub fn of_shards(stores: Vec<Arc<LogStore>>, folders: ShardFolders) -> Self {
        let place = |shard| folders.path(shard).display().to_string();
        let each = folders.shards().all().zip(stores);
        let stores =
            each.map(|(shard, store)| KeptStore { store, place: place(shard), owned: None }).collect();
        Self { stores, folders: Some(folders) }
    }

    /// The store of a server whose store has one shard.
    pub fn only(&self) -> Option<&KeptStore> {
        self.stores.first().filter(|_| self.folders.is_none())
    }

    /// What counts the bytes that are needed and those that are not, where they lie in files.
    pub fn counts_bytes(&self) -> Option<impl Fn() -> (u64, u64) + Send + Sync + use<>> {
        let stores: Vec<Arc<LogStore>> = self.stores.iter().map(|kept| Arc::clone(&kept.store)).collect();
        let sum = move || {
            let bytes = stores.iter().map(|store| store.live_and_dead_bytes());
            bytes.fold((0, 0), |(live, dead), (more_live, more_dead)| (live + more_live, dead + more_dead))
        };
        (!self.stores.is_empty()).then_some(sum)
    }

    /// Closes all of them.
    pub fn close(self, log: Log) -> Result<(), String> {
        let closed: Vec<_> = self.stores.into_iter().map(|kept| kept.close(log)).collect();
        closed.into_iter().collect()
    }
}

/// A store that is kept.
pub(crate) struct KeptStore {
    pub store: Arc<LogStore>,
    /// Where, for people.
    pub place: String,
    /// The log in PostgreSQL that this node owns.
    pub owned: Option<PgDisk>,
}

impl KeptStore {
    /// Closes the store. One that another node owns by now is left, and so is one whose database is away.
    pub fn close(self, log: Log) -> Result<(), String> {
        self.close_for(log, Goes::Free)
    }

    /// The same, and gives its shard away.
    pub fn close_for(self, log: Log, goes: Goes) -> Result<(), String> {
        let Self { store, place, owned } = self;
        let failed = |error: LogError| format!("closing the store in {place}: {error}");
        let Some(disk) = owned else { return store.close().map_err(failed) };
        let closed = close_while_held(store, &disk);
        if closed.is_none() {
            let line = "the database cannot be reached or takes no writes: the store is left as it is; nothing acknowledged is lost";
            log.tell(Level::Warn, line, &[("store", &place)]);
        }
        if disk.tenure().over().is_some() {
            return Ok(());
        }
        // Also where it is not closed: the next owner recovers it. A node that lives would keep it for ever.
        match goes {
            // If it fails the shard is free when this node has not renewed it for a while.
            Goes::To(to) => drop(disk.hand_over(&to.0)),
            Goes::Free => disk.give_up(),
            Goes::Moved(copied) => {
                let finished = if matches!(closed, Some(Ok(()))) { (copied.finish)() } else { Ok(()) };
                // Where it has left this changes nothing.
                disk.give_up();
                if let Err(cause) = &finished {
                    let line = "a shard may not have gone to another database; its next owner tries again";
                    log.tell(Level::Warn, line, &[("store", &place), ("cause", cause)]);
                }
                if finished.is_err() || !matches!(closed, Some(Ok(()))) {
                    // The shard is free, and is not kept from its next owner by a database that it does not lie in.
                    std::thread::spawn(copied.give_up);
                }
            }
        }
        closed.unwrap_or(Ok(())).map_err(failed)
    }
}

/// Closes the store on a thread of its own; `None` when the database stayed away.
fn close_while_held(store: Arc<LogStore>, disk: &PgDisk) -> Option<Result<(), LogError>> {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        // It waits, or has given up.
        let _told = done.send(store.close());
    });
    let begun = Instant::now();
    loop {
        match is_done.recv_timeout(LOOKS_EVERY) {
            Ok(closed) => return Some(closed),
            Err(RecvTimeoutError::Timeout) if begun.elapsed() < AWAY_MAX || !is_away(disk) => {}
            Err(_) => return None,
        }
    }
}

/// Whether the database cannot be written to, or lets a statement wait for long, such as one that waits for a lock.
fn is_away(disk: &PgDisk) -> bool {
    disk.tenure().refusal().is_some() || disk.longest_statement() > AWAY_MAX
}
