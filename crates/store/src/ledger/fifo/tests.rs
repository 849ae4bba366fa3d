//! The order of groups and messages, beside a plain list.

use super::super::block::tests::item;
use super::super::shelf::Address;
use super::*;
use kew_core::{GroupId, Text};

#[derive(Default)]
struct Fixture {
    fifo: Fifo,
    groups: Groups,
}

impl Fixture {
    fn slot(&mut self, group: &str) -> GroupSlot {
        self.groups.slot(&GroupId(Text::from(group)))
    }

    fn send(&mut self, sequence: u64, group: &str, delayed: bool) -> Sequence {
        let slot = self.slot(group);
        let item = Item { group: Some(slot), ..item(sequence) };
        self.fifo.push_rest(&mut self.groups, &item, delayed);
        self.regroup(group, End::Back);
        Sequence(sequence)
    }

    fn sent(&mut self, sequence: u64, group: &str) {
        self.send(sequence, group, false);
    }

    fn regroup(&mut self, group: &str, end: End) {
        let slot = self.slot(group);
        self.fifo.regroup(&mut self.groups, slot, end);
    }

    fn remove(&mut self, sequence: u64, group: &str) {
        let slot = self.slot(group);
        let item = Item { group: Some(slot), ..item(sequence) };
        self.fifo.remove(&mut self.groups, &item);
        self.regroup(group, End::Back);
    }

    fn offered(&mut self, group: &str) -> Vec<u64> {
        let slot = self.slot(group);
        self.fifo.offered(&self.groups, slot).map(|sequence| sequence.0).collect()
    }

    fn rotation(&self) -> Vec<&str> {
        self.fifo.rotation(&self.groups).filter_map(|slot| Some(&*self.groups.get(slot)?.name)).collect()
    }

    /// Whether runs are what their keys and the list of those with messages at rest say.
    fn check_runs(&self) {
        let runs: Vec<&(Sequence, Arc<Run>)> = self.fifo.full.iter().collect();
        for pair in runs.windows(2) {
            assert!(pair[0].1.first() < pair[1].0 && pair[1].0 <= pair[1].1.first());
        }
        for (key, run) in runs {
            assert!(run.live() > 0);
            let known = self.fifo.resting.get(key).copied();
            let sum = Some(run.sum()).filter(|sum| sum.messages > 0);
            assert!(known == sum || self.fifo.served == Some(*key) && known.is_some() == sum.is_some());
        }
        assert!(self.fifo.resting.len() <= self.fifo.full.len());
        assert!(self.fifo.served.is_none_or(|served| self.fifo.full.get(&served).is_some()));
    }
}

#[test]
fn groups_enter_at_the_back_and_leave_when_they_offer_nothing() {
    let mut it = Fixture::default();
    let a = it.send(1, "a", false);
    it.send(2, "b", false);
    it.send(3, "a", false);
    it.send(4, "c", true);
    assert_eq!(it.rotation(), ["a", "b"]);
    it.fifo.touch(&item(a.0), Stand::Held);
    it.regroup("a", End::Back);
    assert_eq!(it.rotation(), ["b"]);
    it.fifo.set_stand(a, Stand::Ready);
    it.regroup("a", End::Back);
    assert_eq!(it.rotation(), ["b", "a"]);
    assert_eq!(it.offered("a"), [1, 3]);
    assert!(it.fifo.show_delayed(|_| false).is_none());
    let shown = it.fifo.show_delayed(|_| true).expect("a delayed message is shown");
    it.fifo.show_later(shown);
    assert_eq!(it.fifo.show(&mut it.groups, usize::MAX), 1);
    it.fifo.leave(&mut it.groups, GroupSlot::at(2));
    it.regroup("c", End::Front);
    assert_eq!(it.rotation(), ["c", "b", "a"]);
    let b = it.slot("b");
    it.fifo.leave(&mut it.groups, b);
    assert_eq!(it.rotation(), ["c", "a"]);
}

#[test]
fn messages_at_rest_are_found_by_sequence_whatever_left() {
    let mut it = Fixture::default();
    (1..=1_000).for_each(|n| it.sent(n, "g"));
    (1..=1_000).filter(|n| n % 3 != 0).for_each(|n| it.remove(n, "g"));
    it.check_runs();
    for n in 0..=1_001 {
        let found = it.fifo.find_rest(Sequence(n)).map(|item| (item.sequence, item.address));
        let there = n % 3 == 0 && n > 0;
        assert_eq!(found, there.then(|| (Sequence(n), item(n).address)));
    }
    assert_eq!(it.fifo.oldest(), Some((Sequence(3), item(3).sent_at)));
    assert!(it.offered("g").into_iter().eq((1..=333).map(|n| 3 * n)));
}

#[test]
fn change_of_delay_moves_the_line_both_ways() {
    let mut it = Fixture::default();
    for n in 1..=9 {
        it.send(n, if n % 2 == 0 { "even" } else { "odd" }, false);
    }
    // Three messages are sent in each millisecond of the fixture.
    let through = item(5).sent_at;
    assert_eq!(it.fifo.redraw_delay(Some(through)).0.len(), 4);
    assert_eq!(it.fifo.delayed(), 4);
    assert_eq!(it.fifo.first_delayed(), Some((Sequence(6), item(6).sent_at)));
    it.fifo.redraw_delay(None);
    assert_eq!(it.fifo.delayed(), 9);
    it.fifo.redraw_delay(Some(Timestamp::NEVER));
    assert_eq!(it.fifo.delayed(), 0);
}

#[test]
fn line_of_delay_is_drawn_through_many_runs() {
    let mut it = Fixture::default();
    (1..=1_000).for_each(|n| it.sent(n, "g"));
    let (changed, _) = it.fifo.redraw_delay(Some(item(299).sent_at));
    assert!(changed.iter().map(|(sequence, _)| sequence.0).eq(300..=1_000));
    (300..=400).for_each(|n| it.fifo.touch(&item(n), Stand::Held));
    assert_eq!(it.fifo.first_delayed().map(|(first, _)| first), Some(Sequence(401)));
    // Three messages are sent in each millisecond of the fixture.
    for (through, delayed) in [(401, 599), (401, 599), (698, 302), (1_000, 0)] {
        let before = it.fifo.delayed();
        let shown = it.fifo.show_delayed(|sent_at| sent_at <= item(through).sent_at);
        shown.into_iter().for_each(|shown| it.fifo.show_later(shown));
        let shown = it.fifo.show(&mut it.groups, usize::MAX) as u64;
        assert_eq!((it.fifo.delayed(), before - shown), (delayed, delayed));
        assert!(!it.fifo.is_delayed(Sequence(through)));
    }
    assert_eq!(it.fifo.first_delayed(), None);
}

#[test]
fn neighbours_are_found_however_far_away_they_are() {
    let mut it = Fixture::default();
    let far = u64::from(FAR);
    // Just near enough, just too far, further than a run reaches; another group in between.
    let all = [1, far, 2 * far, 4 * far, 4 * far + 1, 9 * far];
    all.into_iter().for_each(|n| it.sent(n, "g"));
    it.send(10 * far, "h", false);
    assert_eq!(it.offered("g"), all);
    assert_eq!(it.fifo.far.len(), 2 * 3);
    it.remove(4 * far + 1, "g");
    it.remove(far, "g");
    assert_eq!(it.offered("g"), [1, 2 * far, 4 * far, 9 * far]);
    [1, 9 * far, 4 * far].into_iter().for_each(|n| it.remove(n, "g"));
    assert_eq!(it.offered("g"), [2 * far]);
    assert!(it.fifo.far.is_empty(), "{:?}", it.fifo.far);
    it.check_runs();
}

/// Messages with their groups and stands, as plain as can be.
#[derive(Default)]
struct Plain(BTreeMap<u64, (usize, Stand)>);

impl Plain {
    fn offered(&self, group: usize) -> Vec<u64> {
        let all = self.0.iter().filter(|(_, (of, _))| *of == group);
        all.take_while(|(_, (_, stand))| *stand != Stand::Held).map(|(sequence, _)| *sequence).collect()
    }

    fn rest(&self) -> Vec<u64> {
        self.0.iter().filter(|(_, (_, stand))| *stand == Stand::Rest).map(|(n, _)| *n).collect()
    }
}

#[test]
fn order_is_that_of_a_plain_list_whatever_happens() {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    for seed in 0..20_u64 {
        let (mut it, mut plain) = (Fixture::default(), Plain::default());
        let (mut chance, mut sequence) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, 0);
        let mut roll = |sides: u64| {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            chance % sides
        };
        for step in 0..3_000 {
            // Grows, shrinks and grows again.
            let sends = if step / 1_000 == 1 { 3 } else { 6 };
            let some = plain.0.len() as u64;
            match roll(10) {
                kind if kind < sends || some == 0 => {
                    sequence += if roll(8) == 0 { 1 + roll(900) } else { 1 };
                    let group = roll(5) as usize;
                    let stand = if roll(6) == 0 { Stand::Held } else { Stand::Rest };
                    let slot = it.slot(NAMES[group]);
                    let item = Item { group: Some(slot), ..item(sequence) };
                    match stand {
                        Stand::Rest => it.fifo.push_rest(&mut it.groups, &item, false),
                        _ => it.fifo.push(&mut it.groups, &item, stand),
                    }
                    plain.0.insert(sequence, (group, stand));
                }
                kind => {
                    // Mostly near the front, sometimes anywhere.
                    let reach = if roll(3) == 0 { some } else { some.min(6) };
                    let n = *plain
                        .0
                        .keys()
                        .nth(roll(reach) as usize)
                        .expect("the place is below the number of keys");
                    let (group, stand) = plain.0[&n];
                    if kind == 9 {
                        let new = if roll(2) == 0 { Stand::Ready } else { Stand::Held };
                        match stand {
                            Stand::Rest => it.fifo.touch(&item(n), new),
                            _ => it.fifo.set_stand(Sequence(n), new),
                        }
                        plain.0.insert(n, (group, new));
                    } else {
                        it.remove(n, NAMES[group]);
                        plain.0.remove(&n);
                    }
                }
            }
            if roll(50) == 0 {
                it.fifo.settle();
            }
            if step % 97 == 0 {
                it.check_runs();
                let rest: Vec<u64> = it.fifo.rest().map(|item| item.sequence.0).collect();
                assert_eq!((it.fifo.rest_count(), &rest), (rest.len(), &plain.rest()), "seed {seed}");
                assert_eq!(it.fifo.oldest().map(|(n, _)| n.0), rest.first().copied());
                for n in &rest {
                    let found = it.fifo.find_rest(Sequence(*n)).expect("the message is at rest");
                    let expected = item(*n);
                    assert_eq!(
                        (found.address, found.sent_at, found.body_bytes),
                        (expected.address, expected.sent_at, expected.body_bytes)
                    );
                }
                for (group, name) in NAMES.iter().enumerate() {
                    assert_eq!(it.offered(name), plain.offered(group), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn addresses_change_in_ranges_and_only_of_messages_at_rest() {
    let mut it = Fixture::default();
    (1..=500).for_each(|n| it.sent(n, "g"));
    (101..=110).for_each(|n| it.fifo.touch(&item(n), Stand::Held));
    let range = item(100).address..item(300).address;
    let near = it.fifo.rest_near(&range).filter(|item| range.contains(&item.address));
    assert!(near.map(|item| item.sequence.0).eq([100].into_iter().chain(111..300)));
    let mut moved = 0;
    it.fifo.relocate(&range, |item| {
        let is_in = range.contains(&item.address);
        moved += u32::from(is_in);
        is_in.then(|| Address(item.address.0 + 1_000_000))
    });
    assert_eq!(moved, 190);
    for n in (1..=500).filter(|n| !(101..=110).contains(n)) {
        let added = if (100..300).contains(&n) { 1_000_000 } else { 0 };
        let found = it.fifo.find_rest(Sequence(n)).expect("the message is at rest");
        assert_eq!(found.address.0, item(n).address.0 + added);
    }
    let moved = Address(item(100).address.0 + 1_000_000);
    assert!(it.fifo.rest_near(&(moved..Address(moved.0 + 1))).any(|item| item.address == moved));
}

#[test]
fn message_at_rest_takes_24_bytes_and_its_group_96() {
    let mut it = Fixture::default();
    let names: Vec<String> = (0..20_000).map(|n| format!("group-{n}")).collect();
    let messages = 5 * names.len();
    for n in 0..messages {
        it.send(n as u64 + 1, &names[n % names.len()], false);
    }
    let bytes = it.fifo.heap_bytes();
    assert!(bytes <= 21 * messages, "{} bytes a message", bytes as f64 / messages as f64);
    let bytes = it.groups.heap_bytes();
    assert!(bytes <= 96 * names.len(), "{} bytes a group", bytes as f64 / names.len() as f64);
}

#[test]
fn few_that_stay_of_many_take_little_more() {
    let mut it = Fixture::default();
    for n in 1..=400_000 {
        it.send(n, "stays", false);
        if n % 200 != 0 {
            it.remove(n, "stays");
        }
    }
    assert_eq!(it.offered("stays").len(), 2_000);
    let bytes = it.fifo.heap_bytes() as f64 / 2_000.0;
    assert!(bytes <= 32.0, "{bytes} bytes a message");
    // The same when they leave from a backlog.
    let mut it = Fixture::default();
    (1..=100_000).for_each(|n| it.sent(n, "stays"));
    (1..=100_000).filter(|n| n % 50 != 0).for_each(|n| it.remove(n, "stays"));
    assert_eq!(it.offered("stays").len(), 2_000);
    let bytes = it.fifo.heap_bytes() as f64 / 2_000.0;
    assert!(bytes <= 32.0, "{bytes} bytes a message");
}
