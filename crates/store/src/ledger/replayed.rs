//! Every change of a random history is played a second time into a second ledger, which must come out the same.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Arc;

use bytes::Bytes;
use kew_core::{Command, Counts, GroupId, QueueId, QueueKey, Sequence, TaskId, Text, Timestamp};

use super::book::Book;
use super::change::{Change, Extended};
use super::dedup::PUT_AWAY_BYTES;
use super::item::Item;
use super::transfer::{Carried, CarriedOrder, CarriedQueue, Remembered};
use super::{Address, Bounds, Ledger, Made, Place, Shelf, Stored, codec};
use crate::StoreError;
use crate::contract::Ending;
use crate::contract::model::{Answer, SeededEntropy, Subject, drive, seeds};
use crate::memory::MemoryShelf;
use crate::token::TokenKey;

/// Steps of one history.
const STEPS: u64 = 300;

/// Of the histories one in this many is compared after each change, which takes longest; all of them with `KEW_LONG=1`.
const COMPARED_OFTEN: usize = 4;
/// One in this many is played in each other way.
const COMPARED_RARELY: usize = 2;
/// Ledgers that one history opens in the midst of what is due.
const OPENED_MAX: usize = 8;

/// Histories in which a planted divergence is found.
const PLANTED_HISTORIES: u64 = 20;

/// A divergence between what a step does and what replay does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    /// At replay a message that was released is missing in the list of what is due.
    DueForgotten,
    /// At replay a queue's name is not found.
    NameForgotten,
    /// The record of an extension is without its new receipt.
    NonceForgotten,
    /// The record of a lease is without its receive attempt.
    AttemptForgotten,
    /// Two changes of one step are replayed in the other order.
    Swapped,
    /// What is due is done after the first change of a step, not before.
    DueLate,
    /// Nothing says that a message was looked at and had nowhere to go.
    StayedForgotten,
    /// At the end of a replay nothing is to be looked at that was not decided.
    UndecidedForgotten,
}

const ALL: [Planted; 8] = [
    Planted::StayedForgotten,
    Planted::UndecidedForgotten,
    Planted::DueForgotten,
    Planted::NameForgotten,
    Planted::NonceForgotten,
    Planted::AttemptForgotten,
    Planted::Swapped,
    Planted::DueLate,
];

/// A change as a journal keeps it.
#[derive(Clone)]
struct Kept {
    kind: u8,
    record: Bytes,
    place: Place,
}

/// Contents in memory, every change as a record, and what messages rest on.
#[derive(Default)]
struct Keeping {
    memory: MemoryShelf,
    stamp: codec::Stamp,
    kept: Vec<Kept>,
    resting: BTreeMap<Address, u32>,
    planted: Option<Planted>,
}

impl Shelf for Keeping {
    fn room(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.memory.room(bytes)
    }

    fn record(&mut self, made: Made, change: &Change<'_>) -> Place {
        let place = self.memory.record(made, change);
        if matches!((change, self.planted), (Change::Stayed { .. }, Some(Planted::StayedForgotten))) {
            return place;
        }
        let made = Made { begins_step: made.begins_step && self.planted != Some(Planted::DueLate), ..made };
        let mut record = Vec::new();
        match (change, self.planted) {
            (Change::Extended(extended), Some(Planted::NonceForgotten)) => {
                let without = Change::Extended(Extended { nonce: None, ..extended.clone() });
                codec::write(&mut record, &mut self.stamp, made, &without);
            }
            (Change::Leased(leased), Some(Planted::AttemptForgotten)) => {
                let without = Change::Leased(super::change::Leased { attempt: None, ..leased.clone() });
                codec::write(&mut record, &mut self.stamp, made, &without);
            }
            _ => codec::write(&mut record, &mut self.stamp, made, change),
        }
        self.kept.push(Kept { kind: codec::kind_of(change), record: record.into(), place });
        place
    }

    fn has_room_for_due(&self, bytes: u64) -> bool {
        self.memory.has_room_for_due(bytes)
    }

    fn read(&mut self, place: Place) -> Result<Stored, StoreError> {
        self.memory.read(place)
    }

    fn recall(&mut self, generation: Timestamp, place: u64) -> Result<[u8; PUT_AWAY_BYTES], StoreError> {
        self.memory.recall(generation, place)
    }

    fn occupy(&mut self, place: Place) {
        self.memory.occupy(place);
        *self.resting.entry(place.address).or_default() += 1;
    }

    fn vacate(&mut self, place: Place) {
        self.memory.vacate(place);
        let messages = self.resting.get_mut(&place.address).expect("a place that is vacated was occupied");
        *messages -= 1;
        if *messages == 0 {
            self.resting.remove(&place.address);
        }
    }

    fn mark(&self) -> u64 {
        self.memory.mark()
    }
}

/// Everything a ledger knows of one queue.
#[derive(PartialEq, Eq, Debug)]
struct QueueSeen {
    queue: CarriedQueue,
    figures: Counts,
    messages: Vec<(Carried, Option<GroupId>)>,
    offered: Vec<Sequence>,
    order: CarriedOrder,
    expiry_through: Timestamp,
}

/// Everything a ledger knows.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    queues: Vec<QueueSeen>,
    names: BTreeMap<QueueId, QueueKey>,
    tasks: Vec<Arc<kew_core::MoveTask>>,
    documents: Vec<String>,
    sends: BTreeMap<u128, Remembered>,
    numbers: (QueueId, TaskId),
    resting: BTreeMap<Address, u32>,
}

fn see(ledger: &mut Ledger<Keeping>) -> Seen {
    assert_eq!(ledger.miscounts(), Vec::<String>::new());
    let mut sends = BTreeMap::new();
    for generation in ledger.carried_generations() {
        let of_generation = ledger.carried_sends(generation).expect("no generation was put away");
        sends.extend(of_generation.into_iter().map(|send| (send.identity, send)));
    }
    Seen {
        queues: ledger.carried_queues().into_iter().map(|queue| see_queue(ledger, queue)).collect(),
        names: ledger.names.queues().map(|queue| (queue.id, queue.key.clone())).collect(),
        tasks: ledger.carried_tasks(),
        documents: ledger.carried_documents().map(|document| format!("{document:?}")).collect(),
        sends,
        numbers: ledger.carried_numbers(),
        resting: ledger.shelf.resting.clone(),
    }
}

/// The messages a queue offers, in order; of a FIFO queue group by group, in the order of their names: which group
/// comes first may differ after a replay.
fn offered_in_groups(book: &Book) -> Vec<Sequence> {
    let mut offered: Vec<Item> = book.ready_items().chain(book.offered()).collect();
    if book.queue.policy.kind.is_fifo() {
        offered.sort_by_key(|item| book.group_name(item).map(str::to_owned));
    }
    offered.into_iter().map(|item| item.sequence).collect()
}

/// The groups that have a turn, in the order of their names, and the rest of what a queue has in order. A message that
/// is gone may be looked at in another step.
fn order_without_turns(book: &Book) -> CarriedOrder {
    let mut order = book.order();
    order.departures.retain(|(_, sequence)| book.find(*sequence).is_some());
    order.turns.sort_by_key(|group| group.0.to_string());
    order
}

fn see_queue(ledger: &Ledger<Keeping>, queue: CarriedQueue) -> QueueSeen {
    let id = queue.queue.id;
    let book = ledger.book(id).expect("a queue that is carried has a book");
    let group = |carried: &Carried| {
        let (item, _) = book.find(carried.sequence).expect("a message that is carried is found");
        book.group_name(&item).map(|name| GroupId(Text::from(name)))
    };
    let messages = ledger.carried_after(id, Sequence(0), usize::MAX);
    // Blocks that were filled otherwise may know an earlier instant only, so the two need not be the same.
    let next = book.next_instant();
    let due = ledger.next_due().unwrap_or(Timestamp::NEVER);
    assert!(due <= next, "queue {id:?} is due at {next:?}, the list says {due:?}");
    QueueSeen {
        figures: book.numbers(),
        messages: messages.into_iter().map(|carried| (carried.clone(), group(&carried))).collect(),
        offered: offered_in_groups(book),
        order: order_without_turns(book),
        expiry_through: ledger.expiry_through,
        queue,
    }
}

/// A ledger that is compared with the model, and the second one its changes are played into.
struct Twice {
    first: Ledger<Keeping>,
    second: Ledger<Keeping>,
    planted: Option<Planted>,
    bounds: Bounds,
    steps: u64,
    /// The two are compared each time after this number of steps.
    looks_every: u64,
    changes: usize,
    /// All of them, where what is due is done in many steps.
    kept: Vec<Kept>,
    /// Ledgers that were opened from these in the midst of what was due.
    opened: usize,
    difference: Option<String>,
}

impl Twice {
    fn new(looks_every: u64, planted: Option<Planted>, bounds: Bounds) -> Self {
        let ledger = |shelf, bounds| {
            let entropy = Arc::new(SeededEntropy::new(0x7477_6963_6500));
            Ledger::new(shelf, TokenKey([7; 16]), entropy, bounds)
        };
        let first = ledger(Keeping { planted, ..Keeping::default() }, bounds);
        // It is compared when everything due has been done.
        let whole = Bounds { departures: Bounds::default().departures, ..bounds };
        let second = ledger(Keeping::default(), whole);
        Self {
            first,
            second,
            planted,
            bounds,
            steps: 0,
            looks_every,
            changes: 0,
            kept: Vec::new(),
            opened: 0,
            difference: None,
        }
    }

    fn step(&mut self, now: Timestamp, command: &Command) -> Answer {
        if self.does_due_in_parts() {
            self.do_all_due(now, command);
        }
        let result = self.first.step(now, command);
        self.steps += 1;
        if self.difference.is_none() {
            self.play_again();
            if self.steps.is_multiple_of(self.looks_every) {
                self.look(command);
            }
        }
        Answer { result, freed: None }
    }

    fn does_due_in_parts(&self) -> bool {
        self.bounds.departures < Bounds::default().departures
    }

    /// Does what is due in many steps, as the model does it in one. A ledger that is opened in the midst of it from
    /// what was recorded by then does the rest by itself.
    fn do_all_due(&mut self, now: Timestamp, command: &Command) {
        self.first.bounds.departures = self.bounds.departures;
        let mut opened = None;
        while self.difference.is_none() && self.first.next_before_steps().is_some_and(|due| due <= now) {
            self.first.begin_step(now);
            self.play_again();
            let may_open = opened.is_none() && self.opened < OPENED_MAX;
            if may_open && self.first.books.values().any(|book| book.departs_by(now)) {
                opened = Some(self.open_third());
            }
        }
        if let Some(mut third) = opened {
            third.begin_step(now);
            while !third.taken_up.is_empty() || third.next_before_steps().is_some_and(|due| due <= now) {
                third.begin_step(now);
                third.list_taken_up(1);
            }
            let (one, other) = (see(&mut self.first), see(&mut third));
            if one != other {
                let what =
                    format!("opened before {command:?} at {now:?}\nlive:   {one:?}\nreplay: {other:?}");
                self.difference = Some(format!("{what}\nreplay made changes of its own"));
            }
        }
        // A lease ends at the last departure that it may make, which the model knows nothing of.
        self.first.bounds.departures = Bounds::default().departures;
    }

    /// A ledger that replays everything that was recorded so far, as one that was killed.
    fn open_third(&mut self) -> Ledger<Keeping> {
        self.opened += 1;
        let mut third = Self::new(self.looks_every, None, self.bounds).second;
        for Kept { kind, record, place } in &self.kept {
            let read = codec::read(*kind, record, |made, change| {
                third.replay(made, change.expect("a step records changes only"), *place, &|_| false);
            });
            assert!(read.is_some(), "a record that was written is read");
        }
        if self.planted != Some(Planted::UndecidedForgotten) {
            let slice = std::mem::replace(&mut third.bounds.slice, 1);
            third.end_replay();
            third.bounds.slice = slice;
        }
        third
    }

    /// Plays the changes of one step into the second ledger.
    fn play_again(&mut self) {
        let mut kept = std::mem::take(&mut self.first.shelf.kept);
        self.changes += kept.len();
        if self.does_due_in_parts() {
            self.kept.extend(kept.iter().cloned());
        }
        if self.planted == Some(Planted::Swapped) && kept.len() > 1 {
            kept.swap(0, 1);
        }
        for Kept { kind, record, place } in kept {
            let read = codec::read(kind, &record, |made, change| {
                let change = change.expect("a step records changes only");
                self.second.replay(made, change, place, &|_| false);
                match (self.planted, change) {
                    (Some(Planted::DueForgotten), Change::Released { queue, .. }) => {
                        let book = self.second.books.get_mut(queue).expect("a release names a queue");
                        self.second.due.remove((book.registered, *queue));
                    }
                    (Some(Planted::NameForgotten), Change::QueueSet(queue)) => {
                        self.second.names.forget(queue);
                    }
                    _ => {}
                }
            });
            assert!(read.is_some(), "a record that was written is read");
        }
    }

    /// Compares the two, at the same instant, after what the last change made due at once.
    fn look(&mut self, command: &Command) {
        see_all_off(&mut self.first);
        self.play_again();
        self.second.advance_newest(self.first.newest);
        see_all_off(&mut self.second);
        let by_itself = self.second.shelf.kept.len();
        self.second.take_up_undecided();
        self.second.list_taken_up(usize::MAX);
        let (one, other) = (see(&mut self.first), see(&mut self.second));
        if by_itself > 0 || one != other {
            let what = format!("after step {}, {command:?}\nlive:   {one:?}\nreplay: {other:?}", self.steps);
            self.difference = Some(format!("{what}\nreplay made {by_itself} changes of its own"));
        }
    }
}

/// Does what is due. What is over and was not seen off would still rest on its place.
fn see_all_off(ledger: &mut Ledger<Keeping>) {
    ledger.begin_step(ledger.newest);
    while !ledger.expiring.is_empty() {
        ledger.see_off_slice();
        ledger.begin_step(ledger.newest);
    }
}

impl Subject for Twice {
    fn steps(&mut self, batch: Vec<(Timestamp, Command)>) -> Vec<Answer> {
        batch.into_iter().map(|(now, command)| self.step(now, &command)).collect()
    }

    fn restart(&mut self, _ending: Ending) -> bool {
        false
    }

    fn next_due(&self) -> Option<Option<Timestamp>> {
        Some(self.first.next_due())
    }

    fn orders_groups(&self) -> bool {
        self.bounds.expired_in_groups >= Bounds::default().expired_in_groups && !self.does_due_in_parts()
    }
}

/// The first difference of one history, and how many changes it had.
fn difference(
    seed: u64,
    looks_every: u64,
    planted: Option<Planted>,
    bounds: Bounds,
) -> (Option<String>, usize) {
    let mut twice = Twice::new(looks_every, planted, bounds);
    drive(seed, STEPS, &mut twice).expect("a ledger equals the model");
    (twice.difference, twice.changes)
}

#[test]
fn every_change_played_a_second_time_makes_the_same_ledger() {
    let is_long = std::env::var("KEW_LONG").is_ok_and(|value| value == "1");
    let played = |looks_every, bounds: Bounds, one_of| {
        let mut changes = 0;
        for seed in seeds().step_by(if is_long { 1 } else { one_of }) {
            let (difference, of_history) = difference(seed, looks_every, None, bounds);
            changes += of_history;
            assert_eq!(difference, None, "KEW_MODEL_SEED={seed} runs it again");
        }
        assert!(changes > 0, "the histories change something");
    };
    // Beside each other: they take minutes.
    std::thread::scope(|threads| {
        // Time passes at changes only where the two are not compared.
        for (looks_every, bounds, one_of) in [
            (1, Bounds::default(), COMPARED_OFTEN),
            (20, Bounds::default(), COMPARED_RARELY),
            (20, Bounds { expired_in_groups: 1, ..Bounds::default() }, COMPARED_RARELY),
            (20, Bounds { departures: 1, ..Bounds::default() }, COMPARED_RARELY),
        ] {
            threads.spawn(move || played(looks_every, bounds, one_of));
        }
    });
}

#[test]
fn divergence_of_replay_is_found() {
    let bounds = |planted| match planted {
        Planted::UndecidedForgotten => Bounds { departures: 1, ..Bounds::default() },
        _ => Bounds::default(),
    };
    for planted in ALL {
        // A ledger that lost its way may panic, which is a difference too.
        let differs = |seed| {
            catch_unwind(|| difference(seed, 1, Some(planted), bounds(planted)).0.is_some()).unwrap_or(true)
        };
        let found = (1..=PLANTED_HISTORIES).any(differs);
        assert!(found, "{planted:?} is not found in {PLANTED_HISTORIES} histories");
    }
}
