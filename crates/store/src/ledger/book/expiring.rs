//! Messages at rest on a FIFO queue whose time is over, millions at once perhaps.
//!
//! Where all at rest are over and few other messages are there, the order leaves as it is. Else a line is drawn behind
//! the last that is over: from then on the figures are without them, and they are taken out of their groups some at a
//! time. A group that begins with some of them offers what is behind them when these are taken out.

use kew_core::{Sequence, Timestamp};

use super::contents::Contents;
use super::{BESIDE_MAX, Book, Happened, Moment};
use crate::ledger::fifo::{End, Fifo, Stand, Sum, Taken};
use crate::ledger::groups::{Group, GroupSlot, Groups};
use crate::ledger::item::{Entry, Hold, Item};

impl Book {
    /// Up to which instant messages at rest on a FIFO queue may expire together: nothing else happens before it, here
    /// or elsewhere, so no one can tell their instants apart.
    pub(super) fn undisturbed(&self, moment: &Moment) -> Timestamp {
        let Moment { at, now, settled, elsewhere, .. } = *moment;
        let held = &*self.held;
        let Some(fifo) = &held.fifo else { return at };
        let departs = held.departures.first().map_or(Timestamp::NEVER, |(due, _)| *due);
        let rings = held.alarms.first_at().unwrap_or(Timestamp::NEVER).min(departs);
        let ends = held.ends.next_at().unwrap_or(Timestamp::NEVER);
        let delay = self.queue.policy.delay;
        let shows = fifo.first_delayed().map_or(Timestamp::NEVER, |(_, sent_at)| sent_at.plus(delay));
        let next = rings.min(ends).min(shows).min(elsewhere);
        settled.max(at).max(now.min(next))
    }

    /// Messages at rest on a FIFO queue whose time is over by `through`.
    pub(super) fn expire_in_groups(&mut self, through: Timestamp, moment: &Moment, happened: &mut Happened) {
        let retention = self.retention();
        let is_over = |sent_at: Timestamp| sent_at.plus(retention) <= through;
        let oldest = self.held.fifo.as_ref().and_then(|fifo| fifo.oldest());
        if !oldest.is_some_and(|(_, sent_at)| is_over(sent_at)) {
            return;
        }
        happened.freed = true;
        let is_whole = self.held.fifo.as_ref().is_some_and(|fifo| fifo.is_over_at_rest(is_over));
        if is_whole && self.is_little_beside_rest() {
            self.expire_order(moment.mark, happened);
            return;
        }
        let Contents { fifo: Some(fifo), stored, body_bytes, .. } = &mut *self.held else { return };
        let sum = fifo.draw_line(is_over, retention);
        (*stored, *body_bytes) = (*stored - sum.messages, *body_bytes - sum.body_bytes);
        happened.over = sum.messages;
        happened.gone = self.take_over(moment.expired_max, moment.mark);
        if self.has_over() {
            // Those that are left are gone as well, for a lease of one behind them.
            self.held.set_at = moment.mark;
        }
    }

    /// Whether messages on a FIFO queue that are not at rest are few, and none of them may be offered.
    fn is_little_beside_rest(&self) -> bool {
        let is_offered = |entry: &Entry| matches!(entry.hold, Hold::Ready);
        self.held.entries.len() <= BESIDE_MAX && !self.held.entries.values().any(is_offered)
    }

    /// Every message at rest on a FIFO queue is over: the order and the groups leave as they are, and new ones are made
    /// of the other messages. No group of theirs has a turn.
    fn expire_order(&mut self, mark: u64, happened: &mut Happened) {
        let retention = self.retention();
        let held = &mut *self.held;
        let mut others: Vec<Sequence> = held.entries.values().map(|entry| entry.item.sequence).collect();
        others.sort_unstable();
        let (mut order, mut groups, mut others_bytes) = (Box::<Fifo>::default(), Groups::default(), 0);
        for sequence in &others {
            let entry = held.entries.get_mut(sequence).expect("a message listed from the entries has one");
            let slot = entry.item.group;
            let Group { name, left_at, .. } = slot
                .and_then(|slot| held.groups.get(slot))
                .expect("the group of a message on a FIFO queue has a slot");
            let slot = groups.slot_of(name);
            let group = groups.get_mut(slot).expect("a group that was just named has a slot");
            group.messages += 1;
            // Most have lost messages; of the others the mark says more than it must.
            group.left_at = mark.max(*left_at);
            entry.item.group = Some(slot);
            others_bytes += u64::from(entry.item.body_bytes);
            groups.count_lease(Some(slot), i32::from(matches!(entry.hold, Hold::Leased(_))));
            order.push(&mut groups, &entry.item, Stand::Held);
        }
        happened.groups_left = Some(std::mem::replace(&mut held.groups, groups));
        let gone =
            Sum { messages: held.stored - others.len() as u64, body_bytes: held.body_bytes - others_bytes };
        if let Some(order) = held.fifo.replace(order) {
            happened.expired_at_rest.add_order(order, retention, gone);
        }
        (held.stored, held.body_bytes) = (others.len() as u64, others_bytes);
    }

    /// Whether messages are over that were not taken out of their groups.
    #[inline]
    pub(crate) fn has_over(&self) -> bool {
        self.held.fifo.as_ref().is_some_and(|fifo| fifo.has_over())
    }

    /// Whether groups may offer something behind messages that are over, although none is found now.
    pub(crate) fn may_begin_to_offer(&self) -> bool {
        self.held.fifo.as_ref().is_some_and(|fifo| fifo.may_begin_to_offer())
    }

    /// When the time of this message was over, if it was not taken out of its group.
    pub(crate) fn over_at(&self, sequence: Sequence) -> Option<Timestamp> {
        self.held.fifo.as_ref()?.over_at(sequence)
    }

    /// Whether a group begins with a message that is over.
    pub(crate) fn begins_over(&self, group: GroupSlot) -> bool {
        let held = &*self.held;
        held.fifo.as_ref().is_some_and(|fifo| fifo.begins_over(&held.groups, group))
    }

    /// Takes out the oldest messages that are over, at most `max`. Returns each with the instant of its end.
    pub(crate) fn take_over(&mut self, max: usize, mark: u64) -> Vec<(Item, Timestamp)> {
        let Contents { fifo: Some(fifo), groups, .. } = &mut *self.held else { return Vec::new() };
        let taken = fifo.take_over(groups, max);
        self.note_taken(taken, mark)
    }

    /// The same with those that stand first in one group.
    pub(crate) fn take_heads(&mut self, group: GroupSlot, max: usize, mark: u64) -> Vec<(Item, Timestamp)> {
        let Contents { fifo: Some(fifo), groups, .. } = &mut *self.held else { return Vec::new() };
        let taken = fifo.take_heads(groups, group, max);
        self.note_taken(taken, mark)
    }

    /// What is behind those that were taken out is offered, or their group is forgotten.
    fn note_taken(&mut self, taken: Taken, mark: u64) -> Vec<(Item, Timestamp)> {
        for slot in taken.losers {
            self.regroup(slot, End::Back);
            self.note_left_at(Some(slot), mark);
            self.held.groups.forget_empty(slot);
        }
        if self.held.stored == 0 {
            // The next checkpoint would be the first to do it.
            self.give_back_room();
        }
        taken.items
    }
}
