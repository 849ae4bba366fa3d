//! The ledger: all queues in memory, the same for every store. One queue in it is a `Book` (`book/`).
//!
//! A step decides by the laws of `kew_core::rules`, tells the [`Shelf`] what it [`Change`]d, and applies that change.
//! Replaying the changes of a journal applies them again, by the same code, without deciding anything: the ledger comes
//! out the same, to the order of groups in a rotation. What happens by itself (lapses, delays, expiry) needs no
//! change: it follows from the time, which replay passes through too.
//!
//! Where that which happens by itself is, in the order of a due step. `passing.rs` begins: which queues are due.
//! `pace.rs` says how much of each kind one step does.
//!
//! | what | of which messages | module |
//! |---|---|---|
//! | a lease ends | of a standard queue, many at once | `ends.rs` counts them, `lapsing/` makes them ready |
//! | | of a FIFO queue, or with a lapse delay | `alarms.rs`, one by one |
//! | a delay ends | hidden for long | `far/` counts them, `showing/` hands them over |
//! | | hidden for a short while | `alarms.rs` |
//! | retention ends | with an entry | `alarms.rs` |
//! | | at rest, of a standard queue | `expired/`, by blocks |
//! | | at rest, of a FIFO queue | `book/expiring.rs`: whole, or up to a line: `fifo/over.rs` draws it, `fifo/expiring/` takes out what is before it |
//! | a queue was purged or deleted | all it held | `emptied/` gives the room back |

mod alarms;
mod apply;
mod block;
mod book;
pub mod change;
pub mod codec;
mod cut_short;
pub mod dedup;
mod due;
mod emptied;
mod ends;
mod expired;
mod far;
mod fifo;
mod figures;
mod groups;
mod history;
mod item;
mod lane;
mod lapsing;
mod names;
mod pace;
mod passing;
mod ready;
#[cfg(test)]
mod replayed;
mod run;
#[cfg(test)]
mod scene;
pub mod shelf;
mod showing;
mod slice;
mod steps;
mod structures;
mod transfer;
mod undecided;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hashbrown::HashMap;
use kew_core::{
    AccountId, Command, DocumentKey, Entropy, MoveTask, Outcome, Queue, QueueId, QueueKey, RuleError,
    Sequence, ShardPlace, TaskId, Timestamp, own,
};
use smallvec::SmallVec;

pub use change::Change;
pub use shelf::{Address, Made, Place, Shelf, Stored};
pub use slice::{DocumentPlace, IdsRead, META_KEY, MetaImage, QueueImage, SentIds};
pub(crate) use structures::parted::Parted;
pub use structures::varint;
pub use transfer::{Carried, CarriedLease, CarriedOrder, CarriedQueue, Remembered};

use crate::StoreError;
use crate::elsewhere::Elsewhere;
use crate::submission::SOMETHING_IS_OWED;
use crate::token::TokenKey;
use book::Book;
use cut_short::CutShort;
use dedup::Sends;
use due::Due;
use emptied::Emptied;
use expired::Expired;
use history::Ring;
use names::Names;
use pace::Pace;
use structures::last_found::LastFound;
use structures::regions::Regions;
use structures::{keyed, near, ordered, parted, parts, pieces, row, sink, slab};

/// Deduplication ids and history events: what may grow, and how far; and how much one step does.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Deduplication ids in memory; older ones are put away on the shelf, where it can.
    pub deduplication_ids: usize,
    /// Deduplication ids remembered in all; beyond it sends wait for windows to close.
    pub deduplication_ids_max: usize,
    /// Events kept for the history.
    pub events: usize,
    /// Messages of purged and deleted queues whose room one step gives back; messages hidden for long that one step
    /// puts among those that are offered; messages at rest that expired together that one step sees off; queues whose
    /// undecided messages one step lists.
    pub slice: usize,
    /// Messages of FIFO queues that expired together that one step takes out of their groups.
    pub expired_in_groups: usize,
    /// Leases that ended by themselves that one step sees to.
    pub lapses: usize,
    /// Dead letters that leave in one step; the others stay due and leave in the next ones.
    pub departures: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            deduplication_ids: 4_000_000,
            deduplication_ids_max: 100_000_000,
            events: 1 << 20,
            slice: 1_000,
            expired_in_groups: 1_000,
            lapses: 1_000,
            departures: 1_000,
        }
    }
}

/// Messages that are over and are seen off in one step to find what a FIFO queue offers, if there are as many.
const SEEN_OFF_FOR_ONE: usize = 256;

/// The pause between two slices of due work (purged contents, ended delays, expired messages, undecided ones, receives
/// that were cut short). Never zero: a caller that does all that is due would do all slices at once.
const GIVE_BACK_REST: Duration = Duration::from_millis(1);

/// All queues, each a [`Book`].
pub struct Ledger<S> {
    /// Where changes and contents go.
    pub shelf: S,
    key: TokenKey,
    entropy: Arc<dyn Entropy>,
    bounds: Bounds,
    books: LastFound<QueueId, Book>,
    names: Names,
    /// Queues whose messages are owed to another shard.
    outboxes: BTreeSet<QueueId>,
    /// Queues with messages of which it is not decided whether they leave.
    undecided: BTreeSet<QueueId>,
    /// Queues whose undecided messages are to be looked at again, and that are not listed for it yet.
    taken_up: BTreeSet<QueueId>,
    /// What was newest when that was said last.
    taken_up_at: Timestamp,
    /// Queues with messages that may leave long after their lease ended, each with the newest instant when that was
    /// found.
    overdue: BTreeMap<QueueId, Timestamp>,
    /// Queues in which a receive was cut short.
    cut_short: CutShort,
    /// When the next slice of due work is to be done, as the step saw it that left it. Later ones do not put it off.
    slices_at: Option<Timestamp>,
    /// What is known of queues in other shards; `None` where there are none.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    regions: Regions,
    /// Which shard it is: its queues and tasks are numbered by that.
    place: ShardPlace,
    next_queue: QueueId,
    next_task: TaskId,
    /// Running tasks, and the newest finished ones.
    tasks: BTreeMap<TaskId, Arc<MoveTask>>,
    documents: BTreeMap<(AccountId, DocumentKey), Bytes>,
    sends: Sends,
    due: Due,
    emptied: Emptied,
    /// Queues of which messages are shown that are not among those offered yet.
    showing: BTreeSet<QueueId>,
    /// Messages that expired and were not seen off yet, by their queue. They stay here when that queue is emptied or
    /// deleted.
    expiring: BTreeMap<QueueId, Expired>,
    /// Queues of which leases are over whose messages are not among those offered yet.
    lapsing: BTreeSet<QueueId>,
    newest: Timestamp,
    /// The instant of the step before this one: what was due by then is done, but for what that step made due.
    settled: Timestamp,
    /// Messages whose time is over after this instant do not expire for now; `NEVER` holds none back.
    expiry_through: Timestamp,
    freed: SmallVec<[QueueId; 2]>,
    history: Ring,
    /// Queues changed since they were last written to a checkpoint.
    dirty: BTreeSet<QueueId>,
    pace: Pace,
}

impl<S: Shelf> Ledger<S> {
    /// A ledger without queues.
    pub fn new(shelf: S, key: TokenKey, entropy: Arc<dyn Entropy>, bounds: Bounds) -> Self {
        Self {
            shelf,
            key,
            entropy,
            bounds,
            books: LastFound::default(),
            names: Names::default(),
            outboxes: BTreeSet::new(),
            undecided: BTreeSet::new(),
            taken_up: BTreeSet::new(),
            taken_up_at: Timestamp::ZERO,
            overdue: BTreeMap::new(),
            cut_short: CutShort::default(),
            slices_at: None,
            elsewhere: None,
            regions: Regions::default(),
            place: ShardPlace::ONLY,
            next_queue: QueueId(1),
            next_task: TaskId(1),
            tasks: BTreeMap::new(),
            documents: BTreeMap::new(),
            sends: Sends::default(),
            due: Due::default(),
            emptied: Emptied::default(),
            showing: BTreeSet::new(),
            expiring: BTreeMap::new(),
            lapsing: BTreeSet::new(),
            newest: Timestamp::ZERO,
            settled: Timestamp::ZERO,
            expiry_through: Timestamp::NEVER,
            freed: SmallVec::new(),
            history: Ring::new(bounds.events),
            dirty: BTreeSet::new(),
            pace: Pace::new(&bounds),
        }
    }

    /// The same, as one shard of several.
    pub fn at(self, place: ShardPlace) -> Self {
        Self { place, ..self }
    }

    /// From now on queues of other shards are found there.
    pub fn know_others(&mut self, elsewhere: Arc<dyn Elsewhere>) {
        self.elsewhere = Some(elsewhere);
        self.take_up_undecided();
    }

    /// Applies one command. The time never runs back: an earlier `now` counts as the newest.
    pub fn step(&mut self, now: Timestamp, command: &Command) -> Result<Outcome, StoreError> {
        let now = self.begin_step(now);
        if !self.lapsing.is_empty() {
            self.lapse_before(now, command);
        }
        match command {
            Command::CreateQueue(command) => self.create_queue(now, command.clone()),
            Command::UpdateQueue(command) => self.update_queue(now, command.clone()),
            Command::DeleteQueue(command) => self.delete_queue(now, command),
            Command::Send(command) => self.send(now, command),
            Command::Lease(command) => self.lease(now, command),
            Command::Withdraw(command) => self.withdraw(now, command),
            Command::Ack(command) => self.ack(now, command),
            Command::Extend(command) => self.extend(now, command),
            Command::Release(command) => self.release(now, command),
            Command::ReleaseOwners(command) => self.release_owners(now, *command),
            Command::Peek(command) => self.peek(now, command),
            Command::Browse(command) => self.browse(command),
            Command::Groups(command) => self.groups(command),
            Command::FirstSend(command) => self.first_send(now, command),
            Command::Trace(command) => Ok(Outcome::Traced(self.trace(command))),
            Command::Note(command) => self.note_failures(now, command),
            Command::Promote(command) => self.promote(now, command),
            Command::Identify(command) => self.identify(command),
            Command::Purge(command) => self.purge(now, *command),
            Command::Counts(queue) => Ok(Outcome::Counts(self.counts(*queue)?)),
            Command::StartMove(command) => self.start_move(now, command),
            Command::ContinueMove(command) => self.continue_move(now, *command),
            Command::CancelMove(task) => self.cancel_move(now, *task),
            Command::ListMoves(command) => Ok(self.list_moves(*command)),
            Command::MoveChosen(command) => self.move_chosen(now, command),
            Command::HoldExpiry(hold) => Ok(self.hold_expiry(now, *hold)),
            Command::Due => Ok(self.due_slice(now)),
            Command::Queues => Ok(self.queues()),
            Command::PutDocuments(command) => self.put_documents(now, command),
            Command::Documents(command) => Ok(self.documents(command)),
            Command::Owing => Ok(self.owing()),
            Command::Carry(command) => self.carry(now, *command),
            Command::Bring(command) => self.bring(now, command),
            Command::Settle(command) => self.settle(now, *command),
            Command::TakeBack(command) => self.take_back(now, *command),
            Command::History(command) => {
                let mut events = self.history.of(command.queue, command.sequence);
                events.extend(self.end_to_be_seen(command.queue, command.sequence));
                Ok(Outcome::History(events))
            }
        }
    }

    /// A slice of each kind of work that is due beside requests.
    fn due_slice(&mut self, now: Timestamp) -> Outcome {
        self.slices_at = None;
        self.take_up_slice();
        self.lapse_slice(now);
        self.show_slice();
        self.see_off_slice();
        self.give_back_slice();
        self.free_cut_short(now);
        Outcome::Done
    }

    /// Does what is due before a step. The time never runs back: answers the step's.
    #[inline]
    fn begin_step(&mut self, now: Timestamp) -> Timestamp {
        let now = now.max(self.newest);
        let slice = self.newest.plus(GIVE_BACK_REST);
        self.slices_at = self.has_slices().then(|| self.slices_at.unwrap_or(slice));
        (self.settled, self.newest) = (self.newest, now);
        self.pace.begin_due(&self.bounds);
        self.run_due(now);
        self.pace.begin_command();
        now
    }

    /// The queues in which something may be leased since this was last asked.
    pub fn take_freed(&mut self) -> SmallVec<[QueueId; 2]> {
        std::mem::take(&mut self.freed)
    }

    /// Whether there is due work that is done a slice at a time.
    #[inline]
    fn has_slices(&self) -> bool {
        !(self.emptied.is_empty()
            && self.showing.is_empty()
            && self.expiring.is_empty()
            && self.lapsing.is_empty()
            && self.taken_up.is_empty())
    }

    /// The next instant at which steps have something to do first, whichever they are.
    #[inline]
    fn next_before_steps(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| at)
    }

    /// The next instant something is due, or an earlier one.
    #[inline]
    pub fn next_due(&self) -> Option<Timestamp> {
        let due = self.next_before_steps();
        let due = match self.cut_short.due() {
            Some(at) => Some(due.map_or(at, |due| due.min(at))),
            None => due,
        };
        if !self.has_slices() {
            return due;
        }
        let slice = self.slices_at.unwrap_or_else(|| self.newest.plus(GIVE_BACK_REST));
        Some(due.map_or(slice, |due| due.min(slice)))
    }

    /// Gives back a slice of what purged and deleted queues held. False when nothing is left of it.
    pub fn give_back_slice(&mut self) -> bool {
        // While changes are replayed no caller waits for a step.
        let max = if self.pace.is_replay() { usize::MAX } else { self.bounds.slice.max(1) };
        let shelf = &mut self.shelf;
        self.emptied.give_back(max, |item| shelf.vacate(item.place()));
        !self.emptied.is_empty()
    }

    /// The places within `range` that messages of a queue rest on.
    pub fn places_in(&self, queue: QueueId, range: &Range<Address>) -> Vec<Address> {
        let mut places = Vec::new();
        if let Some(book) = self.books.get(&queue) {
            book.places_in(range, &mut places);
        }
        places
    }

    /// Gives messages of a queue their new places, after their contents were copied there.
    pub fn relocate(&mut self, queue: QueueId, range: &Range<Address>, to: &HashMap<Address, Address>) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        let moved = book.relocate(range, to);
        if !moved.is_empty() {
            self.changed(queue);
        }
        for (old, new) in moved {
            self.shelf.vacate(old);
            self.shelf.occupy(new);
        }
    }

    /// The newest of the shelf's marks that a lease of this message reveals beside the message itself. On a
    /// FIFO queue it tells that those before it in its group are gone; on others it tells nothing, and this is 0.
    pub fn mark_before(&self, queue: QueueId, sequence: Sequence) -> u64 {
        self.book(queue).map_or(0, |book| book.mark_before(sequence))
    }

    /// The newest instant seen.
    pub fn newest_instant(&self) -> Timestamp {
        self.newest
    }

    /// Goes on from `now` at the earliest.
    pub fn advance_newest(&mut self, now: Timestamp) {
        self.newest = self.newest.max(now);
    }

    /// The queue of this name, as it is.
    fn named(&self, key: &QueueKey) -> Option<&Arc<Queue>> {
        self.names.get(key)
    }

    fn book(&self, queue: QueueId) -> Result<&Book, RuleError> {
        self.books.get(&queue).ok_or(RuleError::QueueNotFound)
    }

    fn book_mut(&mut self, queue: QueueId) -> Result<&mut Book, RuleError> {
        self.books.get_mut(&queue).ok_or(RuleError::QueueNotFound)
    }

    fn free(&mut self, queue: QueueId) {
        let queue = if self.outboxes.contains(&queue) { SOMETHING_IS_OWED } else { queue };
        if !self.pace.is_replay() && !self.freed.contains(&queue) {
            self.freed.push(queue);
        }
    }

    /// Notes that a queue is there, if it is an outbox.
    fn note_outbox(&mut self, queue: &Queue) {
        if own::owed_to(&queue.key).is_some() {
            self.outboxes.insert(queue.id);
        }
    }
}
