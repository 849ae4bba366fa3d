//! Beside the same queue whose groups all enter the rotation at the instant at which their delays end.

use kew_core::{GroupId, Text};

use super::*;
use crate::ledger::block::tests::item;
use crate::ledger::item::Item;

#[derive(Clone, Default)]
struct Queue {
    fifo: Fifo,
    groups: Groups,
    /// Those that are there, each with the slot of its group.
    there: Vec<(Sequence, GroupSlot)>,
    /// Whether messages are shown some at a time.
    in_slices: bool,
}

impl Queue {
    fn send(&mut self, sequence: u64, group: u64, delayed: bool) {
        let slot = self.groups.slot(&GroupId(Text::from(format!("g{group}"))));
        self.fifo.push_rest(&mut self.groups, &Item { group: Some(slot), ..item(sequence) }, delayed);
        self.there.push((Sequence(sequence), slot));
        self.fifo.regroup(&mut self.groups, slot, End::Back);
    }

    fn hold(&mut self, place: usize, stand: Stand, end: End) {
        let (sequence, slot) = self.there[place];
        self.fifo.touch(&item(sequence.0), stand);
        self.fifo.regroup(&mut self.groups, slot, end);
    }

    /// Leases the first message of the group whose turn it is, if there is one.
    fn lease(&mut self) -> Option<Sequence> {
        self.fifo.show_first(&mut self.groups, 2, usize::MAX);
        let group = self.fifo.first_turn()?;
        let head = self.fifo.head(&self.groups, group)?;
        self.fifo.touch(&item(head.0), Stand::Held);
        self.fifo.regroup(&mut self.groups, group, End::Back);
        Some(head)
    }

    fn remove(&mut self, place: usize) {
        let (sequence, slot) = self.there.remove(place);
        self.fifo.remove(&mut self.groups, &Item { group: Some(slot), ..item(sequence.0) });
        self.fifo.regroup(&mut self.groups, slot, End::Back);
    }

    fn show(&mut self, through: Timestamp) {
        let shown = self.fifo.show_delayed(|sent_at| sent_at <= through);
        shown.into_iter().for_each(|shown| self.fifo.show_later(shown));
        if !self.in_slices {
            self.show_some(usize::MAX);
        }
    }

    fn show_some(&mut self, max: usize) {
        assert!(self.fifo.show(&mut self.groups, max) <= max);
    }

    fn hide(&mut self, through: Timestamp) {
        let (hidden, shown) = self.fifo.redraw_delay(Some(through));
        for (_, group) in hidden {
            self.fifo.regroup(&mut self.groups, group, End::Back);
        }
        shown.into_iter().for_each(|shown| self.fifo.show_later(shown));
        if !self.in_slices {
            self.show_some(usize::MAX);
        }
    }

    /// The turns, what each group offers, and the figure.
    fn seen(&self) -> (Vec<GroupSlot>, Vec<Vec<Sequence>>, u64) {
        let turns: Vec<GroupSlot> = self.fifo.rotation(&self.groups).collect();
        let mut once = turns.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), turns.len(), "each has one turn");
        let offered = |(slot, _)| self.fifo.offered(&self.groups, slot).collect::<Vec<_>>();
        let offers: Vec<_> = self.groups.iter().map(offered).collect();
        assert_eq!(turns.len(), offers.iter().filter(|offers| !offers.is_empty()).count());
        (turns, offers, self.fifo.delayed())
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn anything(chance: &mut Chance, queues: &mut [Queue; 2], sequence: &mut u64, groups: usize) {
    let place = queues[0].there.len().checked_sub(1).map(|last| chance.below(last + 1));
    match (chance.below(10), place) {
        (0..=3, _) | (_, None) => {
            *sequence += 1 + chance.below(2) as u64;
            let group = chance.below(groups) as u64;
            let is_delayed = queues[0].fifo.first_delayed().is_some() || chance.below(3) > 0;
            queues.iter_mut().for_each(|queue| queue.send(*sequence, group, is_delayed));
        }
        (4, Some(place)) => {
            let end = [End::Front, End::Back][chance.below(2)];
            queues.iter_mut().for_each(|queue| {
                let (sequence, _) = queue.there[place];
                // Only one that was leased comes back.
                if !queue.fifo.is_at_rest(sequence) {
                    queue.hold(place, Stand::Ready, end);
                }
            });
        }
        (5, Some(place)) => queues.iter_mut().for_each(|queue| queue.hold(place, Stand::Held, End::Back)),
        // One that leaves before its turn gives up the place of its group.
        (6, Some(place)) if !queues[1].fifo.waits_for_its_turn(queues[1].there[place].0) => {
            queues.iter_mut().for_each(|queue| queue.remove(place));
        }
        (7, _) => {
            let [one, other] = queues.each_mut().map(Queue::lease);
            assert_eq!(one, other);
        }
        (8, _) => {
            let through = item(1 + chance.below(*sequence as usize + 3) as u64).sent_at;
            queues.iter_mut().for_each(|queue| queue.show(through));
        }
        _ => queues[1].show_some(1 + chance.below(5)),
    }
}

#[test]
fn groups_shown_in_slices_take_the_turns_they_would_have_had_at_once() {
    for round in 0..300 {
        let mut chance = Chance(round);
        let groups = [2, 5, 40][round as usize % 3];
        let mut queues = [Queue::default(), Queue { in_slices: true, ..Queue::default() }];
        let mut sequence = 0;
        for step in 0..400 {
            anything(&mut chance, &mut queues, &mut sequence, groups);
            assert_eq!(queues[0].seen(), queues[1].seen(), "round {round}, step {step}");
        }
    }
}

#[test]
fn a_longer_delay_hides_again_what_waits_for_its_turn() {
    let mut queue = Queue { in_slices: true, ..Queue::default() };
    (1..=300).for_each(|n| queue.send(n, n % 100, true));
    queue.show(item(300).sent_at);
    queue.show_some(10);
    // Three messages are sent in each millisecond of the fixture.
    queue.hide(item(29).sent_at);
    assert_eq!(queue.fifo.delayed(), 300 - 29);
    assert_eq!(queue.seen().0.len(), 29);
    queue.hide(item(89).sent_at);
    queue.show_some(usize::MAX);
    assert!(!queue.fifo.shows_left());
    assert_eq!(queue.seen().0.len(), 89);
}
