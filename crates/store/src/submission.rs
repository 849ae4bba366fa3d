//! A step on its way: applied, and waiting to be as durable as its answer promises.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use kew_core::{Outcome, QueueId};
use smallvec::SmallVec;

use crate::StoreError;

/// Stands among the freed queues of a step that left messages for another shard. No queue has this number.
pub const SOMETHING_IS_OWED: QueueId = QueueId(0);

/// Number of a batch: 1 for the first of a store, then without a gap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    /// Before the first batch: what is durable, or reflected, when no batch is.
    pub const BEFORE_FIRST: Self = Self(0);
    /// The first batch of a store.
    pub const FIRST: Self = Self(1);

    /// The next batch.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The batch before it; [`BatchNumber::BEFORE_FIRST`] has none and stays.
    #[inline]
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for BatchNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How far a gate is, or has to be for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Through {
    /// This batch, and so all before it, is written.
    pub written: BatchNumber,
    /// As far as this every batch that must be synced is.
    pub open: BatchNumber,
}

impl Through {
    /// The batch is written, and as durable as its answers promise.
    #[inline]
    pub const fn batch(batch: BatchNumber) -> Self {
        Self { written: batch, open: batch }
    }
}

/// Opens for batch after batch, in order. Where steps wait for room it counts the rooms that were made, in place of
/// batches.
pub trait Gate: Send + Sync {
    /// Ready once the gate has opened for the batch, or the room, of this number; or never will.
    fn poll_open(&self, turn: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>>;

    /// Ready once the gate has come so far, or never will. `wanted.open` is `wanted.written` or an earlier batch.
    fn poll_through(&self, wanted: Through, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        self.poll_open(wanted.written.0, cx)
    }
}

/// What is missing of an answer: bodies that are not in memory, and are being read. Dropped, they are not read any
/// more.
pub trait Unread: Send {
    /// Ready once all is read. What was read is in the answer then; what cannot be read is taken out of it.
    fn poll_unread(&mut self, result: &mut Result<Outcome, StoreError>, cx: &mut Context<'_>) -> Poll<()>;

    /// Bytes that are on their way, about.
    fn bytes(&self) -> usize;
}

/// Queues in which a step may have made messages available.
pub type Freed = SmallVec<[QueueId; 2]>;

/// One step's answer, released when it may be relied on.
pub struct Submission {
    /// Queues in which this step may have made messages available; waiting receives may be served from them at once.
    pub freed: Freed,
    /// What was done, until it is answered; nothing while it is only known elsewhere.
    result: Option<Result<Outcome, StoreError>>,
    wait: Wait,
}

/// What an answer waits for.
pub enum Wait {
    /// It may be answered at once.
    Nothing,
    /// That the batch with its records is written, and that the gate has opened for the newest batch it rests on:
    /// that one, or an earlier one.
    Gate {
        /// These two batches.
        wanted: Through,
        /// Who knows.
        gate: Arc<dyn Gate>,
    },
    /// That what stood in the way has been worked on: the step was refused and changed nothing, and may be taken again.
    Again {
        /// The gate opens for it then.
        turn: u64,
        /// Who knows.
        gate: Arc<dyn Gate>,
    },
    /// Something else first, and then that the rest of it is read.
    Unread {
        /// What it waits for beside that. Both go on at once.
        first: Box<Wait>,
        /// What is still to be read.
        unread: Box<dyn Unread>,
    },
    /// That it comes from elsewhere.
    Remote(Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send>>),
}

impl Submission {
    /// An answer, or a refusal, that waits for something; and the queues in which messages may have become available.
    #[inline]
    pub fn new(result: Result<Outcome, StoreError>, wait: Wait, freed: Freed) -> Self {
        Self { freed, result: Some(result), wait }
    }

    /// An answer that waits for nothing.
    pub fn settled(result: Result<Outcome, StoreError>) -> Self {
        Self::new(result, Wait::Nothing, SmallVec::new())
    }

    /// An answer that waits until `gate` has opened for `batch`.
    pub fn applied(outcome: Outcome, batch: BatchNumber, gate: Arc<dyn Gate>) -> Self {
        Self::new(Ok(outcome), Wait::Gate { wanted: Through::batch(batch), gate }, SmallVec::new())
    }

    /// An answer that comes from elsewhere.
    pub fn remote(answer: impl Future<Output = Result<Outcome, StoreError>> + Send + 'static) -> Self {
        Self { freed: SmallVec::new(), result: None, wait: Wait::Remote(Box::pin(answer)) }
    }

    /// A step that was put off: the refusal is answered when `gate` has opened for `turn`, and by then the step may
    /// succeed.
    pub fn put_off(error: StoreError, turn: u64, gate: Arc<dyn Gate>) -> Self {
        Self::new(Err(error), Wait::Again { turn, gate }, SmallVec::new())
    }

    /// Whether the step was only put off: once this resolves it is worth taking it again.
    #[inline]
    pub fn is_put_off(&self) -> bool {
        matches!(self.wait, Wait::Again { .. })
    }

    /// The same, with the queues it may have made messages available in.
    pub fn freeing(mut self, freed: Freed) -> Self {
        self.freed = freed;
        self
    }

    /// Whether it may be answered at once.
    #[inline]
    pub fn waits_for_nothing(&self) -> bool {
        matches!(self.wait, Wait::Nothing)
    }

    /// The same, answered only after `last` has been asked once more, at the end of all it waits for. `last` opens
    /// whenever the gate it stands before does, and may refuse.
    pub fn behind(mut self, last: &Arc<dyn Gate>) -> Self {
        match &mut self.wait {
            Wait::Gate { gate, .. } => *gate = Arc::clone(last),
            Wait::Unread { first, .. } => match &mut **first {
                Wait::Gate { gate, .. } => *gate = Arc::clone(last),
                Wait::Nothing => {
                    let wanted = Through::batch(BatchNumber::BEFORE_FIRST);
                    **first = Wait::Gate { wanted, gate: Arc::clone(last) };
                }
                Wait::Again { .. } | Wait::Unread { .. } | Wait::Remote(_) => {}
            },
            // Answered in this very moment, a refusal, or known elsewhere.
            Wait::Nothing | Wait::Again { .. } | Wait::Remote(_) => {}
        }
        self
    }

    /// Bytes of its messages that are still being read.
    #[inline]
    pub fn bytes_on_their_way(&self) -> usize {
        match &self.wait {
            Wait::Unread { unread, .. } => unread.bytes(),
            _ => 0,
        }
    }

    /// What was done, where that is known before it is durable. Not to be answered to a client: a message that is
    /// still being read has its place and its receipt, but neither id nor body.
    #[inline]
    pub fn peek(&self) -> Option<&Outcome> {
        self.result.as_ref()?.as_ref().ok()
    }
}

impl Future for Submission {
    type Output = Result<Outcome, StoreError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.wait {
            Wait::Nothing => {}
            Wait::Gate { wanted, gate } => ready!(gate.poll_through(*wanted, cx))?,
            Wait::Again { turn, gate } => ready!(gate.poll_open(*turn, cx))?,
            Wait::Remote(answer) => return answer.as_mut().poll(cx),
            Wait::Unread { .. } => ready!(self.poll_unread(cx))?,
        }
        Poll::Ready(self.result.take().expect("a submission is polled to its end once"))
    }
}

impl Submission {
    #[cold]
    fn poll_unread(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let Self { wait: Wait::Unread { first, unread }, result: Some(result), .. } = self else {
            return Poll::Ready(Ok(()));
        };
        match &**first {
            Wait::Gate { wanted, gate } => ready!(gate.poll_through(*wanted, cx))?,
            Wait::Again { turn, gate } => ready!(gate.poll_open(*turn, cx))?,
            Wait::Nothing | Wait::Unread { .. } | Wait::Remote(_) => {}
        }
        unread.poll_unread(result, cx).map(Ok)
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits_for = match &self.wait {
            Wait::Nothing => "nothing",
            Wait::Gate { .. } => "its batch",
            Wait::Again { .. } => "another try",
            Wait::Unread { .. } => "bodies that are being read",
            Wait::Remote(_) => "an answer from elsewhere",
        };
        f.debug_struct("Submission").field("waits_for", &waits_for).field("freed", &self.freed).finish()
    }
}
