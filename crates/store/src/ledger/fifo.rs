//! The order within and between the groups of a FIFO queue.
//!
//! Every message has a node in its group's list, in the order of sends. Messages that were never touched ("at rest")
//! live in their node alone and also stand in one list by age, from which they expire and out of the queue's delay
//! they show; all others have an entry elsewhere and only their stand here. Groups that offer something stand in the
//! rotation.

use std::collections::BTreeMap;

use kew_core::{Expiry, Sequence, Timestamp};

use super::groups::{Groups, NIL};
use super::item::{Item, NO_INSTANT};
use super::shelf::Address;
use super::slab::Slab;

/// Steps between two marked nodes of the age list: how far a search by sequence walks.
const MARK_EVERY: u32 = 64;

/// What a node's message is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    /// Never touched: offered once the queue's delay is over.
    Rest,
    /// Touched, and may be offered.
    Ready,
    /// Leased or hidden.
    Held,
}

#[derive(Clone, Debug)]
struct Node {
    sequence: Sequence,
    address: Address,
    sent_at: Timestamp,
    record_bytes: u32,
    body_bytes: u32,
    origin: u32,
    group: u32,
    /// Neighbours in the group.
    near: (u32, u32),
    /// Neighbours by age, while at rest.
    age: (u32, u32),
    stand: Stand,
    marked: bool,
}

/// The messages of a FIFO queue, in order.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    nodes: Slab<Node>,
    /// Oldest and newest node at rest.
    ages: (u32, u32),
    /// The first node at rest whose delay is not over.
    frontier: u32,
    /// Nodes from there on.
    delayed: u64,
    /// Nodes at rest to begin a search by sequence from, beside the oldest.
    marks: BTreeMap<Sequence, u32>,
    since_mark: u32,
    /// First and last group of the rotation.
    turns: (u32, u32),
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            nodes: Slab::default(),
            ages: (NIL, NIL),
            frontier: NIL,
            delayed: 0,
            marks: BTreeMap::new(),
            since_mark: 0,
            turns: (NIL, NIL),
        }
    }
}

/// Which end of the rotation a group enters at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Front,
    Back,
}

impl Fifo {
    /// Messages at rest whose delay is not over.
    pub(crate) fn delayed(&self) -> u64 {
        self.delayed
    }

    /// Adds a message that was never touched at the end of its group.
    pub(crate) fn push_rest(&mut self, groups: &mut Groups, item: &Item, delayed: bool) -> u32 {
        let node = self.push(groups, item, Stand::Rest);
        self.age_append(node);
        if delayed {
            self.delayed += 1;
            if self.frontier == NIL {
                self.frontier = node;
            }
        }
        node
    }

    /// Adds a message that has an entry elsewhere at the end of its group.
    pub(crate) fn push_touched(&mut self, groups: &mut Groups, item: &Item, stand: Stand) -> u32 {
        self.push(groups, item, stand)
    }

    fn push(&mut self, groups: &mut Groups, item: &Item, stand: Stand) -> u32 {
        let group = item.group.wrapping_sub(1);
        let node = Node {
            sequence: item.sequence,
            address: item.address,
            sent_at: item.sent_at,
            record_bytes: item.record_bytes,
            body_bytes: item.body_bytes,
            origin: item.origin,
            group,
            near: (NIL, NIL),
            age: (NIL, NIL),
            stand,
            marked: false,
        };
        let slot = self.nodes.insert(node);
        if let Some(entry) = groups.get_mut(group) {
            let last = entry.ends.1;
            entry.ends = (if last == NIL { slot } else { entry.ends.0 }, slot);
            self.nodes[slot].near.0 = last;
            if last != NIL {
                self.nodes[last].near.1 = slot;
            }
        }
        slot
    }

    /// Takes a message out of its group for good.
    pub(crate) fn remove(&mut self, groups: &mut Groups, slot: u32) {
        self.unrest(slot);
        let node = &self.nodes[slot];
        let ((before, after), group) = (node.near, node.group);
        if let Some(entry) = groups.get_mut(group) {
            if before == NIL {
                entry.ends.0 = after;
            }
            if after == NIL {
                entry.ends.1 = before;
            }
        }
        if before != NIL {
            self.nodes[before].near.1 = after;
        }
        if after != NIL {
            self.nodes[after].near.0 = before;
        }
        self.nodes.give_back(slot);
    }

    /// A message at rest is touched: it leaves the list by age and stands as `stand`.
    pub(crate) fn touch(&mut self, slot: u32, stand: Stand) {
        self.unrest(slot);
        self.nodes[slot].stand = stand;
    }

    /// What message `slot` is doing.
    pub(crate) fn stand(&self, slot: u32) -> Stand {
        self.nodes[slot].stand
    }

    fn age_append(&mut self, slot: u32) {
        let last = self.ages.1;
        self.nodes[slot].age = (last, NIL);
        if last == NIL {
            self.ages.0 = slot;
        } else {
            self.nodes[last].age.1 = slot;
        }
        self.ages.1 = slot;
        self.since_mark += 1;
        if self.since_mark >= MARK_EVERY {
            self.mark(slot);
            self.since_mark = 0;
        }
    }

    fn mark(&mut self, slot: u32) {
        let node = &mut self.nodes[slot];
        if !node.marked {
            node.marked = true;
            self.marks.insert(node.sequence, slot);
        }
    }

    fn unrest(&mut self, slot: u32) {
        let node = &self.nodes[slot];
        if node.stand != Stand::Rest {
            return;
        }
        let (sequence, (before, after), marked) = (node.sequence, node.age, node.marked);
        if self.is_delayed(slot) {
            self.delayed -= 1;
        }
        if self.frontier == slot {
            self.frontier = after;
        }
        if before == NIL {
            self.ages.0 = after;
        } else {
            self.nodes[before].age.1 = after;
        }
        if after == NIL {
            self.ages.1 = before;
        } else {
            self.nodes[after].age.0 = before;
        }
        if marked {
            self.marks.remove(&sequence);
            // Mostly the oldest leaves, and from the next one a search begins without a mark.
            if before != NIL && after != NIL {
                self.mark(after);
            }
        }
        let node = &mut self.nodes[slot];
        node.marked = false;
        node.age = (NIL, NIL);
        node.stand = Stand::Held;
    }

    /// Whether the delay of the message at rest in this node is not over.
    pub(crate) fn is_delayed(&self, slot: u32) -> bool {
        self.frontier != NIL && self.nodes[slot].sequence >= self.nodes[self.frontier].sequence
    }

    /// The node at rest of message `sequence`.
    pub(crate) fn find_rest(&self, sequence: Sequence) -> Option<u32> {
        let mut slot = self.ages.0;
        // Mostly it is the oldest or soon behind it.
        if slot != NIL
            && self.nodes[slot].sequence.0 + u64::from(MARK_EVERY) <= sequence.0
            && let Some((_, marked)) = self.marks.range(..=sequence).next_back()
        {
            slot = *marked;
        }
        while slot != NIL {
            let node = &self.nodes[slot];
            if node.sequence >= sequence {
                return (node.sequence == sequence).then_some(slot);
            }
            slot = node.age.1;
        }
        None
    }

    /// The message at rest in this node.
    pub(crate) fn item(&self, slot: u32) -> Item {
        let node = &self.nodes[slot];
        Item {
            sequence: node.sequence,
            address: node.address,
            record_bytes: node.record_bytes,
            body_bytes: node.body_bytes,
            sent_at: node.sent_at,
            rank: node.sent_at,
            visible_at: Timestamp::ZERO,
            expiry: Expiry::ByQueue,
            group: node.group + 1,
            attempts: 0,
            first_leased_at: NO_INSTANT,
            nonce: 0,
            lease_end: NO_INSTANT,
            origin: node.origin,
            moved_at: node.sent_at,
        }
    }

    /// The group of a node.
    pub(crate) fn group_of(&self, slot: u32) -> u32 {
        self.nodes[slot].group
    }

    /// The message of a node.
    pub(crate) fn sequence_of(&self, slot: u32) -> Sequence {
        self.nodes[slot].sequence
    }

    /// The oldest message at rest.
    pub(crate) fn oldest(&self) -> Option<(u32, Timestamp)> {
        (self.ages.0 != NIL).then(|| (self.ages.0, self.nodes[self.ages.0].sent_at))
    }

    /// The next message at rest by age.
    pub(crate) fn next_by_age(&self, slot: u32) -> Option<u32> {
        let next = self.nodes[slot].age.1;
        (next != NIL).then_some(next)
    }

    /// The first message at rest whose delay is not over, and when it was sent.
    pub(crate) fn first_delayed(&self) -> Option<(u32, Timestamp)> {
        (self.frontier != NIL).then(|| (self.frontier, self.nodes[self.frontier].sent_at))
    }

    /// That message's delay is over.
    pub(crate) fn show_first_delayed(&mut self) {
        if self.frontier != NIL {
            self.delayed -= 1;
            self.frontier = self.nodes[self.frontier].age.1;
        }
    }

    /// Draws the line between shown and delayed anew: messages at rest sent after `shown_through` are delayed.
    /// Returns the messages that changed sides, each with its group.
    pub(crate) fn redraw_delay(&mut self, shown_through: Option<Timestamp>) -> Vec<(Sequence, u32)> {
        let old = self.frontier;
        let mut frontier = NIL;
        let mut delayed = 0;
        let mut slot = self.ages.1;
        while slot != NIL && shown_through.is_none_or(|through| self.nodes[slot].sent_at > through) {
            frontier = slot;
            delayed += 1;
            slot = self.nodes[slot].age.0;
        }
        self.frontier = frontier;
        self.delayed = delayed;
        let place = |slot: u32| if slot == NIL { Sequence(u64::MAX) } else { self.nodes[slot].sequence };
        let (mut slot, end) = if place(old) < place(frontier) { (old, frontier) } else { (frontier, old) };
        let mut changed = Vec::new();
        while slot != NIL && slot != end {
            changed.push((self.nodes[slot].sequence, self.nodes[slot].group));
            slot = self.nodes[slot].age.1;
        }
        changed
    }

    /// Whether this node's message may be offered if nothing is before it.
    fn is_offerable(&self, slot: u32) -> bool {
        match self.nodes[slot].stand {
            Stand::Rest => !self.is_delayed(slot),
            Stand::Ready => true,
            Stand::Held => false,
        }
    }

    /// The messages a group offers, in order.
    pub(crate) fn offered<'a>(&'a self, groups: &Groups, group: u32) -> impl Iterator<Item = u32> + 'a {
        let mut slot = groups.get(group).map_or(NIL, |group| group.ends.0);
        std::iter::from_fn(move || {
            if slot == NIL || !self.is_offerable(slot) {
                return None;
            }
            let offered = slot;
            slot = self.nodes[slot].near.1;
            Some(offered)
        })
    }

    /// The first message a group offers.
    pub(crate) fn head(&self, groups: &Groups, group: u32) -> Option<u32> {
        self.offered(groups, group).next()
    }

    /// Sets what a touched message is doing.
    pub(crate) fn set_stand(&mut self, slot: u32, stand: Stand) {
        self.nodes[slot].stand = stand;
    }

    /// Puts a group into the rotation or out of it, by whether it offers anything. True when it entered.
    pub(crate) fn regroup(&mut self, groups: &mut Groups, group: u32, end: End) -> bool {
        let offers = self.head(groups, group).is_some();
        let stands = groups.get(group).is_some_and(|group| group.turn.is_some());
        match (offers, stands) {
            (true, false) => {
                self.enter(groups, group, end);
                true
            }
            (false, true) => {
                self.leave(groups, group);
                false
            }
            _ => false,
        }
    }

    fn enter(&mut self, groups: &mut Groups, group: u32, end: End) {
        let (first, last) = self.turns;
        let turn = match end {
            End::Back => (last, NIL),
            End::Front => (NIL, first),
        };
        if let Some(entry) = groups.get_mut(group) {
            entry.turn = Some(turn);
        }
        self.link(groups, turn.0, group, turn.1);
    }

    fn link(&mut self, groups: &mut Groups, before: u32, group: u32, after: u32) {
        match groups.get_mut(before).and_then(|entry| entry.turn.as_mut()) {
            Some(turn) => turn.1 = group,
            None => self.turns.0 = group,
        }
        match groups.get_mut(after).and_then(|entry| entry.turn.as_mut()) {
            Some(turn) => turn.0 = group,
            None => self.turns.1 = group,
        }
    }

    /// Takes a group out of the rotation.
    pub(crate) fn leave(&mut self, groups: &mut Groups, group: u32) {
        let Some((before, after)) = groups.get_mut(group).and_then(|entry| entry.turn.take()) else { return };
        match groups.get_mut(before).and_then(|entry| entry.turn.as_mut()) {
            Some(turn) => turn.1 = after,
            None => self.turns.0 = after,
        }
        match groups.get_mut(after).and_then(|entry| entry.turn.as_mut()) {
            Some(turn) => turn.0 = before,
            None => self.turns.1 = before,
        }
    }

    /// The group whose turn it is.
    pub(crate) fn first_turn(&self) -> Option<u32> {
        (self.turns.0 != NIL).then_some(self.turns.0)
    }

    /// The groups in the rotation, in order.
    pub(crate) fn rotation<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = u32> + 'a {
        let mut next = self.turns.0;
        std::iter::from_fn(move || {
            let group = (next != NIL).then_some(next)?;
            next = groups.get(group).and_then(|entry| entry.turn).map_or(NIL, |turn| turn.1);
            Some(group)
        })
    }

    /// Gives every message at rest for which `to` knows a new address that address.
    pub(crate) fn relocate(&mut self, mut to: impl FnMut(&Item) -> Option<Address>) {
        let mut slot = self.ages.0;
        while slot != NIL {
            if let Some(address) = to(&self.item(slot)) {
                self.nodes[slot].address = address;
            }
            slot = self.nodes[slot].age.1;
        }
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.marks.len() * 24
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::tests::item;
    use super::*;
    use kew_core::{GroupId, Text};

    struct Fixture {
        fifo: Fifo,
        groups: Groups,
    }

    impl Fixture {
        fn new() -> Self {
            Self { fifo: Fifo::default(), groups: Groups::default() }
        }

        fn send(&mut self, sequence: u64, group: &str, delayed: bool) -> u32 {
            let slot = self.groups.slot(&GroupId(Text::from(group)));
            let item = Item { group: slot + 1, ..item(sequence) };
            let node = self.fifo.push_rest(&mut self.groups, &item, delayed);
            self.fifo.regroup(&mut self.groups, slot, End::Back);
            node
        }

        fn rotation(&self) -> Vec<&str> {
            self.fifo.rotation(&self.groups).filter_map(|slot| Some(&*self.groups.get(slot)?.name)).collect()
        }
    }

    #[test]
    fn groups_enter_at_the_back_and_leave_when_they_offer_nothing() {
        let mut it = Fixture::new();
        let a = it.send(1, "a", false);
        it.send(2, "b", false);
        it.send(3, "a", false);
        it.send(4, "c", true);
        assert_eq!(it.rotation(), ["a", "b"]);
        it.fifo.touch(a, Stand::Held);
        let group = it.fifo.group_of(a);
        it.fifo.regroup(&mut it.groups, group, End::Back);
        assert_eq!(it.rotation(), ["b"]);
        it.fifo.set_stand(a, Stand::Ready);
        it.fifo.regroup(&mut it.groups, group, End::Back);
        assert_eq!(it.rotation(), ["b", "a"]);
        assert_eq!(it.fifo.offered(&it.groups, group).count(), 2);
        it.fifo.show_first_delayed();
        let c = it.groups.slot(&GroupId(Text::from("c")));
        it.fifo.regroup(&mut it.groups, c, End::Front);
        assert_eq!(it.rotation(), ["c", "b", "a"]);
        let b = it.groups.slot(&GroupId(Text::from("b")));
        it.fifo.leave(&mut it.groups, b);
        assert_eq!(it.rotation(), ["c", "a"]);
    }

    #[test]
    fn messages_at_rest_are_found_by_sequence_whatever_left() {
        let mut it = Fixture::new();
        let nodes: Vec<u32> = (1..=1_000).map(|n| it.send(n, "g", false)).collect();
        for n in (1..=1_000).filter(|n| n % 3 != 0) {
            it.fifo.remove(&mut it.groups, nodes[n - 1]);
        }
        for n in 1..=1_000 {
            let found = it.fifo.find_rest(Sequence(n)).map(|slot| it.fifo.sequence_of(slot));
            assert_eq!(found, (n % 3 == 0).then_some(Sequence(n)));
        }
        assert_eq!(it.fifo.oldest().map(|(slot, _)| it.fifo.sequence_of(slot)), Some(Sequence(3)));
    }

    #[test]
    fn change_of_delay_moves_the_line_both_ways() {
        let mut it = Fixture::new();
        for n in 1..=9 {
            it.send(n, if n % 2 == 0 { "even" } else { "odd" }, false);
        }
        // Three messages are sent in each millisecond of the fixture.
        let through = item(5).sent_at;
        assert_eq!(it.fifo.redraw_delay(Some(through)).len(), 4);
        assert_eq!(it.fifo.delayed(), 4);
        assert_eq!(it.fifo.first_delayed().map(|(slot, _)| it.fifo.sequence_of(slot)), Some(Sequence(6)));
        it.fifo.redraw_delay(None);
        assert_eq!(it.fifo.delayed(), 9);
        it.fifo.redraw_delay(Some(Timestamp::NEVER));
        assert_eq!(it.fifo.delayed(), 0);
    }
}
