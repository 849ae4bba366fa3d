//! The store as its callers have it: opened, driven, closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use kew_core::rules::retention::ExpiryHold;
use kew_core::{
    Clock, Command, Departures, Entropy, QueueId, Reports, Tally, Timestamp, Traffic, Waits, Work,
};
use kew_store::{Elsewhere, Fill, Gate, Ring, Store, StoreError, Submission};
use parking_lot::Mutex;

use super::commit::Progress;
use super::figures::LogStats;
use super::inner::Inner;
use super::options::{Drive, LogOptions};
use super::reads;
use super::recover::{self, OpenReport};
use super::threads::spawn;
use super::upkeep::scrub::{Scrub, ScrubPace};
use crate::disk::Disk;
use crate::error::{Doing, LogError};
use crate::journal::Segments;

/// The embedded store.
pub struct LogStore {
    pub(crate) inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
        if let Some(appends) = &inner.appends {
            let progress = Arc::new(Progress(Arc::downgrade(&inner)));
            appends.report_to(progress).doing("starting the thread", "kew-answers")?;
        }
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

    /// Opens a stopped store to look at it: everything is read and replayed, and nothing is written, not even what a
    /// start would repair. Commands that change something are refused.
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
        let closed_far = match &self.inner.appends {
            Some(_) => self.inner.sync().and_then(|()| self.inner.close_appends()),
            None => Ok(()),
        };
        let _committing = self.inner.committing.lock();
        let mut ledger = self.inner.writer.lock();
        let journal = ledger.shelf.journal_mut()?;
        let closed = if self.inner.appends.is_some() { closed_far } else { journal.close() };
        journal.fail("the store is closed");
        self.inner.gate.fail(StoreError::Unavailable { cause: "the store is closed".into() });
        // A full disk is no reason not to stop: the journal after the last checkpoint is all there.
        match checkpoint {
            Ok(()) | Err(LogError::NoSpace { .. }) => closed,
            Err(error) => Err(error),
        }
    }

    /// Reports to `listener` how the work beside requests goes from now on, and what of it fails by now. The first
    /// listener stays.
    pub fn report_to(&self, listener: Arc<dyn Reports>) {
        self.inner.reports.report_to(Arc::clone(&listener));
        self.inner.damaged.report_to(listener);
    }

    /// Work beside requests that failed the last time it was tried, with the cause.
    pub fn failing(&self) -> Vec<(Work, String)> {
        self.inner.reports.failing()
    }

    /// The gate that answers wait at, for one that stands before it.
    pub fn gate(&self) -> Arc<dyn Gate> {
        self.inner.gate.clone()
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
        self.inner.next_due.get()
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

    fn syncs(&self) -> u64 {
        self.inner.syncs.load(Ordering::Relaxed)
    }

    fn tally(&self) -> Tally {
        self.inner.writer.lock().tally()
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.inner.writer.lock().tallies(queues)
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.inner.writer.lock().waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.inner.writer.lock().take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.inner.writer.lock().traffic(queues)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        let mut ledger = self.inner.writer.lock();
        ledger.know_others(elsewhere);
        self.inner.next_due.set(ledger.next_due());
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.gate.failure().map_or(Ok(()), Err)
    }

    fn commit_at_once(&self, may_sync: bool) -> bool {
        // The gate passes a failure to the answers that wait for the batch.
        self.inner.commit_at_once(may_sync).unwrap_or(true)
    }

    fn hand_over(&self) -> Fill {
        self.inner.hand_over()
    }

    fn ring_when_free(&self, ring: Option<Arc<Ring>>) {
        self.inner.ring_when_free(ring);
    }

    fn write(&self) {
        if self.inner.appends.is_some() {
            // Leases leave with the append, which their answers wait for.
            return;
        }
        // The gate passes a failure to the answers that wait for it.
        let _written = self.inner.write();
    }
}
