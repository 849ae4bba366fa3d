//! Everything a ledger knows, one thing at a time: for tools that carry a store's contents elsewhere or count them.
//!
//! What is carried are definitions, messages with what they are doing, deduplication ids, move tasks, receives that may
//! be repeated, and the turns of groups. The history stays behind.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::rules::dedup;
use kew_core::rules::visibility::LeaseEnd;
use kew_core::{
    AccountId, Counts, DocumentKey, Expiry, GroupId, MessageId, MoveTask, Origin, OwnerId, Queue, QueueId,
    Return, Sequence, State, TaskId, Text, Timestamp,
};

use super::Ledger;
use super::book::Book;
use super::dedup::{First, GENERATION, put_away_entry};
use super::item::{Before, Hold, Item, Lease};
use super::shelf::{Place, Shelf};
use super::steps::expiry::is_own;
use super::varint::Reader;
use crate::StoreError;

/// A queue without its messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CarriedQueue {
    /// Its definition.
    pub queue: Arc<Queue>,
    /// The place of the next message that enters.
    pub next_sequence: Sequence,
    /// How often its deduplication ids were forgotten.
    pub epoch: u32,
}

/// A message with everything that is known of it beside its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Its place in the order of sends.
    pub sequence: Sequence,
    /// Where its content lies.
    pub place: Place,
    /// The length of its body.
    pub body_bytes: u32,
    /// What retention counts from.
    pub sent_at: Timestamp,
    /// Ready messages are offered by (rank, sequence).
    pub rank: Timestamp,
    /// How it expires.
    pub expiry: Expiry,
    /// How often it was leased.
    pub attempts: u32,
    /// When it was first leased.
    pub first_leased_at: Option<Timestamp>,
    /// Its newest receipt's nonce; zero is its send's own receipt.
    pub nonce: u64,
    /// When its last lease ended; a running one is not counted.
    pub lease_end: Option<Timestamp>,
    /// Where it came from.
    pub origin: Option<Origin>,
    /// What it is doing.
    pub state: State,
    /// Whether it is at rest on a FIFO queue: never touched, and following the queue's delay.
    pub rests: bool,
    /// The instant that the queue keeps with it: when it shows, or last showed, after a delay. Zero is none.
    pub shows_at: Timestamp,
    /// The terms of the lease that runs.
    pub lease: Option<CarriedLease>,
}

/// The terms of a running lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarriedLease {
    /// When the request that took it arrived.
    pub received_at: Timestamp,
    /// The longest it may last from there.
    pub cap: Option<Duration>,
    /// How long the message stays hidden if the lease ends by itself.
    pub lapse_delay: Duration,
    /// Where the message returns to.
    pub returns: Return,
    /// Who keeps it without an end.
    pub owner: Option<OwnerId>,
    /// What to restore if it is withdrawn: the nonce, the first lease and the last lease's end before it.
    pub before: Option<(u64, Option<Timestamp>, Option<Timestamp>)>,
}

/// What stands between the messages of a queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CarriedOrder {
    /// The groups of a FIFO queue that offer something, in the order of their turns.
    pub turns: Vec<GroupId>,
    /// Messages that leave for the dead-letter queue, and when.
    pub departures: Vec<(Timestamp, Sequence)>,
    /// Receives that may be repeated: name, when first answered, what they took.
    pub attempts: Vec<(Text, Timestamp, Vec<Sequence>)>,
}

/// A send that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// The keyed hash it is remembered under.
    pub identity: u128,
    /// When it was.
    pub at: Timestamp,
    /// The message's id.
    pub id: MessageId,
    /// Its place.
    pub sequence: Sequence,
}

impl<S: Shelf> Ledger<S> {
    /// All queues, in the order of their ids.
    pub fn carried_queues(&self) -> Vec<CarriedQueue> {
        let mut queues: Vec<CarriedQueue> = self.books.values().map(carried_book).collect();
        queues.sort_unstable_by_key(|carried| carried.queue.id);
        queues
    }

    /// How many messages a queue holds.
    pub fn carried_messages(&self, queue: QueueId) -> u64 {
        self.books.get(&queue).map_or(0, Book::stored)
    }

    /// The next messages of a queue after one, in the order of sends, at most `max`. Looks at every message.
    pub fn carried_after(&self, queue: QueueId, after: Sequence, max: usize) -> Vec<Carried> {
        let Some(book) = self.books.get(&queue) else { return Vec::new() };
        let mut nearest: BinaryHeap<Sequence> = BinaryHeap::with_capacity(max.min(1 << 16));
        book.each_item(|item| {
            if item.sequence > after && nearest.len() < max {
                nearest.push(item.sequence);
            } else if item.sequence > after && nearest.peek().is_some_and(|last| item.sequence < *last) {
                nearest.pop();
                nearest.push(item.sequence);
            }
        });
        let Some(last) = nearest.peek().copied() else { return Vec::new() };
        let mut items = Vec::with_capacity(nearest.len());
        book.each_item(|item| {
            if item.sequence > after && item.sequence <= last {
                items.push(*item);
            }
        });
        items.sort_unstable_by_key(|item| item.sequence);
        let first_delayed = book.first_delayed();
        items.iter().map(|item| carried(book, item, first_delayed)).collect()
    }

    /// What stands between a queue's messages.
    pub fn carried_order(&self, queue: QueueId) -> CarriedOrder {
        self.books.get(&queue).map(Book::order).unwrap_or_default()
    }

    /// All move tasks, in the order of their numbers.
    pub fn carried_tasks(&self) -> Vec<Arc<MoveTask>> {
        self.tasks.values().cloned().collect()
    }

    /// One queue.
    pub fn carried_queue(&self, queue: QueueId) -> Option<CarriedQueue> {
        self.books.get(&queue).map(carried_book)
    }

    /// All documents of accounts, and the store's own.
    pub fn carried_documents(&self) -> impl Iterator<Item = (AccountId, &DocumentKey, &Bytes)> {
        self.documents.iter().map(|((account, key), bytes)| (*account, key, bytes))
    }

    /// The generations of deduplication ids, oldest first.
    pub fn carried_generations(&self) -> Vec<Timestamp> {
        let here = self.sends.generations().map(|(start, _)| start);
        let all: BTreeSet<Timestamp> = here.chain(self.sends.generations_away()).collect();
        all.into_iter().collect()
    }

    /// The sends of a generation that are remembered now, in the order of their hashes.
    pub fn carried_sends(&mut self, generation: Timestamp) -> Result<Vec<Remembered>, StoreError> {
        let mut sends = BTreeMap::new();
        let (newest, end) = (self.newest, generation.plus(GENERATION));
        let mut note = |send: Remembered| {
            // One that was sent again after its window comes with the later generation.
            if dedup::is_repeat(send.at, newest) && send.at < end {
                sends.insert(send.identity, send);
            }
        };
        for place in 0..self.sends.len_away(generation) {
            if let Some((identity, first)) = put_away_entry(&self.shelf.recall(generation, place)?) {
                note(Remembered { identity, at: first.at, id: first.id, sequence: first.sequence });
            }
        }
        let mut bytes = Vec::new();
        self.sends.write(generation, &mut bytes);
        // It was written by the line above.
        let _whole = read_sends(&bytes, note);
        Ok(sends.into_values().collect())
    }

    /// The numbers the next queue and the next task get.
    pub fn carried_numbers(&self) -> (QueueId, TaskId) {
        (self.next_queue, self.next_task)
    }

    /// The figures of every queue that do not add up, counted message by message.
    pub fn miscounts(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for carried in self.carried_queues() {
            let Some(book) = self.books.get(&carried.queue.id) else { continue };
            let (kept, found) = (book.numbers(), counted(book));
            if kept != found {
                wrong.push(format!("queue {} keeps {kept:?}, but {found:?} is found", carried.queue.key));
            }
        }
        wrong
    }

    /// Puts a queue there. The ledger has none of its id or name.
    pub fn restore_queue(&mut self, carried: &CarriedQueue) {
        let id = carried.queue.id;
        let mut book = Book::new(carried.queue.clone());
        book.expire_through(self.expiry_through);
        book.next_sequence = carried.next_sequence.0;
        book.ids_epoch = carried.epoch;
        self.next_queue = self.next_queue.max(QueueId(id.0 + 1));
        self.note_outbox(&carried.queue);
        self.names.set(carried.queue.clone());
        self.books.insert(id, book);
        self.changed(id);
    }

    /// Puts a message there, whose content lies at its address. On each queue messages come in the order of sends. A
    /// lease without its terms becomes a delay until the lease's end, and one without an end is over.
    pub fn restore_message(&mut self, queue: QueueId, carried: &Carried, group: Option<&GroupId>) {
        let now = self.newest;
        let Some(book) = self.books.get_mut(&queue) else { return };
        let (hold, shows_at) = match (carried.state, carried.lease) {
            (State::Ready, _) | (State::Leased { until: Timestamp::NEVER }, None) => {
                (Hold::Ready, carried.shows_at)
            }
            (State::Delayed { until } | State::Leased { until }, None) | (State::Delayed { until }, _) => {
                (Hold::Delayed, until)
            }
            (State::Leased { until }, Some(lease)) => {
                (Hold::Leased(lease_of(until, lease)), carried.shows_at)
            }
        };
        let origin = carried.origin.as_ref();
        let item = Item {
            sequence: carried.sequence,
            address: carried.place.address,
            record_bytes: carried.place.bytes,
            body_bytes: carried.body_bytes,
            sent_at: carried.sent_at,
            rank: carried.rank,
            visible_at: shows_at,
            expiry: carried.expiry,
            group: book.group(group),
            attempts: carried.attempts,
            first_leased_at: carried.first_leased_at.into(),
            nonce: carried.nonce,
            lease_end: carried.lease_end.into(),
            origin: origin.map(|origin| book.origin(&origin.queue, origin.reason)),
            moved_at: origin.map_or(Timestamp::ZERO, |origin| origin.at),
        };
        book.restore_message(item, hold, carried.rests, now);
        self.shelf.occupy(carried.place);
        self.changed(queue);
    }

    /// Puts there what stands between the messages of a queue, after all of them. What it says of messages or groups
    /// that are not there is left out; groups it does not name take their turns behind the others.
    pub fn restore_order(&mut self, queue: QueueId, order: &CarriedOrder) {
        let Some(book) = self.books.get_mut(&queue) else { return };
        for group in &order.turns {
            book.restore_turn(group);
        }
        book.restore_other_turns();
        for (at, sequence) in &order.departures {
            if book.find(*sequence).is_some() {
                book.restore_departure(*at, *sequence);
            }
        }
        for (id, first_at, sequences) in &order.attempts {
            book.remember_attempt(id, *first_at, sequences.clone());
        }
        self.changed(queue);
    }

    /// Puts a move task there.
    pub fn restore_task(&mut self, task: MoveTask) {
        self.next_task = self.next_task.max(TaskId(task.id.0 + 1));
        self.tasks.insert(task.id, Arc::new(task));
    }

    /// Puts a document there. The store's own is followed at once: expiry that was held stays held.
    pub fn restore_document(&mut self, account: AccountId, key: DocumentKey, bytes: Bytes) {
        self.documents.insert((account, key), bytes);
        if is_own(account) {
            self.follow_expiry_hold();
        }
    }

    /// Remembers a send. They come in the order of time.
    pub fn restore_send(&mut self, send: &Remembered) {
        self.sends.remember(send.identity, First { at: send.at, id: send.id, sequence: send.sequence });
    }

    /// Counts queues and tasks on from these numbers at least.
    pub fn restore_numbers(&mut self, next_queue: QueueId, next_task: TaskId) {
        self.next_queue = self.next_queue.max(next_queue);
        self.next_task = self.next_task.max(next_task);
    }
}

fn carried_book(book: &Book) -> CarriedQueue {
    let next_sequence = Sequence(book.next_sequence);
    CarriedQueue { queue: book.queue.clone(), next_sequence, epoch: book.ids_epoch }
}

fn state_of(book: &Book, item: &Item, first_delayed: Option<Sequence>) -> State {
    match book.entry(item.sequence).map(|entry| &entry.hold) {
        Some(Hold::Ready) => State::Ready,
        Some(Hold::Delayed) => State::Delayed { until: item.visible_at },
        Some(Hold::Leased(lease)) => State::Leased { until: lease.until },
        None if first_delayed.is_some_and(|first| item.sequence >= first) => {
            State::Delayed { until: item.sent_at.plus(book.queue.policy.delay) }
        }
        None if book.is_hidden(item) => State::Delayed { until: item.visible_at },
        None => State::Ready,
    }
}

fn counted(book: &Book) -> Counts {
    let first_delayed = book.first_delayed();
    let mut counts = Counts::default();
    book.each_item(|item| {
        counts.body_bytes += u64::from(item.body_bytes);
        match state_of(book, item, first_delayed) {
            State::Ready => counts.visible += 1,
            State::Delayed { .. } => counts.delayed += 1,
            State::Leased { .. } => counts.in_flight += 1,
        }
    });
    counts
}

fn carried(book: &Book, item: &Item, first_delayed: Option<Sequence>) -> Carried {
    let hold = book.entry(item.sequence).map(|entry| &entry.hold);
    let lease = match hold {
        Some(Hold::Leased(lease)) => Some(carried_lease(lease)),
        Some(Hold::Ready | Hold::Delayed) | None => None,
    };
    let origin = book.origin_of(item);
    Carried {
        sequence: item.sequence,
        place: item.place(),
        body_bytes: item.body_bytes,
        sent_at: item.sent_at,
        rank: item.rank,
        expiry: item.expiry,
        attempts: item.attempts,
        first_leased_at: item.first_leased_at.get(),
        nonce: item.nonce,
        lease_end: item.lease_end.get(),
        origin: origin.map(|(queue, reason)| Origin {
            queue: queue.clone(),
            reason: *reason,
            at: item.moved_at,
        }),
        state: state_of(book, item, first_delayed),
        rests: hold.is_none() && book.queue.policy.kind.is_fifo(),
        shows_at: if hold.is_some() { item.visible_at } else { Timestamp::ZERO },
        lease,
    }
}

fn carried_lease(lease: &Lease) -> CarriedLease {
    let before =
        lease.before.map(|before| (before.nonce, before.first_leased_at.get(), before.lease_end.get()));
    CarriedLease {
        received_at: lease.received_at,
        cap: lease.cap,
        lapse_delay: lease.lapse_delay,
        returns: lease.returns,
        owner: lease.owner,
        before,
    }
}

/// The lease goes on as it was. Its receive attempt is tied to it by the queue's order.
fn lease_of(until: Timestamp, lease: CarriedLease) -> Lease {
    let before = lease.before.map(|(nonce, first_leased_at, lease_end)| Before {
        nonce,
        first_leased_at: first_leased_at.into(),
        lease_end: lease_end.into(),
    });
    Lease {
        until,
        received_at: lease.received_at,
        cap: lease.cap,
        lapse_delay: lease.lapse_delay,
        returns: lease.returns,
        owner: lease.owner,
        attempt: None,
        sealed: None,
        before,
        ending: LeaseEnd::RanOut,
    }
}

/// Reads a generation's slice.
fn read_sends(bytes: &[u8], mut see: impl FnMut(Remembered)) -> Option<()> {
    let mut from = Reader::new(bytes);
    let _start = from.number()?;
    while !from.is_empty() {
        let identity = u128::from_le_bytes(from.take(16)?.try_into().ok()?);
        let id = MessageId(from.take(16)?.try_into().ok()?);
        see(Remembered { identity, id, at: Timestamp(from.number()?), sequence: Sequence(from.number()?) });
    }
    Some(())
}
