//! The order within and between the groups of a FIFO queue.
//!
//! Every message has a place in a [`Run`], in the order of sends, and knows its neighbours in its group. One that was
//! never touched ("at rest") lives there alone, in about twenty bytes; all others have an entry elsewhere and only
//! their stand here. The oldest at rest, from which messages expire, and the first whose delay is not over are at hand.
//! Groups that offer something stand in the rotation.

mod expiring;
mod over;
mod rebuilt;
mod turns;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kew_core::{Expiry, Sequence, Timestamp};

use super::groups::{GroupSlot, Groups, NO_SEQUENCE};
use super::item::{Item, NO_INSTANT};
use super::ordered::Ordered;
use super::run::{FAR, Links, NONE, Run, given_for};
use super::shelf::Address;
pub(crate) use expiring::Taken;
use over::Over;
pub(crate) use over::Sum;
pub(crate) use rebuilt::Rebuilt;
use turns::GroupRow;
pub(crate) use turns::Shown;

/// What a message is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    /// Never touched: offered once the queue's delay is over.
    Rest,
    /// Touched, and may be offered.
    Ready,
    /// Leased or hidden.
    Held,
}

/// Which neighbour in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Before,
    After,
}

/// Messages of a group that are over and are passed over to find what it offers.
const OVER_LOOKS: usize = 256;

/// A message at rest that something happens to next, and when it was sent.
type Next = Option<(Sequence, Timestamp)>;

/// The messages of a FIFO queue, in order.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    /// All runs but the one being filled, by a sequence at or before their first and behind the run before. None is
    /// empty.
    full: Ordered<Sequence, Arc<Run>>,
    /// Which of them have messages at rest, and the sum of these; of the one being served it may be an earlier one.
    resting: BTreeMap<Sequence, Sum>,
    /// The one with the oldest message at rest, if it is open: mostly it is the one that messages are leased from.
    served: Option<Sequence>,
    /// The newest messages.
    filling: Run,
    /// Neighbours whose distance is more than a link can say.
    far: BTreeMap<(Sequence, Side), Sequence>,
    /// The oldest message at rest.
    oldest: Next,
    /// The first message at rest whose delay is not over.
    first_delayed: Next,
    /// Messages at rest from there on.
    delayed: u64,
    /// First and last group of the rotation.
    turns: GroupRow,
    /// Messages whose delays ended together, and whose groups are not all in the rotation yet.
    shown: Vec<Shown>,
    /// Messages at rest whose time is over: they count no more, and are taken out some at a time.
    over: Over,
}

impl Default for Fifo {
    fn default() -> Self {
        Self {
            full: Ordered::default(),
            resting: BTreeMap::new(),
            served: None,
            filling: Run::default(),
            far: BTreeMap::new(),
            oldest: None,
            first_delayed: None,
            delayed: 0,
            turns: GroupRow::default(),
            shown: Vec::new(),
            over: Over::default(),
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
    pub(crate) fn push_rest(&mut self, groups: &mut Groups, item: &Item, delayed: bool) {
        self.push(groups, item, Stand::Rest);
        let here = Some((item.sequence, item.sent_at));
        self.oldest = self.oldest.or(here);
        if delayed {
            self.delayed += 1;
            self.first_delayed = self.first_delayed.or(here);
        }
    }

    /// Adds a message that has an entry elsewhere at the end of its group. Sequences rise.
    pub(crate) fn push(&mut self, groups: &mut Groups, item: &Item, stand: Stand) {
        let Some(group) = item.group.and_then(|group| groups.get_mut(group)) else { return };
        let sequence = item.sequence;
        let last = std::mem::replace(&mut group.ends.1, sequence);
        if last == NO_SEQUENCE {
            group.ends.0 = sequence;
        }
        if !self.filling.has_room_for(sequence) {
            self.put_full();
        }
        self.filling.push(&untouched(item), Links { before: NONE, after: NONE }, stand);
        self.link(last, sequence);
    }

    /// The run being filled is full: another one is begun.
    fn put_full(&mut self) {
        let run = std::mem::take(&mut self.filling);
        self.put_anew(run.first(), run);
    }

    /// Packs a run anew that is not among the full ones, into a neighbour if both fit into one.
    fn put_anew(&mut self, key: Sequence, run: Run) {
        if run.live() == 0 {
            return;
        }
        let before = self.full.before(&key).filter(|(key, _)| self.served != Some(*key));
        let after = self.full.at_or_after(&key).filter(|(key, _)| self.served != Some(*key));
        let (key, packed) = match (before, after) {
            (Some((first, before)), _) if before.fits_with(&run) => (first, Run::joined(&[before, &run])),
            (_, Some((second, after))) if run.fits_with(after) => {
                let joined = Run::joined(&[&run, after]);
                self.full.remove(&second);
                self.resting.remove(&second);
                (key, joined)
            }
            _ => (key, run.packed_anew()),
        };
        if packed.at_rest() > 0 {
            self.resting.insert(key, packed.sum());
        }
        self.full.insert(key, Arc::new(packed));
    }

    /// Opens the run with the oldest message at rest, and packs the one that had it before.
    fn serve_oldest(&mut self) {
        if self.oldest_resting() == self.served {
            return;
        }
        self.put_served();
        self.served = self.oldest_resting();
        if let Some(run) = self.served.and_then(|served| self.full.get_mut(&served)) {
            Arc::make_mut(run).open();
        }
    }

    fn put_served(&mut self) {
        let Some(key) = self.served.take() else { return };
        self.resting.remove(&key);
        if let Some(run) = self.full.remove(&key) {
            self.put_anew(key, Arc::unwrap_or_clone(run));
        }
    }

    /// Packs what is open: said before a queue is written to a checkpoint, after which perhaps nothing happens to it.
    pub(crate) fn settle(&mut self) {
        self.put_served();
        if self.filling.live() > 0 {
            self.filling.pack();
        }
    }

    /// Takes a message out of its group for good.
    pub(crate) fn remove(&mut self, groups: &mut Groups, item: &Item) {
        let sequence = item.sequence;
        let Some(group) = item.group.filter(|_| self.find(sequence).is_some()) else { return };
        let waits = self.waits_for_its_turn(sequence);
        self.unrest(item);
        let is_first = groups.get(group).is_some_and(|group| group.ends.0 == sequence);
        let has_turn = groups.get(group).is_some_and(|group| group.turn.is_some());
        let before = if is_first { NO_SEQUENCE } else { self.neighbour(sequence, Side::Before) };
        let after = self.neighbour(sequence, Side::After);
        if let Some(entry) = groups.get_mut(group) {
            if before == NO_SEQUENCE {
                entry.ends.0 = after;
            }
            if after == NO_SEQUENCE {
                entry.ends.1 = before;
            }
        }
        self.forget_far((sequence, Side::Before), (sequence, Side::After));
        self.link(before, after);
        self.vacate(sequence);
        if is_first && !waits && self.waits_for_its_turn(after) && !has_turn {
            // What stood before that one is gone only now: its group comes behind all others.
            self.enter_now(groups, group);
        }
    }

    fn vacate(&mut self, sequence: Sequence) {
        let served = self.served;
        let Some((key, run, place)) = self.find_mut(sequence) else { return };
        let is_sparse = run.remove(place);
        match key {
            // The one being served is packed anew when it is left.
            Some(key) if served == Some(key) && run.live() > 0 => {}
            Some(key) if is_sparse => {
                self.served = served.filter(|served| *served != key);
                let run = self.full.remove(&key);
                self.resting.remove(&key);
                if let Some(run) = run {
                    self.put_anew(key, Arc::unwrap_or_clone(run));
                }
            }
            Some(_) => {}
            None if run.live() == 0 => run.clear(),
            None => {}
        }
    }

    /// The run and the place of a message.
    #[inline]
    fn find(&self, sequence: Sequence) -> Option<(&Run, usize)> {
        let run = if sequence >= self.filling.first() {
            &self.filling
        } else {
            self.full.at_or_before(&sequence)?.1
        };
        Some((run, run.place(sequence)?))
    }

    /// The run of a message, its key among the full ones, and the message's place.
    #[inline]
    fn find_mut(&mut self, sequence: Sequence) -> Option<(Option<Sequence>, &mut Run, usize)> {
        let (key, run) = if sequence >= self.filling.first() {
            (None, &mut self.filling)
        } else {
            let (key, run) = self.full.at_or_before_mut(&sequence)?;
            (Some(key), Arc::make_mut(run))
        };
        let place = run.place(sequence)?;
        Some((key, run, place))
    }

    /// The next message of a group on this side, or [`NO_SEQUENCE`].
    fn neighbour(&self, sequence: Sequence, side: Side) -> Sequence {
        let Some((run, place)) = self.find(sequence) else { return NO_SEQUENCE };
        let links = run.links(place);
        let distance = if side == Side::Before { links.before } else { links.after };
        match (distance, side) {
            (NONE, _) => NO_SEQUENCE,
            (FAR, _) => self.far.get(&(sequence, side)).copied().unwrap_or(NO_SEQUENCE),
            (distance, Side::Before) => Sequence(sequence.0 - u64::from(distance)),
            (distance, Side::After) => Sequence(sequence.0 + u64::from(distance)),
        }
    }

    /// Makes two messages of a group neighbours; either may be [`NO_SEQUENCE`].
    fn link(&mut self, before: Sequence, after: Sequence) {
        let is_end = before == NO_SEQUENCE || after == NO_SEQUENCE;
        let distance = if is_end { NONE } else { distance(before, after) };
        if distance == FAR {
            self.far.insert((before, Side::After), after);
            self.far.insert((after, Side::Before), before);
        } else {
            self.forget_far((before, Side::After), (after, Side::Before));
        }
        if let Some((_, run, place)) = self.find_mut(before) {
            run.links_mut(place).after = distance;
        }
        if let Some((_, run, place)) = self.find_mut(after) {
            run.links_mut(place).before = distance;
        }
    }

    fn forget_far(&mut self, one: (Sequence, Side), other: (Sequence, Side)) {
        if !self.far.is_empty() {
            self.far.remove(&one);
            self.far.remove(&other);
        }
    }

    /// A message at rest is touched: it stands as `stand` from now on.
    pub(crate) fn touch(&mut self, item: &Item, stand: Stand) {
        self.unrest(item);
        self.set_stand(item.sequence, stand);
    }

    /// What a message is doing.
    fn stand(&self, sequence: Sequence) -> Option<Stand> {
        self.find(sequence).map(|(run, place)| run.stand(place))
    }

    fn unrest(&mut self, item: &Item) {
        let sequence = item.sequence;
        let Some((key, run, place)) = self.find_mut(sequence) else { return };
        if run.stand(place) != Stand::Rest {
            return;
        }
        run.unrest(place, item.body_bytes);
        let sum = run.sum();
        if let Some(key) = key {
            self.note_resting(key, sum);
        }
        if self.is_delayed(sequence) {
            self.delayed -= 1;
        }
        let is_next = |next: Next| next.is_some_and(|(next, _)| next == sequence);
        if is_next(self.first_delayed) {
            self.first_delayed = self.next_at_rest(sequence);
        }
        if is_next(self.oldest) {
            self.serve_oldest();
            self.oldest = self.next_at_rest(sequence);
        }
    }

    /// A message of this run is not at rest any more. Those that are have this sum.
    #[inline]
    fn note_resting(&mut self, key: Sequence, sum: Sum) {
        if sum.messages == 0 {
            self.resting.remove(&key);
        } else if self.served != Some(key)
            && let Some(known) = self.resting.get_mut(&key)
        {
            *known = sum;
        }
    }

    fn next_at_rest(&self, sequence: Sequence) -> Next {
        self.first_at_rest_from(Sequence(sequence.0 + 1))
    }

    fn first_at_rest_from(&self, sequence: Sequence) -> Next {
        self.rest_from(sequence).next().map(|item| (item.sequence, item.sent_at))
    }

    /// The messages at rest from this one on that are not over, in the order of sends.
    pub(crate) fn rest_from(&self, sequence: Sequence) -> impl Iterator<Item = Item> + '_ {
        let sequence = sequence.max(self.over.to);
        self.resting_from(sequence).flat_map(Run::rest_items).skip_while(move |item| item.sequence < sequence)
    }

    /// The runs with messages at rest from the one that may have this message on, and the one being filled.
    fn resting_from(&self, sequence: Sequence) -> impl Iterator<Item = &Run> {
        let key = self.resting.range(..=sequence).next_back().map_or(sequence, |(key, _)| *key);
        let full = self.resting.range(key..).filter_map(|(key, _)| self.full.get(key)).map(|run| &**run);
        full.chain(std::iter::once(&self.filling))
    }

    /// All messages at rest that are not over, in the order of sends.
    pub(crate) fn rest(&self) -> impl Iterator<Item = Item> + '_ {
        let to = self.over.to;
        let runs = self.runs().filter(move |run| run.at_rest() > 0 && run.last() >= to);
        runs.flat_map(Run::rest_items).filter(move |item| item.sequence >= to)
    }

    /// The runs from the one that may hold this sequence on, in order.
    pub(super) fn runs_from(&self, sequence: Sequence) -> impl Iterator<Item = &Run> {
        let full = self.full.from(sequence).map(|(_, run)| &**run);
        full.chain(std::iter::once(&self.filling))
    }

    /// How many messages are at rest and not over.
    pub(crate) fn rest_count(&self) -> usize {
        self.runs().map(Run::at_rest).sum::<usize>() - self.over.messages
    }

    /// Whether the delay of the message at rest in this place is not over.
    pub(crate) fn is_delayed(&self, sequence: Sequence) -> bool {
        self.first_delayed.is_some_and(|(first, _)| sequence >= first)
    }

    /// Whether this message is at rest and not over.
    pub(crate) fn is_at_rest(&self, sequence: Sequence) -> bool {
        sequence >= self.over.to && self.stand(sequence) == Some(Stand::Rest)
    }

    /// The message of this sequence, if it is at rest and not over.
    pub(crate) fn find_rest(&self, sequence: Sequence) -> Option<Item> {
        if sequence < self.over.to {
            return None;
        }
        self.item_at_rest(sequence)
    }

    /// The message of this sequence, if it is at rest, be it over or not.
    fn item_at_rest(&self, sequence: Sequence) -> Option<Item> {
        let (run, place) = self.find(sequence)?;
        if run.stand(place) == Stand::Rest { run.item(place) } else { None }
    }

    /// The oldest message at rest, and when it was sent.
    pub(crate) fn oldest(&self) -> Next {
        self.oldest
    }

    /// The first message at rest whose delay is not over, and when it was sent.
    pub(crate) fn first_delayed(&self) -> Next {
        self.first_delayed
    }

    /// Draws the line between shown and delayed anew: messages at rest sent after `shown_through` are delayed.
    /// Returns those that are delayed from now on, each with its group, or else those that are shown.
    pub(crate) fn redraw_delay(
        &mut self,
        shown_through: Option<Timestamp>,
    ) -> (Vec<(Sequence, GroupSlot)>, Option<Shown>) {
        let shown = self.show_delayed(|sent_at| shown_through.is_some_and(|through| sent_at <= through));
        if shown.is_some() {
            return (Vec::new(), shown);
        }
        let old = self.first_delayed;
        let is_delayed = |item: &Item| shown_through.is_none_or(|through| item.sent_at > through);
        let (mut first, mut delayed) = (None, 0);
        let full = self.resting.keys().rev().filter_map(|key| self.full.get(key)).map(|run| &**run);
        'runs: for run in std::iter::once(&self.filling).chain(full) {
            let items: Vec<Item> = run.rest_items().collect();
            for item in items.iter().rev() {
                if !is_delayed(item) || item.sequence < self.over.to {
                    break 'runs;
                }
                first = Some((item.sequence, item.sent_at));
                delayed += 1;
            }
        }
        (self.first_delayed, self.delayed) = (first, delayed);
        let line = |next: Next| next.map_or(NO_SEQUENCE, |(sequence, _)| sequence);
        let (from, to) = (line(old).min(line(first)), line(old).max(line(first)));
        self.hide_from(from);
        let changed = self.rest_from(from).take_while(|item| item.sequence < to);
        (changed.filter_map(|item| Some((item.sequence, item.group?))).collect(), None)
    }

    /// Whether this message may be offered if nothing is before it.
    fn is_offerable(&self, sequence: Sequence) -> bool {
        match self.stand(sequence) {
            Some(Stand::Rest) => !self.is_delayed(sequence) && !self.over.is_hidden(sequence),
            Some(Stand::Ready) => true,
            Some(Stand::Held) | None => false,
        }
    }

    /// The messages of a group, in order, whatever they are doing.
    pub(crate) fn members<'a>(
        &'a self,
        groups: &Groups,
        group: GroupSlot,
    ) -> impl Iterator<Item = Sequence> + use<'a> {
        let first = groups.get(group).map_or(NO_SEQUENCE, |group| group.ends.0);
        let is_one = |sequence: &Sequence| *sequence != NO_SEQUENCE;
        std::iter::successors(Some(first).filter(is_one), move |sequence| {
            Some(self.neighbour(*sequence, Side::After)).filter(is_one)
        })
    }

    /// The messages a group offers, in order. Of messages that are over some are passed over, and no more.
    pub(crate) fn offered<'a>(
        &'a self,
        groups: &Groups,
        group: GroupSlot,
    ) -> impl Iterator<Item = Sequence> + use<'a> {
        let first = groups.get(group).map_or(NO_SEQUENCE, |group| group.ends.0);
        let (mut next, mut looks) = (first, OVER_LOOKS);
        std::iter::from_fn(move || {
            let offered = self.behind_over(next, &mut looks).filter(|next| self.is_offerable(*next))?;
            next = self.neighbour(offered, Side::After);
            Some(offered)
        })
    }

    /// The first message of a group, if it may be offered or was, but is over by now.
    pub(crate) fn head(&self, groups: &Groups, group: GroupSlot) -> Option<Sequence> {
        let first = groups.get(group)?.ends.0;
        self.is_offerable(first).then_some(first)
    }

    /// Sets what a touched message is doing.
    pub(crate) fn set_stand(&mut self, sequence: Sequence, stand: Stand) {
        if let Some((_, run, place)) = self.find_mut(sequence) {
            run.set_stand(place, stand);
        }
    }

    /// The messages at rest that may lie within these addresses.
    pub(crate) fn rest_near<'a>(&'a self, range: &Range<Address>) -> impl Iterator<Item = Item> + use<'a> {
        let range = range.clone();
        self.runs().filter(move |run| run.may_lie_in(&range)).flat_map(Run::rest_items)
    }

    /// Gives every message at rest for which `to` knows a new address, out of this range, that address.
    pub(crate) fn relocate(&mut self, range: &Range<Address>, mut to: impl FnMut(&Item) -> Option<Address>) {
        let near = self.full.iter().filter(|(_, run)| run.may_lie_in(range));
        let near: Vec<Sequence> = near.map(|(key, _)| *key).collect();
        for key in near {
            if let Some(run) = self.full.get_mut(&key) {
                Arc::make_mut(run).relocate(&mut to);
            }
        }
        if self.filling.may_lie_in(range) {
            self.filling.relocate(&mut to);
        }
    }

    /// Everything here, piece by piece; a piece may hold no message at rest.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        let beside = self.resting.into_keys().map(drop).chain(self.far.into_iter().map(drop));
        let runs = self.full.into_values().chain(std::iter::once(Arc::new(self.filling)));
        // Those that are over go on as such.
        let (has_over, to) = (self.over.messages > 0, self.over.to);
        let stays = move |item: &Item| !(has_over && item.sequence < to);
        // A run in which nothing rests is a piece of work as well.
        let pieces = move |run: Arc<Run>| {
            std::iter::once(None).chain(run.rest_items().filter(stays).map(Some).collect::<Vec<_>>())
        };
        runs.flat_map(pieces).chain(beside.map(|()| None))
    }

    /// The same messages as they are now, to be written to a checkpoint: the lists that are made of them are left out.
    pub(crate) fn image(&self) -> Self {
        Self {
            full: self.full.clone(),
            filling: self.filling.clone(),
            far: self.far.clone(),
            first_delayed: self.first_delayed,
            turns: self.turns,
            shown: self.shown.clone(),
            over: self.over.clone(),
            ..Self::default()
        }
    }

    /// What an image shares or copies, in pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.full.leaves() + self.far.len() + 1
    }

    /// All runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.full.values().map(|run| &**run).chain(std::iter::once(&self.filling))
    }

    /// Bytes held beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        // A tree's nodes have eleven places, and six of them filled where keys only rise.
        let listed = self.full.heap_bytes() + self.resting.len() * (8 + size_of::<Sum>()) * 11 / 6;
        // A run is shared with images, and has two counts for that.
        let run_bytes = given_for(size_of::<Run>() + 2 * size_of::<usize>());
        let runs: usize = self.full.values().map(|run| run_bytes + run.heap_bytes()).sum();
        listed + runs + self.filling.heap_bytes() + self.far.len() * 48
    }
}

/// A message to which nothing ever happened.
fn untouched(item: &Item) -> Item {
    Item {
        rank: item.sent_at,
        visible_at: Timestamp::ZERO,
        expiry: Expiry::ByQueue,
        attempts: 0,
        first_leased_at: NO_INSTANT,
        nonce: 0,
        lease_end: NO_INSTANT,
        ..*item
    }
}

/// How far one message is behind another, as links say it.
fn distance(before: Sequence, after: Sequence) -> u32 {
    u32::try_from(after.0.wrapping_sub(before.0)).unwrap_or(FAR)
}

#[cfg(test)]
mod tests;
