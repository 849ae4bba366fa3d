//! A step: applied at once on the caller's thread, its records in the batch being filled, its answer at the gate.
//!
//! Here stands what a step waits for, and what becomes of one that finds no room: it is put off until a batch is
//! written or a spare was made, or refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kew_core::outcome::Leased;
use kew_core::{Command, Outcome, RuleError, Timestamp};
use kew_store::ledger::Ledger;
use kew_store::{Freed, StoreError, Submission, Through, Wait};

use super::inner::Inner;
use super::options::Drive;
use super::shelf::{LogShelf, STEP_BYTES};
use super::writer::Writing;
use crate::error::LogError;
use crate::journal::BatchNumber;

/// A batch this large is written before more is put into it: callers that fill it fast wait for the disk.
const BATCH_BYTES_MAX: u64 = 8 << 20;
/// How often a step is taken again on its caller's thread because others took what was read for it.
const READ_TRIES_MAX: u32 = 16;
/// What a deletion or another small command adds to a batch for each of its entries.
pub(crate) const ENTRY_BYTES: u64 = 192;

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
        self.next_due.set(ledger.next_due());
        let wait = self.wait_for(&ledger, &result, before, needs);
        if matches!(result, Err(StoreError::NoSpace)) && self.options.drive == Drive::Loop {
            ledger.shelf.cold = None;
            return self.make_way(ledger, now, command, freed);
        }
        let cold = ledger.shelf.cold.take();
        let records = ledger.shelf.batch.records();
        ledger.shelf.gathering.steps += u32::from(records > before);
        let begins_batch = before == 0 && records > 0;
        drop(ledger);
        if begins_batch {
            self.commit_soon();
        }
        if matches!(result, Err(StoreError::NoSpace)) {
            self.work.want(|wanted| wanted.upkeep = true);
        }
        match cold {
            None => Submission::new(result, wait, freed),
            Some(cold) => self.read_rest(now, command, *cold, (result, wait, freed), tries_left),
        }
    }

    /// What the answer of a step waits for. Before the step the batch had this number of records.
    #[inline]
    fn wait_for(
        &self,
        ledger: &Ledger<LogShelf>,
        result: &Result<Outcome, StoreError>,
        records_before: u32,
        needs: Option<u64>,
    ) -> Wait {
        let (batch, records) = (ledger.shelf.batch.number(), ledger.shelf.batch.records());
        let so_far = if records > 0 { batch } else { batch.previous() };
        #[cfg(feature = "planted")]
        crate::planted::note_newest_batch(so_far.0);
        let (written, open) = match result {
            Ok(outcome) if records > records_before => (batch, rests_on(ledger, outcome).unwrap_or(batch)),
            // It rests on what was applied before it: a repeated send, an ack of what is gone already, and a receive
            // that finds nothing, because of what others took away.
            Ok(_) if needs.is_some() => (so_far, so_far),
            // What exists may have been made a moment ago, and must outlast a crash like any other answer.
            Err(StoreError::Rule(RuleError::QueueExists(_))) => (so_far, so_far),
            Ok(_) | Err(_) => return Wait::Nothing,
        };
        Wait::Gate { wanted: Through { written, open }, gate: self.gate.clone() }
    }

    /// Something was recorded: on threads it is committed only when that is asked for.
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

    /// A step found no room beside what is pending. What is pending is written, if it can be at once, and the step
    /// taken again; otherwise it is put off.
    #[cold]
    fn make_way(
        self: &Arc<Self>,
        ledger: Writing<'_>,
        now: Timestamp,
        command: &Command,
        freed: Freed,
    ) -> Submission {
        if ledger.shelf.batch.records() == 0
            || !ledger.shelf.fits()
            || self.is_held_up(ledger.shelf.batch.bytes())
        {
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

    /// Whether the batch being filled, of this many bytes, waits until an append has ended elsewhere.
    pub(super) fn is_held_up(&self, bytes: u64) -> bool {
        self.appends.as_ref().is_some_and(|appends| !appends.takes_more(bytes))
    }

    /// Says when a step that found no room may be taken again: when the batch that waits for a new segment is written,
    /// or a spare was made. Where neither helps it is refused.
    #[cold]
    fn put_off(&self, ledger: Writing<'_>, freed: Freed) -> Submission {
        let shelf = &ledger.shelf;
        let waits = shelf.wants_a_segment()
            || shelf.batch.bytes() > BATCH_BYTES_MAX
            || (shelf.batch.records() > 0 && self.is_held_up(shelf.batch.bytes()));
        if waits {
            let error = StoreError::Overloaded { what: "the batch that waits for the disk" };
            return Submission::put_off(error, shelf.batch.number().0, self.gate.clone()).freeing(freed);
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
}

/// The newest batch that the messages of a lease rest on; on a FIFO queue, where a lease also tells that the messages
/// before its own are gone, with those. `None` for anything else, and for a lease of nothing.
fn rests_on(ledger: &Ledger<LogShelf>, outcome: &Outcome) -> Option<BatchNumber> {
    let Outcome::Leased(leased) = outcome else { return None };
    let arrivals = &ledger.shelf.arrivals;
    let newest = ledger.shelf.batch.number();
    let of_one = |leased: &Leased| {
        let (queue, sequence) = (leased.message.queue, leased.message.sequence);
        match arrivals.arrived_in(queue, sequence) {
            Some(arrived) if arrived == newest => newest,
            arrived => BatchNumber(ledger.mark_before(queue, sequence))
                .max(arrived.unwrap_or(BatchNumber::BEFORE_FIRST)),
        }
    };
    leased.iter().map(of_one).max()
}

/// Whether a command adds messages, and may wait until there is room for them.
fn brings_messages(command: &Command) -> bool {
    matches!(
        command,
        Command::Send(_)
            | Command::Bring(_)
            | Command::ContinueMove(_)
            | Command::MoveChosen(_)
            | Command::Extend(_)
    )
}

/// Maximum number of bytes of a command's records, bodies aside: those ask for room themselves. `None` for one that is
/// taken without room.
fn needs(command: &Command) -> Option<u64> {
    command.entries_max().map(|entries| entries * ENTRY_BYTES)
}
