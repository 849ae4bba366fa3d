//! The table of all commands: for each its input, its answer, what room its records need, and whether they have to be
//! synced before the answer leaves.
//!
//! To add a command, add its input to [`crate::command`], a row here, and, where no answer fits, a row of `answers`.
//! The compiler then names each match that has to know it.

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{
    Ack, Bring, Browse, Carry, ContinueMove, CreateQueue, DeleteQueue, Documents, Extend, FirstSend, Groups,
    History, Identify, Lease, ListMoves, MoveChosen, Note, Peek, Promote, Purge, PutDocuments, Release,
    ReleaseOwners, Send, Settle, StartMove, TakeBack, Trace, UpdateQueue, Withdraw,
};
use crate::outcome::{Extended, First, GroupPage, Leased, Page, Sent, Trail};
use crate::rules::retention::ExpiryHold;
use crate::{
    Counts, DocumentKey, Event, LeaseToken, Message, MessageId, MoveTask, OwedMessage, Owing, Queue, QueueId,
    RuleError, Sequence, TaskId, Timestamp,
};

/// A command whose input and answer have their own types. The types that implement it are in [`ask`].
pub trait Ask {
    /// What it is given.
    type Input;
    /// What it answers.
    type Answer;

    /// The step to take.
    fn command(input: Self::Input) -> Command;

    /// The answer of that step.
    ///
    /// # Panics
    ///
    /// If the outcome is another command's.
    fn answer(outcome: Outcome) -> Self::Answer;
}

/// What a command's answer is likely to wait for, for the pace of commits. What is really synced, `Change::must_sync`
/// in `kew-store` decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Records {
    /// It records nothing.
    Nothing,
    /// They are written: a power cut may forget them. A new body that comes with an extension is synced.
    Written,
    /// They are synced.
    Synced,
}

/// The room of one record that names a thousand messages.
const SETTLED_ENTRIES: u64 = 16;

#[cold]
fn mismatch(command: &str, outcome: &Outcome) -> ! {
    unreachable!("a store answers each command with its own kind of outcome: {command} got {outcome:?}")
}

macro_rules! table {
    (
        answers { $($(#[$about:meta])* $answer:ident $(($content:ty))?;)* }
        commands {
            $($(#[$what:meta])* $name:ident $(($it:ident: $input:ty))? => $reply:ident $(($value:ty))?,
                $($room:ident)+ $(($entries:expr))?, $records:ident;)*
        }
    ) => {
        /// One atomic step. Everything in it happens, or nothing.
        #[derive(Clone, Debug)]
        pub enum Command {
            $($(#[$what])* $name $(($input))?,)*
        }

        /// The answer to a [`Command`] of the same row.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Outcome {
            $($(#[$about])* $answer $(($content))?,)*
        }

        impl Command {
            /// Maximum number of journal entries of its records, bodies aside: the room it needs. Its answer waits
            /// also for what was recorded before it. `None` for one that needs no room: its answer waits only if it
            /// recorded something.
            #[inline]
            #[allow(unused_variables, reason = "most rows need the same room whatever their input")]
            pub fn entries_max(&self) -> Option<u64> {
                match self {
                    $(Self::$name $(($it))? => table!(@room $($room)+ $(($entries))?),)*
                }
            }
        }

        impl Command {
            /// Whether an outcome is of the kind that answers it: one that came from another process has to be asked,
            /// since [`Ask::answer`] panics on another kind.
            pub fn is_answered_by(&self, outcome: &Outcome) -> bool {
                match self {
                    $(Self::$name { .. } => matches!(outcome, Outcome::$reply { .. }),)*
                }
            }
        }

        impl Command {
            /// What its answer is likely to wait for, for the pace of commits.
            #[inline]
            pub fn records(&self) -> Records {
                match self {
                    $(Self::$name { .. } => table!(@records $records),)*
                }
            }
        }

        /// One type for each command, by its name.
        pub mod ask {
            $(
                $(#[$what])*
                #[derive(Clone, Copy, Debug)]
                pub struct $name;
            )*
        }

        $(
            #[allow(unused_parens, unused_variables, reason = "some commands have no input, some no answer")]
            impl Ask for ask::$name {
                type Input = ($($input)?);
                type Answer = ($($value)?);

                #[inline(always)]
                fn command(input: Self::Input) -> Command {
                    Command::$name $((table!(@same input $input)))?
                }

                #[inline(always)]
                fn answer(outcome: Outcome) -> Self::Answer {
                    match outcome {
                        Outcome::$reply $((table!(@same value $value)))? => { $(table!(@same value $value))? }
                        other => mismatch(stringify!($name), &other),
                    }
                }
            }
        )*
    };
    (@room looks) => { None };
    (@room writes ($entries:expr)) => { Some($entries) };
    (@records nothing) => { Records::Nothing };
    (@records written) => { Records::Written };
    (@records synced) => { Records::Synced };
    (@same $name:ident $type:ty) => { $name };
}

table! {
    answers {
        /// The queue as it is now (create, update).
        Queue(Arc<Queue>);
        /// The queue and its messages are deleted: the number of messages.
        QueueDeleted(u64);
        /// One entry per message sent.
        Sent(Vec<Sent>);
        /// The messages claimed; maybe none.
        Leased(Vec<Leased>);
        /// Number of leases that were undone.
        Withdrawn(u32);
        /// One entry per receipt.
        Acked(Vec<Result<(), RuleError>>);
        /// One entry per extension.
        Extended(Vec<Result<Extended, RuleError>>);
        /// One entry per release: when the message shows again.
        Released(Vec<Result<Timestamp, RuleError>>);
        /// The messages seen, each with a receipt that [`crate::ReceiptRule::Any`] accepts.
        Peeked(Vec<(Message, LeaseToken)>);
        /// A page of a queue's messages.
        Browsed(Page);
        /// A page of a queue's groups.
        Groups(GroupPage);
        /// The first send of a deduplication id, while its window is open.
        FirstSend(Option<First>);
        /// Some of what happened lately.
        Traced(Trail);
        /// One entry per message: it is not delayed any more.
        Promoted(Vec<Result<(), RuleError>>);
        /// The name of the message a receipt is of.
        Identified(MessageId);
        /// Number of messages that were deleted.
        Purged(u64);
        /// The figures.
        Counts(Counts);
        /// The task as it is now (start, continue, cancel).
        Move(Arc<MoveTask>);
        /// Tasks, newest first.
        Moves(Vec<Arc<MoveTask>>);
        /// One entry per message chosen.
        MovedChosen(Vec<Result<Sequence, RuleError>>);
        /// All queues.
        Queues(Vec<Arc<Queue>>);
        /// An account's documents.
        Documents(Vec<(DocumentKey, Bytes)>);
        /// What happened, oldest first.
        History(Vec<Event>);
        /// All outboxes.
        Owing(Vec<Owing>);
        /// The next messages of an outbox; maybe none.
        Owed(Vec<OwedMessage>);
        /// The last message of an outbox that its target has; `None` if the target is gone and had none of these.
        Brought(Option<Sequence>);
        /// Number of messages that went back.
        TakenBack(u32);
        /// Done; nothing to say.
        Done;
    }

    commands {
        /// Makes a queue; refused with the one that has the name already.
        CreateQueue(create: CreateQueue) => Queue(Arc<Queue>), writes (1), synced;
        /// Changes a queue's settings, documents or name.
        UpdateQueue(update: UpdateQueue) => Queue(Arc<Queue>), writes (1), synced;
        /// Deletes a queue and everything in it.
        DeleteQueue(delete: DeleteQueue) => QueueDeleted(u64), writes (1), synced;
        /// Adds messages, in order, all or none.
        Send(send: Send) => Sent(Vec<Sent>), writes (1), synced;
        /// Claims messages.
        Lease(lease: Lease) => Leased(Vec<Leased>), writes (u64::from(lease.max)), written;
        /// Undoes leases whose messages were never delivered: the receiver went away, or its target could not be
        /// reached.
        Withdraw(withdraw: Withdraw) => Withdrawn(u32), writes (withdraw.tokens.len() as u64), written;
        /// Deletes messages by their receipts, each for itself.
        Ack(ack: Ack) => Acked(Vec<Result<(), RuleError>>), writes (ack.tokens.len() as u64), synced;
        /// Gives leases another end, each for itself.
        Extend(extend: Extend) => Extended(Vec<Result<Extended, RuleError>>), writes (extend.entries.len() as u64), written;
        /// Gives leases up, each for itself.
        Release(release: Release) => Released(Vec<Result<Timestamp, RuleError>>), writes (release.entries.len() as u64), written;
        /// Releases every endless lease of owners other than this one.
        ReleaseOwners(release: ReleaseOwners) => Done, writes (1), written;
        /// Shows messages without touching them.
        Peek(peek: Peek) => Peeked(Vec<(Message, LeaseToken)>), looks, nothing;
        /// Shows a page of a queue's messages, whatever they are doing, without touching them.
        Browse(browse: Browse) => Browsed(Page), looks, nothing;
        /// Shows a page of a queue's groups, and what locks each.
        Groups(groups: Groups) => Groups(GroupPage), looks, nothing;
        /// Looks up a deduplication id.
        FirstSend(first: FirstSend) => FirstSend(Option<First>), looks, nothing;
        /// Looks for events among the newest ones, backwards, a slice at a time.
        Trace(trace: Trace) => Traced(Trail), looks, nothing;
        /// Remembers in the history why consumers failed. Nothing else changes.
        Note(note: Note) => Done, looks, nothing;
        /// Ends the delays of messages, each for itself.
        Promote(promote: Promote) => Promoted(Vec<Result<(), RuleError>>), writes (promote.tokens.len() as u64), written;
        /// Says which message a receipt is of.
        Identify(identify: Identify) => Identified(MessageId), looks, nothing;
        /// Deletes everything in a queue, and its deduplication ids.
        Purge(purge: Purge) => Purged(u64), writes (1), synced;
        /// Counts a queue's messages.
        Counts(queue: QueueId) => Counts(Counts), looks, nothing;
        /// Starts emptying a queue.
        StartMove(start: StartMove) => Move(Arc<MoveTask>), writes (1), synced;
        /// Moves the next messages of a running task.
        ContinueMove(next: ContinueMove) => Move(Arc<MoveTask>), writes (u64::from(next.max)), synced;
        /// Stops a task.
        CancelMove(task: TaskId) => Move(Arc<MoveTask>), writes (1), synced;
        /// Lists tasks, newest first.
        ListMoves(list: ListMoves) => Moves(Vec<Arc<MoveTask>>), looks, nothing;
        /// Moves messages a person chose, as long as they are what a look showed.
        MoveChosen(chosen: MoveChosen) => MovedChosen(Vec<Result<Sequence, RuleError>>), writes (chosen.tokens.len() as u64), synced;
        /// Holds expiry, moves an earlier hold, or lifts it.
        HoldExpiry(hold: Option<ExpiryHold>) => Done, writes (1), synced;
        /// Does what has become due.
        Due => Done, looks, nothing;
        /// Lists all queues.
        Queues => Queues(Vec<Arc<Queue>>), looks, nothing;
        /// Writes an account's documents.
        PutDocuments(documents: PutDocuments) => Done, writes (1), synced;
        /// Reads an account's documents of one owner.
        Documents(documents: Documents) => Documents(Vec<(DocumentKey, Bytes)>), looks, nothing;
        /// What happened to one message.
        History(history: History) => History(Vec<Event>), looks, nothing;
        /// Lists the outboxes: where messages for queues of other shards are.
        Owing => Owing(Vec<Owing>), looks, nothing;
        /// Shows the next messages of an outbox. Its answer waits until they are durable there: what is carried is
        /// never forgotten where it came from. One that cannot be read goes back to its queue.
        Carry(carry: Carry) => Owed(Vec<OwedMessage>), writes (u64::from(carry.max)), synced;
        /// Takes messages of an outbox into the queue that they are for. One that came before is passed over. Without
        /// messages it says that none is owed: where the queue is gone, what is known of the outbox is forgotten.
        Bring(bring: Bring) => Brought(Option<Sequence>), writes (bring.messages.len() as u64 + 1), synced;
        /// Takes messages out of an outbox that their target has.
        Settle(settle: Settle) => Done, writes (SETTLED_ENTRIES), synced;
        /// The target of an outbox is gone: its messages go back to the queues they left. An outbox that is
        /// empty already goes away.
        TakeBack(back: TakeBack) => TakenBack(u32), writes (8 * u64::from(back.max) + 1), synced;
    }
}
