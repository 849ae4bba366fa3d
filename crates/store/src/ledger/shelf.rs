//! Where contents lie and changes are kept: what the store in memory and the log differ in. Logs differ in their disks.

use kew_core::{
    Content, DeduplicationId, GroupId, Message, MessageId, MoveReason, Origin, Sequence, Text, Timestamp,
};

use super::change::Change;
use super::dedup::PUT_AWAY_BYTES;
use crate::StoreError;

/// A place on the shelf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Address(pub u64);

/// Where a record lies, and how many bytes it takes there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Place {
    /// Its address.
    pub address: Address,
    /// All its bytes.
    pub bytes: u32,
}

/// A message's content, as it comes back from the shelf.
#[derive(Clone, PartialEq, Debug)]
pub struct Stored {
    /// The message's id.
    pub id: MessageId,
    /// What it carries.
    pub content: Content,
    /// Its group.
    pub group: Option<GroupId>,
    /// What it was deduplicated by.
    pub deduplication: Option<DeduplicationId>,
}

impl Stored {
    /// What stands for a content that is still being read.
    pub fn on_its_way() -> Self {
        Self { id: MessageId([0; 16]), content: Content::default(), group: None, deduplication: None }
    }

    /// Puts it into the message that it is the content of.
    pub fn fill(self, message: &mut Message) {
        message.id = self.id;
        message.content = self.content;
        message.group = self.group;
        message.deduplication = deduplicated_by(self.id, self.deduplication, message.origin.as_ref());
    }
}

/// What a message that came from there is deduplicated by. A dead letter is by its own name, so that nothing sent there
/// can swallow it.
#[inline]
pub(super) fn deduplicated_by(
    id: MessageId,
    given: Option<DeduplicationId>,
    origin: Option<&Origin>,
) -> Option<DeduplicationId> {
    let died = origin.is_some_and(|origin| origin.reason == MoveReason::AttemptsExhausted);
    match given {
        Some(_) if died => Some(DeduplicationId(Text::from(id.to_string()))),
        other => other,
    }
}

/// When a change was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// The instant.
    pub at: Timestamp,
    /// Whether it is the first change of its step. What is due is done before a step and never in the middle of one;
    /// replay must do it at the same place, or messages that wake together would wake in another order.
    pub begins_step: bool,
}

/// Keeps changes and contents.
pub trait Shelf {
    /// Makes sure that this number of bytes of new messages can be kept.
    fn room(&mut self, bytes: u64) -> Result<(), StoreError>;

    /// Keeps a change. The place is where its content lies, if the change brings one.
    fn record(&mut self, made: Made, change: &Change<'_>) -> Place;

    /// Whether this number of bytes of changes that no request made can be kept without touching any reserve.
    fn has_room_for_due(&self, bytes: u64) -> bool;

    /// Reads a content back.
    fn read(&mut self, place: Place) -> Result<Stored, StoreError>;

    /// The content of a message that is going to be in the answer. A shelf that would have to wait for a disk may give
    /// [`Stored::on_its_way`] and put the content into the answer later.
    fn fetch(&mut self, _sequence: Sequence, place: Place) -> Result<Stored, StoreError> {
        self.read(place)
    }

    /// Makes sure that a content can be read without waiting. Said before a step that needs several changes anything.
    fn at_hand(&mut self, _place: Place) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reads one deduplication id of a generation that was put away.
    fn recall(&mut self, generation: Timestamp, place: u64) -> Result<[u8; PUT_AWAY_BYTES], StoreError>;

    /// A message rests at this place now.
    fn occupy(&mut self, place: Place);

    /// It no longer does.
    fn vacate(&mut self, place: Place);

    /// A number for what is recorded now. It grows: what has a smaller one becomes durable no later than what has a
    /// greater one.
    fn mark(&self) -> u64;
}
