//! Faults that tests plant in this crate, to see that they are found. A program is built without them.
//!
//! Each is a mistake in fencing: in how an old owner is kept from writing and answering, or in how the outcome of an
//! append is found out.

/// A mistake that the log makes on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(feature = "simulated"),
    allow(dead_code, reason = "some are planted in the simulated database")
)]
pub enum Planted {
    /// An insert locks the shard's row for key share, which a take-over that locks as its update does need not wait
    /// for.
    KeyShare,
    /// Mending ends without a synchronous commit.
    NoBarrier,
    /// An owner judges its tenure by the node's clock, which may be set.
    WallClock,
    /// A batch counts as durable when its statement is sent.
    AnswerBeforeFrame,
    /// Reads are answered whichever node owns the shard.
    ReadsWithoutTenure,
    /// A take-over leaves the epoch as it is.
    EpochNotRaised,
    /// A renewal counts from its answer.
    TenureFromAnswer,
    /// Mending inserts rows without looking at the epoch.
    MendsUnfenced,
    /// Progress is reported across a row whose commit has not ended.
    ProgressAcrossGap,
    /// Progress is reported also when the tenure has ended, and what it answers is given out.
    ProgressAfterTenure,
    /// An append that takes long is cancelled and counts as done.
    AppendTimesOut,
    /// A take-over does not wait for inserts under way.
    TakeOverDoesNotWait,
    /// Taking and renewing commit as the database's settings say, which may be asynchronously.
    TenureUnsynced,
    /// A renewal does not lock the shard's row: it may succeed while a take-over is under way.
    RenewalUnlocked,
    /// A renewal that was given up and is carried out late undoes a newer one.
    RenewalUndone,
    /// A shard is given up in the node's row only: a renewal that is carried out later brings that back.
    GivingUpUndone,
    /// Progress that was made while the tenure had ended is not reported when it is renewed.
    ProgressForgotten,
    /// A row that is synced may wait for ever behind one that is only written.
    NoCoveringSync,
    /// A new owner begins with whatever a quarter of a second has shown of the database's clock.
    SlowLooksDo,
    /// An owner answers until the very instant from which another node may take over.
    NoMargin,
    /// After a cut connection it is not looked whether the last durable row is still there.
    LastDurableNotLookedAt,
    /// After a cut connection it is not looked whether what upkeep has written is still there.
    SlicesNotLookedAt,
    /// A file's rows are forgotten, and its table dropped, while they are inserted again.
    ForgetsWhileMending,
    /// Sessions that send nothing, the pool's too, are kept when the lane breaks off.
    IdleSessionsKept,
    /// A statement of a mending is waited for although the lane was asked to look again.
    MendingGoesOn,
    /// Sessions of the pool that do nothing are kept when a lane breaks off.
    PoolSessionsKept,
    /// The listener does not hear of an append that ended behind another that is under way.
    NoNewsOfAnEnd,
    /// It does not hear of a mending behind which there is no progress.
    NoNewsOfMending,
    /// Answers that became ready while the tenure was held are given out after its end.
    AnswersUnchecked,
    /// A row rests on nothing: it is not asked whether the server has what was written before.
    RestsOnNothing,
    /// A row rests on the newest row alone, also where another one was under way beside that.
    RestsOnTheNewest,
    /// A mending ends without a look whether all that it mended is there.
    MendsUnseen,
    /// What an owner does with names has always the same number.
    ActsNotCounted,
}

impl Planted {
    /// Whether the log makes this mistake on this thread.
    #[inline]
    pub(crate) fn is_there(self) -> bool {
        planted() == Some(self)
    }
}

#[cfg(not(feature = "simulated"))]
#[inline]
const fn planted() -> Option<Planted> {
    None
}

#[cfg(feature = "simulated")]
pub use of_thread::{WhilePlanted, set_wall_clock_back};

#[cfg(feature = "simulated")]
use of_thread::planted;

/// Milliseconds that the node's clock was set back by.
#[cfg(not(feature = "simulated"))]
pub(crate) const fn wall_clock_behind() -> u64 {
    0
}

#[cfg(feature = "simulated")]
pub(crate) use of_thread::wall_clock_behind;

#[cfg(feature = "simulated")]
mod of_thread {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static WALL_CLOCK_BEHIND: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn planted() -> Option<Planted> {
        PLANTED.get()
    }

    pub(crate) fn wall_clock_behind() -> u64 {
        WALL_CLOCK_BEHIND.get()
    }

    /// Sets the clock of this thread's nodes back by milliseconds, against the first reading.
    pub fn set_wall_clock_back(milliseconds: u64) {
        WALL_CLOCK_BEHIND.set(milliseconds);
    }

    impl Planted {
        /// Lets logs that this thread drives make this mistake, until the answer is dropped.
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
}
