//! A step on its way: applied, and waiting to be as durable as its answer promises.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kew_core::{Outcome, QueueId};
use smallvec::SmallVec;

use crate::StoreError;

/// Opens for batch after batch, in order.
pub trait Gate: Send + Sync {
    /// Ready once the gate has opened for `batch`, or never will.
    fn poll_open(&self, batch: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>>;

    /// Ready once `batch` is written and the gate has opened for `rests_on`, or never will.
    fn poll_written(&self, batch: u64, rests_on: u64, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        let _is_earlier = rests_on;
        self.poll_open(batch, cx)
    }
}

/// One step's answer, released when it may be relied on.
pub struct Submission {
    /// Queues in which this step may have made messages available; waiting receives may be served from them at once.
    pub freed: SmallVec<[QueueId; 2]>,
    stage: Stage,
}

enum Stage {
    Settled(Option<Result<Outcome, StoreError>>),
    Applied { result: Option<Result<Outcome, StoreError>>, wait: Wait, gate: Arc<dyn Gate> },
    Remote(Pin<Box<dyn Future<Output = Result<Outcome, StoreError>> + Send>>),
}

/// What an answer waits for.
#[derive(Clone, Copy)]
enum Wait {
    Open(u64),
    Written { batch: u64, rests_on: u64 },
}

impl Wait {
    fn poll(self, gate: &dyn Gate, cx: &mut Context<'_>) -> Poll<Result<(), StoreError>> {
        match self {
            Self::Open(batch) => gate.poll_open(batch, cx),
            Self::Written { batch, rests_on } => gate.poll_written(batch, rests_on, cx),
        }
    }
}

impl Submission {
    /// An answer that waits for nothing.
    pub fn settled(result: Result<Outcome, StoreError>) -> Self {
        Self { freed: SmallVec::new(), stage: Stage::Settled(Some(result)) }
    }

    /// An answer that waits until `gate` has opened for `batch`.
    pub fn applied(outcome: Outcome, batch: u64, gate: Arc<dyn Gate>) -> Self {
        Self {
            freed: SmallVec::new(),
            stage: Stage::Applied { result: Some(Ok(outcome)), wait: Wait::Open(batch), gate },
        }
    }

    /// An answer that waits until `batch` is written, and until `gate` has opened for the earlier batch it rests on.
    pub fn written(outcome: Outcome, batch: u64, rests_on: u64, gate: Arc<dyn Gate>) -> Self {
        let wait = Wait::Written { batch, rests_on };
        Self { freed: SmallVec::new(), stage: Stage::Applied { result: Some(Ok(outcome)), wait, gate } }
    }

    /// A refusal that rests on something which is not durable yet: it waits until `gate` has opened for `batch`.
    pub fn refused(error: StoreError, batch: u64, gate: Arc<dyn Gate>) -> Self {
        Self {
            freed: SmallVec::new(),
            stage: Stage::Applied { result: Some(Err(error)), wait: Wait::Open(batch), gate },
        }
    }

    /// An answer that comes from elsewhere.
    pub fn remote(answer: impl Future<Output = Result<Outcome, StoreError>> + Send + 'static) -> Self {
        Self { freed: SmallVec::new(), stage: Stage::Remote(Box::pin(answer)) }
    }

    /// The same, with the queues it may have made messages available in.
    pub fn freeing(mut self, freed: SmallVec<[QueueId; 2]>) -> Self {
        self.freed = freed;
        self
    }

    /// What was done, where that is known before it is durable. Not to be told to anyone outside.
    pub fn peek(&self) -> Option<&Outcome> {
        match &self.stage {
            Stage::Settled(Some(Ok(outcome))) => Some(outcome),
            Stage::Applied { result, .. } => result.as_ref()?.as_ref().ok(),
            Stage::Settled(_) | Stage::Remote(_) => None,
        }
    }
}

impl Future for Submission {
    type Output = Result<Outcome, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.stage {
            Stage::Settled(result) => {
                Poll::Ready(result.take().expect("a submission is polled to its end once"))
            }
            Stage::Applied { result, wait, gate } => match wait.poll(&**gate, cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {
                    Poll::Ready(result.take().expect("a submission is polled to its end once"))
                }
            },
            Stage::Remote(answer) => answer.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Settled(_) => "settled",
            Stage::Applied { .. } => "applied",
            Stage::Remote(_) => "remote",
        };
        f.debug_struct("Submission").field("stage", &stage).field("freed", &self.freed).finish()
    }
}
