//! Finding a queue's messages, wherever in it they lie.

use kew_core::{Sequence, Timestamp};

use super::Book;
use super::contents::Contents;
use crate::ledger::fifo::Fifo;
use crate::ledger::groups::GroupSlot;
use crate::ledger::item::{Entry, Hold, Item, Lease};

/// Messages put among those that are offered when a receive finds none of these.
const SHOWN_FOR_ONE: usize = 256;
/// The same on a FIFO queue, where many may wait behind the first of their group, until one is found.
const SHOWN_FOR_ONE_MAX: usize = 16_384;
/// Messages that are over and are passed over to find what a FIFO queue offers.
const OVER_LOOKS: usize = 4_096;

impl Book {
    /// A message, and its entry if it has one.
    pub(crate) fn find(&self, sequence: Sequence) -> Option<(Item, Option<&Entry>)> {
        match self.entry(sequence) {
            Some(entry) => Some((entry.item, Some(entry))),
            None => Some((self.find_without_entry(sequence)?, None)),
        }
    }

    /// A message's entry, if it has one.
    pub(crate) fn entry(&self, sequence: Sequence) -> Option<&Entry> {
        self.held.entries.get(&sequence)
    }

    /// A message without an entry.
    pub(crate) fn find_without_entry(&self, sequence: Sequence) -> Option<Item> {
        match &self.held.fifo {
            Some(fifo) => fifo.find_rest(sequence),
            None => self.held.ready.get(sequence).or_else(|| self.held.far.get(sequence)),
        }
    }

    /// The first message at rest on a FIFO queue whose delay is not over.
    pub(crate) fn first_delayed(&self) -> Option<Sequence> {
        self.held.fifo.as_ref()?.first_delayed().map(|(sequence, _)| sequence)
    }

    /// The lease of a message, while one is running.
    pub(crate) fn running_lease(&self, sequence: Sequence) -> Option<&Lease> {
        match &self.held.entries.get(&sequence)?.hold {
            Hold::Leased(lease) => Some(lease).filter(|lease| self.is_running(lease)),
            Hold::Ready | Hold::Delayed => None,
        }
    }

    /// Whether a lease of this message is running.
    pub(crate) fn is_leased(&self, sequence: Sequence) -> bool {
        self.running_lease(sequence).is_some()
    }

    /// The name of a message's group.
    pub(crate) fn group_name(&self, item: &Item) -> Option<&str> {
        self.held.groups.get(item.group?).map(|group| &*group.name)
    }

    /// Whether a message may be leased, apart from what stands before it in its group.
    pub(crate) fn is_ready(&self, sequence: Sequence) -> bool {
        match (self.held.entries.get(&sequence), &self.held.fifo) {
            (Some(entry), _) => matches!(entry.hold, Hold::Ready),
            (None, None) => {
                let far = &self.held.far;
                self.held.ready.get(sequence).is_some()
                    || far.get(sequence).is_some_and(|item| far.is_shown(&item))
            }
            (None, Some(fifo)) => fifo.is_at_rest(sequence) && !fifo.is_delayed(sequence),
        }
    }

    /// Whether a message without an entry is hidden, on a standard queue.
    pub(crate) fn is_hidden(&self, item: &Item) -> bool {
        item.visible_at != Timestamp::ZERO && !self.held.far.is_shown(item)
    }

    /// The message a standard queue offers next.
    pub(crate) fn front(&mut self) -> Option<Item> {
        if self.held.stored == 0 {
            return None;
        }
        match self.held.ready.front() {
            None if self.held.far.shown() > 0 => {
                self.show(SHOWN_FOR_ONE);
                self.held.ready.front()
            }
            front => front,
        }
    }

    /// The messages a standard queue offers, in order.
    pub(crate) fn ready_items(&self) -> impl Iterator<Item = Item> + '_ {
        self.held.ready.iter()
    }

    /// The group whose turn it is. Of messages that were shown just now, some are looked at to find one.
    pub(crate) fn first_turn(&mut self) -> Option<GroupSlot> {
        let fifo = self.held.fifo.as_ref()?;
        if fifo.first_turn().is_some() || !fifo.shows_left() {
            return fifo.first_turn();
        }
        let Contents { fifo: Some(fifo), groups, .. } = &mut *self.held else { return None };
        fifo.show_first(groups, SHOWN_FOR_ONE, SHOWN_FOR_ONE_MAX);
        fifo.first_turn()
    }

    /// The first message a group offers.
    pub(crate) fn head_of(&self, group: GroupSlot) -> Option<Item> {
        let fifo = self.held.fifo.as_ref()?;
        self.item_of(fifo, fifo.head(&self.held.groups, group)?)
    }

    pub(super) fn item_of(&self, fifo: &Fifo, sequence: Sequence) -> Option<Item> {
        fifo.find_rest(sequence).or_else(|| Some(self.held.entries.get(&sequence)?.item))
    }

    /// The messages a group offers, in order, until there are `max` beside those for which `leaves` says so. Of those
    /// at most `leaving_max` leave: there are never more of both together than that and `max`, which suffices also
    /// where none of them can leave.
    pub(crate) fn offered_by(
        &self,
        group: GroupSlot,
        max: usize,
        leaving_max: usize,
        leaves: impl Fn(&Item) -> bool,
    ) -> Vec<Item> {
        let (mut items, mut staying) = (Vec::new(), 0);
        let Some(fifo) = &self.held.fifo else { return items };
        // One that is not wanted any more is not looked at: it may have to be unpacked.
        let mut offered = fifo.offered(&self.held.groups, group);
        while staying < max
            && items.len() < max.saturating_add(leaving_max)
            && let Some(item) = offered.next().and_then(|sequence| self.item_of(fifo, sequence))
        {
            staying += usize::from(!leaves(&item));
            items.push(item);
        }
        items
    }

    /// The messages a FIFO queue offers, group by group in the order of the rotation. Where many are over, groups that
    /// begin with some of these may be left out, and so may all behind the first 4 096 groups.
    pub(crate) fn offered(&self) -> impl Iterator<Item = Item> + '_ {
        let groups = &self.held.groups;
        self.held.fifo.iter().flat_map(move |fifo| {
            let mut looks = OVER_LOOKS;
            let reached = move |group: &GroupSlot| fifo.reaches(groups, *group, &mut looks);
            let groups_max = if fifo.has_over() { OVER_LOOKS } else { usize::MAX };
            let offering = fifo.standing(groups).take(groups_max).filter(reached);
            offering
                .flat_map(move |group| fifo.offered(groups, group))
                .filter_map(move |sequence| self.item_of(fifo, sequence))
        })
    }

    /// Messages with an entry that stand so, with the instant they are listed by: the first ones, this many at most.
    /// All are looked at, and few are kept.
    pub(crate) fn leased_or_hidden(&self, leased: bool, most: usize) -> Vec<(Timestamp, Item)> {
        let listed = |entry: &Entry| match &entry.hold {
            Hold::Ready => false,
            Hold::Delayed => !leased,
            Hold::Leased(lease) => leased && self.is_running(lease),
        };
        let entries = self.held.entries.values().filter(|entry| listed(entry));
        let entries = entries.map(|entry| (entry.visible_at(), entry.item));
        let mut found = FirstListed { most, found: Vec::new() };
        found.extend(entries);
        if !leased {
            let hidden = self.held.far.iter().filter(|item| !self.held.far.is_shown(item));
            found.extend(hidden.map(|item| (item.visible_at, item)));
            if let Some(fifo) = &self.held.fifo {
                let delay = self.queue.policy.delay;
                let delayed = fifo.first_delayed().map(|(first, _)| fifo.rest_from(first));
                found.extend(delayed.into_iter().flatten().map(|item| (item.sent_at.plus(delay), item)));
            }
        }
        found.in_order()
    }

    /// Leases kept by owners, in order.
    pub(crate) fn owned(&self) -> Vec<(Sequence, Lease)> {
        let mut owned: Vec<(Sequence, Lease)> = self
            .held
            .entries
            .values()
            .filter_map(|entry| match &entry.hold {
                Hold::Leased(lease) if lease.owner.is_some() => Some((entry.item.sequence, lease.clone())),
                _ => None,
            })
            .collect();
        owned.sort_unstable_by_key(|(sequence, _)| *sequence);
        owned
    }
}

/// The first of many messages, by the instant they are listed by.
struct FirstListed {
    most: usize,
    /// At most twice as many as are wanted, and one.
    found: Vec<(Timestamp, Item)>,
}

impl FirstListed {
    fn extend(&mut self, listed: impl Iterator<Item = (Timestamp, Item)>) {
        for one in listed {
            self.found.push(one);
            if self.found.len() / 2 >= self.most.max(1) {
                self.leave_first();
            }
        }
    }

    fn leave_first(&mut self) {
        if self.most < self.found.len() {
            let _first = self.found.select_nth_unstable_by_key(self.most, Self::place);
            self.found.truncate(self.most);
        }
    }

    fn in_order(mut self) -> Vec<(Timestamp, Item)> {
        self.leave_first();
        self.found.sort_unstable_by_key(Self::place);
        self.found
    }

    fn place((at, item): &(Timestamp, Item)) -> (Timestamp, Sequence) {
        (*at, item.sequence)
    }
}
