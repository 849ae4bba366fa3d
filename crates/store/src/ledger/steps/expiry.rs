//! Holding expiry after a leap of the clock.
//!
//! A hold is kept as a document of an account that no one has, so it is replayed, checkpointed and backed up like any
//! other. Every book knows through which instant its messages may expire: that is all a hold changes.

use bytes::Bytes;
use kew_core::own::{OWN_ACCOUNT, expiry_hold};
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{AccountId, Outcome, Timestamp};

use crate::ledger::Ledger;
use crate::ledger::change::Change;
use crate::ledger::passing::list;
use crate::ledger::shelf::Shelf;

/// Whether a document is the store's own.
pub(in crate::ledger) fn is_own(account: AccountId) -> bool {
    account == OWN_ACCOUNT
}

impl<S: Shelf> Ledger<S> {
    /// The hold of expiry, if there is one.
    pub fn expiry_hold(&self) -> Option<ExpiryHold> {
        read(self.documents.get(&(OWN_ACCOUNT, expiry_hold()))?)
    }

    /// What is due by now was done under the hold before. What a later end of the hold makes due is done with the steps
    /// after this one.
    pub(in crate::ledger) fn hold_expiry(&mut self, now: Timestamp, hold: Option<ExpiryHold>) -> Outcome {
        let (key, bytes) = (expiry_hold(), hold.map(write));
        self.enact(now, &Change::DocumentSet { account: OWN_ACCOUNT, key, bytes });
        Outcome::Done
    }

    /// Makes the hold that the documents tell of hold in every queue.
    pub(in crate::ledger) fn follow_expiry_hold(&mut self) {
        let through = self.expiry_hold().map_or(Timestamp::NEVER, |hold| hold.through);
        if through == self.expiry_through {
            return;
        }
        self.expiry_through = through;
        for book in self.books.values_mut() {
            book.expire_through(through);
            list(&mut self.due, book);
        }
    }
}

fn write(hold: ExpiryHold) -> Bytes {
    let until = match hold.until {
        HoldEnd::Confirmed => 0,
        HoldEnd::Settled => 1,
    };
    let mut bytes = hold.through.0.to_be_bytes().to_vec();
    bytes.push(until);
    bytes.into()
}

fn read(bytes: &Bytes) -> Option<ExpiryHold> {
    let (through, rest) = bytes.split_first_chunk::<8>()?;
    let until = match rest {
        [1] => HoldEnd::Settled,
        // Of a kind that this program does not know: a person decides.
        _ => HoldEnd::Confirmed,
    };
    Some(ExpiryHold { through: Timestamp(u64::from_be_bytes(*through)), until })
}
