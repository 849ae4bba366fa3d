//! Messages that an operator chooses by what they are: counted, and moved a bounded number at a time.
//!
//! A look reads a bounded number of messages and keeps the receipts of those that fit; steps then move them. What is
//! asked of their contents is asked between the two, outside every lock. A message that is leased by then, or was since
//! the look, stays: a step takes only newest receipts. So a message is moved once, by whatever looks, steps and
//! restarts.

use std::collections::VecDeque;

use kew_core::command::{Browse, MoveChosen, StateKind};
use kew_core::outcome::{Page, Seen};
use kew_core::{LeaseToken, QueueId, QueueKey, RuleError, Sequence, State, ask};

use crate::{Engine, EngineError};

/// Slices that one count takes at most: about a million messages, or a GiB of bodies.
const COUNTED_SLICES_MAX: u32 = 1_000;
/// Messages that one slice looks at.
const LOOK_MAX: u32 = 1_000;

/// What a count found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Matching {
    /// Messages that fit and could be moved now.
    pub messages: u64,
    /// Messages that fit and have no queue to go to: none is their origin, it was deleted, or it is of the other kind.
    pub stranded: u64,
    /// The last of both.
    pub last: Option<Sequence>,
    /// Where the messages begin that were not looked at; `None` when all were.
    pub next: Option<Sequence>,
}

/// Which messages are looked for.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Which messages are looked at, from which on: of those that are visible. `max` bounds how many are brought.
    pub browse: Browse,
    /// None behind this one is moved.
    pub through: Sequence,
}

/// What a look found: messages that may be moved in as many steps as wanted, without another look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chosen {
    /// The messages, in the order of sends, by their newest receipts.
    pub messages: VecDeque<(Sequence, LeaseToken)>,
    /// Where the next look begins; `None` when this was the last.
    pub next: Option<Sequence>,
}

/// What one step came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovedSlice {
    /// Messages that were moved.
    pub moved: u64,
    /// Messages that were leased, deleted or moved by others between the look and the step.
    pub passed_by: u64,
    /// Messages that have no queue to go to: none is their origin, it was deleted, or it is of the other kind.
    pub stranded: u64,
}

impl Engine {
    /// Counts the visible messages that fit, on their way to a queue, or without one each to its origin: of a very long
    /// queue only its beginning. Changes nothing.
    pub async fn count_matching(
        &self,
        browse: &Browse,
        destination: Option<&QueueKey>,
        is_wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Matching, EngineError> {
        let source = self.queue_by_id(browse.queue).ok_or(RuleError::QueueNotFound)?;
        let is_fifo = source.policy.kind.is_fifo();
        let has_way = |seen: &Seen| {
            let to = destination.or(seen.message.origin.as_ref().map(|origin| &origin.queue));
            to.and_then(|key| self.queue(key)).is_some_and(|to| to.policy.kind.is_fifo() == is_fifo)
        };
        let mut found = Matching { next: Some(browse.from), ..Matching::default() };
        for _ in 0..COUNTED_SLICES_MAX {
            let Some(from) = found.next else { break };
            let Page { messages, next } = self.look_at(browse, from, LOOK_MAX).await?;
            for seen in messages.iter().filter(|seen| may_move(seen) && is_wanted(seen)) {
                *(if has_way(seen) { &mut found.messages } else { &mut found.stranded }) += 1;
                found.last = Some(seen.message.sequence);
            }
            found.next = next;
            tokio::task::yield_now().await;
        }
        Ok(found)
    }

    /// Looks for visible messages that fit, among a bounded number. Changes nothing.
    pub async fn choose(
        &self,
        slice: &Slice,
        is_wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Chosen, EngineError> {
        let browse = &slice.browse;
        let Page { messages, next } = self.look_at(browse, browse.from, browse.max).await?;
        let wanted = messages
            .iter()
            .filter(|seen| seen.message.sequence <= slice.through && may_move(seen) && is_wanted(seen));
        let messages = wanted.map(|seen| (seen.message.sequence, seen.token)).collect();
        Ok(Chosen { messages, next: next.filter(|next| *next <= slice.through) })
    }

    /// Moves messages that a look found, each for itself, to a queue; without one, each to its origin.
    pub async fn move_these(
        &self,
        source: QueueId,
        destination: Option<QueueKey>,
        tokens: Vec<LeaseToken>,
    ) -> Result<MovedSlice, EngineError> {
        let mut slice = MovedSlice::default();
        if tokens.is_empty() {
            return Ok(slice);
        }
        for moved in self.move_chosen(MoveChosen { source, destination, tokens }).await? {
            match moved {
                Ok(_) => slice.moved += 1,
                Err(RuleError::QueueNotFound | RuleError::KindChange) => slice.stranded += 1,
                Err(_) => slice.passed_by += 1,
            }
        }
        Ok(slice)
    }

    async fn look_at(&self, browse: &Browse, from: Sequence, max: u32) -> Result<Page, EngineError> {
        let state = Some(StateKind::Visible);
        let max = max.clamp(1, LOOK_MAX);
        self.answer::<ask::Browse>(Browse { from, state, max, look_max: LOOK_MAX, ..browse.clone() }).await
    }
}

/// Whether a message could be moved: what cannot be read stays where it is.
fn may_move(seen: &Seen) -> bool {
    seen.is_readable && seen.message.state == State::Ready
}
