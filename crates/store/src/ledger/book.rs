//! One queue's messages, and every way one of them can change.
//!
//! A message is in exactly one place: ready in [`Ready`], hidden for long in [`Far`], at rest in [`Fifo`], or, when it
//! is leased, hidden for a short while or back from either on a FIFO queue, an [`Entry`] with one alarm. Nothing here
//! decides a law; the steps do, and tell the book what became of a message.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use kew_core::time::millis;
use kew_core::{
    Counts, Expiry, GroupId, MoveReason, Queue, QueueKey, Return, Sequence, Text, Timestamp, rules,
};

use super::block::Block;
use super::far::Far;
use super::fifo::{End, Fifo, Stand};
use super::groups::Groups;
use super::item::{Before, Entry, Hold, Item, Lease, NO_INSTANT};
use super::ready::Ready;
use super::shelf::{Address, Place};

/// Messages hidden for a while that a queue keeps at hand before it puts them away by time.
const HIDDEN_AT_HAND: u64 = 1_024;

/// Entries that are looked at each time somebody asks for the oldest message.
const OLDEST_LOOKS: usize = 1_024;

/// A receive that may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// When it was first answered.
    pub first_at: Timestamp,
    /// The messages it took.
    pub sequences: Vec<Sequence>,
}

/// What happened at one instant.
#[derive(Default, Debug)]
pub(crate) struct Instant {
    /// Messages whose time was over.
    pub expired: Vec<Item>,
    /// Messages whose lease ended by itself.
    pub lapsed: Vec<Sequence>,
    /// Messages that may have been tried too often.
    pub departing: Vec<Sequence>,
    /// Whether something may be leased now that could not before.
    pub freed: bool,
}

/// One queue's messages.
#[derive(Debug)]
pub(crate) struct Book {
    /// The queue's definition.
    pub queue: Arc<Queue>,
    /// The place of the next message that enters.
    pub next_sequence: u64,
    /// Raised when deduplication ids are forgotten.
    pub epoch: u32,
    /// The instant this queue stands under in the list of what is due.
    pub registered: Timestamp,
    /// Whether a lease found less than it could because too many were running.
    pub limited: bool,
    stored: u64,
    in_flight: u64,
    delayed: u64,
    body_bytes: u64,
    entries: HashMap<Sequence, Entry>,
    alarms: BTreeSet<(Timestamp, Sequence)>,
    departures: BTreeSet<(Timestamp, Sequence)>,
    ready: Ready,
    far: Far,
    groups: Groups,
    fifo: Option<Box<Fifo>>,
    attempts: HashMap<Text, Attempt>,
    origins: Vec<(QueueKey, MoveReason)>,
    /// When the oldest message was sent, as it was found at some instant.
    oldest: Cell<(Timestamp, Option<Timestamp>)>,
}

impl Book {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        let fifo = queue.policy.kind.is_fifo().then(Box::default);
        Self {
            queue,
            next_sequence: 1,
            epoch: 0,
            registered: NO_INSTANT,
            limited: false,
            stored: 0,
            in_flight: 0,
            delayed: 0,
            body_bytes: 0,
            entries: HashMap::new(),
            alarms: BTreeSet::new(),
            departures: BTreeSet::new(),
            ready: Ready::default(),
            far: Far::default(),
            groups: Groups::default(),
            fifo,
            attempts: HashMap::new(),
            origins: Vec::new(),
            oldest: Cell::new((Timestamp::ZERO, None)),
        }
    }

    fn retention(&self) -> Duration {
        self.queue.policy.retention
    }

    /// Leases running.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The figures.
    pub(crate) fn counts(&self, now: Timestamp) -> Counts {
        let delayed = self.delayed + self.far.len() + self.fifo.as_ref().map_or(0, |fifo| fifo.delayed());
        Counts {
            visible: self.stored - self.in_flight - delayed,
            in_flight: self.in_flight,
            delayed,
            body_bytes: self.body_bytes,
            oldest_sent_at: self.oldest_known(now),
        }
    }

    /// Messages that may be leased now, or wait behind a locked group.
    pub(crate) fn visible(&self) -> u64 {
        let delayed = self.delayed + self.far.len() + self.fifo.as_ref().map_or(0, |fifo| fifo.delayed());
        self.stored - self.in_flight - delayed
    }

    /// When the oldest message was sent; with many leases, as it was known within the last second.
    fn oldest_known(&self, now: Timestamp) -> Option<Timestamp> {
        let (known_at, known) = self.oldest.get();
        if self.entries.len() > OLDEST_LOOKS && now.since(known_at) < Duration::from_secs(1) {
            return known;
        }
        let oldest = self.oldest_sent_at();
        self.oldest.set((now, oldest));
        oldest
    }

    /// When the oldest message was sent. Looks at every entry, and at the front of everything that is in order.
    fn oldest_sent_at(&self) -> Option<Timestamp> {
        let entries = self.entries.values().map(|entry| entry.item.sent_at).min();
        let rest = self.fifo.as_ref().and_then(|fifo| fifo.oldest()).map(|(_, sent_at)| sent_at);
        [entries, rest, self.ready.oldest_sent_at(), self.far.oldest_sent_at()].into_iter().flatten().min()
    }

    /// The slot of a group, plus one, as [`Item::group`] has it.
    pub(crate) fn group(&mut self, group: Option<&GroupId>) -> u32 {
        group.map_or(0, |group| self.groups.slot(group) + 1)
    }

    /// The slot of an origin, plus one, as [`Item::origin`] has it.
    pub(crate) fn origin(&mut self, queue: &QueueKey, reason: MoveReason) -> u32 {
        let known = self.origins.iter().position(|(key, why)| key == queue && *why == reason);
        let slot = known.unwrap_or_else(|| {
            self.origins.push((queue.clone(), reason));
            self.origins.len() - 1
        });
        slot as u32 + 1
    }

    /// The origin in a slot.
    pub(crate) fn origin_of(&self, item: &Item) -> Option<&(QueueKey, MoveReason)> {
        self.origins.get((item.origin as usize).checked_sub(1)?)
    }

    /// Leases running in the group of this slot.
    pub(crate) fn leased_in_group(&self, group: u32) -> u64 {
        self.groups.get(group.wrapping_sub(1)).map_or(0, |group| u64::from(group.leased))
    }

    /// Whether every message that is not leased belongs to a noisy group. Then it is no use to look for a quiet one.
    pub(crate) fn is_all_noise(&self) -> bool {
        let noisy = self
            .groups
            .busiest()
            .take_while(|group| rules::fairness::is_noisy(u64::from(group.leased), self.in_flight));
        let waiting: u64 = noisy.map(|group| u64::from(group.messages - group.leased)).sum();
        waiting == self.stored - self.in_flight
    }

    // --- Entering and leaving ---

    /// A message enters. On a FIFO queue a fresh one (`visible_at` set) follows the queue's delay.
    pub(crate) fn enter(&mut self, item: Item, now: Timestamp) {
        self.next_sequence = self.next_sequence.max(item.sequence.0 + 1);
        self.stored += 1;
        self.body_bytes += u64::from(item.body_bytes);
        if let Some(group) = self.groups.get_mut(item.group.wrapping_sub(1)) {
            group.messages += 1;
        }
        let hidden = item.visible_at > now;
        match &mut self.fifo {
            Some(fifo) => {
                let rests = item.expiry == Expiry::ByQueue
                    && item.visible_at != Timestamp::ZERO
                    && item.attempts == 0;
                if rests {
                    fifo.push_rest(&mut self.groups, &item, hidden);
                } else {
                    let stand = if hidden { Stand::Held } else { Stand::Ready };
                    let node = fifo.push_touched(&mut self.groups, &item, stand);
                    self.add_entry(item, hidden, node);
                }
                self.regroup(item.group - 1, End::Back);
            }
            None if hidden => {
                let put = if self.delayed < HIDDEN_AT_HAND { Some(item) } else { self.put_away(item, now) };
                if let Some(item) = put {
                    self.add_entry(item, true, 0);
                }
            }
            None => self.ready.put(Item { visible_at: Timestamp::ZERO, ..item }, self.queue.policy.retention),
        }
    }

    fn put_away(&mut self, item: Item, now: Timestamp) -> Option<Item> {
        self.far.put(item, now, self.queue.policy.retention)
    }

    fn add_entry(&mut self, item: Item, hidden: bool, node: u32) {
        let hold = if hidden { Hold::Delayed } else { Hold::Ready };
        self.delayed += u64::from(hidden);
        let entry = Entry { item, hold, alarm: NO_INSTANT, node };
        self.entries.insert(item.sequence, entry);
        self.set_alarm(item.sequence);
    }

    /// A message leaves for good.
    pub(crate) fn leave(&mut self, sequence: Sequence) -> Option<Item> {
        let item = match self.entries.remove(&sequence) {
            Some(entry) => {
                self.alarms.remove(&(entry.alarm, sequence));
                self.note_hold_ended(&entry.item, entry.hold);
                if let Some(fifo) = &mut self.fifo {
                    fifo.remove(&mut self.groups, entry.node);
                }
                entry.item
            }
            None => match &mut self.fifo {
                Some(fifo) => {
                    let node = fifo.find_rest(sequence)?;
                    let item = fifo.item(node);
                    fifo.remove(&mut self.groups, node);
                    item
                }
                None => self.ready.take(sequence).or_else(|| self.far.take(sequence))?,
            },
        };
        self.note_left(&item);
        Some(item)
    }

    fn note_left(&mut self, item: &Item) {
        self.stored -= 1;
        self.body_bytes -= u64::from(item.body_bytes);
        let Some(slot) = item.group.checked_sub(1) else { return };
        if let Some(group) = self.groups.get_mut(slot) {
            group.messages -= 1;
        }
        self.regroup(slot, End::Back);
        self.groups.forget_empty(slot);
    }

    fn note_hold_ended(&mut self, item: &Item, hold: Hold) {
        match hold {
            Hold::Ready => {}
            Hold::Delayed => self.delayed -= 1,
            Hold::Leased(lease) => {
                self.in_flight -= 1;
                self.groups.count_lease(item.group, -1);
                self.forget_attempt(lease.attempt.as_ref());
            }
        }
    }

    fn regroup(&mut self, group: u32, end: End) -> bool {
        let Some(fifo) = &mut self.fifo else { return false };
        fifo.regroup(&mut self.groups, group, end)
    }

    /// Everything leaves at once. Returns how many there were; their places are told one by one.
    pub(crate) fn clear(&mut self, mut gone: impl FnMut(&Item)) -> u64 {
        self.each_item(&mut gone);
        let stored = self.stored;
        let fresh = Self::new(self.queue.clone());
        let kept = Self {
            next_sequence: self.next_sequence,
            epoch: self.epoch + 1,
            registered: self.registered,
            ..fresh
        };
        *self = kept;
        stored
    }

    /// Every message, in no particular order.
    pub(crate) fn each_item(&self, mut see: impl FnMut(&Item)) {
        self.entries.values().for_each(|entry| see(&entry.item));
        self.ready.iter_unordered().for_each(|item| see(&item));
        self.far.iter().for_each(|item| see(&item));
        self.each_rest(&mut see);
    }

    /// Every message at rest on a FIFO queue, oldest first.
    pub(crate) fn each_rest(&self, see: &mut impl FnMut(&Item)) {
        let Some(fifo) = &self.fifo else { return };
        let mut next = fifo.oldest().map(|(node, _)| node);
        while let Some(node) = next {
            see(&fifo.item(node));
            next = fifo.next_by_age(node);
        }
    }

    // --- Finding ---

    /// A message, and its entry if it has one.
    pub(crate) fn find(&self, sequence: Sequence) -> Option<(Item, Option<&Entry>)> {
        if let Some(entry) = self.entries.get(&sequence) {
            return Some((entry.item, Some(entry)));
        }
        let item = match &self.fifo {
            Some(fifo) => fifo.item(fifo.find_rest(sequence)?),
            None => self.ready.get(sequence).or_else(|| self.far.get(sequence))?,
        };
        Some((item, None))
    }

    /// The lease of a message, while one is running.
    pub(crate) fn running_lease(&self, sequence: Sequence) -> Option<&Lease> {
        match &self.entries.get(&sequence)?.hold {
            Hold::Leased(lease) => Some(lease),
            Hold::Ready | Hold::Delayed => None,
        }
    }

    /// Whether a lease of this message is running.
    pub(crate) fn is_leased(&self, sequence: Sequence) -> bool {
        self.entries.get(&sequence).is_some_and(|entry| matches!(entry.hold, Hold::Leased(_)))
    }

    /// The name of a message's group.
    pub(crate) fn group_name(&self, item: &Item) -> Option<&str> {
        self.groups.get(item.group.checked_sub(1)?).map(|group| &*group.name)
    }

    /// Whether a message may be leased, apart from what stands before it in its group.
    pub(crate) fn is_ready(&self, sequence: Sequence) -> bool {
        match (self.entries.get(&sequence), &self.fifo) {
            (Some(entry), _) => matches!(entry.hold, Hold::Ready),
            (None, None) => self.ready.get(sequence).is_some(),
            (None, Some(fifo)) => {
                let first_delayed = fifo.first_delayed().map(|(node, _)| fifo.sequence_of(node));
                fifo.find_rest(sequence).is_some() && first_delayed.is_none_or(|first| sequence < first)
            }
        }
    }

    /// The message a standard queue offers next.
    pub(crate) fn front(&mut self) -> Option<Item> {
        self.ready.front()
    }

    /// The messages a standard queue offers, in order.
    pub(crate) fn ready_items(&self) -> impl Iterator<Item = Item> + '_ {
        self.ready.iter()
    }

    /// The group whose turn it is.
    pub(crate) fn first_turn(&self) -> Option<u32> {
        self.fifo.as_ref()?.first_turn()
    }

    /// The first message a group offers.
    pub(crate) fn head_of(&self, group: u32) -> Option<Item> {
        let fifo = self.fifo.as_ref()?;
        let node = fifo.head(&self.groups, group)?;
        Some(self.item_of(fifo, node))
    }

    fn item_of(&self, fifo: &Fifo, node: u32) -> Item {
        match fifo.stand(node) {
            Stand::Rest => fifo.item(node),
            Stand::Ready | Stand::Held => {
                self.entries.get(&fifo.sequence_of(node)).map_or_else(|| fifo.item(node), |entry| entry.item)
            }
        }
    }

    /// The messages a group offers, in order, until there are `max` beside those for which `leaves` says so.
    pub(crate) fn offered_by(&self, group: u32, max: usize, leaves: impl Fn(&Item) -> bool) -> Vec<Item> {
        let Some(fifo) = &self.fifo else { return Vec::new() };
        let mut staying = 0;
        let mut wanted = |item: &Item| {
            let room = staying < max;
            staying += usize::from(!leaves(item));
            room
        };
        let items = fifo.offered(&self.groups, group).map(|node| self.item_of(fifo, node));
        items.take_while(|item| wanted(item)).collect()
    }

    /// The messages a FIFO queue offers, group by group in the order of the rotation.
    pub(crate) fn offered(&self) -> impl Iterator<Item = Item> + '_ {
        self.fifo.iter().flat_map(|fifo| {
            let groups = fifo.rotation(&self.groups);
            groups.flat_map(|group| fifo.offered(&self.groups, group)).map(|node| self.item_of(fifo, node))
        })
    }

    /// Messages with an entry that stand so, with the instant they are listed by.
    pub(crate) fn held(&self, leased: bool) -> Vec<(Timestamp, Item)> {
        let listed = |entry: &Entry| {
            matches!(entry.hold, Hold::Leased(_)) == leased && !matches!(entry.hold, Hold::Ready)
        };
        let mut found: Vec<(Timestamp, Item)> = self
            .entries
            .values()
            .filter(|entry| listed(entry))
            .map(|entry| (entry.visible_at(), entry.item))
            .collect();
        if !leased {
            found.extend(self.far.iter().map(|item| (item.visible_at, item)));
            if let Some(fifo) = &self.fifo {
                let mut next = fifo.first_delayed().map(|(node, _)| node);
                while let Some(node) = next {
                    found.push((fifo.item(node).sent_at.plus(self.queue.policy.delay), fifo.item(node)));
                    next = fifo.next_by_age(node);
                }
            }
        }
        found.sort_unstable_by_key(|(at, item)| (*at, item.sequence));
        found
    }

    /// Leases kept by owners, in order.
    pub(crate) fn owned(&self) -> Vec<(Sequence, Lease)> {
        let mut owned: Vec<(Sequence, Lease)> = self
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

    // --- Leasing ---

    /// Gives a message an entry, wherever it was.
    fn lift(&mut self, sequence: Sequence) -> Option<&mut Entry> {
        if !self.entries.contains_key(&sequence) {
            let delay = self.queue.policy.delay;
            let entry = match &mut self.fifo {
                Some(fifo) => {
                    let node = fifo.find_rest(sequence)?;
                    let item = fifo.item(node);
                    let hidden =
                        fifo.first_delayed().is_some_and(|(first, _)| fifo.sequence_of(first) <= sequence);
                    fifo.touch(node, if hidden { Stand::Held } else { Stand::Ready });
                    let hold = if hidden { Hold::Delayed } else { Hold::Ready };
                    self.delayed += u64::from(hidden);
                    let visible_at = item.sent_at.plus(delay);
                    Entry { item: Item { visible_at, ..item }, hold, alarm: NO_INSTANT, node }
                }
                None => match self.ready.take(sequence) {
                    Some(item) => Entry { item, hold: Hold::Ready, alarm: NO_INSTANT, node: 0 },
                    None => {
                        let item = self.far.take(sequence)?;
                        self.delayed += 1;
                        Entry { item, hold: Hold::Delayed, alarm: NO_INSTANT, node: 0 }
                    }
                },
            };
            self.entries.insert(sequence, entry);
        }
        self.entries.get_mut(&sequence)
    }

    /// A message is leased: its attempt is counted here, for a consumer that dies never reports.
    pub(crate) fn lease(
        &mut self,
        sequence: Sequence,
        nonce: u64,
        now: Timestamp,
        mut lease: Lease,
    ) -> Option<Item> {
        self.forget_departure(sequence);
        let entry = self.lift(sequence)?;
        let item = &mut entry.item;
        lease.before = Some(Before {
            nonce: item.nonce,
            first_leased_at: item.first_leased_at,
            lease_end: item.lease_end,
        });
        item.attempts = item.attempts.saturating_add(1);
        if item.first_leased_at == NO_INSTANT {
            item.first_leased_at = now;
        }
        item.nonce = nonce;
        let item = *item;
        self.hold(sequence, Hold::Leased(lease), End::Back);
        Some(item)
    }

    /// Sets what a message with an entry is doing, and everything that follows from it.
    fn hold(&mut self, sequence: Sequence, hold: Hold, end: End) {
        let Some(entry) = self.entries.get_mut(&sequence) else { return };
        let item = entry.item;
        let (node, stand) =
            (entry.node, if matches!(hold, Hold::Ready) { Stand::Ready } else { Stand::Held });
        let old = std::mem::replace(&mut entry.hold, hold);
        match &entry.hold {
            Hold::Ready => {}
            Hold::Delayed => self.delayed += 1,
            Hold::Leased(_) => {
                self.in_flight += 1;
                self.groups.count_lease(item.group, 1);
            }
        }
        self.note_hold_ended(&item, old);
        if let Some(fifo) = &mut self.fifo {
            fifo.set_stand(node, stand);
            fifo.regroup(&mut self.groups, item.group - 1, end);
        } else if stand == Stand::Ready {
            self.put_down(sequence);
            return;
        }
        self.set_alarm(sequence);
    }

    /// A standard message that may be leased needs no entry.
    fn put_down(&mut self, sequence: Sequence) {
        if let Some(entry) = self.entries.remove(&sequence) {
            self.alarms.remove(&(entry.alarm, sequence));
            self.ready.put(Item { visible_at: Timestamp::ZERO, ..entry.item }, self.queue.policy.retention);
        }
    }

    fn set_alarm(&mut self, sequence: Sequence) {
        let retention = self.retention();
        let Some(entry) = self.entries.get_mut(&sequence) else { return };
        let expires_at = entry.item.expires_at(retention);
        let alarm = match &entry.hold {
            Hold::Ready => expires_at,
            Hold::Delayed | Hold::Leased(_) => expires_at.min(entry.visible_at()),
        };
        if alarm == entry.alarm {
            return;
        }
        if entry.alarm != NO_INSTANT {
            self.alarms.remove(&(entry.alarm, sequence));
        }
        entry.alarm = alarm;
        if alarm != NO_INSTANT {
            self.alarms.insert((alarm, sequence));
        }
    }

    /// A lease is undone as if it had never been.
    pub(crate) fn withdraw(&mut self, sequence: Sequence) {
        let Some(entry) = self.entries.get_mut(&sequence) else { return };
        let Hold::Leased(Lease { before: Some(before), .. }) = &entry.hold else { return };
        let before = *before;
        let item = &mut entry.item;
        item.attempts = item.attempts.saturating_sub(1);
        (item.nonce, item.first_leased_at, item.lease_end) =
            (before.nonce, before.first_leased_at, before.lease_end);
        self.hold(sequence, Hold::Ready, End::Front);
    }

    /// A lease is given up, or ends, at `end`; the message shows at `visible_at`.
    pub(crate) fn release(
        &mut self,
        sequence: Sequence,
        end: Timestamp,
        visible_at: Timestamp,
        now: Timestamp,
    ) {
        let Some(entry) = self.entries.get_mut(&sequence) else { return };
        let Hold::Leased(lease) = &entry.hold else { return };
        let item = &mut entry.item;
        item.rank = rules::delay::rank(lease.returns, item.rank, visible_at);
        item.lease_end = end;
        item.visible_at = visible_at;
        let hold = if rules::visibility::is_visible(visible_at, now) { Hold::Ready } else { Hold::Delayed };
        self.hold(sequence, hold, End::Back);
        if self.fifo.is_none() && self.delayed > HIDDEN_AT_HAND {
            self.put_hidden_away(sequence, now);
        }
    }

    /// A message of a standard queue that is hidden for long needs no entry meanwhile.
    fn put_hidden_away(&mut self, sequence: Sequence, now: Timestamp) {
        if !self.entries.get(&sequence).is_some_and(|entry| matches!(entry.hold, Hold::Delayed)) {
            return;
        }
        let Some(entry) = self.entries.remove(&sequence) else { return };
        self.alarms.remove(&(entry.alarm, sequence));
        self.delayed -= 1;
        if let Some(item) = self.put_away(entry.item, now) {
            self.add_entry(item, true, 0);
        }
    }

    /// A message is hidden until another instant than before: its lease is changed, or it is leased without an attempt.
    pub(crate) fn extend(
        &mut self,
        sequence: Sequence,
        now: Timestamp,
        until: Timestamp,
        nonce: Option<u64>,
        returns: Return,
    ) {
        let Some(entry) = self.lift(sequence) else { return };
        if let Some(nonce) = nonce {
            entry.item.nonce = nonce;
        }
        if let Hold::Leased(lease) = &mut entry.hold {
            lease.until = until;
            lease.before = None;
            // It ends by itself from now on, so nobody keeps it.
            lease.owner = None;
            let attempt = lease.attempt.take();
            self.forget_attempt(attempt.as_ref());
            self.set_alarm(sequence);
            return;
        }
        self.forget_departure(sequence);
        let lease = Lease {
            until,
            received_at: now,
            cap: None,
            lapse_delay: Duration::ZERO,
            returns,
            owner: None,
            attempt: None,
            before: None,
        };
        self.hold(sequence, Hold::Leased(lease), End::Back);
    }

    /// Whoever leases a message again may ack it to the last millisecond: what its last lease had set in motion stops.
    fn forget_departure(&mut self, sequence: Sequence) {
        // Nearly always there are none, and finding the message would be most of the work of a lease.
        if self.departures.is_empty() {
            return;
        }
        if let Some((item, _)) = self.find(sequence).filter(|(item, _)| item.lease_end != NO_INSTANT) {
            self.departures.remove(&(rules::redrive::leaves_at(item.lease_end), sequence));
        }
    }

    /// A message's content lies elsewhere now. Returns where it lay.
    pub(crate) fn rewrite(&mut self, sequence: Sequence, place: Place, body_bytes: u32) -> Option<Place> {
        let entry = self.entries.get_mut(&sequence)?;
        let (old, old_bytes) = (entry.item.place(), entry.item.body_bytes);
        (entry.item.address, entry.item.record_bytes, entry.item.body_bytes) =
            (place.address, place.bytes, body_bytes);
        self.body_bytes = self.body_bytes - u64::from(old_bytes) + u64::from(body_bytes);
        Some(old)
    }

    // --- Repeated receives ---

    /// The messages of a receive that may be repeated.
    pub(crate) fn attempt(&self, id: &Text, now: Timestamp) -> Option<Vec<Sequence>> {
        let attempt = self.attempts.get(id)?;
        rules::replay::may_repeat(attempt.first_at, now).then(|| attempt.sequences.clone())
    }

    /// Remembers a receive so that it may be repeated.
    pub(crate) fn remember_attempt(&mut self, id: &Text, first_at: Timestamp, sequences: Vec<Sequence>) {
        self.forget_attempt(Some(id));
        let id = id.detached();
        for sequence in &sequences {
            if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.entries.get_mut(sequence) {
                lease.attempt = Some(id.clone());
            }
        }
        self.attempts.insert(id, Attempt { first_at, sequences });
    }

    fn forget_attempt(&mut self, id: Option<&Text>) {
        let Some(attempt) = id.and_then(|id| self.attempts.remove(id)) else { return };
        for sequence in attempt.sequences {
            if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.entries.get_mut(&sequence) {
                lease.attempt = None;
            }
        }
    }

    /// A repeated receive: its leases run until then.
    pub(crate) fn repeat(&mut self, sequence: Sequence, until: Timestamp) {
        if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.entries.get_mut(&sequence) {
            lease.until = until;
            // Told a second time: undoing it now would take it from whoever was told first.
            lease.before = None;
            self.set_alarm(sequence);
        }
    }

    // --- Time ---

    /// The next instant something happens here by itself, or an earlier one.
    pub(crate) fn next_instant(&self) -> Timestamp {
        let first = |set: &BTreeSet<(Timestamp, Sequence)>| set.first().map_or(NO_INSTANT, |(at, _)| *at);
        let mut next = first(&self.alarms).min(first(&self.departures));
        match &self.fifo {
            Some(fifo) => {
                let expires = fifo.oldest().map_or(NO_INSTANT, |(_, sent_at)| sent_at.plus(self.retention()));
                let shows = fifo
                    .first_delayed()
                    .map_or(NO_INSTANT, |(_, sent_at)| sent_at.plus(self.queue.policy.delay));
                next = next.min(expires).min(shows);
            }
            None => next = next.min(self.ready.next_expiry(self.retention())).min(self.far.next_instant()),
        }
        next
    }

    /// Does what happens here by itself at `at`. Nothing earlier is left to do.
    /// At most so many messages depart; the others stay due.
    pub(crate) fn pass(&mut self, at: Timestamp, departures_max: usize) -> Instant {
        let mut happened = Instant::default();
        self.deal_far(at);
        self.expire(at, &mut happened);
        self.wake(at, &mut happened);
        while happened.departing.len() < departures_max
            && let Some((_, sequence)) = self.departures.first().copied().filter(|(due, _)| *due <= at)
        {
            self.departures.pop_first();
            happened.departing.push(sequence);
        }
        happened
    }

    fn deal_far(&mut self, at: Timestamp) {
        if self.far.len() == 0 {
            return;
        }
        let mut near = Vec::new();
        self.far.deal(at, self.queue.policy.retention, |item| near.push(item));
        for item in near {
            self.add_entry(item, true, 0);
        }
    }

    fn expire(&mut self, at: Timestamp, happened: &mut Instant) {
        let retention = self.retention();
        let mut expired: Vec<Item> = Vec::new();
        self.ready.expire(at, retention, |item| expired.push(item));
        self.far.expire(at, retention, |item| expired.push(item));
        for item in &expired {
            self.note_left(item);
        }
        let mut leaving: Vec<Sequence> = self
            .alarms
            .range(..=(at, Sequence(u64::MAX)))
            .map(|(_, sequence)| *sequence)
            .filter(|sequence| {
                self.entries.get(sequence).is_some_and(|entry| entry.item.expires_at(retention) <= at)
            })
            .collect();
        if let Some(fifo) = &self.fifo {
            let mut next = fifo.oldest();
            while let Some((node, _)) = next.filter(|(_, sent_at)| sent_at.plus(retention) <= at) {
                leaving.push(fifo.sequence_of(node));
                next = fifo.next_by_age(node).map(|node| (node, fifo.item(node).sent_at));
            }
        }
        leaving.sort_unstable();
        expired.extend(leaving.into_iter().filter_map(|sequence| self.leave(sequence)));
        expired.sort_unstable_by_key(|item| item.sequence);
        // A group's next message may have become its head.
        // A lease that ended with its message makes room for another.
        let frees = !expired.is_empty() && (self.fifo.is_some() || std::mem::take(&mut self.limited));
        happened.freed |= frees;
        happened.expired = expired;
    }

    fn wake(&mut self, at: Timestamp, happened: &mut Instant) {
        let mut waking: Vec<Sequence> =
            self.alarms.range(..=(at, Sequence(u64::MAX))).map(|(_, sequence)| *sequence).collect();
        let shown = self.show_rested(at, &mut waking);
        waking.sort_unstable();
        happened.freed |= !waking.is_empty();
        for sequence in waking {
            match shown.binary_search_by_key(&sequence, |(shown, _)| *shown) {
                Ok(place) => {
                    self.regroup(shown[place].1, End::Back);
                }
                Err(_) => self.wake_entry(sequence, at, happened),
            }
        }
    }

    /// Messages at rest whose delay ends: they are shown now, and their groups enter the rotation in their turn.
    fn show_rested(&mut self, at: Timestamp, waking: &mut Vec<Sequence>) -> Vec<(Sequence, u32)> {
        let mut shown = Vec::new();
        let delay = self.queue.policy.delay;
        let Some(fifo) = &mut self.fifo else { return shown };
        while let Some((node, sent_at)) = fifo.first_delayed()
            && sent_at.plus(delay) <= at
        {
            shown.push((fifo.sequence_of(node), fifo.group_of(node)));
            waking.push(fifo.sequence_of(node));
            fifo.show_first_delayed();
        }
        shown
    }

    fn wake_entry(&mut self, sequence: Sequence, at: Timestamp, happened: &mut Instant) {
        let Some(entry) = self.entries.get(&sequence) else { return };
        match &entry.hold {
            Hold::Ready => self.set_alarm(sequence),
            Hold::Delayed => self.hold(sequence, Hold::Ready, End::Back),
            Hold::Leased(lease) => {
                let (until, visible_at) =
                    (lease.until, rules::retry::after_lapse(lease.until, lease.lapse_delay));
                let attempts = entry.item.attempts;
                happened.lapsed.push(sequence);
                self.release(sequence, until, visible_at, at);
                if rules::redrive::is_exhausted(attempts, self.queue.policy.dead_letters.as_ref()) {
                    self.departures.insert((rules::redrive::leaves_at(until), sequence));
                }
            }
        }
    }

    /// New settings take hold. What was due under the old ones has been done.
    pub(crate) fn set_queue(&mut self, queue: Arc<Queue>, now: Timestamp) {
        let old = std::mem::replace(&mut self.queue, queue);
        if old.policy.retention != self.queue.policy.retention {
            let retention = self.retention();
            self.ready.review_expiry(retention);
            self.far.review_expiry(retention);
            let all: Vec<Sequence> = self.entries.keys().copied().collect();
            for sequence in all {
                self.set_alarm(sequence);
            }
        }
        if old.policy.delay != self.queue.policy.delay && self.fifo.is_some() {
            self.review_delay(now);
        }
    }

    /// The delay of a FIFO queue changed: it moves messages already there, both ways, unless they were ever touched.
    fn review_delay(&mut self, now: Timestamp) {
        let delay = self.queue.policy.delay;
        let Some(fifo) = &mut self.fifo else { return };
        let shown_through = (now.0 >= millis(delay)).then(|| now.minus(delay));
        // Each message that changes sides, with its group, in the order of sends: that of the groups' turns.
        let mut changed = fifo.redraw_delay(shown_through);
        let follows: Vec<Sequence> = self
            .entries
            .values()
            .filter(|entry| {
                !entry.item.is_touched()
                    && entry.item.visible_at != Timestamp::ZERO
                    && entry.item.attempts == 0
            })
            .filter(|entry| !matches!(entry.hold, Hold::Leased(_)))
            .map(|entry| entry.item.sequence)
            .collect();
        for sequence in follows {
            let Some(entry) = self.entries.get_mut(&sequence) else { continue };
            entry.item.visible_at = entry.item.sent_at.plus(delay);
            changed.push((sequence, entry.item.group - 1));
        }
        changed.sort_unstable();
        for (sequence, group) in changed {
            match self.entries.get(&sequence).map(|entry| entry.item.visible_at > now) {
                Some(true) => self.hold(sequence, Hold::Delayed, End::Back),
                Some(false) => self.hold(sequence, Hold::Ready, End::Back),
                None => {
                    self.regroup(group, End::Back);
                }
            }
        }
    }

    // --- Checkpoints and copying forward ---

    /// What a slice holds beside the definition and the counters.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            ready: &self.ready,
            far: &self.far,
            fifo: self.fifo.as_deref(),
            groups: &self.groups,
            origins: &self.origins,
            entries: &self.entries,
            departures: &self.departures,
            attempts: &self.attempts,
        }
    }

    pub(crate) fn restore_tables(&mut self, origins: Vec<(QueueKey, MoveReason)>, groups: &[Option<&str>]) {
        self.origins = origins;
        self.groups = Groups::with_names(groups);
    }

    /// A standard queue's messages, from a slice.
    pub(crate) fn restore_order(&mut self, ready: Ready, far: Far, entries: Vec<Entry>) -> Option<()> {
        for item in ready.iter_unordered().chain(far.iter()) {
            self.restore_count(&item)?;
        }
        (self.ready, self.far) = (ready, far);
        entries.into_iter().try_for_each(|entry| self.restore_entry(entry))
    }

    /// A FIFO queue's messages, from a slice: those at rest and those with an entry, each in order.
    pub(crate) fn restore_groups(
        &mut self,
        rest: &[Item],
        delayed_from: Sequence,
        entries: Vec<Entry>,
        rotation: &[u32],
    ) -> Option<()> {
        let mut rest = rest.iter().peekable();
        for mut entry in entries {
            while let Some(item) = rest.next_if(|item| item.sequence < entry.item.sequence) {
                self.restore_rest(item, delayed_from)?;
            }
            let stand = if matches!(entry.hold, Hold::Ready) { Stand::Ready } else { Stand::Held };
            self.groups.get(entry.item.group.checked_sub(1)?)?;
            entry.node = self.fifo.as_mut()?.push_touched(&mut self.groups, &entry.item, stand);
            self.restore_entry(entry)?;
        }
        rest.try_for_each(|item| self.restore_rest(item, delayed_from))?;
        let fifo = self.fifo.as_mut()?;
        for group in rotation {
            fifo.regroup(&mut self.groups, *group, End::Back);
        }
        Some(())
    }

    fn restore_rest(&mut self, item: &Item, delayed_from: Sequence) -> Option<()> {
        self.groups.get(item.group.checked_sub(1)?)?;
        self.fifo.as_mut()?.push_rest(&mut self.groups, item, item.sequence >= delayed_from);
        self.restore_count(item)
    }

    fn restore_count(&mut self, item: &Item) -> Option<()> {
        self.stored += 1;
        self.body_bytes += u64::from(item.body_bytes);
        if let Some(slot) = item.group.checked_sub(1) {
            self.groups.get_mut(slot)?.messages += 1;
        }
        Some(())
    }

    fn restore_entry(&mut self, entry: Entry) -> Option<()> {
        self.restore_count(&entry.item)?;
        match &entry.hold {
            Hold::Ready => {}
            Hold::Delayed => self.delayed += 1,
            Hold::Leased(_) => {
                self.in_flight += 1;
                self.groups.count_lease(entry.item.group, 1);
            }
        }
        let sequence = entry.item.sequence;
        self.entries.insert(sequence, entry);
        self.set_alarm(sequence);
        Some(())
    }

    pub(crate) fn restore_departure(&mut self, at: Timestamp, sequence: Sequence) {
        self.departures.insert((at, sequence));
    }

    /// The places within `range` that messages here rest on.
    pub(crate) fn places_in(&self, range: &Range<Address>, places: &mut Vec<Address>) {
        let mut note = |item: &Item| {
            if range.contains(&item.address) {
                places.push(item.address);
            }
        };
        let near = |block: &&Block| block.addresses.0 < range.end && block.addresses.1 >= range.start;
        for block in self.ready.blocks().chain(self.far.blocks()).filter(near) {
            block.live_items().for_each(|(_, item)| note(&item));
        }
        self.ready.aside_items().for_each(&mut note);
        self.entries.values().for_each(|entry| note(&entry.item));
        self.each_rest(&mut note);
    }

    /// Gives every message that rests on one of these places its new one. Returns how many did, as (old, new).
    pub(crate) fn relocate(
        &mut self,
        range: &Range<Address>,
        to: &HashMap<Address, Address>,
    ) -> Vec<(Place, Place)> {
        let moved = RefCell::new(Vec::new());
        let new_place = |item: &Item| {
            let new = *to.get(&item.address)?;
            moved.borrow_mut().push((item.place(), Place { address: new, ..item.place() }));
            Some(new)
        };
        let move_single = |item: &mut Item| {
            if let Some(new) = new_place(item) {
                item.address = new;
            }
        };
        let move_block = |block: &mut Block| {
            if block.addresses.0 < range.end && block.addresses.1 >= range.start {
                block.relocate(new_place);
            }
        };
        self.ready.relocate(move_block, move_single);
        self.far.blocks_mut().for_each(move_block);
        self.entries.values_mut().for_each(|entry| move_single(&mut entry.item));
        if let Some(fifo) = &mut self.fifo {
            fifo.relocate(new_place);
        }
        moved.into_inner()
    }

    /// Bytes held in memory, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let fifo = self.fifo.as_ref().map_or(0, |fifo| fifo.heap_bytes());
        let entries = self.entries.capacity() * (size_of::<Entry>() + 32) + self.alarms.len() * 24;
        size_of::<Self>()
            + self.ready.heap_bytes()
            + self.far.heap_bytes()
            + self.groups.heap_bytes()
            + fifo
            + entries
    }
}

/// The parts of a book that a slice holds.
pub(crate) struct Parts<'a> {
    pub ready: &'a Ready,
    pub far: &'a Far,
    pub fifo: Option<&'a Fifo>,
    pub groups: &'a Groups,
    pub origins: &'a [(QueueKey, MoveReason)],
    pub entries: &'a HashMap<Sequence, Entry>,
    pub departures: &'a BTreeSet<(Timestamp, Sequence)>,
    pub attempts: &'a HashMap<Text, Attempt>,
}
