//! Group commit: the batch being filled is written, and synced if anything in it or before it must be.
//!
//! One commit runs at a time: while it syncs, the next batch fills. Any failure of a write or a sync stops the
//! store; only a new segment may lack room.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use kew_core::Work;
use kew_store::{StoreError, Through};

use super::inner::Inner;
use super::options::Durability;
use super::shelf::store_error;
use super::writer::Writing;
use crate::disk::{AppendListener, Reached};
use crate::error::LogError;
use crate::journal::BatchNumber;
use crate::planted::Planted;

impl Inner {
    pub(crate) fn has_pending(&self) -> bool {
        let ledger = self.writer.lock();
        ledger.shelf.batch.records() > 0 || (ledger.shelf.owed.is_any() && self.appends.is_none())
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
    pub(super) fn stop_for(&self, error: &LogError) {
        self.gate.fail(store_error(error.clone()));
        self.reports.failed(Work::Commit, &error.to_string());
    }

    fn try_commit(&self) -> Result<(), LogError> {
        let _committing = self.committing.lock();
        self.write_behind_a_roll()?;
        if self.appends.is_some() || !self.writer.lock().shelf.owed.is_any() {
            Ok(())
        } else {
            self.sync_written()
        }
    }

    /// Commits unless that takes longer than one write and, with `may_sync`, one sync; false when something is left.
    pub(super) fn commit_at_once(&self, may_sync: bool) -> Result<bool, LogError> {
        if self.appends.as_deref().is_some_and(|appends| self.end_filling(appends)) {
            return Ok(true);
        }
        let Some(_committing) = self.committing.try_lock() else { return Ok(!self.has_pending()) };
        self.write()?;
        let (is_written, owes) = {
            let ledger = self.writer.lock();
            if self.appends.is_some() {
                // What waits for an append that is under way is handed over when that ends.
                return Ok(ledger.shelf.fits());
            }
            (ledger.shelf.batch.records() == 0, ledger.shelf.owed.is_any())
        };
        if !is_written || (owes && !may_sync) {
            return Ok(false);
        }
        if owes {
            let synced = self.sync_written();
            self.pass_on(synced)?;
        }
        Ok(true)
    }

    /// Writes the batch being filled. Answers that need no more leave; others when it is synced, or at once if nothing
    /// that was written needs a sync. Nothing here waits for a sync, on this thread or another: a batch that needs a
    /// new segment is left for the commit.
    pub(crate) fn write(&self) -> Result<(), LogError> {
        let ledger = self.writer.lock();
        if !ledger.shelf.fits() {
            if Planted::ErrorReportedOnce.is_there() {
                drop(ledger);
                return self.pass_on(self.write_behind_a_roll());
            }
            return Ok(());
        }
        let written = self.write_batch(ledger, Rolled::No);
        self.pass_on(written)
    }

    /// Passes a failure on to all who wait at the gate.
    fn pass_on(&self, result: Result<(), LogError>) -> Result<(), LogError> {
        match &result {
            Ok(()) => {}
            Err(LogError::NoSpace { .. }) => self.work.want(|wanted| wanted.upkeep = true),
            Err(error) => self.stop_for(error),
        }
        result
    }

    /// Writes the batch being filled, in a new segment if this one cannot hold it. Only who holds `committing` may, so
    /// that no sync of the segment that is left runs on another thread. Steps go on while the new one is made.
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
        if self.is_held_up(ledger.shelf.batch.bytes()) {
            // It goes on filling, and is handed over when an append has ended.
            return Ok(());
        }
        let shelf = &mut ledger.shelf;
        let Some(written) = shelf.write_batch(self.options.durability == Durability::Sync)? else {
            return Ok(());
        };
        let mut open = BatchNumber::BEFORE_FIRST;
        if rolled == Rolled::Yes {
            // Whatever came before it was synced with the segment it left.
            shelf.owed.clear();
            open = written.batch.previous();
        }
        let mut written_through = written.batch;
        if written.must_sync && self.options.durability == Durability::Sync {
            shelf.owed.note(written.batch);
        } else if !shelf.owed.is_any() && self.appends.is_none() {
            open = written.batch;
        }
        if self.appends.is_some() {
            // Handed over; `reached` says when it is written.
            written_through = open;
            self.note_append(&mut shelf.gathering, written.steps);
        }
        shelf.arrivals.forget(open);
        drop(ledger);
        self.gate.reach(Through { written: written_through, open });
        Ok(())
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        if self.appends.is_some() {
            return self.sync_appends();
        }
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
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let expected = self.expecting.segment(target.segment());
        let mut ledger = self.writer.lock();
        let shelf = &mut ledger.shelf;
        let journal = shelf.journal_mut()?;
        expected.map_err(|error| journal.fail(error.to_string()))?;
        journal.synced(&target);
        let written = journal.written_through();
        let durable = if Planted::GateOpensTooFar.is_there() { written } else { target.batch() };
        let open = shelf.owed.open_through(durable, written);
        shelf.arrivals.forget(open);
        drop(ledger);
        self.gate.open(open.0);
        Ok(())
    }
}

/// Where appends end later and elsewhere.
impl Inner {
    /// Waits until everything recorded so far is durable.
    fn sync_appends(&self) -> Result<(), LogError> {
        let wanted = {
            let ledger = self.writer.lock();
            let batch = &ledger.shelf.batch;
            if batch.records() > 0 { batch.number() } else { batch.number().previous() }
        };
        loop {
            self.commit_from_upkeep()?;
            let target = self.writer.lock().shelf.journal_mut()?.sync_target();
            let synced = target.sync();
            if let Err(error) = &synced {
                self.stop_for(error);
            }
            synced?;
            if target.batch() >= wanted {
                self.writer.lock().shelf.journal_mut()?.synced(&target);
                return Ok(());
            }
        }
    }

    /// Whether the batch being filled waits for a new segment.
    fn waits_for_a_segment(&self) -> bool {
        self.writer.lock().shelf.wants_a_segment()
    }

    /// Ends the journal with the closing mark.
    pub(super) fn close_appends(&self) -> Result<(), LogError> {
        let target = {
            let mut ledger = self.writer.lock();
            let journal = ledger.shelf.journal_mut()?;
            journal.mark_closed()?;
            journal.sync_target()
        };
        target.sync()
    }
}

/// Passes the progress of appends on to the answers that wait for it.
pub(super) struct Progress(pub Weak<Inner>);

impl AppendListener for Progress {
    fn reached(&self, Reached { written, durable }: Reached) {
        let Some(inner) = self.0.upgrade() else { return };
        let mut ledger = inner.writer.lock();
        let shelf = &mut ledger.shelf;
        if let Some(journal) = &mut shelf.journal {
            journal.durable_to(durable);
        }
        let open = shelf.owed.open_through(durable, written);
        shelf.arrivals.forget(open);
        inner.note_end(&mut shelf.gathering);
        drop(ledger);
        inner.gate.reach(Through { written, open });
        inner.go_on_behind_an_append();
    }

    fn suspended(&self, why: Option<String>) {
        let Some(inner) = self.0.upgrade() else { return };
        inner.gate.suspend(why.map(|cause| StoreError::Unavailable { cause }));
    }

    fn room_suspended(&self, why: Option<String>) {
        let Some(inner) = self.0.upgrade() else { return };
        let why = why.map(|cause| StoreError::Unavailable { cause });
        inner.made.suspend(why.clone());
        if why.is_none() || inner.waits_for_a_segment() {
            inner.gate.suspend(why);
        }
    }

    fn lost(&self, why: String) {
        let Some(inner) = self.0.upgrade() else { return };
        if let Some(journal) = &mut inner.writer.lock().shelf.journal {
            let _refused = journal.fail(why.clone());
        }
        inner.stop_for(&LogError::FailStopped { cause: why });
    }
}

/// Whether the segment that a batch goes to was made for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rolled {
    Yes,
    No,
}
