//! Beside the same queue from which the same messages are taken one by one.

use std::time::Duration;

use kew_core::{GroupId, Text};

use super::super::over::Sum;
use super::super::{OVER_LOOKS, Stand};
use super::*;
use crate::ledger::block::tests::item;

#[derive(Clone, Default)]
struct Queue {
    fifo: Fifo,
    groups: Groups,
    /// Those that are there, each with the slot of its group.
    there: Vec<(Sequence, GroupSlot)>,
}

/// What a queue shows of itself.
type Seen = (Vec<Item>, Vec<GroupSlot>, Vec<Vec<Sequence>>, (Option<Sequence>, Option<Sequence>, u64));

impl Queue {
    fn send(&mut self, sequence: u64, group: u64, delayed: bool) {
        let slot = self.groups.slot(&GroupId(Text::from(format!("g{group}"))));
        self.fifo.push_rest(&mut self.groups, &Item { group: Some(slot), ..item(sequence) }, delayed);
        self.groups.get_mut(slot).expect("the slot of a group that was named has it").messages += 1;
        self.there.push((Sequence(sequence), slot));
        self.regroup(slot);
    }

    fn regroup(&mut self, slot: GroupSlot) {
        self.fifo.regroup(&mut self.groups, slot, End::Back);
    }

    fn place_of(&self, sequence: Sequence) -> usize {
        let place = self.there.iter().position(|(other, _)| *other == sequence);
        place.expect("a message of the other queue is here too")
    }

    fn hold(&mut self, place: usize, stand: Stand) {
        let (sequence, slot) = self.there[place];
        self.fifo.touch(&item(sequence.0), stand);
        self.regroup(slot);
    }

    fn remove(&mut self, place: usize) {
        let (sequence, slot) = self.there.remove(place);
        self.fifo.remove(&mut self.groups, &Item { group: Some(slot), ..item(sequence.0) });
        self.groups.get_mut(slot).expect("a group with a message has a slot").messages -= 1;
        self.regroup(slot);
    }

    /// Takes those sent by `through` out together. Returns them.
    fn expire(&mut self, through: Timestamp) -> Vec<Item> {
        let sum = self.draw_line(through);
        let gone = self.take(usize::MAX);
        assert_eq!(sum.messages, gone.len() as u64);
        assert_eq!(sum.body_bytes, gone.iter().map(|item| u64::from(item.body_bytes)).sum::<u64>());
        assert!(!self.fifo.has_over());
        gone
    }

    fn draw_line(&mut self, through: Timestamp) -> Sum {
        self.fifo.draw_line(|sent_at| sent_at <= through, Duration::ZERO)
    }

    fn take(&mut self, max: usize) -> Vec<Item> {
        let taken = self.fifo.take_over(&mut self.groups, max);
        self.note(taken)
    }

    fn note(&mut self, taken: Taken) -> Vec<Item> {
        let Taken { items, losers } = taken;
        losers.iter().for_each(|slot| self.regroup(*slot));
        let mut known = losers.clone();
        known.dedup();
        assert_eq!(known, losers);
        self.there.retain(|(sequence, _)| !items.iter().any(|(item, _)| item.sequence == *sequence));
        items.into_iter().map(|(item, _)| item).collect()
    }

    /// The same one by one.
    fn expire_each(&mut self, through: Timestamp) -> Vec<Item> {
        let gone: Vec<Item> = self.fifo.rest().take_while(|item| item.sent_at <= through).collect();
        for item in &gone {
            let place = self.there.iter().position(|(sequence, _)| *sequence == item.sequence);
            self.remove(place.expect("a message at rest is listed"));
        }
        gone
    }

    /// Whether it shows what another one does from which all that are over were taken out: in any order of turns, and
    /// perhaps less of a group that begins with very many of them.
    fn is_as_if_taken(&self, other: &Self) -> bool {
        let (mut here, mut there) = (self.seen(), other.seen());
        [&mut here, &mut there].into_iter().for_each(|seen| seen.1.sort_unstable());
        if self.fifo.over_count() > OVER_LOOKS as u64 {
            let are_begun = here.2.iter().zip(&there.2).all(|(here, there)| there.starts_with(here));
            here.2 = if are_begun { there.2.clone() } else { here.2 };
        }
        here == there
    }

    fn seen(&self) -> Seen {
        let offered = |(slot, _)| self.fifo.offered(&self.groups, slot).collect();
        let next = |next: super::super::Next| next.map(|(sequence, _)| sequence);
        (
            self.fifo.rest().collect(),
            self.fifo.rotation(&self.groups).collect(),
            self.groups.iter().map(offered).collect(),
            (next(self.fifo.oldest()), next(self.fifo.first_delayed()), self.fifo.delayed()),
        )
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// A queue with delayed and touched messages, of which some left; and when the last that is over was sent.
fn random(round: u64) -> (Queue, Timestamp, Chance) {
    let mut chance = Chance(round);
    let (sends, groups) = (1 + chance.below(900), [1, 3, 40, 1_000][round as usize % 4]);
    let (touches, removals) = ([0, 3, 200][chance.below(3)], [0, 3, 300][chance.below(3)]);
    let delayed_from = [sends / 2, sends * 9 / 10, sends + 1][chance.below(3)];
    let mut queue = Queue::default();
    let mut sequence = 0;
    for number in 0..sends {
        // Now and then one is so far from the next that its link has to be written down elsewhere.
        sequence += if chance.below(300) == 0 { 1 << 33 } else { 1 + chance.below(2) as u64 };
        queue.send(sequence, chance.below(groups) as u64, number >= delayed_from);
    }
    for _ in 0..touches {
        let stand = [Stand::Held, Stand::Ready][chance.below(2)];
        let place = chance.below(queue.there.len());
        queue.hold(place, stand);
    }
    for _ in 0..removals.min(queue.there.len() / 2) {
        let place = chance.below(queue.there.len());
        queue.remove(place);
    }
    let through = item(1 + chance.below(sequence as usize + 3) as u64).sent_at;
    (queue, through, chance)
}

#[test]
fn what_expires_together_leaves_the_queue_as_if_it_had_left_one_by_one() {
    for round in 0..60 {
        let (mut queue, through, mut chance) = random(round);
        let mut other = queue.clone();
        assert!(queue.expire(through) == other.expire_each(through), "round {round}");
        assert!(queue.seen() == other.seen(), "round {round}");
        while !queue.there.is_empty() {
            let place = chance.below(queue.there.len());
            match chance.below(3) {
                0 => [&mut queue, &mut other].map(|queue| queue.hold(place, Stand::Ready)),
                1 => [&mut queue, &mut other].map(|queue| queue.hold(place, Stand::Held)),
                _ => [&mut queue, &mut other].map(|queue| queue.remove(place)),
            };
            assert!(queue.seen() == other.seen(), "round {round}, {} left", queue.there.len());
        }
        assert_eq!((queue.fifo.far.len(), queue.fifo.rest_count()), (0, 0), "round {round}");
    }
}

#[test]
fn messages_before_the_line_are_gone_at_once_and_taken_out_some_at_a_time() {
    for round in 0..120 {
        let (mut queue, through, mut chance) = random(round);
        let mut other = queue.clone();
        let gone = other.expire_each(through);
        assert_eq!(queue.draw_line(through).messages, gone.len() as u64, "round {round}");
        let (mut taken, mut next) = (Vec::new(), 1 << 45);
        while queue.fifo.has_over() {
            assert!(queue.is_as_if_taken(&other), "round {round}, {} taken", taken.len());
            let group = GroupSlot::at(chance.below(queue.groups.slots()) as u32);
            match chance.below(5) {
                0 => taken.extend(queue.take(1 + chance.below(100))),
                1 if queue.fifo.begins_over(&queue.groups, group) => {
                    let heads = queue.fifo.take_heads(&mut queue.groups, group, 1 + chance.below(9));
                    taken.extend(queue.note(heads));
                }
                2 => {
                    next += 1;
                    let (group, delayed) = (chance.below(40) as u64, other.fifo.delayed() > 0);
                    queue.send(next, group, delayed);
                    other.send(next, group, delayed);
                }
                3 if !other.there.is_empty() => {
                    let place = chance.below(other.there.len());
                    let stand = [Stand::Held, Stand::Ready][chance.below(2)];
                    let place_here = queue.place_of(other.there[place].0);
                    other.hold(place, stand);
                    queue.hold(place_here, stand);
                }
                4 if !other.there.is_empty() => {
                    let place = chance.below(other.there.len());
                    let place_here = queue.place_of(other.there[place].0);
                    other.remove(place);
                    queue.remove(place_here);
                }
                _ => {}
            }
        }
        assert!(queue.is_as_if_taken(&other), "round {round}, all taken");
        let sequences = |mut items: Vec<Item>| {
            items.sort_unstable_by_key(|item| item.sequence);
            items
        };
        assert!(sequences(taken) == sequences(gone), "round {round}: each is taken once");
    }
}

#[test]
fn what_is_over_leaves_an_emptied_queue_apart_from_all_else() {
    for round in 0..60 {
        let (mut queue, through, _) = random(round);
        let mut other = queue.clone();
        let gone = other.expire_each(through);
        queue.draw_line(through);
        let split = queue.fifo.split_over();
        assert_eq!(split.is_some(), !gone.is_empty(), "round {round}");
        let mut over = Vec::new();
        if let Some(mut split) = split {
            assert_eq!(split.over_count(), gone.len() as u64);
            let first = gone.first().map(|item| item.sequence);
            assert!(first.is_none_or(|first| split.over_at(first).is_some()));
            while let Some(run) = split.take_run() {
                over.extend(run.into_iter().map(|(item, _)| item));
            }
        }
        assert!(over == gone, "round {round}");
        let rest: Vec<Item> = other.fifo.rest().collect();
        assert!(queue.fifo.into_pieces().flatten().eq(rest), "round {round}");
    }
}

#[test]
fn a_run_is_dropped_at_its_edges_and_sends_go_on() {
    for over in [0_u64, 1, 62, 63, 64, 65, 127, 128, 129, 192, 193] {
        let mut queue = Queue::default();
        // Three messages are sent in each millisecond of the fixture.
        (1..=193).for_each(|n| queue.send(3 * n, n % 5, false));
        let through = item(3 * over).sent_at;
        assert_eq!(queue.expire(through).len() as u64, over);
        let left: Vec<u64> = queue.fifo.rest().map(|item| item.sequence.0 / 3).collect();
        assert!(left.into_iter().eq(over + 1..=193));
        assert_eq!(queue.fifo.oldest().map(|(oldest, _)| oldest.0 / 3), (over < 193).then_some(over + 1));
        queue.send(3_000, 2, false);
        let slot = queue.there.last().expect("the list ends with the sent message").1;
        let offered: Vec<u64> =
            queue.fifo.offered(&queue.groups, slot).map(|sequence| sequence.0 / 3).collect();
        assert!(offered.into_iter().eq((over + 1..=193).filter(|n| n % 5 == 2).chain([1_000])));
    }
}
