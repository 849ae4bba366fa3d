//! An open file of a shard: rows of a table, or a small one's bytes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use kew_store_log::{BatchMark, DiskFile};
use parking_lot::Mutex;

use super::{PATIENCE, Shared};
use crate::PgError;
use crate::database::{Change, Row};
use crate::pool::Patience;
use crate::tables::{Table, overlay};

/// What all handles of one file share.
pub(super) struct State {
    pub id: i64,
    pub table: Option<Arc<Table>>,
    pub length: AtomicU64,
    /// The length that the database knows.
    pub stored_length: AtomicU64,
    pub small: Mutex<Small>,
    /// Held while its length and its bytes are stored, so that an older state is never stored last.
    pub storing: Mutex<()>,
    pub is_removed: AtomicBool,
    pub shared: Weak<Shared>,
}

/// The bytes of a small file.
#[derive(Default)]
pub(super) struct Small {
    pub bytes: Vec<u8>,
    /// How often they were written, and how often they had been when the database got them last.
    pub writes: u64,
    pub stored: u64,
}

impl Drop for State {
    fn drop(&mut self) {
        if self.is_removed.load(Ordering::Acquire)
            && let Some(shared) = self.shared.upgrade()
        {
            shared.unneeded(self.id);
        }
    }
}

pub(super) struct PgFile {
    pub state: Arc<State>,
    pub shared: Arc<Shared>,
}

impl PgFile {
    fn row(&self, table: &Arc<Table>, offset: u64, bytes: &[u8], batch: BatchMark) -> Row {
        let end = offset + bytes.len() as u64;
        if self.state.length.fetch_max(end, Ordering::AcqRel) < end {
            self.keep_until_stored();
        }
        Row {
            table: Some(Arc::clone(table)),
            pos: offset,
            seq: self.shared.next_seq.fetch_add(1, Ordering::Relaxed),
            bytes: Bytes::copy_from_slice(bytes),
            batch: batch.number,
            syncs: batch.must_sync,
        }
    }

    /// What the database does not have yet is known for as long as that, also when no handle has the file open.
    fn keep_until_stored(&self) {
        if !self.state.is_removed.load(Ordering::Acquire) {
            self.shared.unstored.lock().insert(self.state.id, Arc::clone(&self.state));
        }
    }

    /// Stores what the database does not have of the file's length and of a small file's bytes.
    fn store(&self) -> io::Result<()> {
        let _storing = self.state.storing.lock();
        self.store_small()?;
        self.store_length()?;
        let small = self.state.small.lock();
        let is_stored = small.stored == small.writes
            && self.state.stored_length.load(Ordering::Acquire) == self.state.length.load(Ordering::Acquire);
        if is_stored {
            // This handle has the file open: it is not the last to let go.
            self.shared.unstored.lock().remove(&self.state.id);
        }
        Ok(())
    }

    fn store_length(&self) -> io::Result<()> {
        let length = self.state.length.load(Ordering::Acquire);
        if self.state.stored_length.load(Ordering::Acquire) == length {
            return Ok(());
        }
        let stored = i64::try_from(length).unwrap_or(i64::MAX);
        self.shared.change(Change::Length { id: self.state.id, length: stored })?;
        // Only now: one that was not stored is stored by the next sync.
        self.state.stored_length.store(length, Ordering::Release);
        Ok(())
    }

    fn store_small(&self) -> io::Result<()> {
        let (bytes, writes) = {
            let small = self.state.small.lock();
            if small.stored == small.writes {
                return Ok(());
            }
            (small.bytes.clone(), small.writes)
        };
        self.shared.change(Change::Bytes { id: self.state.id, bytes: Arc::new(bytes) })?;
        self.state.small.lock().stored = writes;
        Ok(())
    }

    fn read_table(&self, table: &Arc<Table>, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let shared = &self.shared;
        let (of_table, len) = (Arc::clone(table), buffer.len());
        // Asked first: what is committed meanwhile is in the table then.
        let unsent = [&shared.journal, &shared.bulk].map(|lane| lane.not_there(table));
        let serves = shared.serves.load(Ordering::Acquire);
        let patience = if serves { Patience::WhileHeld } else { PATIENCE };
        let bytes = shared.work(patience, move |session| {
            let table = Arc::clone(&of_table);
            Box::pin(async move { session.read(&table, offset, len).await })
        })?;
        // An old owner's answer counts no more, whatever it read.
        if serves && !shared.tenure.is_held_or_looks() {
            return Err(PgError::Unreachable("the shard's tenure has ended".to_owned()).into());
        }
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
            if small.bytes.len() < end {
                small.bytes.resize(end, 0);
            }
            small.bytes[end - bytes.len()..end].copy_from_slice(bytes);
            small.writes += 1;
            drop(small);
            self.keep_until_stored();
            return Ok(());
        };
        let row = self.row(table, offset, bytes, BatchMark { number: 0, must_sync: false });
        let bulk = &self.shared.bulk;
        if bulk.is_full() {
            let room = Arc::clone(bulk).wait_for_room();
            self.shared.home.driver.wait(room).unwrap_or(Err(PgError::Closed))?;
        }
        bulk.push(row);
        self.shared.written.note(table.id);
        Ok(())
    }

    fn append(&self, offset: u64, bytes: &[u8], batch: BatchMark) -> io::Result<()> {
        let Some(table) = &self.state.table else { return self.write_at(offset, bytes) };
        self.shared.tenure.may_change()?;
        self.shared.journal.push(self.row(table, offset, bytes, batch));
        self.shared.written.note(table.id);
        Ok(())
    }

    fn cut(&self, from: u64) -> io::Result<bool> {
        let Some(table) = &self.state.table else { return Ok(false) };
        for lane in [&self.shared.bulk, &self.shared.journal] {
            let forgotten = Arc::clone(lane).forget_in_time(table.id, from);
            self.shared.home.driver.wait(forgotten).unwrap_or(Err(PgError::Closed))?;
        }
        let (table, from, id) = (Arc::clone(table), i64::try_from(from).unwrap_or(i64::MAX), table.id);
        self.shared.change(Change::Cut { table, from })?;
        self.shared.written.note(id);
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
            Some(table) => {
                let read = self.read_table(table, offset, buffer);
                self.shared.unread.fetch_add(u64::from(read.is_err()), Ordering::Relaxed);
                read?;
            }
            None => {
                let small = self.state.small.lock();
                buffer.fill(0);
                overlay(buffer, offset, 0, &small.bytes);
            }
        }
        Ok(within)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.state.table.is_none() {
            return self.store();
        }
        for lane in [&self.shared.bulk, &self.shared.journal] {
            let synced = self.shared.home.driver.wait(Arc::clone(lane).sync());
            synced.unwrap_or(Err(PgError::Closed))?;
        }
        self.store()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        let small = self.state.small.lock().bytes.len() as u64;
        Ok(self.state.length.load(Ordering::Acquire).max(small))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.state.length.fetch_max(len, Ordering::AcqRel) < len {
            self.keep_until_stored();
        }
        Ok(())
    }
}
