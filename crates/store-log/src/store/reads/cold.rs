//! What a step found not to be in memory.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};

use hashbrown::HashMap;
use kew_core::command::Withdraw;
use kew_core::outcome::Page;
use kew_core::{Command, LeaseToken, Outcome, Sequence, Timestamp};
use kew_store::ledger::{Place, Stored};
use kew_store::{Freed, StoreError, Submission, Unread, Wait};

use super::{BEING_READ, Read, Reads, Wanted, Whole};
use crate::journal::Address;
use crate::store::inner::Inner;
use crate::store::options::Drive;
use crate::store::steps::ENTRY_BYTES;

/// What one step asked for.
#[derive(Default)]
pub(crate) struct Cold {
    /// Contents that are put into its answer later.
    pub wanted: Vec<Wanted>,
    /// Contents without which it does not go on.
    pub missing: Vec<Wanted>,
    /// Those it made sure of.
    at_hand: HashMap<Address, Read>,
}

impl Cold {
    /// A content is put into the answer later.
    pub fn put_on_its_way(&mut self, reads: &Reads, sequence: Sequence, place: Place) -> Read {
        self.wanted.push(reads.wanted(sequence, place)?);
        Ok(Stored::on_its_way())
    }

    /// A content that the step needs.
    pub fn need(&mut self, reads: &Reads, place: Place) -> Read {
        let address = place.address.into();
        if let Some(read) = self.at_hand.remove(&address) {
            return read;
        }
        if let Some(read) = reads.take_fetched(address) {
            return read;
        }
        self.missing.push(reads.wanted(Sequence(0), place)?);
        Err(BEING_READ)
    }

    /// Makes sure of a content that the step needs later on.
    pub fn make_sure(&mut self, reads: &Reads, place: Place, read: Option<Read>) -> Result<(), StoreError> {
        let read = read.unwrap_or_else(|| self.need(reads, place));
        let made_sure = read.as_ref().map_or_else(|error| Err(error.clone()), |_stored| Ok(()));
        if made_sure != Err(BEING_READ) {
            self.at_hand.insert(place.address.into(), read);
        }
        made_sure
    }
}

impl Inner {
    /// A step found some contents not to be in memory. They are put into its answer when they are read; one that needs
    /// them to go on is taken again then, here or by the caller.
    #[cold]
    pub(crate) fn read_rest(
        self: &Arc<Self>,
        now: Timestamp,
        command: &Command,
        cold: Cold,
        (mut result, wait, freed): (Result<Outcome, StoreError>, Wait, Freed),
        tries_left: u32,
    ) -> Submission {
        let Cold { wanted, missing, at_hand } = cold;
        let at_hand = at_hand.into_iter().collect();
        if result == Err(BEING_READ) {
            return self.read_for_another_try(now, command, missing, at_hand, (freed, tries_left));
        }
        if !missing.is_empty() {
            // A task that has moved others goes on with it in its next step.
            let _not_waited_for = self.reads.fetch(missing, at_hand);
        }
        if wanted.is_empty() || result.is_err() {
            return Submission::new(result, wait, freed);
        }
        let bytes = wanted.iter().map(|wanted| wanted.place.bytes as usize).sum();
        let Some(whole) = self.reads.begin(wanted) else {
            return self.withdraw(now, command, &result, freed);
        };
        let mut rest = OnTheirWay { inner: Arc::downgrade(self), whole, bytes };
        if rest.poll_unread(&mut result, &mut Context::from_waker(Waker::noop())).is_ready() {
            return Submission::new(result, wait, freed);
        }
        Submission::new(result, Wait::Unread { first: Box::new(wait), unread: Box::new(rest) }, freed)
    }

    /// What a step needs is read, and kept with what it has, for another try.
    fn read_for_another_try(
        self: &Arc<Self>,
        now: Timestamp,
        command: &Command,
        missing: Vec<Wanted>,
        at_hand: Vec<(Address, Read)>,
        (freed, tries_left): (Freed, u32),
    ) -> Submission {
        if self.options.drive == Drive::Loop {
            return match self.reads.fetch(missing, at_hand) {
                Some(gate) => Submission::put_off(BEING_READ, 1, gate).freeing(freed),
                None => Submission::settled(Err(BEING_READ)).freeing(freed),
            };
        }
        let read = self.reads.fetch_here(missing, at_hand);
        let Some(tries_left) = tries_left.checked_sub(1).filter(|_| read.is_ok()) else {
            return Submission::settled(Err(read.err().unwrap_or(BEING_READ))).freeing(freed);
        };
        let mut again = self.step_with(now, command, tries_left);
        again.freed.extend(freed);
        again
    }

    /// Too much waits to be read: what was leased is withdrawn, and the step refused. A receive with an attempt's name
    /// keeps it: its repetition gets the same messages.
    fn withdraw(
        self: &Arc<Self>,
        now: Timestamp,
        command: &Command,
        result: &Result<Outcome, StoreError>,
        mut freed: Freed,
    ) -> Submission {
        if let (Command::Lease(lease), Ok(Outcome::Leased(leased))) = (command, result)
            && lease.attempt.is_none()
        {
            let tokens = leased.iter().map(|leased| leased.token).collect();
            let back = self.step(now, &Command::Withdraw(Withdraw { queue: lease.queue, tokens }));
            freed.extend(back.freed.iter().copied());
        }
        Submission::settled(Err(BEING_READ)).freeing(freed)
    }

    /// Some messages of a lease cannot be read: they are set aside. Answers which ones its answer must do without.
    fn leave_out(&self, leased: &[LeaseToken], unreadable: &[(Sequence, StoreError)]) -> Vec<Sequence> {
        let mut ledger = self.writer.lock();
        let bytes = leased.len() as u64 * ENTRY_BYTES;
        // A store that is being closed reads no more: that is no fault of theirs. They come back when their leases end.
        if self.reads.is_stopped() || ledger.shelf.may_write(Some(bytes)).is_err() {
            return unreadable.iter().map(|(sequence, _)| *sequence).collect();
        }
        let out = ledger.leave_out(leased, unreadable);
        self.next_due.set(ledger.next_due());
        drop(ledger);
        self.commit_soon();
        out
    }
}

/// The bodies of an answer, on their way.
pub(crate) struct OnTheirWay {
    pub inner: Weak<Inner>,
    pub whole: Arc<Whole>,
    pub bytes: usize,
}

impl Unread for OnTheirWay {
    fn poll_unread(&mut self, result: &mut Result<Outcome, StoreError>, cx: &mut Context<'_>) -> Poll<()> {
        let found = ready!(Reads::poll(&self.whole, cx));
        let unreadable = fill(result, found);
        let Some((_, why)) = unreadable.first() else { return Poll::Ready(()) };
        let why = why.clone();
        match result {
            Ok(Outcome::Leased(leased)) => {
                let tokens: Vec<LeaseToken> = leased.iter().map(|leased| leased.token).collect();
                let inner = self.inner.upgrade();
                let out = inner.map_or_else(
                    || unreadable.iter().map(|(sequence, _)| *sequence).collect(),
                    |inner| inner.leave_out(&tokens, &unreadable),
                );
                leased.retain(|leased| !out.contains(&leased.message.sequence));
                if leased.is_empty() {
                    *result = Err(why);
                }
            }
            _ => *result = Err(why),
        }
        Poll::Ready(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for OnTheirWay {
    fn drop(&mut self) {
        self.whole.abandon();
    }
}

/// Puts what was read into the answer; the messages that could not be read are answered.
fn fill(
    result: &mut Result<Outcome, StoreError>,
    found: Vec<(Sequence, Read)>,
) -> Vec<(Sequence, StoreError)> {
    let mut unreadable = Vec::new();
    let mut contents: HashMap<Sequence, Stored> = HashMap::with_capacity(found.len());
    for (sequence, read) in found {
        match read {
            Ok(stored) => drop(contents.insert(sequence, stored)),
            Err(error) => unreadable.push((sequence, error)),
        }
    }
    let mut put = |message: &mut kew_core::Message| {
        if let Some(stored) = contents.remove(&message.sequence) {
            stored.fill(message);
        }
    };
    match result {
        Ok(Outcome::Leased(leased)) => leased.iter_mut().for_each(|leased| put(&mut leased.message)),
        Ok(Outcome::Peeked(seen)) => seen.iter_mut().for_each(|(message, _)| put(message)),
        Ok(Outcome::Browsed(page)) => {
            page.messages.iter_mut().for_each(|seen| put(&mut seen.message));
            mark_damaged(page, &mut unreadable);
        }
        Ok(Outcome::Groups(page)) => {
            for lock in page.groups.iter_mut().filter_map(|group| group.lock.as_mut()) {
                if let Some(stored) = contents.remove(&lock.sequence) {
                    lock.id = stored.id;
                }
            }
        }
        Ok(Outcome::Identified(id)) => {
            if let Some((_, stored)) = contents.into_iter().next() {
                *id = stored.id;
            }
        }
        _ => {}
    }
    unreadable.sort_unstable_by_key(|(sequence, _)| *sequence);
    unreadable
}

/// A damaged message is shown without its content; another failure is the page's, and stays.
fn mark_damaged(page: &mut Page, unreadable: &mut Vec<(Sequence, StoreError)>) {
    unreadable.retain(|(sequence, error)| {
        let seen = page.messages.iter_mut().find(|seen| seen.message.sequence == *sequence);
        match (seen, error) {
            (Some(seen), StoreError::Damaged { .. }) => {
                seen.is_readable = false;
                false
            }
            (_, _) => true,
        }
    });
}
