//! What may be asked of a store: each command is one atomic step.

use std::time::Duration;

use bytes::Bytes;

use crate::event::{Failure, Tag, Words};
use crate::rules::batching;
use crate::{
    AccountId, Content, DeduplicationId, DocumentKey, GroupId, LeaseTerms, LeaseToken, MessageId, NewMessage,
    OwedMessage, OwnerId, Policy, QueueId, QueueKey, ReceiptRule, Sequence, TaskId, Text, Timestamp,
    WhenFree,
};

/// See [`crate::Command::CreateQueue`].
#[derive(Clone, Debug)]
pub struct CreateQueue {
    /// Its name.
    pub key: QueueKey,
    /// Its settings.
    pub policy: Policy,
    /// Its first documents.
    pub documents: Vec<(DocumentKey, Bytes)>,
}

/// See [`crate::Command::UpdateQueue`].
#[derive(Clone, Debug)]
pub struct UpdateQueue {
    /// Which queue.
    pub queue: QueueId,
    /// Refuse when its version is another one.
    pub if_version: Option<u64>,
    /// New settings. Its kind (standard or FIFO) stays.
    pub policy: Option<Policy>,
    /// Documents to write, or to remove.
    pub documents: Vec<(DocumentKey, Option<Bytes>)>,
    /// A new name; rules that name the old one follow in the same step.
    pub rename: Option<QueueKey>,
}

/// See [`crate::Command::DeleteQueue`].
#[derive(Clone, Debug)]
pub struct DeleteQueue {
    /// Which queue.
    pub queue: QueueId,
    /// Refuse when its version is another one.
    pub if_version: Option<u64>,
}

/// See [`crate::Command::Send`].
#[derive(Clone, Debug)]
pub struct Send {
    /// To which queue.
    pub queue: QueueId,
    /// The messages, in order.
    pub messages: Vec<NewMessage>,
    /// Whether the answer tells their receipts. Sealing them costs as much as the rest of what a lease seals, and most
    /// senders never look.
    pub receipts: FirstReceipts,
}

/// Whether a send's answer tells the receipts its messages have until their first lease. They count either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstReceipts {
    /// It does.
    Told,
    /// They are not used.
    Untold,
}

/// What a lease does when as many messages are in flight as allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverLimit {
    /// Refuses.
    Refuse,
    /// Finds nothing.
    FindNothing,
}

/// Whether the first message of a lease is taken when it alone is larger than what is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstMessage {
    /// It is, so that the largest message can be received.
    AlwaysFits,
    /// It stays, and the lease is refused.
    FitsOrStays,
}

/// See [`crate::Command::Lease`].
#[derive(Clone, Debug)]
pub struct Lease {
    /// From which queue.
    pub queue: QueueId,
    /// Maximum number of messages.
    pub max: u32,
    /// Maximum bytes of bodies, all messages together.
    pub body_bytes_max: u64,
    /// What becomes of a first message that is larger.
    pub first: FirstMessage,
    /// On which terms.
    pub terms: LeaseTerms,
    /// When the request arrived: what the cap counts from.
    pub received_at: Timestamp,
    /// A retry of the same receive (FIFO): the same messages again.
    pub attempt: Option<Text>,
    /// Who keeps the lease without an end; `None` is a lease that ends by itself.
    pub owner: Option<OwnerId>,
    /// Maximum number of leases in the queue at once.
    pub in_flight_max: u32,
    /// What to do beyond that.
    pub over_limit: OverLimit,
    /// Who asks, for the history.
    pub by: Tag,
}

impl Lease {
    /// A plain lease of up to `max` messages.
    pub fn of(queue: QueueId, max: u32, received_at: Timestamp) -> Self {
        Self {
            queue,
            max,
            body_bytes_max: 8 << 20,
            first: FirstMessage::AlwaysFits,
            terms: LeaseTerms::default(),
            received_at,
            attempt: None,
            owner: None,
            in_flight_max: 120_000,
            over_limit: OverLimit::FindNothing,
            by: Tag::default(),
        }
    }

    /// Whether a message of this size is taken beside those that are.
    pub fn fits(&self, taken: usize, taken_bytes: u64, next_bytes: u64) -> bool {
        batching::fits(taken, taken_bytes, next_bytes, self.body_bytes_max)
            && (self.first == FirstMessage::AlwaysFits || next_bytes <= self.body_bytes_max)
    }
}

/// See [`crate::Command::Withdraw`].
#[derive(Clone, Debug)]
pub struct Withdraw {
    /// In which queue.
    pub queue: QueueId,
    /// The leases.
    pub tokens: Vec<LeaseToken>,
}

/// See [`crate::Command::Ack`].
#[derive(Clone, Debug)]
pub struct Ack {
    /// In which queue.
    pub queue: QueueId,
    /// Which receipts count.
    pub receipt: ReceiptRule,
    /// The receipts.
    pub tokens: Vec<LeaseToken>,
}

/// See [`crate::Command::Extend`].
#[derive(Clone, Debug)]
pub struct Extend {
    /// In which queue.
    pub queue: QueueId,
    /// Which receipts count.
    pub receipt: ReceiptRule,
    /// What happens to a message that is not leased now.
    pub when_free: WhenFree,
    /// Whether each message gets a new receipt that voids the old ones.
    pub renew: bool,
    /// The leases.
    pub entries: Vec<Extension>,
}

/// One lease to be given another end.
#[derive(Clone, Debug)]
pub struct Extension {
    /// Its receipt.
    pub token: LeaseToken,
    /// How long from now; zero ends it.
    pub length: Duration,
    /// A new content to take the place of the old one, as [`Content::in_place_of`] says.
    pub content: Option<Content>,
}

/// See [`crate::Command::Release`].
#[derive(Clone, Debug)]
pub struct Release {
    /// In which queue.
    pub queue: QueueId,
    /// Which receipts count.
    pub receipt: ReceiptRule,
    /// The leases, each with how long its message stays hidden.
    pub entries: Vec<(LeaseToken, Duration)>,
}

/// See [`crate::Command::Promote`].
#[derive(Clone, Debug)]
pub struct Promote {
    /// In which queue.
    pub queue: QueueId,
    /// Any receipt of each message.
    pub tokens: Vec<LeaseToken>,
}

/// See [`crate::Command::ReleaseOwners`].
#[derive(Clone, Copy, Debug)]
pub struct ReleaseOwners {
    /// The owner that lives.
    pub except: OwnerId,
}

/// Which messages a look is after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// Those a lease could take, in the order it would.
    Ready,
    /// Those hidden by a delay, by when they show.
    Delayed,
    /// Those leased, by when their leases end.
    Leased,
}

/// See [`crate::Command::Peek`].
#[derive(Clone, Debug)]
pub struct Peek {
    /// In which queue.
    pub queue: QueueId,
    /// Which messages.
    pub view: View,
    /// Number of messages to skip first.
    pub skip: u64,
    /// Maximum number of messages.
    pub max: u32,
    /// Maximum bytes of bodies, all messages together; the first message always fits.
    pub body_bytes_max: u64,
}

/// What the messages that somebody browses for are doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateKind {
    /// May be leased now, or waits behind a locked group.
    Visible,
    /// Leased.
    InFlight,
    /// Hidden by a delay.
    Delayed,
}

/// See [`crate::Command::Browse`].
#[derive(Clone, Debug)]
pub struct Browse {
    /// In which queue.
    pub queue: QueueId,
    /// The first sequence to look at: pages follow the order of sends.
    pub from: Sequence,
    /// What they are doing; `None` is anything.
    pub state: Option<StateKind>,
    /// Of this group only.
    pub group: Option<GroupId>,
    /// Leased this often at least.
    pub attempts_min: u32,
    /// Sent at this instant or before it.
    pub sent_through: Timestamp,
    /// Maximum number of messages.
    pub max: u32,
    /// Maximum bytes of bodies, all messages together; the first message always fits.
    pub body_bytes_max: u64,
    /// Maximum number of messages that are looked at, whether they are wanted or not. A page may end earlier: its
    /// `next` says where the following one begins.
    pub look_max: u32,
}

impl Browse {
    /// A page of a queue from its beginning, whatever its messages are doing.
    pub fn of(queue: QueueId, max: u32) -> Self {
        Self {
            queue,
            from: Sequence(0),
            state: None,
            group: None,
            attempts_min: 0,
            sent_through: Timestamp::NEVER,
            max,
            body_bytes_max: 1 << 20,
            look_max: 1_000,
        }
    }
}

/// See [`crate::Command::Groups`].
#[derive(Clone, Debug)]
pub struct Groups {
    /// In which queue.
    pub queue: QueueId,
    /// Where the page begins: what the page before said, or 0.
    pub from: u32,
    /// Only groups whose names begin so.
    pub prefix: Text,
    /// Maximum number of groups.
    pub max: u32,
    /// Maximum number of groups that are looked at, whether they are wanted or not.
    pub look_max: u32,
}

/// See [`crate::Command::FirstSend`].
#[derive(Clone, Debug)]
pub struct FirstSend {
    /// In which queue.
    pub queue: QueueId,
    /// The deduplication id.
    pub id: DeduplicationId,
    /// The group, where ids count for each group alone.
    pub group: Option<GroupId>,
}

/// What events are looked for.
#[derive(Clone, Debug)]
pub enum Traced {
    /// The send of the message of this id.
    Id(MessageId),
    /// Whatever happened to these messages, and the moves that brought them there.
    Places(Vec<(QueueId, Sequence)>),
    /// Whatever happened in this queue.
    Queue(QueueId),
}

/// See [`crate::Command::Trace`].
#[derive(Clone, Debug)]
pub struct Trace {
    /// What is looked for.
    pub what: Traced,
    /// Only events that happened before the one of this number; `None` begins at the newest.
    pub before: Option<u64>,
    /// Maximum number of events that are looked at.
    pub look_max: u32,
}

/// See [`crate::Command::Note`].
#[derive(Clone, Debug)]
pub struct Note {
    /// In which queue.
    pub queue: QueueId,
    /// The messages, each with why its consumer failed.
    pub failures: Vec<(Sequence, Failure, Words)>,
}

/// See [`crate::Command::Identify`].
#[derive(Clone, Copy, Debug)]
pub struct Identify {
    /// In which queue.
    pub queue: QueueId,
    /// Any receipt the message ever had.
    pub token: LeaseToken,
}

/// See [`crate::Command::Purge`].
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Which queue.
    pub queue: QueueId,
}

/// See [`crate::Command::StartMove`].
#[derive(Clone, Debug)]
pub struct StartMove {
    /// The queue to empty.
    pub source: QueueId,
    /// Where to; `None` returns each message to its origin.
    pub destination: Option<QueueKey>,
    /// Messages a second; `None` is as fast as possible.
    pub rate_max: Option<u32>,
    /// Refuse when this number of tasks runs on queues of the same account.
    pub running_max: u32,
}

/// See [`crate::Command::ContinueMove`].
#[derive(Clone, Copy, Debug)]
pub struct ContinueMove {
    /// Which task.
    pub task: TaskId,
    /// Maximum number of messages in this step.
    pub max: u32,
}

/// See [`crate::Command::ListMoves`].
#[derive(Clone, Copy, Debug)]
pub struct ListMoves {
    /// Of this queue only.
    pub source: Option<QueueId>,
}

/// See [`crate::Command::MoveChosen`].
#[derive(Clone, Debug)]
pub struct MoveChosen {
    /// The queue they are in.
    pub source: QueueId,
    /// Where to; `None` returns each to its origin.
    pub destination: Option<QueueKey>,
    /// Receipts, as a look gives them: the newest of each message. One that was leased since then stays.
    pub tokens: Vec<LeaseToken>,
}

/// See [`crate::Command::PutDocuments`].
#[derive(Clone, Debug)]
pub struct PutDocuments {
    /// Whose documents.
    pub account: AccountId,
    /// What one of them must be now, `None` where it must not exist. Otherwise nothing is written.
    pub if_is: Option<(DocumentKey, Option<Bytes>)>,
    /// Documents to write, or to remove.
    pub documents: Vec<(DocumentKey, Option<Bytes>)>,
}

/// See [`crate::Command::Documents`].
#[derive(Clone, Debug)]
pub struct Documents {
    /// Whose documents.
    pub account: AccountId,
    /// Of which owner.
    pub owner: std::sync::Arc<str>,
}

/// See [`crate::Command::History`].
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// In which queue.
    pub queue: QueueId,
    /// Which message.
    pub sequence: Sequence,
}

/// See [`crate::Command::Carry`].
#[derive(Clone, Copy, Debug)]
pub struct Carry {
    /// The outbox.
    pub outbox: QueueId,
    /// Maximum number of messages.
    pub max: u32,
    /// Maximum bytes of their stored records, all messages together; the first message always fits.
    pub bytes_max: u64,
}

/// See [`crate::Command::Bring`].
#[derive(Clone, Debug)]
pub struct Bring {
    /// The queue that they are for.
    pub target: QueueId,
    /// The outbox that they are in.
    pub outbox: QueueId,
    /// The next messages of the outbox, in its order, none left out.
    pub messages: Vec<OwedMessage>,
}

/// See [`crate::Command::Settle`].
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// The outbox.
    pub outbox: QueueId,
    /// The last message that the target has.
    pub through: Sequence,
}

/// See [`crate::Command::TakeBack`].
#[derive(Clone, Copy, Debug)]
pub struct TakeBack {
    /// The outbox.
    pub outbox: QueueId,
    /// Maximum number of messages.
    pub max: u32,
}
