//! Figures of a link, for metrics and tests.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a link has done so far, and what waits on it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Requests of this side that were put into frames.
    pub asked: u64,
    /// Requests of the other side that were answered.
    pub answered: u64,
    /// Writes to the stream that took bytes.
    pub writes: u64,
    /// Reads from the stream that gave bytes.
    pub reads: u64,
    /// Bytes that wait to be written now.
    pub out_waiting: u64,
    /// Requests of the other side that are being served now.
    pub serving: u64,
}

/// The same, written by the connection and read by others.
#[derive(Debug, Default)]
pub struct Figures {
    asked: AtomicU64,
    answered: AtomicU64,
    writes: AtomicU64,
    reads: AtomicU64,
    out_waiting: AtomicU64,
    serving: AtomicU64,
}

impl Figures {
    /// Replaces all of them.
    pub fn set(&self, counted: &Counted) {
        let Counted { asked, answered, writes, reads, out_waiting, serving } = *counted;
        self.asked.store(asked, Ordering::Relaxed);
        self.answered.store(answered, Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
        self.reads.store(reads, Ordering::Relaxed);
        self.out_waiting.store(out_waiting, Ordering::Relaxed);
        self.serving.store(serving, Ordering::Relaxed);
    }

    /// What they are now.
    pub fn get(&self) -> Counted {
        Counted {
            asked: self.asked.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            out_waiting: self.out_waiting.load(Ordering::Relaxed),
            serving: self.serving.load(Ordering::Relaxed),
        }
    }
}
