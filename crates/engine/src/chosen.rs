//! Messages that an operator chooses by what they are: counted, and moved a bounded slice at a time.
//!
//! A slice is one look at a bounded number of messages and one step that moves the chosen ones among them. What is
//! asked of their contents is asked between the two, outside every lock. A message that is leased by then, or was since
//! the look, stays: the step takes only newest receipts. So a message is moved once, by whatever slices and restarts.

use kew_core::command::{Browse, MoveChosen, StateKind};
use kew_core::outcome::{Page, Seen};
use kew_core::{QueueKey, RuleError, Sequence, State, ask};

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
    /// The last of them.
    pub last: Option<Sequence>,
    /// Where the messages begin that were not looked at; `None` when all were.
    pub next: Option<Sequence>,
}

/// Which messages a slice moves, and where to.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Which messages are looked at, from which on: of those that are visible.
    pub browse: Browse,
    /// None behind this one is moved.
    pub through: Sequence,
    /// Where to; `None` returns each to its origin.
    pub destination: Option<QueueKey>,
    /// Messages that are moved at most.
    pub max: u32,
}

/// What one slice came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovedSlice {
    /// Messages that were moved.
    pub moved: u64,
    /// Messages that were leased, deleted or moved by others between the look and the step.
    pub passed_by: u64,
    /// Messages that have no queue to go to: none is their origin, it was deleted, or it is of the other kind.
    pub stranded: u64,
    /// Where the next slice begins; `None` when this was the last.
    pub next: Option<Sequence>,
}

impl Engine {
    /// Counts the visible messages that fit: of a very long queue only its beginning. Changes nothing.
    pub async fn count_matching(
        &self,
        browse: &Browse,
        is_wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Matching, EngineError> {
        let mut found = Matching { next: Some(browse.from), ..Matching::default() };
        for _ in 0..COUNTED_SLICES_MAX {
            let Some(from) = found.next else { break };
            let Page { messages, next } = self.look_at(browse, from).await?;
            for seen in messages.iter().filter(|seen| may_move(seen) && is_wanted(seen)) {
                found.messages += 1;
                found.last = Some(seen.message.sequence);
            }
            found.next = next;
            tokio::task::yield_now().await;
        }
        Ok(found)
    }

    /// Moves the visible messages of one slice that fit, each for itself.
    pub async fn move_matching(
        &self,
        slice: Slice,
        is_wanted: impl Fn(&Seen) -> bool,
    ) -> Result<MovedSlice, EngineError> {
        let Slice { browse, through, destination, max } = slice;
        let Page { messages, next } = self.look_at(&browse, browse.from).await?;
        let (mut tokens, mut next) = (Vec::new(), next);
        for seen in &messages {
            if seen.message.sequence > through || !may_move(seen) || !is_wanted(seen) {
                continue;
            }
            if tokens.len() >= max as usize {
                next = Some(seen.message.sequence);
                break;
            }
            tokens.push(seen.token);
        }
        let next = next.filter(|next| *next <= through);
        let moved = MovedSlice { next, ..MovedSlice::default() };
        if tokens.is_empty() {
            return Ok(moved);
        }
        self.move_these(MoveChosen { source: browse.queue, destination, tokens }, moved).await
    }

    async fn look_at(&self, browse: &Browse, from: Sequence) -> Result<Page, EngineError> {
        let (state, max) = (Some(StateKind::Visible), LOOK_MAX);
        self.answer::<ask::Browse>(Browse { from, state, max, look_max: LOOK_MAX, ..browse.clone() }).await
    }

    async fn move_these(&self, chosen: MoveChosen, mut slice: MovedSlice) -> Result<MovedSlice, EngineError> {
        for moved in self.move_chosen(chosen).await? {
            match moved {
                Ok(_) => slice.moved += 1,
                Err(RuleError::QueueNotFound | RuleError::KindChange) => slice.stranded += 1,
                Err(_) => slice.passed_by += 1,
            }
        }
        Ok(slice)
    }
}

/// Whether a message could be moved: what cannot be read stays where it is.
fn may_move(seen: &Seen) -> bool {
    seen.is_readable && seen.message.state == State::Ready
}
