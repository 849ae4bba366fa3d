//! The order within and between the groups of a FIFO queue.
//!
//! Every message has a place in a [`Run`], in the order of sends, and knows its neighbours in its group. One that was
//! never touched ("at rest") lives there alone, in about twenty bytes; all others have an entry elsewhere and only
//! their stand here. The oldest at rest, from which messages expire, and the first whose delay is not over are at hand.
//! Groups that offer something stand in the rotation.

mod expiring;
mod links;
mod over;
mod rebuilt;
mod rest;
mod runs;
mod turns;

use std::collections::BTreeMap;
use std::sync::Arc;

use kew_core::{Expiry, Sequence, Timestamp};

use super::groups::{GroupSlot, Groups, NO_SEQUENCE};
use super::item::{Item, MaybeInstant};
use super::ordered::Ordered;
use super::run::{FAR, Links, NONE, Run, given_for};
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
#[derive(Clone, Debug, Default)]
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

    /// Adds a message that was never touched at the end of its group. Behind one that is delayed it is delayed, too.
    pub(crate) fn push_rest(&mut self, groups: &mut Groups, item: &Item, delayed: bool) {
        self.push(groups, item, Stand::Rest);
        let here = Some((item.sequence, item.sent_at));
        self.oldest = self.oldest.or(here);
        if delayed || self.first_delayed.is_some() {
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

    /// A message at rest is touched: it stands as `stand` from now on.
    pub(crate) fn touch(&mut self, item: &Item, stand: Stand) {
        self.unrest(item);
        self.set_stand(item.sequence, stand);
    }

    /// What a message is doing.
    fn stand(&self, sequence: Sequence) -> Option<Stand> {
        self.find(sequence).map(|(run, place)| run.stand(place))
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
}

/// A message to which nothing ever happened.
fn untouched(item: &Item) -> Item {
    Item {
        rank: item.sent_at,
        visible_at: Timestamp::ZERO,
        expiry: Expiry::ByQueue,
        attempts: 0,
        first_leased_at: MaybeInstant::NONE,
        nonce: 0,
        lease_end: MaybeInstant::NONE,
        ..*item
    }
}

#[cfg(test)]
mod tests;
