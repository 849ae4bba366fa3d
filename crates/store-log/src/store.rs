//! The log store: the ledger with a journal under it, and group commit.
//!
//! A step is applied at once, on the caller's thread, under the writer's lock. Its records ride in the batch being
//! filled; its answer waits at the gate until that batch is written and, if anything in it or before it must be, synced.
//! One commit runs at a time: while it syncs, the next batch fills.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kew_core::outcome::Leased;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Clock, Command, Entropy, Outcome, Reports, RuleError, Tally, Timestamp, Work};
use kew_store::ledger::Ledger;
use kew_store::{Freed, Store, StoreError, Submission, Wait};
use parking_lot::{Condvar, Mutex};

use crate::damaged::Damaged;
use crate::disk::{Disk, DiskLock};
use crate::error::LogError;
use crate::expected::Expecting;
use crate::gate::LogGate;
use crate::journal::Journal;
use crate::options::{Drive, Durability, LogOptions};
use crate::planted::Planted;
use crate::reads::{self, Reads};
use crate::recover::{self, OpenReport};
use crate::reporting::{Reporting, Retry};
use crate::scrub::{Scrub, ScrubPace};
use crate::segments::{Room, Segments};
use crate::shelf::{LogShelf, STEP_BYTES, store_error};
use crate::turns::Lock;
use crate::upkeep::{Done, Upkeep};
use crate::writer::{Writer, Writing};

/// A batch this large is written before more is put into it: whoever fills it fast waits for the disk.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// How often a step is taken again on its caller's thread because others took what was read for it.
const READ_TRIES_MAX: u32 = 16;
/// What a deletion or another small command adds to a batch for each of its entries.
pub(crate) const ENTRY_BYTES: u64 = 192;

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
    pub writer: Writer,
    /// Held during a commit: batches are written and synced one after the other.
    pub committing: Lock<()>,
    /// What is due next, to be asked without the lock.
    pub next_due: AtomicU64,
    pub gate: Arc<LogGate>,
    /// What must exist, as the store's identity says.
    pub expecting: Expecting,
    /// Guards the state of checkpoints and reclaim; one round runs at a time.
    pub upkeep: Lock<Upkeep>,
    pub done: Done,
    /// How upkeep went, and who is told.
    pub reports: Reporting,
    /// Records that cannot be read.
    pub damaged: Arc<Damaged>,
    /// Who reads messages that are not in memory.
    pub reads: Arc<Reads>,
    pub work: Signal,
    /// Opens for each spare that was made, or could not be; and how many were begun.
    pub made: Arc<LogGate>,
    pub makes_begun: AtomicU64,
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
    pub spares: bool,
    pub stop: bool,
}

impl Signal {
    fn want(&self, ask: impl FnOnce(&mut Wanted)) {
        ask(&mut self.wanted.lock());
        self.changed.notify_all();
    }

    /// Waits until something is wanted, and takes it; at most for `pause`, if there is one. False when all is to stop.
    pub(crate) fn wait_for(&self, pause: Option<Duration>, mine: impl Fn(&mut Wanted) -> bool) -> bool {
        let until = pause.map(|pause| Instant::now() + pause);
        let mut wanted = self.wanted.lock();
        loop {
            if wanted.stop {
                return false;
            }
            if mine(&mut wanted) {
                return true;
            }
            match until {
                None => self.changed.wait(&mut wanted),
                Some(until) if self.changed.wait_until(&mut wanted, until).timed_out() => {
                    return !wanted.stop;
                }
                Some(_) => {}
            }
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
    /// The most that a checkpoint looked at under one hold of the writer's lock: pieces of images, ids, queues.
    pub checkpoint_hold_max: u64,
    /// Memory the queues hold, about.
    pub heap_bytes: u64,
    /// Records found damaged since the store was opened.
    pub damaged_records: u64,
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
            inner
                .work
                .want(|wanted| wanted.upkeep = inner.segments.wants_spare() || inner.reports.is_failing());
            inner.reads.is_served_by(reads::THREADS);
            for _ in 0..reads::THREADS {
                threads.push(spawn("kew-read", inner.clone(), Inner::read_until_stopped)?);
            }
            threads.push(spawn("kew-upkeep", inner.clone(), Inner::keep_up_until_stopped)?);
        }
        if options.drive == Drive::Loop {
            inner.work.want(|wanted| wanted.spares = true);
            threads.push(spawn("kew-spares", inner.clone(), Inner::make_spares_until_stopped)?);
        }
        Ok((Self { inner, threads: Mutex::new(threads) }, report))
    }

    /// Opens a stopped store to look at it: everything is read and replayed, and nothing is written, not even what a start
    /// would repair. Commands that change something are refused.
    pub fn look(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        entropy: Arc<dyn Entropy>,
    ) -> Result<(Self, OpenReport), LogError> {
        let (inner, report) = recover::look(disk, options, entropy)?;
        Ok((Self { inner: Arc::new(inner), threads: Mutex::new(Vec::new()) }, report))
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

    /// Tells `listener` how the work beside requests goes from now on, and what of it fails by now. The first listener
    /// stays.
    pub fn report_to(&self, listener: Arc<dyn Reports>) {
        self.inner.reports.report_to(Arc::clone(&listener));
        self.inner.damaged.report_to(listener);
    }

    /// Work beside requests that failed the last time it was tried, with the cause.
    pub fn failing(&self) -> Vec<(Work, String)> {
        self.inner.reports.failing()
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

    /// A scrub of this store, to be driven by hand. It goes on where the last one was.
    pub fn scrub(&self, pace: ScrubPace) -> Scrub {
        Scrub::begin(Arc::clone(&self.inner), pace)
    }

    /// Scrubs on a thread of its own until the store is closed.
    pub fn scrub_beside(&self, pace: ScrubPace, clock: Arc<dyn Clock>) -> Result<(), LogError> {
        let scrub = self.scrub(pace);
        let thread = spawn("kew-scrub", Arc::clone(&self.inner), move |_| scrub.run_until_stopped(&*clock))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn stop_threads(&self) {
        self.inner.work.want(|wanted| wanted.stop = true);
        self.inner.reads.stop();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has nothing left to end, and has said so itself.
            let _ended = thread.join();
        }
        self.inner.made.fail(StoreError::Unavailable { cause: "the store is closed".into() });
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

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.inner.writer.lock().expiry_hold()
    }

    fn tally(&self) -> Tally {
        self.inner.writer.lock().tally()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.gate.failure().map_or(Ok(()), Err)
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        // Whoever waits for the batch is told by the gate.
        self.inner.commit_at_once(may_sync).unwrap_or(true)
    }

    fn write(&self) {
        // Whoever waits for it is told by the gate.
        let _written = self.inner.write();
    }
}

impl Inner {
    #[inline]
    pub(crate) fn step(self: &Arc<Self>, now: Timestamp, command: &Command) -> Submission {
        self.step_with(now, command, READ_TRIES_MAX)
    }

    /// Takes a step. Where the caller's thread reads what a step needs, it is taken again at most `tries_left` times.
    pub(crate) fn step_with(
        self: &Arc<Self>,
        now: Timestamp,
        command: &Command,
        tries_left: u32,
    ) -> Submission {
        let needs = needs(command);
        let mut ledger = self.writer.lock();
        if ledger.shelf.batch.bytes() > BATCH_BYTES_MAX {
            // Backpressure; a failure shows below.
            let _written = self.relieve(ledger);
            ledger = self.writer.lock();
            if ledger.shelf.batch.bytes() > BATCH_BYTES_MAX && brings_messages(command) {
                return self.put_off(ledger, Freed::new());
            }
        }
        if !ledger.shelf.may_surely_write(needs)
            && let Err(error) = ledger.shelf.may_write(needs)
        {
            return self.refused(ledger, error, needs);
        }
        let before = ledger.shelf.batch.records();
        let result = ledger.step(now, command);
        let freed = ledger.take_freed();
        self.next_due.store(ledger.next_due().map_or(u64::MAX, |due| due.0), Ordering::Release);
        let (batch, records) = (ledger.shelf.batch.number(), ledger.shelf.batch.records());
        let so_far = if records > 0 { batch } else { batch - 1 };
        #[cfg(feature = "planted")]
        crate::planted::note_newest_batch(so_far);
        let waits_for = match &result {
            Ok(outcome) if records > before => Some((batch, rests_on(&ledger, outcome).unwrap_or(batch))),
            // It rests on what was applied before it: a repeated send, an ack of what is gone already.
            Ok(_) if needs.is_some() => Some((so_far, so_far)),
            // What exists may have been made a moment ago, and must outlast a crash like any other answer.
            Err(StoreError::Rule(RuleError::QueueExists(_))) => Some((so_far, so_far)),
            Ok(_) | Err(_) => None,
        };
        if matches!(result, Err(StoreError::NoSpace)) && self.options.drive == Drive::Loop {
            ledger.shelf.cold = None;
            return self.make_way(ledger, now, command, freed);
        }
        let cold = ledger.shelf.cold.take();
        drop(ledger);
        if records > before && self.options.drive == Drive::Threads && before == 0 {
            self.work.want(|wanted| wanted.commit = true);
        }
        if matches!(result, Err(StoreError::NoSpace)) {
            self.work.want(|wanted| wanted.upkeep = true);
        }
        let wait = match waits_for {
            Some((batch, rests_on)) => Wait::Gate { batch, rests_on, gate: self.gate.clone() },
            None => Wait::Nothing,
        };
        match cold {
            None => Submission::new(result, wait, freed),
            Some(cold) => self.read_rest(now, command, *cold, (result, wait, freed), tries_left),
        }
    }

    /// Something was recorded beside a step: on threads it is committed only when that is asked for.
    pub(crate) fn commit_soon(&self) {
        if self.options.drive == Drive::Threads {
            self.work.want(|wanted| wanted.commit = true);
        }
    }

    #[cold]
    fn refused(&self, mut ledger: Writing<'_>, error: StoreError, needs: Option<u64>) -> Submission {
        if error == StoreError::NoSpace {
            if self.options.drive == Drive::Loop {
                ledger.shelf.refused = ledger.shelf.batch.bytes() + needs.unwrap_or(0) + STEP_BYTES;
                return self.put_off(ledger, Freed::new());
            }
            self.work.want(|wanted| wanted.upkeep = true);
        }
        Submission::settled(Err(error))
    }

    /// A batch that is full leaves. On an event loop only if that takes no wait for a sync.
    #[cold]
    fn relieve(&self, ledger: Writing<'_>) -> Result<(), LogError> {
        drop(ledger);
        if self.options.drive == Drive::Loop { self.write() } else { self.commit() }
    }

    /// A step found no room beside what is pending. What is pending is written, if it can be at once, and the step taken
    /// again; otherwise it is put off.
    #[cold]
    fn make_way(
        self: &Arc<Self>,
        ledger: Writing<'_>,
        now: Timestamp,
        command: &Command,
        freed: Freed,
    ) -> Submission {
        if ledger.shelf.batch.records() == 0 || !ledger.shelf.fits() {
            return self.put_off(ledger, freed);
        }
        if self.relieve(ledger).is_err() {
            return Submission::settled(Err(self.gate.failure().unwrap_or(StoreError::NoSpace)))
                .freeing(freed);
        }
        let mut again = self.step(now, command);
        again.freed.extend(freed);
        again
    }

    /// Says when a step that found no room may be taken again: when the batch that waits for a new segment is written, or
    /// a spare was made. Where neither helps it is refused.
    #[cold]
    fn put_off(&self, ledger: Writing<'_>, freed: Freed) -> Submission {
        let shelf = &ledger.shelf;
        let waits = shelf.journal.as_ref().is_some_and(Journal::is_rolling)
            || (shelf.batch.records() > 0 && !shelf.fits())
            || shelf.batch.bytes() > BATCH_BYTES_MAX;
        if waits {
            let error = StoreError::Overloaded { what: "the batch that waits for the disk" };
            return Submission::put_off(error, shelf.batch.number(), self.gate.clone()).freeing(freed);
        }
        if !self.segments.may_get_room() {
            self.work.want(|wanted| wanted.upkeep = true);
            return Submission::settled(Err(StoreError::NoSpace)).freeing(freed);
        }
        self.segments.want(shelf.refused);
        let turn = self.makes_begun.load(Ordering::Acquire) + 1;
        drop(ledger);
        self.work.want(|wanted| wanted.spares = true);
        let error = StoreError::Overloaded { what: "the room that is ready for messages" };
        Submission::put_off(error, turn, self.made.clone()).freeing(freed)
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
            Err(error) => self.stop_for(error),
        }
        result
    }

    /// The journal failed: nothing is answered any more until a restart.
    #[cold]
    fn stop_for(&self, error: &LogError) {
        self.gate.fail(store_error(error.clone()));
        self.reports.failed(Work::Commit, &error.to_string());
    }

    fn try_commit(&self) -> Result<(), LogError> {
        let _committing = self.committing.lock();
        self.write_behind_a_roll()?;
        if self.writer.lock().shelf.owed == 0 { Ok(()) } else { self.sync_written() }
    }

    /// Commits unless that takes longer than one write and, with `may_sync`, one sync; false when something is left.
    fn commit_at_once(&self, may_sync: bool) -> Result<bool, LogError> {
        let Some(_committing) = self.committing.try_lock() else { return Ok(!self.has_pending()) };
        self.write()?;
        let (is_written, owes) = {
            let ledger = self.writer.lock();
            (ledger.shelf.batch.records() == 0, ledger.shelf.owed > 0)
        };
        if !is_written || (owes && !may_sync) {
            return Ok(false);
        }
        if owes {
            let synced = self.sync_written();
            self.told(synced)?;
        }
        Ok(true)
    }

    /// Writes the batch being filled. Answers that need no more leave; others when it is synced, or at once if nothing
    /// that was written needs a sync. Nothing here waits for a sync, on this thread or another: a batch that needs a new
    /// segment is left for the commit.
    pub(crate) fn write(&self) -> Result<(), LogError> {
        let ledger = self.writer.lock();
        if !ledger.shelf.fits() {
            if Planted::ErrorToldToOne.is_there() {
                drop(ledger);
                return self.told(self.write_behind_a_roll());
            }
            return Ok(());
        }
        let written = self.write_batch(ledger, Rolled::No);
        self.told(written)
    }

    /// Passes a failure on to all who wait at the gate.
    fn told(&self, result: Result<(), LogError>) -> Result<(), LogError> {
        match &result {
            Ok(()) => {}
            Err(LogError::NoSpace { .. }) => self.work.want(|wanted| wanted.upkeep = true),
            Err(error) => self.stop_for(error),
        }
        result
    }

    /// Writes the batch being filled, in a new segment if this one cannot hold it. Only who holds `committing` may, so that
    /// no sync of the segment that is left runs on another thread. Steps go on while the new one is made.
    fn write_behind_a_roll(&self) -> Result<(), LogError> {
        let mut ledger = self.writer.lock();
        if ledger.shelf.fits() {
            return self.write_batch(ledger, Rolled::No);
        }
        let bytes = ledger.shelf.batch.bytes();
        let mut roll = ledger.shelf.journal_mut()?.begin_roll(bytes)?;
        drop(ledger);
        let made = roll.run();
        // Written down here, so that the first sync in it does not have to; the one it follows is implied.
        let expected = made.as_ref().map_or(Ok(()), |made| self.expecting.segment(made.number()));
        ledger = self.writer.lock();
        let journal = ledger.shelf.journal_mut()?;
        expected.map_err(|error| journal.fail(error.to_string()))?;
        journal.end_roll(&roll, made)?;
        self.work.want(|wanted| (wanted.upkeep, wanted.spares) = (true, true));
        self.write_batch(ledger, Rolled::Yes)
    }

    fn write_batch(&self, mut ledger: Writing<'_>, rolled: Rolled) -> Result<(), LogError> {
        let shelf = &mut ledger.shelf;
        let Some(written) = shelf.write_batch()? else { return Ok(()) };
        let mut open = 0;
        if rolled == Rolled::Yes {
            // Whatever came before it was synced with the segment it left.
            (shelf.owed, open) = (0, written.batch - 1);
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
            self.stop_for(error);
        }
        synced
    }

    /// Syncs what is written by now. More may be written meanwhile; it opens the gate as far as nothing of that must be
    /// synced too.
    fn sync_written(&self) -> Result<(), LogError> {
        let target = self.writer.lock().shelf.journal_mut()?.sync_target();
        target.sync()?;
        let expected = self.expecting.segment(target.segment());
        let mut ledger = self.writer.lock();
        let shelf = &mut ledger.shelf;
        let journal = shelf.journal_mut()?;
        expected.map_err(|error| journal.fail(error.to_string()))?;
        journal.synced(&target);
        let written = journal.written_through();
        let opens_all = shelf.owed <= target.batch() || Planted::GateOpensTooFar.is_there();
        let open = if opens_all { written } else { target.batch() };
        if shelf.owed <= open {
            shelf.owed = 0;
        }
        shelf.arrivals.forget(open);
        drop(ledger);
        self.gate.wrote(open, open);
        Ok(())
    }

    fn commit_until_stopped(&self) {
        while self.work.wait_for(None, |wanted| std::mem::take(&mut wanted.commit)) {
            // Whoever waits for the batch is told by the gate.
            let _committed = self.commit();
        }
    }

    fn keep_up_until_stopped(&self) {
        let _watch =
            PanicWatch(self, Work::Upkeep, "the thread panicked; nothing is reclaimed until a restart");
        let mut retry = Retry::new(self.options.retry_after);
        let mut pause = retry.after(self.reports.is_failing());
        while self.work.wait_for(pause, |wanted| std::mem::take(&mut wanted.upkeep)) {
            // Each part of a round reports its own failure; what failed is tried again after a pause.
            let _kept_up = self.keep_up();
            pause = retry.after(self.reports.is_failing());
        }
    }

    pub(crate) fn keep_up(&self) -> Result<(), LogError> {
        // Without a spare there is soon no room, which the next sends are told; a checkpoint may free some.
        let prepared = self.segments.prepare_wanted();
        self.reports.tell(Work::Spare, &prepared);
        let is_starved = prepared.is_err();
        let mut upkeep = self.upkeep.lock();
        if self.segments.kept().is_short() {
            upkeep.keep_room(self);
        }
        upkeep.round(self, is_starved)
    }

    fn read_until_stopped(&self) {
        let _watch = ReaderWatch(self);
        self.reads.read_until_stopped();
    }

    fn make_spares_until_stopped(&self) {
        let _watch =
            PanicWatch(self, Work::Upkeep, "the thread panicked; nothing is reclaimed until a restart");
        while self.work.wait_for(None, |wanted| std::mem::take(&mut wanted.spares)) {
            loop {
                let turn = self.makes_begun.fetch_add(1, Ordering::AcqRel) + 1;
                let made = self.segments.prepare_one();
                self.made.open(turn);
                let goes_on = made.as_ref().is_ok_and(|is_made| *is_made);
                let made = made.map(|_| ());
                self.reports.tell(Work::Spare, &made);
                if made.is_err() {
                    // A checkpoint may free some space; upkeep also tries again after a pause.
                    self.work.want(|wanted| wanted.upkeep = true);
                }
                if !goes_on {
                    break;
                }
            }
        }
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
            checkpoint_hold_max: self.done.hold_max.load(Ordering::Relaxed),
            heap_bytes: ledger.heap_bytes() as u64,
            damaged_records: self.damaged.len() as u64,
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

/// Whether the segment that a batch goes to was made for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rolled {
    Yes,
    No,
}

/// Says so when a thread of the store ends by a panic: which work is not done from then on.
pub(crate) struct PanicWatch<'a>(pub &'a Inner, pub Work, pub &'static str);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.reports.failed(self.1, self.2);
        }
    }
}

/// Says so when a thread that reads ends by a panic. With the last of them the store stops: no read would be answered.
struct ReaderWatch<'a>(&'a Inner);

impl Drop for ReaderWatch<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.0.reports.failed(Work::Upkeep, "a thread that reads messages panicked");
        if self.0.reads.is_without_readers() {
            let cause = "all threads that read messages panicked".to_owned();
            self.0.stop_for(&LogError::FailStopped { cause });
            self.0.reads.stop();
        }
    }
}

/// A batch on its way to the disk.
struct Written {
    batch: u64,
    must_sync: bool,
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
    pub(crate) fn may_write(&self, needs: Option<u64>) -> Result<(), StoreError> {
        let Some(journal) = &self.journal else {
            let cause = "the store is open to be looked at only".to_owned();
            return needs.map_or(Ok(()), |_| Err(StoreError::Unavailable { cause }));
        };
        journal.check().map_err(store_error)?;
        match needs {
            Some(bytes) if self.room_for(bytes) == Room::Nothing => Err(StoreError::NoSpace),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the batch being filled goes into the segment that is being written; one without records goes nowhere.
    fn fits(&self) -> bool {
        self.batch.records() == 0
            || self.journal.as_ref().is_none_or(|journal| journal.fits(self.batch.bytes()))
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
        Ok(Some(Written { batch: appended.batch, must_sync }))
    }
}

fn spawn(
    name: &str,
    inner: Arc<Inner>,
    run: impl FnOnce(&Inner) + Send + 'static,
) -> Result<JoinHandle<()>, LogError> {
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

/// Whether a command adds messages, and may wait until there is room for them.
fn brings_messages(command: &Command) -> bool {
    matches!(
        command,
        Command::Send(_) | Command::ContinueMove(_) | Command::MoveChosen(_) | Command::Extend(_)
    )
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
