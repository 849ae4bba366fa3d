//! What an operator looks for among the messages of a queue, in slices that hold no other request up.
//!
//! Each slice is one bounded step of the store. Between two slices other steps are taken, and what is asked of a
//! message's content is asked here, outside every lock. A message that is in the queue all the while is met once,
//! whatever becomes of it meanwhile: slices follow the order of sends.

use kew_core::command::Browse;
use kew_core::outcome::{Page, Seen};
use kew_core::{MessageId, QueueId, Sequence, ask};

use crate::{Engine, EngineError};

/// Slices that one call takes at most: about a hundred thousand messages. The answer says where to go on.
const SLICES_MAX: u32 = 100;
/// Messages of which one slice brings the contents when not all of them are wanted.
const SLICE: u32 = 1_000;
/// Bytes of bodies and annotations that one call answers at most; the first message always fits.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What a search for one message came to.
#[derive(Clone, PartialEq, Debug)]
pub enum Search {
    /// It is there.
    Found(Box<Seen>),
    /// It is not in the queue.
    Missing,
    /// The queue is long: the search goes on from here.
    Unfinished(Sequence),
}

impl Engine {
    /// At most `browse.max` messages for which `is_wanted` says so, in the order of sends, and where the next ones
    /// begin. Maybe none, though more follow: one call looks at a bounded number of messages. Changes nothing.
    pub async fn browse(
        &self,
        browse: Browse,
        is_wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Page, EngineError> {
        let max = browse.max.max(1) as usize;
        let (mut page, mut bytes) = (Page { messages: Vec::new(), next: Some(browse.from) }, 0);
        // As long as every message is wanted, no more are read than the page has room for.
        let mut are_all_wanted = true;
        for _ in 0..SLICES_MAX {
            let Some(from) = page.next else { break };
            let room = u32::try_from(max - page.messages.len()).unwrap_or(u32::MAX);
            let slice_max = if are_all_wanted { room } else { SLICE };
            let slice = Browse { from, max: slice_max, ..browse.clone() };
            let Page { messages, next } = self.answer::<ask::Browse>(slice).await?;
            page.next = next;
            for seen in messages {
                if !is_wanted(&seen) {
                    are_all_wanted = false;
                    continue;
                }
                let content = &seen.message.content;
                let length = content.body.len() + content.annotations.len();
                let has_room = page.messages.is_empty() || bytes + length <= ANSWER_BYTES_MAX;
                if page.messages.len() >= max || !has_room {
                    page.next = Some(seen.message.sequence);
                    return Ok(page);
                }
                bytes += length;
                page.messages.push(seen);
            }
            if page.messages.len() >= max {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(page)
    }

    /// One slice of a queue's messages, whatever it holds. Changes nothing.
    pub async fn glance(&self, slice: Browse) -> Result<Page, EngineError> {
        self.answer::<ask::Browse>(slice).await
    }

    /// The message of this id in a queue, looked for from one sequence on.
    pub async fn find_message(
        &self,
        queue: QueueId,
        id: MessageId,
        from: Sequence,
    ) -> Result<Search, EngineError> {
        let browse = Browse { from, ..Browse::of(queue, 1) };
        let mut page = self.browse(browse, |seen| seen.message.id == id).await?;
        Ok(match (page.messages.pop(), page.next) {
            (Some(seen), _) => Search::Found(Box::new(seen)),
            (None, None) => Search::Missing,
            (None, Some(next)) => Search::Unfinished(next),
        })
    }
}
