//! The log store: the ledger with a journal under it, and group commit.
//!
//! A step is applied at once, on the caller's thread, under the writer's lock. Its records ride in the batch being
//! filled; its answer waits at the gate until that batch is written and, if anything in it or before it must be, synced.
//! One commit runs at a time: while it syncs, the next batch fills.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use kew_core::outcome::Leased;
use kew_core::{Command, Entropy, Outcome, RuleError, Tally, Timestamp};
use kew_store::ledger::Ledger;
use kew_store::{Store, StoreError, Submission, Wait};
use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, DiskLock};
use crate::error::LogError;
use crate::gate::LogGate;
use crate::journal::Journal;
use crate::options::{Drive, Durability, LogOptions};
use crate::recover::{self, OpenReport};
use crate::segments::{Room, Segments};
use crate::shelf::{LogShelf, STEP_BYTES, store_error};
use crate::upkeep::{Done, Upkeep};

/// A batch this large is written before more is put into it: whoever fills it fast waits for the disk.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// What a deletion or another small command adds to a batch for each of its entries.
const ENTRY_BYTES: u64 = 192;

/// The embedded store.
pub struct LogStore {
    pub(crate) inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct Inner {
    pub disk: Arc<dyn Disk>,
    pub options: LogOptions,
    pub segments: Segments,
    /// Guards the ledger and the batch being filled.
    pub writer: Mutex<Ledger<LogShelf>>,
    /// Held during a commit: batches are written and synced one after the other.
    pub committing: Mutex<()>,
    /// What is due next, to be asked without the lock.
    pub next_due: AtomicU64,
    pub gate: Arc<LogGate>,
    /// Guards the state of checkpoints and reclaim; one round runs at a time.
    pub upkeep: Mutex<Upkeep>,
    pub done: Done,
    pub work: Signal,
    pub _lock: DiskLock,
}

/// Wakes the store's threads.
#[derive(Default)]
pub(crate) struct Signal {
    /// Guards what there is to do.
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub commit: bool,
    pub upkeep: bool,
    pub stop: bool,
}

impl Signal {
    fn want(&self, ask: impl FnOnce(&mut Wanted)) {
        ask(&mut self.wanted.lock());
        self.changed.notify_all();
    }

    /// Waits until something is wanted, and takes it.
    fn wait_for(&self, mine: impl Fn(&mut Wanted) -> bool) -> bool {
        let mut wanted = self.wanted.lock();
        loop {
            if wanted.stop {
                return false;
            }
            if mine(&mut wanted) {
                return true;
            }
            self.changed.wait(&mut wanted);
        }
    }
}

/// Figures of a log store.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// The newest batch written.
    pub written_through: u64,
    /// The newest batch synced.
    pub durable_through: u64,
    /// Bytes in segments that messages need.
    pub live_bytes: u64,
    /// Bytes in segments that nothing needs any more.
    pub dead_bytes: u64,
    /// Bytes that survivors took when they were copied forward, since the store was opened.
    pub copied_bytes: u64,
    /// Checkpoints made since the store was opened.
    pub checkpoints: u64,
    /// Memory the queues hold, about.
    pub heap_bytes: u64,
}

impl LogStore {
    /// Opens the store in a directory, and recovers it if the last run was cut short.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        entropy: Arc<dyn Entropy>,
        now: Timestamp,
    ) -> Result<(Self, OpenReport), LogError> {
        let (inner, report) = recover::open(disk, options, entropy, now)?;
        let inner = Arc::new(inner);
        let mut threads = Vec::new();
        if options.drive == Drive::Threads {
            threads.push(spawn("kew-commit", inner.clone(), Inner::commit_until_stopped)?);
        }
        if options.drive != Drive::Manual {
            inner.work.want(|wanted| wanted.upkeep = inner.segments.wants_spare());
            threads.push(spawn("kew-upkeep", inner.clone(), Inner::keep_up_until_stopped)?);
        }
        Ok((Self { inner, threads: Mutex::new(threads) }, report))
    }

    /// Commits what is pending, then one round of upkeep. For stores driven by hand.
    pub fn keep_up(&self) -> Result<(), LogError> {
        self.inner.keep_up()
    }

    /// Makes a checkpoint now, whatever has changed.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.inner.upkeep.lock().checkpoint(&self.inner)
    }

    /// Ends the run cleanly: everything durable, a checkpoint, and the closing mark.
    pub fn close(&self) -> Result<(), LogError> {
        self.stop_threads();
        self.inner.commit()?;
        let checkpoint = self.inner.upkeep.lock().checkpoint(&self.inner);
        let _committing = self.inner.committing.lock();
        let mut ledger = self.inner.writer.lock();
        let journal = ledger.shelf.journal_mut()?;
        let closed = journal.close();
        journal.fail("the store is closed");
        self.inner.gate.fail(StoreError::Unavailable { cause: "the store is closed".into() });
        // A full disk is no reason not to stop: the journal after the last checkpoint is all there.
        match checkpoint {
            Ok(()) | Err(LogError::NoSpace { .. }) => closed,
            Err(error) => Err(error),
        }
    }

    /// Figures. Nothing that takes long is waited for.
    pub fn stats(&self) -> LogStats {
        self.inner.stats()
    }

    /// Bytes in segments that messages need, and bytes that nothing needs any more.
    pub fn live_and_dead_bytes(&self) -> (u64, u64) {
        self.inner.live_and_dead_bytes()
    }

    /// All segments.
    pub fn segments(&self) -> &Segments {
        &self.inner.segments
    }

    fn stop_threads(&self) {
        self.inner.work.want(|wanted| wanted.stop = true);
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has nothing left to end.
            let _ended = thread.join();
        }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl Store for LogStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        self.inner.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        let due = self.inner.next_due.load(Ordering::Acquire);
        (due != u64::MAX).then_some(Timestamp(due))
    }

    fn newest_instant(&self) -> Timestamp {
        self.inner.writer.lock().newest_instant()
    }

    fn commit(&self) -> bool {
        self.inner.has_pending() && self.inner.commit().is_ok()
    }

    fn tally(&self) -> Tally {
        self.inner.writer.lock().tally()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.gate.failure().map_or(Ok(()), Err)
    }

    fn write(&self) {
        // Whoever waits for it is told by the gate.
        let _written = self.inner.write();
    }
}

impl Inner {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let needs = needs(command);
        let mut ledger = self.writer.lock();
        if ledger.shelf.batch.bytes() > BATCH_BYTES_MAX {
            drop(ledger);
            // Backpressure; a failure shows below.
            let _committed = self.commit();
            ledger = self.writer.lock();
        }
        if !ledger.shelf.may_surely_write(needs)
            && let Err(error) = ledger.shelf.may_write(needs)
        {
            return self.refused(error);
        }
        let before = ledger.shelf.batch.records();
        let result = ledger.step(now, command);
        let freed = ledger.take_freed();
        self.next_due.store(ledger.next_due().map_or(u64::MAX, |due| due.0), Ordering::Release);
        let (batch, records) = (ledger.shelf.batch.number(), ledger.shelf.batch.records());
        let so_far = if records > 0 { batch } else { batch - 1 };
        let waits_for = match &result {
            Ok(outcome) if records > before => Some((batch, rests_on(&ledger, outcome).unwrap_or(batch))),
            // It rests on what was applied before it: a repeated send, an ack of what is gone already.
            Ok(_) if needs.is_some() => Some((so_far, so_far)),
            // What exists may have been made a moment ago, and must outlast a crash like any other answer.
            Err(StoreError::Rule(RuleError::QueueExists(_))) => Some((so_far, so_far)),
            Ok(_) | Err(_) => None,
        };
        drop(ledger);
        if records > before && self.options.drive == Drive::Threads && before == 0 {
            self.work.want(|wanted| wanted.commit = true);
        }
        if result == Err(StoreError::NoSpace) {
            self.work.want(|wanted| wanted.upkeep = true);
        }
        let wait = match waits_for {
            Some((batch, rests_on)) => Wait::Gate { batch, rests_on, gate: self.gate.clone() },
            None => Wait::Nothing,
        };
        Submission::new(result, wait, freed)
    }

    #[cold]
    fn refused(&self, error: StoreError) -> Submission {
        if error == StoreError::NoSpace {
            self.work.want(|wanted| wanted.upkeep = true);
        }
        Submission::settled(Err(error))
    }

    pub(crate) fn has_pending(&self) -> bool {
        let ledger = self.writer.lock();
        ledger.shelf.batch.records() > 0 || ledger.shelf.owed > 0
    }

    /// Writes the batch being filled, syncs it if it must be, and opens the gate for it.
    pub(crate) fn commit(&self) -> Result<(), LogError> {
        let result = self.commit_from_upkeep();
        if matches!(result, Err(LogError::NoSpace { .. })) {
            self.work.want(|wanted| wanted.upkeep = true);
        }
        result
    }

    /// The same, without asking for upkeep: it is at work already, and would ask itself for ever.
    pub(crate) fn commit_from_upkeep(&self) -> Result<(), LogError> {
        let result = self.try_commit();
        match &result {
            // Without space the batch stays and is tried again; anything else is the end until a restart.
            Ok(()) | Err(LogError::NoSpace { .. }) => {}
            Err(error) => self.gate.fail(store_error(error.clone())),
        }
        result
    }

    fn try_commit(&self) -> Result<(), LogError> {
        let _committing = self.committing.lock();
        self.try_write()?;
        if self.writer.lock().shelf.owed == 0 { Ok(()) } else { self.sync_written() }
    }

    /// Writes the batch being filled. Answers that need no more leave; others when it is synced, or at once if nothing
    /// that was written needs a sync. Nothing here waits for a sync that runs on another thread.
    pub(crate) fn write(&self) -> Result<(), LogError> {
        let result = self.try_write();
        match &result {
            Ok(()) => {}
            Err(LogError::NoSpace { .. }) => self.work.want(|wanted| wanted.upkeep = true),
            Err(error) => self.gate.fail(store_error(error.clone())),
        }
        result
    }

    fn try_write(&self) -> Result<(), LogError> {
        let mut ledger = self.writer.lock();
        let shelf = &mut ledger.shelf;
        let Some(written) = shelf.write_batch()? else { return Ok(()) };
        let mut open = 0;
        if written.segment_opened {
            // Whatever came before it was synced with the segment it left.
            (shelf.owed, open) = (0, written.batch - 1);
            self.work.want(|wanted| wanted.upkeep = true);
        }
        if written.must_sync && self.options.durability == Durability::Sync {
            shelf.owed = written.batch;
        } else if shelf.owed == 0 {
            open = written.batch;
        }
        shelf.arrivals.forget(open);
        drop(ledger);
        self.gate.wrote(written.batch, open);
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        self.commit_from_upkeep()?;
        let _committing = self.committing.lock();
        let synced = self.sync_written();
        if let Err(error) = &synced {
            self.gate.fail(store_error(error.clone()));
        }
        synced
    }

    /// Syncs what is written by now. More may be written meanwhile; it opens the gate as far as nothing of that must be
    /// synced too.
    fn sync_written(&self) -> Result<(), LogError> {
        let target = self.writer.lock().shelf.journal_mut()?.sync_target();
        target.sync()?;
        let mut ledger = self.writer.lock();
        let shelf = &mut ledger.shelf;
        let journal = shelf.journal_mut()?;
        journal.synced(&target);
        let written = journal.written_through();
        let open = if shelf.owed <= target.batch() { written } else { target.batch() };
        if shelf.owed <= open {
            shelf.owed = 0;
        }
        shelf.arrivals.forget(open);
        drop(ledger);
        self.gate.wrote(open, open);
        Ok(())
    }

    fn commit_until_stopped(&self) {
        while self.work.wait_for(|wanted| std::mem::take(&mut wanted.commit)) {
            // Whoever waits for the batch is told by the gate.
            let _committed = self.commit();
        }
    }

    fn keep_up_until_stopped(&self) {
        while self.work.wait_for(|wanted| std::mem::take(&mut wanted.upkeep)) {
            // A round that failed is tried again when there is something new to do.
            let _kept_up = self.keep_up();
        }
    }

    pub(crate) fn keep_up(&self) -> Result<(), LogError> {
        // Without a spare there is soon no room, which the next sends are told; a checkpoint may free some.
        let is_starved = self.segments.wants_spare() && self.segments.prepare_spare().is_err();
        let mut upkeep = self.upkeep.lock();
        if self.segments.kept().is_short() {
            upkeep.keep_room(&self.segments);
        }
        upkeep.round(self, is_starved)
    }

    fn stats(&self) -> LogStats {
        let ledger = self.writer.lock();
        let (live_bytes, dead_bytes) = self.bytes_of(&ledger);
        let journal = ledger.shelf.journal.as_ref();
        LogStats {
            written_through: journal.map_or(0, Journal::written_through),
            durable_through: journal.map_or(0, Journal::durable_through),
            live_bytes,
            dead_bytes,
            copied_bytes: self.done.copied_bytes.load(Ordering::Relaxed),
            checkpoints: self.done.checkpoints.load(Ordering::Relaxed),
            heap_bytes: ledger.heap_bytes() as u64,
        }
    }

    fn live_and_dead_bytes(&self) -> (u64, u64) {
        self.bytes_of(&self.writer.lock())
    }

    fn bytes_of(&self, ledger: &Ledger<LogShelf>) -> (u64, u64) {
        let live: u64 = ledger.shelf.live.segments().map(|life| life.record_bytes).sum();
        let used: u64 = self.segments.list().iter().map(|segment| segment.used()).sum();
        (live, used.saturating_sub(live))
    }
}

/// A batch on its way to the disk.
struct Written {
    batch: u64,
    must_sync: bool,
    segment_opened: bool,
}

impl LogShelf {
    pub(crate) fn journal_mut(&mut self) -> Result<&mut Journal, LogError> {
        self.journal.as_mut().ok_or_else(|| LogError::FailStopped { cause: "the journal is not open".into() })
    }

    /// Whether nothing stands against a command, as nearly always; `may_write` looks closer.
    #[inline]
    fn may_surely_write(&self, needs: Option<u64>) -> bool {
        let bytes = self.batch.bytes() + needs.unwrap_or(0) + STEP_BYTES;
        self.journal.as_ref().is_some_and(|journal| journal.is_running() && journal.has_room(bytes))
    }

    /// Refuses a command whose records could not be written: after a failure, or without space even in the reserve.
    #[cold]
    fn may_write(&self, needs: Option<u64>) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.check().map_err(store_error)?;
        match needs {
            Some(bytes) if self.room_for(bytes) == Room::Nothing => Err(StoreError::NoSpace),
            Some(_) | None => Ok(()),
        }
    }

    /// Writes the batch being filled and begins the next; `None` when it is empty.
    fn write_batch(&mut self) -> Result<Option<Written>, LogError> {
        let Some(journal) = &mut self.journal else { return Ok(None) };
        if self.batch.records() == 0 {
            return Ok(None);
        }
        let start = self.batch.start();
        let appended = journal.append(&mut self.batch)?;
        let base = journal.active().base();
        let messages = self.live.place_batch(base);
        if messages > 0 {
            self.recent.push(start, self.batch.take(), messages);
            if let Some(memory) = self.recent.take_spare() {
                self.batch.reuse(memory);
            }
        }
        self.batch.begin(journal.next_batch(), journal.end());
        self.live.begin_batch(journal.end());
        let must_sync = std::mem::take(&mut self.must_sync);
        Ok(Some(Written { batch: appended.batch, must_sync, segment_opened: appended.segment_opened }))
    }
}

fn spawn(name: &str, inner: Arc<Inner>, run: fn(&Inner)) -> Result<JoinHandle<()>, LogError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || run(&inner))
        .map_err(|error| LogError::from_io(format!("starting the thread {name}"), &error))
}

/// The newest batch that the messages of a lease rest on; on a FIFO queue, where a lease also tells that the messages
/// before its own are gone, with those. `None` for anything else.
fn rests_on(ledger: &Ledger<LogShelf>, outcome: &Outcome) -> Option<u64> {
    let Outcome::Leased(leased) = outcome else { return None };
    let arrivals = &ledger.shelf.arrivals;
    let newest = ledger.shelf.batch.number();
    let rests_on = |leased: &Leased| {
        let (queue, sequence) = (leased.message.queue, leased.message.sequence);
        match arrivals.rests_on(queue, sequence) {
            arrived if arrived == newest => newest,
            arrived => arrived.max(ledger.mark_before(queue, sequence)),
        }
    };
    leased.iter().map(rests_on).max()
}

/// What a command's records take at most, bodies aside: those ask for room themselves. `None` for one that only looks.
fn needs(command: &Command) -> Option<u64> {
    let entries = match command {
        Command::Lease(lease) => u64::from(lease.max),
        Command::Ack(ack) => ack.tokens.len() as u64,
        Command::Withdraw(withdraw) => withdraw.tokens.len() as u64,
        Command::Extend(extend) => extend.entries.len() as u64,
        Command::Release(release) => release.entries.len() as u64,
        Command::MoveChosen(chosen) => chosen.tokens.len() as u64,
        Command::ContinueMove(next) => u64::from(next.max),
        Command::Peek(_)
        | Command::Identify(_)
        | Command::Counts(_)
        | Command::ListMoves(_)
        | Command::Due
        | Command::Queues
        | Command::Documents(_)
        | Command::History(_) => return None,
        _ => 1,
    };
    Some(entries * ENTRY_BYTES)
}
