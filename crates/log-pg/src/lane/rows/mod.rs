//! The rows of a lane that are not durable, and how far there is no gap.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::database::{Placed, Row};
use crate::planted::Planted;
use crate::tables::Table;

#[cfg(test)]
mod tests;

/// Statements of a lane that may be under way at a time.
pub(super) const STATEMENTS_MAX: usize = 2;
const _: () = assert!(STATEMENTS_MAX == 2, "what a row rests on counts with two under way at a time");
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
    /// When it was sent and had ended.
    took: Option<Ticks>,
    /// What its statement asks for.
    rests_on: Vec<Placed>,
    /// When it was handed over, and when it was sent.
    since: Instant,
    sent: Instant,
}

/// When a statement was sent, and when its commit had ended.
#[derive(Clone, Copy)]
struct Ticks {
    sent: u64,
    ended: u64,
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
    /// The rows that ended last.
    ended: Newest,
    /// Those of them that were reported durable: they must be there for as long as this owner lives.
    durable: Newest,
}

/// Rows that are remembered after they ended. Those of a table that is dropped are forgotten.
const REMEMBERED: usize = 8;

/// Rows by when they ended, the newest first.
#[derive(Default)]
struct Newest(Vec<(Ticks, Placed)>);

impl Newest {
    fn add(&mut self, took: Ticks, row: Placed) {
        self.0.retain(|(_, other)| !is_same(other, &row));
        let place = self.0.partition_point(|(other, _)| other.ended > took.ended);
        if place < REMEMBERED {
            self.0.insert(place, (took, row));
            self.0.truncate(REMEMBERED);
        }
    }

    /// A server that has these rows has all: the newest, and the one before it if it had not ended when the newest was
    /// sent. A row was committed on a server that had those on which it rests; so the newest shows that those are there
    /// which had ended when it was sent. Of the others the one before it shows the same, as no third one was under way.
    fn first(&self) -> impl Iterator<Item = &Placed> {
        let newest_sent = self.0.first().map_or(0, |(took, _)| took.sent);
        let is_beside = move |took: &Ticks| took.ended > newest_sent && !Planted::RestsOnTheNewest.is_there();
        let needed = self.0.iter().enumerate().take(STATEMENTS_MAX);
        needed.filter(move |(place, (took, _))| *place == 0 || is_beside(took)).map(|(_, (_, row))| row)
    }

    fn has(&self, row: &Placed) -> bool {
        self.0.iter().any(|(_, other)| is_same(other, row))
    }
}

fn is_same(row: &Placed, other: &Placed) -> bool {
    row.table.id == other.table.id && row.key == other.key
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
        let (fate, rests_on) = (Fate::Waits, Vec::new());
        self.kept.push_back(Kept { row, fate, took: None, rests_on, since: now, sent: now });
    }

    /// The next row to send, and the rows that it rests on.
    pub fn take_next(&mut self) -> Option<(u64, Row, Vec<Placed>)> {
        if self.unsent() == 0 {
            return None;
        }
        let index = self.next;
        self.next += 1;
        self.under_way += 1;
        self.tick += 1;
        let tick = self.tick;
        let rests_on = self.rests_on();
        let kept = self.at(index)?;
        (kept.fate, kept.sent) = (Fate::Sent(tick), Instant::now());
        kept.rests_on.clone_from(&rests_on);
        let row = kept.row.clone();
        if Planted::AnswerBeforeFrame.is_there() {
            self.reached.written = self.reached.written.max(row.batch);
            self.reached.durable = self.reached.durable.max(row.batch);
        }
        Some((index, row, rests_on))
    }

    /// What a row rests on. A server that is started anew or failed over may lose the newest commits: one that lost any
    /// of those that have ended lost one of these.
    fn rests_on(&self) -> Vec<Placed> {
        if Planted::RestsOnNothing.is_there() {
            return Vec::new();
        }
        let Newest(durable) = &self.durable;
        if self.ended.0.len() >= STATEMENTS_MAX || durable.is_empty() {
            return self.ended.first().cloned().collect();
        }
        // The others were of tables that were dropped.
        let mut newest = Newest(self.ended.0.clone());
        durable
            .iter()
            .filter(|(_, row)| !self.ended.has(row))
            .for_each(|(took, row)| newest.add(*took, row.clone()));
        newest.first().cloned().collect()
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
        let Fate::Sent(sent) = kept.fate else {
            unreachable!("a row whose commit ends was sent, and ends once")
        };
        let took = Ticks { sent, ended: tick };
        kept.took = Some(took);
        let placed = kept.row.placed();
        let synced_since = kept.row.syncs.then_some(sent);
        kept.fate = if synced_since.is_some() { Fate::Durable } else { Fate::Written(tick) };
        if let Some(placed) = placed {
            self.ended.add(took, placed);
        }
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

    /// The database lacks rows: those that had ended are inserted anew.
    pub fn lack(&mut self, is_there: impl Fn(&Placed) -> bool) {
        for kept in &mut self.kept {
            kept.took = kept.took.filter(|_| kept.row.placed().is_none_or(|row| is_there(&row)));
        }
    }

    /// The first rows are durable, this many: it was looked whether all are there. Those that were not there were
    /// inserted, in their order. Of the others one whose end is not known may have been committed after all whose is.
    pub fn mended(&mut self, count: usize, was_there: impl Fn(&Placed) -> bool) {
        let mut by_end = Vec::new();
        for (place, kept) in self.kept.iter_mut().enumerate().take(count) {
            kept.fate = Fate::Durable;
            if let Some(placed) = kept.row.placed() {
                let ended = kept.took.map(|took| took.ended);
                by_end.push((!was_there(&placed), ended.is_none(), ended, place));
            }
        }
        by_end.sort_unstable();
        for (_, _, _, place) in by_end {
            let Some(kept) = self.kept.get_mut(place) else { continue };
            self.tick += 1;
            // A mended row proves nothing about other rows: it was inserted without asking for any.
            let took = Ticks { sent: 0, ended: self.tick };
            kept.took = Some(took);
            if let Some(placed) = kept.row.placed() {
                self.ended.add(took, placed);
            }
        }
        self.next = self.next.max(self.first + count as u64);
        self.let_durable_go();
    }

    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// The rows that ended last of those that were reported durable.
    pub fn last_durable(&self) -> Vec<Placed> {
        self.durable.first().cloned().collect()
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

    /// Forgets the rows of a table that begin at or behind a position: they are about to go. False while a statement is
    /// under way that needs one of them.
    pub fn forget(&mut self, table: i64, from: u64) -> bool {
        let goes = |of: &Table, pos: u64| of.id == table && pos >= from;
        let is_of = |row: &Row| row.table.as_ref().is_some_and(|of| goes(of, row.pos));
        let needs_it =
            |kept: &Kept| is_of(&kept.row) || kept.rests_on.iter().any(|row| goes(&row.table, row.key.0));
        if self.kept.iter().any(|kept| matches!(kept.fate, Fate::Sent(_)) && needs_it(kept)) {
            return false;
        }
        for kept in self.kept.iter_mut().filter(|kept| is_of(&kept.row)) {
            self.bytes -= kept.row.bytes.len();
            // A row in its place keeps the order of the others.
            kept.row = Row { batch: kept.row.batch, ..Row::barrier() };
        }
        for newest in [&mut self.ended, &mut self.durable] {
            newest.0.retain(|(_, row)| !goes(&row.table, row.key.0));
        }
        // Rows that ended before the ones that go, and were not remembered behind these.
        for kept in &self.kept {
            if let Some((took, placed)) = kept.took.zip(kept.row.placed()) {
                self.ended.add(took, placed);
            }
        }
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
            if let Some((took, placed)) = kept.took.zip(kept.row.placed()) {
                self.durable.add(took, placed);
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
