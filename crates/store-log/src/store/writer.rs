//! The lock that every step takes. Nothing is read from a segment while it is held: that would make all callers wait
//! for the disk. In tests each such read fails.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use kew_store::ledger::Ledger;
use kew_timed::Stretch;
use parking_lot::MutexGuard;

use super::shelf::LogShelf;
use crate::turns::{self, Lock, StepLockHeld};

/// Guards the ledger and the batch being filled.
pub(crate) struct Writer<T = Ledger<LogShelf>> {
    ledger: Lock<T>,
    /// Threads that wait for the lock, without those of [`Writer::lock_beside`].
    waiting: AtomicUsize,
}

/// The ledger, for as long as its lock is held.
pub(crate) struct Writing<'a, T = Ledger<LogShelf>> {
    _held: StepLockHeld,
    ledger: MutexGuard<'a, T>,
    _stretch: Option<Stretch>,
}

impl<T> Writer<T> {
    pub fn new(ledger: T) -> Self {
        Self { ledger: Lock::new(ledger), waiting: AtomicUsize::new(0) }
    }

    #[inline]
    pub fn lock(&self) -> Writing<'_, T> {
        Writing::new(self.ledger.try_lock().unwrap_or_else(|| self.wait()))
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let ledger = kew_timed::wait("a wait for the store's lock", || self.ledger.lock());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        ledger
    }

    /// For work beside the steps, which takes the lock many times in a row: not while another thread waits for it. That
    /// one, woken, would find the lock taken again before it had a core, up to hundreds of times. Every hold is short:
    /// threads wait for moments, and this work has its turn.
    pub fn lock_beside(&self) -> Writing<'_, T> {
        turns::rest_while(|| self.waiting.load(Ordering::Relaxed) > 0);
        Writing::new(self.ledger.lock())
    }
}

impl<'a, T> Writing<'a, T> {
    #[inline]
    fn new(ledger: MutexGuard<'a, T>) -> Self {
        Self { _held: StepLockHeld::begin(), ledger, _stretch: turns::stretch("a hold of the store's lock") }
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.ledger
    }
}

impl<T> DerefMut for Writing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_has_the_lock_before_the_work_beside_takes_it_again() {
        let writer = Writer::new(0);
        for round in 0..100 {
            let held = writer.lock_beside();
            std::thread::scope(|scope| {
                scope.spawn(|| *writer.lock() += 1);
                while writer.waiting.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                drop(held);
                assert_eq!(*writer.lock_beside(), round + 1);
            });
        }
    }
}
