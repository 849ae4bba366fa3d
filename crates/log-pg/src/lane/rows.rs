//! The rows of a lane that are not durable, and how far there is no gap.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::database::Row;
use crate::planted::Planted;
use crate::tables::Table;

/// Bytes of rows that are not durable before the next one is committed synchronously, whatever it asks for.
const UNSYNCED_MAX: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waits,
    /// Sent at this tick.
    Sent(u64),
    /// Its commit had ended at this tick.
    Written(u64),
    Durable,
}

struct Kept {
    row: Row,
    fate: Fate,
    /// When it was handed over, and when it was sent.
    since: Instant,
    sent: Instant,
}

/// A row that was reported durable: it must be there for as long as this owner lives.
#[derive(Clone)]
pub(super) struct LastDurable {
    pub table: Arc<Table>,
    pub pos: u64,
    pub seq: i64,
}

/// Batches written and durable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Reached {
    pub written: u64,
    pub durable: u64,
}

#[derive(Default)]
pub(super) struct Rows {
    kept: VecDeque<Kept>,
    /// The index of the first of them, counted from the lane's beginning.
    first: u64,
    /// The index of the next row to send.
    next: u64,
    under_way: usize,
    /// Counts sends and ends, to order them.
    tick: u64,
    bytes: usize,
    unsynced: usize,
    reached: Reached,
    last_durable: Option<LastDurable>,
}

impl Rows {
    /// Takes a row.
    pub fn push(&mut self, mut row: Row) {
        self.unsynced += row.bytes.len();
        row.syncs |= row.batch > 0 && (self.unsynced > UNSYNCED_MAX || self.waits_for_a_sync());
        if row.syncs {
            self.unsynced = 0;
        }
        self.bytes += row.bytes.len();
        let now = Instant::now();
        self.kept.push_back(Kept { row, fate: Fate::Waits, since: now, sent: now });
    }

    /// The next row to send.
    pub fn take_next(&mut self) -> Option<(u64, Row)> {
        if self.unsent() == 0 {
            return None;
        }
        let index = self.next;
        self.next += 1;
        self.under_way += 1;
        self.tick += 1;
        let tick = self.tick;
        let kept = self.at(index)?;
        (kept.fate, kept.sent) = (Fate::Sent(tick), Instant::now());
        let row = kept.row.clone();
        if Planted::AnswerBeforeFrame.is_there() {
            self.reached.written = self.reached.written.max(row.batch);
            self.reached.durable = self.reached.durable.max(row.batch);
        }
        Some((index, row))
    }

    /// A row's statement has failed.
    pub fn failed(&mut self) {
        self.under_way -= 1;
    }

    /// How long a row has been under way. `None` for one that only makes others durable.
    pub fn has_taken(&mut self, index: u64) -> Option<Duration> {
        self.at(index).filter(|kept| kept.row.batch > 0).map(|kept| kept.sent.elapsed())
    }

    /// A row's commit has ended.
    pub fn ended(&mut self, index: u64) {
        self.under_way -= 1;
        self.tick += 1;
        let tick = self.tick;
        let Some(kept) = self.at(index) else { return };
        let synced_since = match kept.fate {
            Fate::Sent(sent) if kept.row.syncs => Some(sent),
            _ => None,
        };
        kept.fate = if synced_since.is_some() { Fate::Durable } else { Fate::Written(tick) };
        if let Some(since) = synced_since {
            for kept in &mut self.kept {
                if matches!(kept.fate, Fate::Written(at) if at < since) {
                    kept.fate = Fate::Durable;
                }
            }
        }
        self.let_durable_go();
    }

    /// All the rows, for the mender.
    pub fn all(&self) -> Vec<Row> {
        self.kept.iter().map(|kept| kept.row.clone()).collect()
    }

    /// The first rows are durable, this many.
    pub fn mended(&mut self, count: usize) {
        for kept in self.kept.iter_mut().take(count) {
            kept.fate = Fate::Durable;
        }
        self.next = self.next.max(self.first + count as u64);
        self.let_durable_go();
    }

    pub fn reached(&self) -> Reached {
        self.reached
    }

    pub fn last_durable(&self) -> Option<LastDurable> {
        self.last_durable.clone()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no statement is under way.
    pub fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    /// Rows that are not committed.
    pub fn not_ended(&self) -> usize {
        self.under_way + usize::try_from(self.unsent()).unwrap_or(usize::MAX)
    }

    /// The index behind the newest row.
    pub fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Whether every row before an index is durable.
    pub fn are_durable_to(&self, end: u64) -> bool {
        self.first >= end
    }

    /// Whether the rows before an index have ended, and no synchronous commit is coming that makes them durable. While
    /// one of them is under way another commit would make none durable.
    pub fn want_a_barrier(&self, end: u64) -> bool {
        let count = usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut newest = None;
        for kept in self.kept.iter().take(count) {
            match kept.fate {
                Fate::Waits | Fate::Sent(_) => return false,
                Fate::Written(at) => newest = newest.max(Some(at)),
                Fate::Durable => {}
            }
        }
        newest.is_some_and(|newest| !self.is_covered(newest))
    }

    /// Whether a synchronous commit is coming that makes durable what had ended at this tick.
    fn is_covered(&self, ended: u64) -> bool {
        self.kept.iter().any(|kept| match kept.fate {
            Fate::Waits => kept.row.syncs,
            Fate::Sent(at) => kept.row.syncs && at > ended,
            _ => false,
        })
    }

    /// Whether a row that is synced stands behind one that is only written, and no synchronous commit will come that
    /// covers both: its own was sent before the other had ended.
    pub fn waits_for_a_sync(&self) -> bool {
        if Planted::NoCoveringSync.is_there() {
            return false;
        }
        let Some(last) = self.kept.iter().rposition(|kept| kept.fate == Fate::Durable) else { return false };
        let written = self.kept.iter().take(last).filter_map(|kept| match kept.fate {
            Fate::Written(at) => Some(at),
            _ => None,
        });
        written.max().is_some_and(|newest| !self.is_covered(newest))
    }

    /// How long the oldest row that is not committed has waited.
    pub fn oldest_waits(&self) -> Duration {
        let waits = |kept: &&Kept| matches!(kept.fate, Fate::Waits | Fate::Sent(_));
        self.kept.iter().find(waits).map_or(Duration::ZERO, |kept| kept.since.elapsed())
    }

    /// How long a statement has been under way, at most.
    pub fn longest_statement(&self) -> Duration {
        if self.under_way == 0 {
            return Duration::ZERO;
        }
        let sent = self.kept.iter().find(|kept| matches!(kept.fate, Fate::Sent(_)));
        sent.map_or(Duration::ZERO, |kept| kept.sent.elapsed())
    }

    /// The rows of a table that are not known to stay there, in order: one that was committed asynchronously is gone
    /// between a crash of the server and the mending.
    pub fn not_there(&self, table: &Table) -> Vec<(u64, Bytes)> {
        let is_of = |kept: &&Kept| {
            kept.fate != Fate::Durable && kept.row.table.as_ref().is_some_and(|other| other.id == table.id)
        };
        self.kept.iter().filter(is_of).map(|kept| (kept.row.pos, kept.row.bytes.clone())).collect()
    }

    /// Forgets the rows of a table that is about to be dropped. False while one of them is under way.
    pub fn forget(&mut self, table: i64) -> bool {
        let is_of = |row: &Row| row.table.as_ref().is_some_and(|other| other.id == table);
        if self.kept.iter().any(|kept| is_of(&kept.row) && matches!(kept.fate, Fate::Sent(_))) {
            return false;
        }
        for kept in self.kept.iter_mut().filter(|kept| is_of(&kept.row)) {
            self.bytes -= kept.row.bytes.len();
            // A row in its place keeps the order of the others.
            kept.row = Row { batch: kept.row.batch, ..Row::barrier() };
        }
        self.last_durable.take_if(|last| last.table.id == table);
        true
    }

    fn at(&mut self, index: u64) -> Option<&mut Kept> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.kept.get_mut(place)
    }

    fn unsent(&self) -> u64 {
        self.end() - self.next
    }

    fn let_durable_go(&mut self) {
        while self.kept.front().is_some_and(|kept| kept.fate == Fate::Durable) {
            let Some(kept) = self.kept.pop_front() else { return };
            self.first += 1;
            self.bytes -= kept.row.bytes.len();
            self.reached.durable = self.reached.durable.max(kept.row.batch);
            if let Some(table) = kept.row.table {
                self.last_durable = Some(LastDurable { table, pos: kept.row.pos, seq: kept.row.seq });
            }
        }
        let is_written = |kept: &&Kept| matches!(kept.fate, Fate::Written(_) | Fate::Durable);
        let newest = if Planted::ProgressAcrossGap.is_there() {
            self.kept.iter().filter(is_written).map(|kept| kept.row.batch).max()
        } else {
            self.kept.iter().take_while(is_written).map(|kept| kept.row.batch).max()
        };
        if Planted::ProgressAcrossGap.is_there() {
            let synced = self.kept.iter().filter(|kept| kept.fate == Fate::Durable);
            let newest = synced.map(|kept| kept.row.batch).max().unwrap_or(0);
            self.reached.durable = self.reached.durable.max(newest);
        }
        let newest = newest.unwrap_or(0).max(self.reached.durable);
        self.reached.written = self.reached.written.max(newest);
    }
}
