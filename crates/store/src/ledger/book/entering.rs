//! How messages enter a queue and leave it, one by one and all at once.

use kew_core::{Expiry, Sequence, Timestamp};

use super::{Book, HIDDEN_AT_HAND};
use crate::ledger::emptied::Remains;
use crate::ledger::fifo::{End, Fifo, Stand};
use crate::ledger::groups::GroupSlot;
use crate::ledger::item::{Entry, Hold, Item};

/// What left a queue that was emptied.
pub(crate) struct Cleared {
    /// What is to be given back.
    pub remains: Option<Remains>,
    /// FIFO: messages that were over before.
    pub over: Option<Box<Fifo>>,
}

impl Book {
    /// A message enters. On a FIFO queue a fresh one (`visible_at` set) follows the queue's delay.
    pub(crate) fn enter(&mut self, item: Item, now: Timestamp) {
        self.next_sequence = self.next_sequence.max(item.sequence.0 + 1);
        let hidden = item.visible_at > now;
        let held = &mut *self.held;
        held.stored += 1;
        held.body_bytes += u64::from(item.body_bytes);
        if held.fifo.is_none()
            && let Some(group) = item.group
        {
            held.groups.count_message(group, 1);
        }
        match &mut held.fifo {
            Some(fifo) => {
                if let Some(group) = item.group.and_then(|group| held.groups.get_mut(group)) {
                    group.messages += 1;
                }
                let rests = item.expiry == Expiry::ByQueue
                    && item.visible_at != Timestamp::ZERO
                    && item.attempts == 0;
                if rests {
                    fifo.push_rest(&mut held.groups, &item, hidden);
                } else {
                    let stand = if hidden { Stand::Held } else { Stand::Ready };
                    fifo.push(&mut held.groups, &item, stand);
                    self.add_entry(item, hidden);
                }
                self.regroup_of(&item, End::Back);
            }
            None if hidden => {
                let put = if held.delayed < HIDDEN_AT_HAND { Some(item) } else { self.put_far(item, now) };
                if let Some(item) = put {
                    self.add_entry(item, true);
                }
            }
            None => {
                held.ready.put(Item { visible_at: Timestamp::ZERO, ..item }, self.queue.policy.retention);
            }
        }
    }

    pub(super) fn put_far(&mut self, item: Item, now: Timestamp) -> Option<Item> {
        self.held.far.put(item, now, self.queue.policy.retention)
    }

    pub(super) fn add_entry(&mut self, item: Item, hidden: bool) {
        let hold = if hidden { Hold::Delayed } else { Hold::Ready };
        self.held.delayed += u64::from(hidden);
        let entry = Entry { item, hold, alarm: Timestamp::NEVER };
        self.held.put_entry(entry);
        self.set_alarm(item.sequence);
    }

    /// A message leaves for good.
    #[inline]
    pub(crate) fn leave(&mut self, sequence: Sequence) -> Option<Item> {
        let item = match self.held.entries.remove(&sequence) {
            Some(entry) => {
                self.held.drop_alarm(&(entry.alarm, sequence));
                self.note_hold_ended(&entry.item, &entry.hold);
                let held = &mut *self.held;
                if let Some(fifo) = &mut held.fifo {
                    fifo.remove(&mut held.groups, &entry.item);
                }
                entry.item
            }
            None => self.held.take_without_entry(sequence)?,
        };
        self.note_left(&item);
        Some(item)
    }

    #[inline]
    pub(super) fn note_left(&mut self, item: &Item) {
        self.held.stored -= 1;
        self.held.body_bytes -= u64::from(item.body_bytes);
        if !self.held.departures.is_empty() {
            self.forget_departure_of(item);
        }
        if let Some(slot) = item.group {
            self.note_left_group(slot);
        }
    }

    fn note_left_group(&mut self, slot: GroupSlot) {
        if self.held.fifo.is_none() {
            self.held.groups.count_message(slot, -1);
        } else {
            if let Some(group) = self.held.groups.get_mut(slot) {
                group.messages -= 1;
            }
            self.regroup(slot, End::Back);
        }
        self.held.groups.forget_empty(slot);
    }

    #[inline]
    pub(super) fn note_hold_ended(&mut self, item: &Item, hold: &Hold) {
        match hold {
            Hold::Ready => {}
            Hold::Delayed => self.held.delayed -= 1,
            Hold::Leased(lease) => {
                self.held.in_flight -= 1;
                self.held.groups.count_lease(item.group, -1);
                if lease.attempt.is_some() {
                    self.forget_attempt(lease.attempt.as_ref());
                }
            }
        }
    }

    /// The group of a message enters the rotation or leaves it.
    fn regroup_of(&mut self, item: &Item, end: End) {
        if let Some(group) = item.group {
            self.regroup(group, end);
        }
    }

    pub(super) fn regroup(&mut self, group: GroupSlot, end: End) -> bool {
        let held = &mut *self.held;
        held.fifo.as_mut().is_some_and(|fifo| fifo.regroup(&mut held.groups, group, end))
    }

    /// Everything leaves at once.
    pub(crate) fn clear(&mut self) -> Cleared {
        let mut contents = self.held.take();
        let over = contents.as_mut().and_then(|contents| contents.fifo.as_mut()?.split_over());
        let remains = contents.map(|contents| contents.into_remains());
        let fresh = Self::new(self.queue.clone());
        let kept = Self {
            next_sequence: self.next_sequence,
            ids_epoch: self.ids_epoch + 1,
            registered: self.registered,
            changed: self.changed,
            leased: self.leased,
            acked: self.acked,
            expiry_through: self.expiry_through,
            ..fresh
        };
        *self = kept;
        Cleared { remains, over }
    }

    /// Every message, in no particular order.
    pub(crate) fn each_item(&self, mut see: impl FnMut(&Item)) {
        self.held.entries.values().for_each(|entry| see(&entry.item));
        self.held.ready.iter_unordered().for_each(|item| see(&item));
        self.held.far.iter().for_each(|item| see(&item));
        self.each_rest(&mut see);
    }

    /// Every message at rest on a FIFO queue, oldest first.
    pub(crate) fn each_rest(&self, see: &mut impl FnMut(&Item)) {
        if let Some(fifo) = &self.held.fifo {
            fifo.rest().for_each(|item| see(&item));
        }
    }
}
