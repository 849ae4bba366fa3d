//! Faults that tests plant in the store, to see that they are found. A program is built without them.
//!
//! Each is a mistake that was made once or nearly, and most are a step between two halves of a commit or a checkpoint,
//! which no test that stops the store between its calls can see.

/// A mistake that the store makes on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A sync opens the gate for batches that were written while it ran.
    GateOpensTooFar,
    /// A checkpoint counts before the batches that its slices reflect are synced.
    ManifestBeforeSync,
    /// A checkpoint lists the generations of deduplication ids before it writes the queues.
    GenerationsFirst,
    /// Old checkpoints are removed before it is durable which one counts.
    SweepBeforeFolderSync,
    /// A batch that is written while a sync runs may sync the same file at the same time. Only one of the two gets the
    /// error of a sync that fails.
    ErrorReportedOnce,
    /// The event loop that hands appends over does not hear that one has ended.
    LoopNotRung,
    /// What filled behind an append stays where it is when the event loop that hands appends over ends.
    LeftByTheLoop,
}

impl Planted {
    /// Whether this thread's store makes this mistake.
    #[inline]
    pub(crate) fn is_there(self) -> bool {
        planted() == Some(self)
    }
}

#[cfg(not(feature = "planted"))]
#[inline]
const fn planted() -> Option<Planted> {
    None
}

#[cfg(feature = "planted")]
pub use seeded::{WhilePlanted, planted, take_newest_batch};

#[cfg(feature = "planted")]
pub(crate) use seeded::note_newest_batch;

#[cfg(feature = "planted")]
mod seeded {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static NEWEST_BATCH: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// What is planted in stores that this thread drives.
    pub fn planted() -> Option<Planted> {
        PLANTED.get()
    }

    impl Planted {
        /// Lets stores make this mistake while this thread drives them, until the answer is dropped. The threads of a
        /// schedule take it over from the one that runs it.
        pub fn plant(self) -> WhilePlanted {
            PLANTED.set(Some(self));
            WhilePlanted(PhantomData)
        }
    }

    /// A fault is planted while this lives.
    #[must_use]
    pub struct WhilePlanted(PhantomData<*const ()>);

    impl Drop for WhilePlanted {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }

    /// The newest batch with a record in it, as it was after the last step of this thread since this was last asked;
    /// `None` when there was none, or it was refused before it did anything.
    pub fn take_newest_batch() -> Option<u64> {
        NEWEST_BATCH.take()
    }

    pub(crate) fn note_newest_batch(batch: u64) {
        NEWEST_BATCH.set(Some(batch));
    }
}
