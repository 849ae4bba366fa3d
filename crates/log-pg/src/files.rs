//! A shard's files in PostgreSQL: the log's contract, on tables.
//!
//! A large file is a table, a small one a column. Names, lengths and small files change in transactions that check the
//! epoch first, so that an old owner changes nothing; each may be done twice. The bytes of large files go through two
//! lanes: the journal's batches, and whatever upkeep writes.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use kew_store_log::{
    AppendListener, Appends, BatchMark, CHECKPOINTS_FOLDER, DEDUPLICATION_FOLDER, Disk, DiskFile, DiskLock,
    SEGMENTS_FOLDER,
};
use parking_lot::Mutex;
use tokio_postgres::Transaction;

use crate::PgError;
use crate::lane::{Lane, Row};
use crate::pool::{Connection, Driver, Pool, Working};
use crate::tables::{Purpose, Table, overlay};
use crate::tenure::Tenure;

/// How long a file operation is tried while the database cannot be reached. Until then upkeep waits; requests do not.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is said of free space: PostgreSQL does not tell. Running out of it shows in its answers.
const SPACE: u64 = 1 << 50;
/// Names that begin with this are of files that were removed and wait to be dropped.
const REMOVED: &str = "#";
/// How long dropping a table may wait for those who read it; after that it is dropped later.
const DROP_WAITS: &str = "SET LOCAL lock_timeout = '500ms'";

/// The files of one shard, for its owner or for somebody who looks. Clones are handles to the same files.
#[derive(Clone)]
pub struct PgDisk {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub driver: Driver,
    pub pool: Pool,
    pub tenure: Arc<Tenure>,
    pub journal: Arc<Lane>,
    pub bulk: Arc<Lane>,
    /// Files that are open, by id.
    open: Mutex<HashMap<i64, Weak<State>>>,
    /// Files to drop: they were removed, and nobody has them open.
    unneeded: Mutex<Vec<i64>>,
    next_id: AtomicI64,
}

/// What all handles of one file share.
struct State {
    id: i64,
    table: Option<Arc<Table>>,
    length: AtomicU64,
    /// The length that the database knows.
    stored_length: AtomicU64,
    next_seq: AtomicI64,
    /// The bytes of a small file, and whether the database has them.
    small: Mutex<(Vec<u8>, bool)>,
    is_removed: AtomicBool,
    shared: Weak<Shared>,
}

struct PgFile {
    state: Arc<State>,
    shared: Arc<Shared>,
}

/// A file as its row says.
struct Found {
    id: i64,
    length: u64,
    bytes: Option<Vec<u8>>,
}

impl PgDisk {
    pub(crate) fn new(driver: Driver, pool: Pool, tenure: Arc<Tenure>) -> Self {
        let lane = |connections| {
            Lane::start(&driver.handle, pool.target().clone(), Arc::clone(&tenure), connections)
        };
        let (journal, bulk) = (lane(2), lane(1));
        let next_id = AtomicI64::new(tenure.epoch << 24);
        let (open, unneeded) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { driver, pool, tenure, journal, bulk, open, unneeded, next_id }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whose files these are.
    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.shared.tenure
    }

    /// Drops the tables of files that were removed, also by an earlier owner.
    pub(crate) fn drop_removed(&self) -> Result<(), PgError> {
        let shard = self.shared.tenure.shard;
        let ids = self.shared.work(move |connection| {
            Box::pin(async move {
                let text = "SELECT id FROM kew_file WHERE shard = $1 AND name LIKE '#%'";
                let rows = connection.client.query(text, &[&shard]).await?;
                Ok(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>())
            })
        })?;
        self.shared.unneeded.lock().extend(ids);
        self.shared.drop_unneeded();
        Ok(())
    }
}

impl Shared {
    /// Does work on a connection and waits for it.
    fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl for<'a> Fn(&'a mut Connection) -> Working<'a, T> + Send + Sync + 'static,
    ) -> Result<T, PgError> {
        let shared = Arc::clone(self);
        let done = self.driver.wait(async move { shared.pool.work(PATIENCE, work).await });
        done.unwrap_or(Err(PgError::Closed))
    }

    /// Changes something in a transaction of its own, if this is still the owner.
    fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl for<'a> Fn(&'a Transaction<'a>) -> Working<'a, T> + Send + Sync + 'static,
    ) -> Result<T, PgError> {
        self.tenure.may_change()?;
        let (tenure, change) = (Arc::clone(&self.tenure), Arc::new(change));
        self.work(move |connection| {
            let (tenure, change) = (Arc::clone(&tenure), Arc::clone(&change));
            Box::pin(async move {
                let transaction = connection.client.transaction().await?;
                let own = "SELECT set_config('synchronous_commit', 'on', true) FROM kew_shard
                    WHERE id = $1 AND epoch = $2 FOR SHARE OF kew_shard";
                if transaction.query_opt(own, &[&tenure.shard, &tenure.epoch]).await?.is_none() {
                    return Err(PgError::Fenced { shard: tenure.shard, epoch: tenure.epoch });
                }
                let done = change(&transaction).await?;
                transaction.commit().await?;
                Ok(done)
            })
        })
    }

    fn find(self: &Arc<Self>, name: &str) -> Result<Option<Found>, PgError> {
        let (shard, name) = (self.tenure.shard, name.to_owned());
        self.work(move |connection| {
            let name = name.clone();
            Box::pin(async move {
                let text = "SELECT id, length, bytes FROM kew_file WHERE shard = $1 AND name = $2";
                let row = connection.client.query_opt(text, &[&shard, &name]).await?;
                Ok(row.map(|row| Found {
                    id: row.get(0),
                    length: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0),
                    bytes: row.get(2),
                }))
            })
        })
    }

    fn there(self: &Arc<Self>, name: &str) -> io::Result<Found> {
        self.find(name)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} is not there")))
    }

    fn state(self: &Arc<Self>, found: Found, name: &str) -> Arc<State> {
        let mut open = self.open.lock();
        if let Some(state) = open.get(&found.id).and_then(Weak::upgrade) {
            return state;
        }
        let state = Arc::new(State {
            id: found.id,
            table: purpose(name).map(|purpose| Arc::new(Table::new(found.id, purpose))),
            length: AtomicU64::new(found.length),
            stored_length: AtomicU64::new(found.length),
            next_seq: AtomicI64::new(0),
            small: Mutex::new((found.bytes.unwrap_or_default(), true)),
            is_removed: AtomicBool::new(false),
            shared: Arc::downgrade(self),
        });
        open.retain(|_, state| state.strong_count() > 0);
        open.insert(found.id, Arc::downgrade(&state));
        state
    }

    /// Drops files that nobody needs. What cannot be dropped now stays for another time.
    fn drop_unneeded(self: &Arc<Self>) {
        let ids = std::mem::take(&mut *self.unneeded.lock());
        for id in ids {
            let dropped = self.change(move |transaction| {
                Box::pin(async move {
                    transaction.batch_execute(DROP_WAITS).await?;
                    for purpose in [Purpose::Journal, Purpose::Slices] {
                        let table = Table::new(id, purpose);
                        transaction.batch_execute(&format!("DROP TABLE IF EXISTS {}", table.name)).await?;
                    }
                    transaction.execute("DELETE FROM kew_file WHERE id = $1", &[&id]).await?;
                    Ok(())
                })
            });
            if dropped.is_err() {
                self.unneeded.lock().push(id);
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.is_removed.load(Ordering::Acquire)
            && let Some(shared) = self.shared.upgrade()
        {
            shared.unneeded.lock().push(self.id);
        }
    }
}

/// What a file's table is for; `None` for a small file.
fn purpose(name: &str) -> Option<Purpose> {
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
        let (shard, id) = (shared.tenure.shard, shared.next_id.fetch_add(1, Ordering::Relaxed));
        let creation = purpose(name).map(|purpose| Table::new(id, purpose).creation());
        let owned = name.to_owned();
        let made = shared.change(move |transaction| {
            let (name, creation) = (owned.clone(), creation.clone());
            Box::pin(async move {
                let insert =
                    "INSERT INTO kew_file (id, shard, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
                transaction.execute(insert, &[&id, &shard, &name]).await?;
                let text = "SELECT id FROM kew_file WHERE shard = $1 AND name = $2";
                let there = transaction.query_opt(text, &[&shard, &name]).await?;
                if there.is_none_or(|row| row.get::<_, i64>(0) != id) {
                    return Ok(false);
                }
                if let Some(creation) = creation {
                    transaction.batch_execute(&creation).await?;
                }
                Ok(true)
            })
        })?;
        if !made {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is there already")));
        }
        let state = shared.state(Found { id, length: 0, bytes: None }, name);
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
        self.remove_other(to, found.id)?;
        let (id, to) = (found.id, to.to_owned());
        self.shared.change(move |transaction| {
            let to = to.clone();
            Box::pin(async move {
                // In one step: what had the name before is removed with it.
                let replaced = "UPDATE kew_file SET name = '#' || id
                    WHERE shard = (SELECT shard FROM kew_file WHERE id = $1) AND name = $2 AND id <> $1";
                transaction.execute(replaced, &[&id, &to]).await?;
                transaction.execute("UPDATE kew_file SET name = $2 WHERE id = $1", &[&id, &to]).await?;
                Ok(())
            })
        })?;
        self.shared.drop_unneeded();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let id = self.shared.there(name)?.id;
        self.shared.change(move |transaction| {
            Box::pin(async move {
                let text = "UPDATE kew_file SET name = '#' || id WHERE id = $1";
                transaction.execute(text, &[&id]).await?;
                Ok(())
            })
        })?;
        self.shared.removed(id);
        self.shared.drop_unneeded();
        Ok(())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let (shard, folder) = (self.shared.tenure.shard, folder.to_owned());
        let names = self.shared.work(move |connection| {
            Box::pin(async move {
                let text = "SELECT name FROM kew_file WHERE shard = $1";
                let rows = connection.client.query(text, &[&shard]).await?;
                Ok(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>())
            })
        })?;
        let within = |name: String| match name.split_once('/') {
            Some((found, file)) if found == folder => Some(file.to_owned()),
            None if folder.is_empty() && !name.starts_with(REMOVED) => Some(name),
            _ => None,
        };
        let mut names: Vec<String> = names.into_iter().filter_map(within).collect();
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
        Some(Arc::new(Journal(Arc::clone(&self.shared.journal))))
    }
}

impl PgDisk {
    /// Removes a file whose name another one takes.
    fn remove_other(&self, name: &str, by: i64) -> io::Result<()> {
        let Some(other) = self.shared.find(name)?.filter(|other| other.id != by) else { return Ok(()) };
        self.shared.removed(other.id);
        Ok(())
    }
}

impl Shared {
    /// A file has no name any more: it is dropped once nobody has it open.
    fn removed(&self, id: i64) {
        let open = self.open.lock().get(&id).and_then(Weak::upgrade);
        match open {
            Some(state) => state.is_removed.store(true, Ordering::Release),
            None => self.unneeded.lock().push(id),
        }
    }
}

/// The lane of the journal, as the store sees it.
struct Journal(Arc<Lane>);

impl Appends for Journal {
    fn report_to(&self, listener: Arc<dyn AppendListener>) {
        self.0.report_to(listener);
    }

    fn takes_more(&self) -> bool {
        self.0.takes_more()
    }
}

impl PgFile {
    fn row(&self, table: &Arc<Table>, offset: u64, bytes: &[u8], batch: BatchMark) -> Row {
        self.state.length.fetch_max(offset + bytes.len() as u64, Ordering::AcqRel);
        Row {
            table: Some(Arc::clone(table)),
            pos: offset,
            seq: self.state.next_seq.fetch_add(1, Ordering::Relaxed),
            bytes: Bytes::copy_from_slice(bytes),
            batch: batch.number,
            syncs: batch.must_sync,
        }
    }

    fn store_length(&self) -> io::Result<()> {
        let length = self.state.length.load(Ordering::Acquire);
        if self.state.stored_length.swap(length, Ordering::AcqRel) == length {
            return Ok(());
        }
        let (id, length) = (self.state.id, i64::try_from(length).unwrap_or(i64::MAX));
        self.shared.change(move |transaction| {
            Box::pin(async move {
                let text = "UPDATE kew_file SET length = $2 WHERE id = $1";
                transaction.execute(text, &[&id, &length]).await?;
                Ok(())
            })
        })?;
        Ok(())
    }

    fn store_small(&self) -> io::Result<()> {
        let bytes = {
            let mut small = self.state.small.lock();
            if std::mem::replace(&mut small.1, true) {
                return Ok(());
            }
            small.0.clone()
        };
        let (id, bytes) = (self.state.id, Arc::new(bytes));
        self.shared.change(move |transaction| {
            let bytes = Arc::clone(&bytes);
            Box::pin(async move {
                let text = "UPDATE kew_file SET bytes = $2::bytea, length = greatest(length, octet_length($2::bytea)) WHERE id = $1";
                transaction.execute(text, &[&id, &bytes.as_slice()]).await?;
                Ok(())
            })
        })?;
        Ok(())
    }

    fn read_table(&self, table: &Arc<Table>, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (table, len) = (Arc::clone(table), buffer.len());
        // Asked first: what is committed meanwhile is in the table then.
        let unsent = [&self.shared.journal, &self.shared.bulk].map(|lane| lane.not_there(&table));
        let bytes = self.shared.work(move |connection| {
            let table = Arc::clone(&table);
            Box::pin(async move {
                let mut bytes = vec![0; len];
                let read = table.read(connection, offset, &mut bytes).await;
                if read.is_err() {
                    table.forget(connection);
                }
                read.map(|()| bytes)
            })
        })?;
        // An old owner's answer counts no more, whatever it read.
        self.shared.tenure.check().map_err(io::Error::from)?;
        buffer.copy_from_slice(&bytes);
        for (pos, bytes) in unsent.iter().flatten() {
            overlay(buffer, offset, *pos, bytes);
        }
        Ok(())
    }
}

impl DiskFile for PgFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(table) = &self.state.table else {
            let mut small = self.state.small.lock();
            let end = usize::try_from(offset).unwrap_or(usize::MAX).saturating_add(bytes.len());
            if small.0.len() < end {
                small.0.resize(end, 0);
            }
            small.0[end - bytes.len()..end].copy_from_slice(bytes);
            small.1 = false;
            return Ok(());
        };
        let row = self.row(table, offset, bytes, BatchMark { number: 0, must_sync: false });
        self.shared.bulk.push_patiently(row)?;
        Ok(())
    }

    fn append(&self, offset: u64, bytes: &[u8], batch: BatchMark) -> io::Result<()> {
        let Some(table) = &self.state.table else { return self.write_at(offset, bytes) };
        self.shared.tenure.may_change()?;
        self.shared.journal.push(self.row(table, offset, bytes, batch));
        Ok(())
    }

    fn cut(&self, from: u64) -> io::Result<bool> {
        let Some(table) = &self.state.table else { return Ok(false) };
        let text = format!("DELETE FROM {} WHERE pos >= $1", table.name);
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        self.shared.change(move |transaction| {
            let text = text.clone();
            Box::pin(async move {
                transaction.execute(&text, &[&from]).await?;
                Ok(())
            })
        })?;
        Ok(true)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.len()?;
        let within = length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..within];
        if within == 0 {
            return Ok(0);
        }
        match &self.state.table {
            Some(table) => self.read_table(table, offset, buffer)?,
            None => {
                let small = self.state.small.lock();
                buffer.fill(0);
                overlay(buffer, offset, 0, &small.0);
            }
        }
        Ok(within)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.state.table.is_none() {
            self.store_small()?;
            return self.store_length();
        }
        self.shared.bulk.sync()?;
        self.shared.journal.sync()?;
        self.store_length()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        let small = self.state.small.lock().0.len() as u64;
        Ok(self.state.length.load(Ordering::Acquire).max(small))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.state.length.fetch_max(len, Ordering::AcqRel);
        Ok(())
    }
}
