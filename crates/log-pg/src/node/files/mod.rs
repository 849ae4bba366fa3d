//! A shard's files in PostgreSQL: the log's contract, on tables.
//!
//! A large file is a table, a small one a column. Names, lengths and small files change in transactions that check the
//! epoch first, so that an old owner changes nothing; each may be done twice. The bytes of large files go through two
//! lanes: the journal's batches, and what upkeep writes.

mod dropping;
mod file;
mod written;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kew_core::{ShardCount, ShardId};
use kew_store_log::{
    AppendListener, Appends, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, Disk, DiskFile, DiskLock,
    SEGMENTS_FOLDER,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Home;
use crate::PgError;
use crate::database::{Asked, Change, FoundFile, Session};
use crate::lane::{Kind, Lane};
use crate::map::shard_id;
use crate::pool::{Holder, Patience};
use crate::tables::{Purpose, Table};
use crate::tenure::Tenure;
use dropping::Failing;
use file::{PgFile, Small, State};
use written::Written;

pub use dropping::Undropped;

/// How long a file operation is tried while the database cannot be reached. Until then upkeep waits; requests do not.
const PATIENCE: Patience = Patience::For(Duration::from_secs(60));
/// What is said of free space, which PostgreSQL does not say. Running out of it shows in its answers.
const SPACE: u64 = 1 << 50;
/// Names that begin with this are of files that were removed and wait to be dropped.
const REMOVED: &str = "#";

/// The files of one shard, for its owner or to be looked at. Clones are handles to the same files.
#[derive(Clone)]
pub struct PgDisk {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// What it shares with the node's other shards.
    pub home: Arc<Home>,
    pub tenure: Arc<Tenure>,
    pub holder: Holder,
    pub journal: Arc<Lane>,
    pub bulk: Arc<Lane>,
    /// Files that are open, by id.
    open: Mutex<HashMap<i64, Weak<State>>>,
    /// Files of which the database does not have everything, by id.
    unstored: Mutex<HashMap<i64, Arc<State>>>,
    /// Files to drop: they were removed, and no handle has them open.
    unneeded: Mutex<Vec<i64>>,
    /// Rings when there is one more.
    unneeded_rings: Arc<Notify>,
    drops_fail: Mutex<Option<Failing>>,
    next_id: AtomicI64,
    /// Numbers the rows of all files in the order they were written, also those of a file that was closed and opened
    /// again.
    next_seq: AtomicI64,
    /// Which of them are written to, while they are copied to another database.
    pub written: Written,
    /// Clients wait for what is read: the store was opened.
    serves: AtomicBool,
    /// Reads that failed.
    unread: AtomicU64,
}

impl PgDisk {
    pub(crate) fn new(home: Arc<Home>, tenure: Arc<Tenure>) -> Self {
        let lane = |kind| Lane::start(&home.driver, &home.pool, Arc::clone(&tenure), kind);
        let (journal, bulk) = (lane(Kind::Journal), lane(Kind::Bulk));
        // Unlike those of any other epoch of any shard.
        let epochs = i64::from(home.shards().get()).saturating_mul(tenure.epoch);
        let (next_id, next_seq) = ((epochs + i64::from(tenure.shard)) << 24, AtomicI64::new(0));
        let (open, unstored, unneeded) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (serves, unread) = (AtomicBool::new(false), AtomicU64::new(0));
        let holder = Holder::new(Arc::clone(&tenure));
        Self {
            shared: Arc::new(Shared {
                home,
                tenure,
                holder,
                journal,
                bulk,
                open,
                unstored,
                unneeded,
                unneeded_rings: Arc::default(),
                drops_fail: Mutex::default(),
                next_id: AtomicI64::new(next_id),
                next_seq,
                written: Written::default(),
                serves,
                unread,
            }),
        }
    }

    /// Which shard's files these are.
    pub fn shard(&self) -> ShardId {
        shard_id(self.shared.tenure.shard)
    }

    /// How many shards the store has.
    pub fn shards(&self) -> ShardCount {
        self.shared.home.shards()
    }

    /// What the shards of this store seal receipts with when they are made; `None` in a store of one, whose key is
    /// chance.
    pub fn receipts_key(&self) -> Option<[u8; 16]> {
        let founding = &self.shared.home.founding;
        (founding.shards != ShardCount::ONE).then(|| founding.secret.receipts_key())
    }

    /// Gives the shard away, so that the next owner need not wait. What is not written by now never is.
    pub fn give_up(&self) {
        // If it fails the next owner waits for the end of the tenure.
        let _given_up = self.shared.home.give_up(&self.shared, None);
    }

    /// Gives the shard away to a run of a node. For two seconds, while that one lives, no other node may take it. What
    /// is not written by now never is. Fails for a shard that has another owner, or had one since; where the outcome is
    /// not known it may be called again.
    pub fn hand_over(&self, to: &str) -> Result<(), PgError> {
        self.shared.home.give_up(&self.shared, Some(to))
    }

    pub(crate) fn downgrade(&self) -> WeakDisk {
        WeakDisk(Arc::downgrade(&self.shared))
    }

    /// Reads of large files that failed, since this was opened.
    pub fn failed_reads(&self) -> u64 {
        self.shared.unread.load(Ordering::Relaxed)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whose files these are.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.shared.tenure
    }

    /// Whether every append has ended, and more are taken.
    pub fn is_quiet(&self) -> bool {
        self.shared.journal.is_quiet()
    }

    /// How long one statement has been under way by now, at most: of the writes, and of file operations. One that hangs
    /// may never end.
    pub fn longest_statement(&self) -> Duration {
        let shared = &self.shared;
        let lanes = shared.journal.longest_statement().max(shared.bulk.longest_statement());
        lanes.max(shared.holder.longest_statement())
    }

    /// Why nothing can be done: the writes, if they have stood still for longer than this, or what failed last.
    pub fn why_stuck(&self, after: Duration) -> Option<String> {
        let shared = &self.shared;
        let is_stuck = || self.longest_statement() > after;
        let writes = || is_stuck().then(|| shared.journal.why_stuck());
        shared.tenure.refusal().or_else(writes).or_else(|| shared.holder.failing())
    }

    /// How long the latest appends to the journal took, in no order: at most 512 of them.
    pub fn latest_appends(&self) -> Vec<Duration> {
        self.shared.journal.latest_took()
    }

    /// Begins to drop the tables of files that were removed, also by an earlier owner.
    pub(crate) fn begin_to_drop(&self) {
        self.shared.home.driver.spawn(dropping::drop_removed(Arc::downgrade(&self.shared)));
    }

    /// Tables of removed files that cannot be dropped just now, since somebody reads them.
    pub fn undropped(&self) -> Option<Undropped> {
        self.shared.undropped()
    }
}

/// A handle that keeps no disk.
pub(crate) struct WeakDisk(Weak<Shared>);

impl WeakDisk {
    /// Whether the disk has a handle.
    pub fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The disk, if its shard is held.
    pub fn held(&self) -> Option<Arc<Shared>> {
        self.0.upgrade().filter(|shared| shared.tenure.check().is_ok())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The node goes on without this shard: nothing is left of it that waits.
        self.tenure.close();
        self.journal.close();
        self.bulk.close();
        self.unneeded_rings.notify_one();
    }
}

impl Shared {
    /// Does work in a session and waits for it.
    fn work<T: Send + 'static>(
        self: &Arc<Self>,
        patience: Patience,
        work: impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T> + Send + Sync + 'static,
    ) -> Result<T, PgError> {
        let shared = Arc::clone(self);
        let done = self.home.driver.wait(async move {
            let pool = &shared.home.pool;
            pool.work(Some(&shared.holder), patience, work).await
        });
        done.unwrap_or(Err(PgError::Closed))
    }

    /// Makes a change, if this is still the owner.
    fn change(self: &Arc<Self>, change: Change) -> Result<bool, PgError> {
        self.tenure.may_change()?;
        let (own, change) = (self.tenure.own(), Arc::new(change));
        self.work(PATIENCE, move |session| {
            let change = Arc::clone(&change);
            Box::pin(async move { session.change(own, &change).await })
        })
    }

    fn files(self: &Arc<Self>) -> Result<Vec<(i64, String)>, PgError> {
        let shard = self.tenure.shard;
        self.work(PATIENCE, move |session| session.files(shard))
    }

    fn find(self: &Arc<Self>, name: &str) -> Result<Option<FoundFile>, PgError> {
        let (shard, name) = (self.tenure.shard, Arc::<str>::from(name));
        self.work(PATIENCE, move |session| {
            let name = Arc::clone(&name);
            Box::pin(async move { session.find(shard, &name).await })
        })
    }

    fn there(self: &Arc<Self>, name: &str) -> io::Result<FoundFile> {
        self.find(name)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is not there")))
    }

    fn state(self: &Arc<Self>, found: FoundFile, name: &str) -> Arc<State> {
        let mut open = self.open.lock();
        if let Some(state) = open.get(&found.id).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::new(State {
            id: found.id,
            table: purpose(name).map(|purpose| Arc::new(Table::new(found.id, purpose))),
            length: AtomicU64::new(found.length),
            stored_length: AtomicU64::new(found.length),
            small: Mutex::new(Small { bytes: found.bytes.unwrap_or_default(), ..Small::default() }),
            storing: Mutex::default(),
            is_removed: AtomicBool::new(false),
            shared: Arc::downgrade(self),
        });
        open.retain(|_, state| state.strong_count() > 0);
        open.insert(found.id, Arc::downgrade(&state));
        state
    }
}

/// What a file's table is for; `None` for a small file.
pub(super) fn purpose(name: &str) -> Option<Purpose> {
    let (folder, _) = name.split_once('/')?;
    match folder {
        SEGMENTS_FOLDER => Some(Purpose::Journal),
        CHECKPOINTS_FOLDER | DEDUPLICATION_FOLDER => Some(Purpose::Slices),
        _ => None,
    }
}

impl Disk for PgDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let shared = &self.shared;
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        let table = purpose(name).map(|purpose| Arc::new(Table::new(id, purpose)));
        let made = shared.change(Change::Create { id, name: name.to_owned(), table })?;
        if !made {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is there already")));
        }
        let state = shared.state(FoundFile { id, length: 0, bytes: None }, name);
        Ok(Arc::new(PgFile { state, shared: Arc::clone(shared) }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let found = self.shared.there(name)?;
        let state = self.shared.state(found, name);
        Ok(Arc::new(PgFile { state, shared: Arc::clone(&self.shared) }))
    }

    fn create_dir(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let found = self.shared.there(from)?;
        let other = self.shared.find(to)?.filter(|other| other.id != found.id);
        self.shared.change(Change::Rename { id: found.id, to: to.to_owned() })?;
        // Only now: until the name has gone to the new file, the old one is what it leads to.
        if let Some(other) = other {
            self.shared.removed(other.id);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let id = self.shared.there(name)?.id;
        self.shared.change(Change::Remove { id })?;
        self.shared.removed(id);
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let within = |name: String| match name.split_once('/') {
            Some((found, file)) if found == folder => Some(file.to_owned()),
            None if folder.is_empty() && !name.starts_with(REMOVED) => Some(name),
            _ => None,
        };
        let files = self.shared.files()?.into_iter();
        let mut names: Vec<String> = files.filter_map(|(_, name)| within(name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn hard_link(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn hard_link_out(&self, _from: &str, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link_count(&self, _name: &str) -> io::Result<u64> {
        Ok(1)
    }

    fn sync_dir(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        Ok(SPACE)
    }

    fn lock(&self) -> io::Result<DiskLock> {
        // The tenure is the lock.
        Ok(DiskLock::holding(()))
    }

    fn is_copy_on_write(&self) -> bool {
        false
    }

    fn recycles(&self) -> bool {
        false
    }

    fn appends(&self) -> Option<Arc<dyn Appends>> {
        Some(Arc::new(Journal(Arc::downgrade(&self.shared))))
    }
}

impl Shared {
    /// A file has no name any more: it is dropped once no handle has it open.
    fn removed(&self, id: i64) {
        drop(self.unstored.lock().remove(&id));
        let open = self.open.lock().get(&id).and_then(Weak::upgrade);
        match open {
            Some(state) => state.is_removed.store(true, Ordering::Release),
            None => self.unneeded(id),
        }
    }
}

/// The lane of the journal, as the store sees it.
struct Journal(Weak<Shared>);

impl Appends for Journal {
    fn report_to(&self, listener: Arc<dyn AppendListener>) -> io::Result<()> {
        let Some(shared) = self.0.upgrade() else { return Ok(()) };
        shared.serves.store(true, Ordering::Release);
        shared.journal.report_to(&shared.home.driver, listener)
    }

    fn takes_more(&self, bytes: u64) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.journal.takes_more(bytes))
    }

    fn since_newest(&self) -> Option<Duration> {
        self.0.upgrade()?.journal.since_newest()
    }
}
