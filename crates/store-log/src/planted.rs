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
pub use seeded::{WhileBounded, WhilePlanted, let_depart, planted, take_departed, take_newest_batch};

#[cfg(feature = "planted")]
pub(crate) use seeded::{has_room_for_due, note_newest_batch};

#[cfg(feature = "planted")]
mod seeded {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static NEWEST_BATCH: Cell<Option<u64>> = const { Cell::new(None) };
        static DEPARTED: Cell<Departed> = const { Cell::new(Departed { with_room: 0, is_out: false }) };
        static MAY_DEPART: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Departures of dead letters that asked for room.
    #[derive(Clone, Copy, Default)]
    struct Departed {
        /// Those that found it, before the first that did not.
        with_room: u32,
        is_out: bool,
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

    /// How many dead letters found room for their departure in the steps of this thread since this was last asked,
    /// before the first that found none; `None` when all of them did.
    pub fn take_departed() -> Option<u32> {
        let departed = DEPARTED.take();
        departed.is_out.then_some(departed.with_room)
    }

    /// This number of dead letters find room in stores that this thread drives, and no more do, until the answer is
    /// dropped. With `None` all do that have room.
    pub fn let_depart(most: Option<u32>) -> WhileBounded {
        MAY_DEPART.set(most);
        WhileBounded(PhantomData)
    }

    /// The departures of dead letters are bounded while this lives.
    #[must_use]
    pub struct WhileBounded(PhantomData<*const ()>);

    impl Drop for WhileBounded {
        fn drop(&mut self) {
            MAY_DEPART.set(None);
        }
    }

    pub(crate) fn has_room_for_due(has_room: bool) -> bool {
        let has_room = match MAY_DEPART.get() {
            Some(left) => {
                MAY_DEPART.set(Some(left.saturating_sub(1)));
                left > 0
            }
            None => has_room,
        };
        let mut departed = DEPARTED.get();
        departed.is_out |= !has_room;
        departed.with_room += u32::from(!departed.is_out);
        DEPARTED.set(departed);
        has_room
    }
}
