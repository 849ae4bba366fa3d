//! An open file of a shard: rows of a table, or a small one's bytes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
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
    pub next_seq: AtomicI64,
    /// The bytes of a small file, and whether the database has them.
    pub small: Mutex<(Vec<u8>, bool)>,
    pub is_removed: AtomicBool,
    pub shared: Weak<Shared>,
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

pub(super) struct PgFile {
    pub state: Arc<State>,
    pub shared: Arc<Shared>,
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
        self.shared.change(Change::Length { id, length })?;
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
        self.shared.change(Change::Bytes { id: self.state.id, bytes: Arc::new(bytes) })?;
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
            if small.0.len() < end {
                small.0.resize(end, 0);
            }
            small.0[end - bytes.len()..end].copy_from_slice(bytes);
            small.1 = false;
            return Ok(());
        };
        let row = self.row(table, offset, bytes, BatchMark { number: 0, must_sync: false });
        let bulk = &self.shared.bulk;
        if bulk.is_full() {
            let room = Arc::clone(bulk).wait_for_room();
            self.shared.driver.wait(room).unwrap_or(Err(PgError::Closed))?;
        }
        bulk.push(row);
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
        let (table, from) = (Arc::clone(table), i64::try_from(from).unwrap_or(i64::MAX));
        self.shared.change(Change::Cut { table, from })?;
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
        for lane in [&self.shared.bulk, &self.shared.journal] {
            let synced = self.shared.driver.wait(Arc::clone(lane).sync());
            synced.unwrap_or(Err(PgError::Closed))?;
        }
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
