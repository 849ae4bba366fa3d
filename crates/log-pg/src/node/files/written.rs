//! Which large files were written to since a move began to copy them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Files by id, while a move wants to know. A later move ends an earlier one: each file is handed to one of them.
#[derive(Default)]
pub(crate) struct Written {
    is_wanted: AtomicBool,
    since: Mutex<Since>,
}

#[derive(Default)]
struct Since {
    /// Numbers moves, from 1.
    newest: u64,
    files: BTreeSet<i64>,
}

impl Written {
    /// Notes files from now on, for a move whose number is the answer.
    pub fn begin(&self) -> u64 {
        let mut since = self.since.lock();
        since.newest += 1;
        since.files.clear();
        self.is_wanted.store(true, Ordering::SeqCst);
        since.newest
    }

    /// Notes no more, unless a later move has begun.
    pub fn end(&self, number: u64) {
        let mut since = self.since.lock();
        if since.newest == number {
            self.is_wanted.store(false, Ordering::SeqCst);
            since.files.clear();
        }
    }

    /// A row of a file was handed over, or some were cut off. Called after that: who takes the files and then waits
    /// until all that was handed over is there misses none.
    pub fn note(&self, file: i64) {
        if self.is_wanted.load(Ordering::SeqCst) {
            self.since.lock().files.insert(file);
        }
    }

    /// The files written to since the last call; `None` for a move that has ended.
    pub fn take(&self, number: u64) -> Option<BTreeSet<i64>> {
        let mut since = self.since.lock();
        let is_newest = since.newest == number && self.is_wanted.load(Ordering::SeqCst);
        is_newest.then(|| std::mem::take(&mut since.files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_noted_while_they_are_wanted_and_taken_once() {
        let written = Written::default();
        written.note(1);
        let first = written.begin();
        for file in [3, 2, 3] {
            written.note(file);
        }
        assert_eq!(written.take(first), Some(BTreeSet::from([2, 3])));
        assert_eq!(written.take(first), Some(BTreeSet::new()));
        written.note(4);
        written.end(first);
        written.note(5);
        assert_eq!(written.take(first), None);
    }

    #[test]
    fn end_of_an_earlier_move_is_not_that_of_a_later_one() {
        let written = Written::default();
        let first = written.begin();
        written.note(1);
        let second = written.begin();
        written.note(2);
        assert_eq!(written.take(first), None);
        written.end(first);
        written.note(3);
        assert_eq!(written.take(second), Some(BTreeSet::from([2, 3])));
    }
}
