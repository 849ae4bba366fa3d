//! The alarms of one queue, in order: what happens to a message by itself, and when.
//!
//! Leases of a queue mostly end in the order they began, and mostly before that by a receipt. So alarms stand in a
//! row: a new one mostly belongs at its end, and one that is taken out is only marked. Those that belong further to
//! the front stand aside in an ordered set. The row is cut into blocks: it may have millions, and no step copies all of
//! them.

use std::collections::{BTreeSet, VecDeque};

use kew_core::{Sequence, Timestamp};

/// An alarm: its instant, and the message it is for.
type Alarm = (Timestamp, Sequence);

/// Alarms in a full block of the row.
const BLOCK: usize = 256;
/// Marked places a block may have beside its standing ones before it is packed.
const MARKED_MAX: usize = 64;

/// Some alarms of a row, in order, each with whether it stands.
#[derive(Clone, Debug, Default)]
struct Block {
    alarms: VecDeque<(Alarm, bool)>,
    /// How many stand.
    standing: usize,
}

impl Block {
    /// The first one, which stands in the first block.
    fn first(&self) -> Option<Alarm> {
        self.alarms.front().map(|(alarm, _)| *alarm)
    }

    /// The last one, which stands in the last block.
    fn last(&self) -> Option<Alarm> {
        self.alarms.back().map(|(alarm, _)| *alarm)
    }

    fn due_by(&self, at: Timestamp) -> impl Iterator<Item = Alarm> + '_ {
        let due = self.alarms.iter().take_while(move |((due, _), _)| *due <= at);
        due.filter(|(_, stands)| *stands).map(|(alarm, _)| *alarm)
    }

    /// Marks an alarm. False when it does not stand here.
    fn mark(&mut self, alarm: &Alarm) -> bool {
        let place = self.alarms.binary_search_by_key(alarm, |(alarm, _)| *alarm);
        let Some((_, stands)) = place.ok().and_then(|place| self.alarms.get_mut(place)) else { return false };
        let was_standing = std::mem::take(stands);
        self.standing -= usize::from(was_standing);
        was_standing
    }

    /// Drops what is marked, when that is most of it. True when it did.
    fn pack(&mut self) -> bool {
        let is_sparse = self.alarms.len() > 2 * self.standing + MARKED_MAX;
        if is_sparse {
            self.alarms.retain(|(_, stands)| *stands);
        }
        is_sparse
    }
}

/// Alarms in order. No two are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    /// Blocks in order. The first alarm of the first and the last of the last stand. Only a block that is alone may be
    /// empty.
    row: VecDeque<Block>,
    aside: BTreeSet<Alarm>,
}

impl Alarms {
    #[cfg(test)]
    fn len(&self) -> usize {
        self.row.iter().map(|block| block.standing).sum::<usize>() + self.aside.len()
    }

    pub(crate) fn insert(&mut self, alarm: Alarm) {
        if self.row.back().and_then(Block::last).is_some_and(|last| last >= alarm) {
            self.aside.insert(alarm);
            return;
        }
        if self.row.back().is_none_or(|last| last.alarms.len() >= BLOCK) {
            // The first block grows as it must: most queues have few alarms.
            let room = if self.row.is_empty() { 0 } else { BLOCK };
            if self.row.is_empty() {
                self.row.reserve_exact(1);
            }
            self.row.push_back(Block { alarms: VecDeque::with_capacity(room), standing: 0 });
        }
        if let Some(block) = self.row.back_mut() {
            block.alarms.push_back((alarm, true));
            block.standing += 1;
        }
    }

    /// Takes an alarm out. False when it does not stand here.
    pub(crate) fn remove(&mut self, alarm: &Alarm) -> bool {
        if let Some(first) = self.row.front_mut().filter(|first| first.first() == Some(*alarm)) {
            first.alarms.pop_front();
            first.standing -= 1;
            if first.standing == 0 && self.row.len() > 1 {
                self.row.pop_front();
            }
            self.tidy();
            return true;
        }
        let behind = self.row.partition_point(|block| block.first().is_some_and(|first| first <= *alarm));
        let place = behind.saturating_sub(1);
        if !self.row.get_mut(place).is_some_and(|block| block.mark(alarm)) {
            return self.aside.remove(alarm);
        }
        self.tidy_block(place);
        self.tidy();
        true
    }

    /// An alarm of this block was marked: it goes when none stands, and is packed, into the one before it if both are
    /// small.
    fn tidy_block(&mut self, place: usize) {
        let (blocks, block) = (self.row.len(), &mut self.row[place]);
        if block.standing == 0 && blocks > 1 {
            self.row.remove(place);
            return;
        }
        // The last one, which others will follow in, keeps its room.
        if !block.pack() || place + 1 == blocks {
            return;
        }
        block.alarms.shrink_to_fit();
        let length = block.alarms.len();
        let is_small = |before: &mut Block| before.alarms.len() + length <= BLOCK / 2;
        if place > 0
            && self.row.get_mut(place - 1).is_some_and(is_small)
            && let Some(block) = self.row.remove(place)
        {
            let before = &mut self.row[place - 1];
            before.standing += block.standing;
            before.alarms.extend(block.alarms);
        }
    }

    /// Drops what is marked at both ends of the row.
    fn tidy(&mut self) {
        if let Some(first) = self.row.front_mut() {
            while first.alarms.pop_front_if(|(_, stands)| !*stands).is_some() {}
        }
        if let Some(last) = self.row.back_mut() {
            while last.alarms.pop_back_if(|(_, stands)| !*stands).is_some() {}
        }
    }

    /// The earliest instant.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        let row = self.row.front().and_then(Block::first).map(|(at, _)| at);
        let aside = self.aside.first().map(|(at, _)| *at);
        match (row, aside) {
            (Some(row), Some(aside)) => Some(row.min(aside)),
            (row, aside) => row.or(aside),
        }
    }

    /// The earliest instant after `at`. Looks past those that are due by then without looking at each.
    pub(crate) fn first_after(&self, at: Timestamp) -> Option<Timestamp> {
        let behind = self.row.partition_point(|block| block.last().is_some_and(|(last, _)| last <= at));
        let blocks = self.row.range(behind..).flat_map(|block| &block.alarms);
        let mut standing = blocks.filter(|(_, stands)| *stands).map(|(alarm, _)| alarm.0);
        let row = standing.find(|due| *due > at);
        let aside = self.aside.range((at.next(), Sequence(0))..).next().map(|alarm| alarm.0);
        match (row, aside) {
            (Some(row), Some(aside)) => Some(row.min(aside)),
            (row, aside) => row.or(aside),
        }
    }

    /// How many alarms are due by `at`, and after `after`. Looks at each block of these, and at each that stands aside.
    pub(crate) fn count_due(&self, after: Option<Timestamp>, at: Timestamp) -> u64 {
        let is_after = |due: Timestamp| after.is_none_or(|after| due > after);
        let from = self.row.partition_point(|block| block.last().is_some_and(|(last, _)| !is_after(last)));
        let to = self.row.partition_point(|block| block.last().is_some_and(|(last, _)| last <= at)).max(from);
        // Of the first block and the last some alarms may be outside.
        let ends = self.row.range(from..to).take(1).chain(self.row.get(to));
        let of_ends = ends.flat_map(|block| block.due_by(at)).filter(|(due, _)| is_after(*due)).count();
        let row = of_ends + self.row.range(from..to).skip(1).map(|block| block.standing).sum::<usize>();
        let aside = self.aside.iter().take_while(|(due, _)| *due <= at).filter(|(due, _)| is_after(*due));
        (row + aside.count()) as u64
    }

    /// The blocks that begin by `at`.
    fn blocks_by(&self, at: Timestamp) -> impl Iterator<Item = &Block> {
        self.row.iter().take_while(move |block| block.first().is_some_and(|(first, _)| first <= at))
    }

    /// The messages whose alarms are due by `at`, in no particular order.
    pub(crate) fn due_by(&self, at: Timestamp) -> impl Iterator<Item = Sequence> + '_ {
        let row = self.blocks_by(at).flat_map(move |block| block.due_by(at)).map(|alarm| alarm.1);
        row.chain(self.aside.iter().take_while(move |(due, _)| *due <= at).map(|alarm| alarm.1))
    }

    /// The same in order: by instants, then by messages.
    pub(crate) fn due_in_order(&self, at: Timestamp) -> impl Iterator<Item = Sequence> + '_ {
        let mut row = self.blocks_by(at).flat_map(move |block| block.due_by(at)).peekable();
        let mut aside = self.aside.iter().take_while(move |(due, _)| *due <= at).copied().peekable();
        std::iter::from_fn(move || {
            let is_aside_next = match (row.peek(), aside.peek()) {
                (Some(row), Some(aside)) => aside < row,
                (None, aside) => aside.is_some(),
                (Some(_), None) => false,
            };
            let next = if is_aside_next { aside.next() } else { row.next() };
            next.map(|alarm| alarm.1)
        })
    }

    /// Everything that takes long to give back, piece by piece.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.row.into_iter().map(drop).chain(self.aside.into_iter().map(drop))
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let blocks: usize = self.row.iter().map(|block| block.alarms.capacity()).sum();
        self.row.capacity() * size_of::<Block>() + blocks * size_of::<(Alarm, bool)>() + self.aside.len() * 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(alarms: &Alarms, at: u64) -> BTreeSet<u64> {
        alarms.due_by(Timestamp(at)).map(|sequence| sequence.0).collect()
    }

    #[test]
    fn alarms_are_what_an_ordered_set_of_them_would_be() {
        let (mut alarms, mut plain) = (Alarms::default(), BTreeSet::new());
        let mut chance = 0x9e37_79b9_u64;
        for step in 0..20_000_u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = chance >> 33;
            // Mostly at the end, sometimes anywhere; taken from anywhere, a little less often than put.
            let at = if number.is_multiple_of(5) { number % (step + 1) } else { step };
            let alarm = (Timestamp(at), Sequence(step));
            alarms.insert(alarm);
            plain.insert(alarm);
            while plain.len() > 2_000 || (!plain.is_empty() && number.is_multiple_of(3)) {
                let gone =
                    *plain.iter().nth(number as usize % plain.len()).expect("a list with alarms has a first");
                plain.remove(&gone);
                alarms.remove(&gone);
                if number.is_multiple_of(3) {
                    break;
                }
            }
            assert_eq!((alarms.len(), alarms.first_at()), (plain.len(), plain.first().map(|first| first.0)));
            let is_packed = |block: &Block| block.alarms.len() <= 2 * block.standing + MARKED_MAX;
            assert!(
                alarms.row.iter().all(|block| is_packed(block) && (block.standing > 0 || plain.is_empty()))
            );
            if step % 100 == 0 {
                let at = step.saturating_sub(50);
                let expected: BTreeSet<u64> =
                    plain.iter().filter(|(due, _)| due.0 <= at).map(|alarm| alarm.1.0).collect();
                assert_eq!(due(&alarms, at), expected);
                assert_eq!(alarms.count_due(None, Timestamp(at)), expected.len() as u64);
                for after in [0, at / 2, at.saturating_sub(300), at.saturating_sub(1), at] {
                    let due = plain.iter().filter(|(due, _)| due.0 > after && due.0 <= at).count() as u64;
                    assert_eq!(alarms.count_due(Some(Timestamp(after)), Timestamp(at)), due);
                }
                let in_order: Vec<u64> =
                    alarms.due_in_order(Timestamp(at)).map(|sequence| sequence.0).collect();
                let expected = plain.iter().filter(|(due, _)| due.0 <= at).map(|alarm| alarm.1.0);
                assert_eq!(in_order, expected.collect::<Vec<_>>());
                let after = plain.iter().map(|(due, _)| *due).find(|due| due.0 > at);
                assert_eq!(alarms.first_after(Timestamp(at)), after);
            }
        }
    }

    #[test]
    fn one_alarm_far_ahead_keeps_no_traces_of_those_behind_it() {
        let mut alarms = Alarms::default();
        alarms.insert((Timestamp(0), Sequence(0)));
        for number in 1..10_000 {
            alarms.insert((Timestamp(number), Sequence(number)));
            alarms.remove(&(Timestamp(number), Sequence(number)));
        }
        assert_eq!((alarms.len(), alarms.row.len(), alarms.row[0].alarms.len()), (1, 1, 1));
        (1..100_000).for_each(|number| alarms.insert((Timestamp(number), Sequence(number))));
        (1..100_000).for_each(|number| assert!(alarms.remove(&(Timestamp(number), Sequence(number)))));
        assert_eq!(alarms.row.len(), 1);
        assert!(alarms.row[0].alarms.capacity() <= BLOCK);
        assert_eq!(due(&alarms, 10_000), BTreeSet::from([0]));
    }

    #[test]
    fn few_that_are_left_of_very_many_take_little_room() {
        let mut alarms = Alarms::default();
        let all = (0..100_000).map(|number| (Timestamp(number), Sequence(number)));
        all.clone().for_each(|alarm| alarms.insert(alarm));
        let full = alarms.heap_bytes();
        let stays = |number: u64| number % 100 == 7;
        all.filter(|(_, sequence)| !stays(sequence.0)).for_each(|alarm| assert!(alarms.remove(&alarm)));
        assert!(alarms.heap_bytes() < full / 10, "{} of {full}", alarms.heap_bytes());
        let left: Vec<u64> = (0..100_000).filter(|number| stays(*number)).collect();
        assert_eq!((alarms.len(), alarms.count_due(None, Timestamp::NEVER)), (left.len(), left.len() as u64));
        assert!(alarms.due_in_order(Timestamp::NEVER).map(|sequence| sequence.0).eq(left));
    }
}
