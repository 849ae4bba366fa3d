//! The lock that every step takes. Nothing is read from a segment while it is held: that would make all callers wait
//! for the disk. In tests each such read fails.

use std::ops::{Deref, DerefMut};

use kew_store::ledger::Ledger;
use kew_timed::Stretch;
use parking_lot::MutexGuard;

use super::shelf::LogShelf;
use crate::turns::{self, Lock, StepLockHeld};

/// Guards the ledger and the batch being filled.
pub(crate) struct Writer(Lock<Ledger<LogShelf>>);

/// The ledger, for as long as its lock is held.
pub(crate) struct Writing<'a> {
    _held: StepLockHeld,
    ledger: MutexGuard<'a, Ledger<LogShelf>>,
    _stretch: Option<Stretch>,
}

impl Writer {
    pub fn new(ledger: Ledger<LogShelf>) -> Self {
        Self(Lock::new(ledger))
    }

    #[inline]
    pub fn lock(&self) -> Writing<'_> {
        let ledger = self.0.lock();
        Writing {
            _held: StepLockHeld::begin(),
            ledger,
            _stretch: turns::stretch("a hold of the store's lock"),
        }
    }
}

impl Deref for Writing<'_> {
    type Target = Ledger<LogShelf>;

    #[inline]
    fn deref(&self) -> &Ledger<LogShelf> {
        &self.ledger
    }
}

impl DerefMut for Writing<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Ledger<LogShelf> {
        &mut self.ledger
    }
}
