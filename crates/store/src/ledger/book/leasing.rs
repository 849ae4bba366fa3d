//! What leases do to a message: it is lifted, held, given another end, given up; and receives that are repeated.

use std::time::Duration;

use kew_core::rules::visibility::LeaseEnd;
use kew_core::{Return, Sequence, Text, Timestamp, rules};

use super::{Attempt, Book, HIDDEN_AT_HAND, held_until};
use crate::ledger::fifo::{End, Stand};
use crate::ledger::groups::GroupSlot;
use crate::ledger::item::{Before, Entry, Hold, Item, Lease, MaybeInstant};
use crate::ledger::shelf::Place;

impl Book {
    /// Gives a message an entry, wherever it was.
    fn lift(&mut self, sequence: Sequence) -> Option<&mut Entry> {
        if !self.held.entries.contains_key(&sequence) {
            let delay = self.queue.policy.delay;
            let entry = match &mut self.held.fifo {
                Some(fifo) => {
                    let item = fifo.find_rest(sequence)?;
                    let hidden = fifo.is_delayed(sequence);
                    fifo.touch(&item, if hidden { Stand::Held } else { Stand::Ready });
                    let hold = if hidden { Hold::Delayed } else { Hold::Ready };
                    self.held.delayed += u64::from(hidden);
                    let visible_at = item.sent_at.plus(delay);
                    Entry { item: Item { visible_at, ..item }, hold, alarm: Timestamp::NEVER }
                }
                None => match self.held.ready.take(sequence) {
                    Some(item) => Entry { item, hold: Hold::Ready, alarm: Timestamp::NEVER },
                    None => {
                        let item = self.held.far.take(sequence)?;
                        self.held.delayed += 1;
                        Entry { item, hold: Hold::Delayed, alarm: Timestamp::NEVER }
                    }
                },
            };
            self.held.put_entry(entry);
        }
        self.held.entries.get_mut(&sequence)
    }

    /// A message is leased: its attempt is counted here, for a consumer that dies never reports.
    #[inline]
    pub(crate) fn lease(
        &mut self,
        sequence: Sequence,
        nonce: u64,
        now: Timestamp,
        lease: Lease,
    ) -> Option<Item> {
        self.forget_departure(sequence);
        if let Some(item) = self.take_ready(sequence) {
            return Some(self.lease_ready(item, nonce, now, lease));
        }
        self.lease_lifted(sequence, nonce, now, lease)
    }

    fn lease_lifted(
        &mut self,
        sequence: Sequence,
        nonce: u64,
        now: Timestamp,
        mut lease: Lease,
    ) -> Option<Item> {
        let entry = self.lift(sequence)?;
        lease.before = Some(count_attempt(&mut entry.item, nonce, now));
        let item = entry.item;
        self.hold(sequence, Hold::Leased(lease), End::Back);
        Some(item)
    }

    /// Takes a message that shows and has no entry from where it is; on a FIFO queue its place is held from now on.
    #[inline]
    fn take_ready(&mut self, sequence: Sequence) -> Option<Item> {
        match &self.held.fifo {
            None => self.held.ready.take(sequence),
            Some(_) => self.take_ready_of_group(sequence),
        }
    }

    fn take_ready_of_group(&mut self, sequence: Sequence) -> Option<Item> {
        let held = &mut *self.held;
        let fifo = held.fifo.as_mut().filter(|_| !held.entries.contains_key(&sequence))?;
        let item = fifo.find_rest(sequence).filter(|_| !fifo.is_delayed(sequence))?;
        fifo.touch(&item, Stand::Held);
        Some(Item { visible_at: item.sent_at.plus(self.queue.policy.delay), ..item })
    }

    /// The common case in one go: a message that was ready gets an entry, and is held at once.
    #[inline]
    fn lease_ready(&mut self, mut item: Item, nonce: u64, now: Timestamp, lease: Lease) -> Item {
        let before = Some(count_attempt(&mut item, nonce, now));
        let (retention, through) = (self.retention(), self.expiry_through);
        let held = &mut *self.held;
        held.in_flight += 1;
        held.groups.count_lease(item.group, 1);
        if let (Some(fifo), Some(group)) = (&mut held.fifo, item.group) {
            fifo.regroup(&mut held.groups, group, End::Back);
        }
        let alarm = held_until(item.expires_at(retention), through).min(lease.until);
        if lease.shows_at(alarm) {
            held.ends.insert((alarm, item.sequence));
        } else if alarm != Timestamp::NEVER {
            held.alarms.insert((alarm, item.sequence));
        }
        let hold = Hold::Leased(Lease { before, ..lease });
        held.put_entry(Entry { item, hold, alarm });
        item
    }

    /// Sets what a message with an entry is doing, and everything that follows from it.
    pub(super) fn hold(&mut self, sequence: Sequence, hold: Hold, end: End) {
        let Some(entry) = self.held.entries.get_mut(&sequence) else { return };
        let item = entry.item;
        let stand = if matches!(hold, Hold::Ready) { Stand::Ready } else { Stand::Held };
        let old = std::mem::replace(&mut entry.hold, hold);
        match &entry.hold {
            Hold::Ready => {}
            Hold::Delayed => self.held.delayed += 1,
            Hold::Leased(_) => {
                self.held.in_flight += 1;
                self.held.groups.count_lease(item.group, 1);
            }
        }
        self.note_hold_ended(&item, &old);
        let held = &mut *self.held;
        if let Some(fifo) = &mut held.fifo {
            fifo.set_stand(sequence, stand);
            if let Some(group) = item.group {
                fifo.regroup(&mut held.groups, group, end);
            }
        } else if stand == Stand::Ready {
            self.put_down(sequence);
            return;
        }
        self.set_alarm(sequence);
    }

    /// A standard message that may be leased needs no entry.
    fn put_down(&mut self, sequence: Sequence) {
        if let Some(entry) = self.held.entries.remove(&sequence) {
            self.held.drop_alarm(&(entry.alarm, sequence));
            self.held
                .ready
                .put(Item { visible_at: Timestamp::ZERO, ..entry.item }, self.queue.policy.retention);
        }
    }

    pub(super) fn set_alarm(&mut self, sequence: Sequence) {
        let (retention, through) = (self.retention(), self.expiry_through);
        let held = &mut *self.held;
        let Some(entry) = held.entries.get_mut(&sequence) else { return };
        let expires_at = held_until(entry.item.expires_at(retention), through);
        let alarm = match &entry.hold {
            Hold::Ready => expires_at,
            Hold::Delayed | Hold::Leased(_) => expires_at.min(entry.visible_at()),
        };
        let ends_lease = matches!(&entry.hold, Hold::Leased(lease) if lease.shows_at(alarm));
        let old = std::mem::replace(&mut entry.alarm, alarm);
        if alarm == old {
            // What stands among the ends of leases counts as in flight until it is over.
            if !ends_lease && held.ends.remove(&(alarm, sequence)) {
                held.alarms.insert((alarm, sequence));
            }
            return;
        }
        if old != Timestamp::NEVER {
            held.drop_alarm(&(old, sequence));
        }
        if ends_lease {
            held.ends.insert((alarm, sequence));
        } else if alarm != Timestamp::NEVER {
            held.alarms.insert((alarm, sequence));
        }
    }

    /// A lease is undone as if it had never been.
    pub(crate) fn withdraw(&mut self, sequence: Sequence) {
        let Some(entry) = self.held.entries.get_mut(&sequence) else { return };
        let Hold::Leased(Lease { before: Some(before), .. }) = &entry.hold else { return };
        let before = *before;
        let item = &mut entry.item;
        item.attempts = item.attempts.saturating_sub(1);
        (item.nonce, item.first_leased_at, item.lease_end) =
            (before.nonce, before.first_leased_at, before.lease_end);
        self.hold(sequence, Hold::Ready, End::Front);
    }

    /// A lease is given up, or ends, at `end`; the message shows at `visible_at`. False when none is running.
    pub(crate) fn release(
        &mut self,
        sequence: Sequence,
        end: Timestamp,
        visible_at: Timestamp,
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.held.entries.get_mut(&sequence) else { return false };
        let Hold::Leased(lease) = &entry.hold else { return false };
        let item = &mut entry.item;
        item.rank = rules::delay::rank(lease.returns, item.rank, visible_at);
        item.lease_end = MaybeInstant::at(end);
        item.visible_at = visible_at;
        let hold = if rules::visibility::is_visible(visible_at, now) { Hold::Ready } else { Hold::Delayed };
        self.hold(sequence, hold, End::Back);
        if self.held.fifo.is_none() && self.held.delayed > HIDDEN_AT_HAND {
            self.put_hidden_away(sequence, now);
        }
        true
    }

    /// Whether a message is hidden by a delay.
    pub(crate) fn is_hidden_by_delay(&self, sequence: Sequence) -> bool {
        match (self.entry(sequence), &self.held.fifo) {
            (Some(entry), _) => matches!(entry.hold, Hold::Delayed),
            (None, Some(fifo)) => fifo.is_at_rest(sequence) && fifo.is_delayed(sequence),
            (None, None) => self.held.far.get(sequence).is_some_and(|item| !self.held.far.is_shown(&item)),
        }
    }

    /// The delay of a message ends now. False when it has none.
    pub(crate) fn promote(&mut self, sequence: Sequence, now: Timestamp) -> bool {
        if !self.is_hidden_by_delay(sequence) {
            return false;
        }
        let Some(entry) = self.lift(sequence) else { return false };
        entry.item.rank = entry.item.rank.min(now);
        // The delay of its queue does not decide any more when it shows.
        entry.item.visible_at = Timestamp::ZERO;
        self.hold(sequence, Hold::Ready, End::Back);
        true
    }

    /// A message of a standard queue that is hidden for long needs no entry meanwhile.
    fn put_hidden_away(&mut self, sequence: Sequence, now: Timestamp) {
        if !self.held.entries.get(&sequence).is_some_and(|entry| matches!(entry.hold, Hold::Delayed)) {
            return;
        }
        let Some(entry) = self.held.entries.remove(&sequence) else { return };
        self.held.drop_alarm(&(entry.alarm, sequence));
        self.held.delayed -= 1;
        if let Some(item) = self.put_far(entry.item, now) {
            self.add_entry(item, true);
        }
    }

    /// A message is hidden until another instant than before: its lease is changed, or it is leased without an attempt.
    /// Answers how the end of that will be recorded.
    pub(crate) fn extend(
        &mut self,
        sequence: Sequence,
        now: Timestamp,
        until: Timestamp,
        nonce: Option<u64>,
        returns: Return,
    ) -> LeaseEnd {
        let Some(entry) = self.lift(sequence) else { return LeaseEnd::Unrecorded };
        if let Some(nonce) = nonce {
            entry.item.nonce = nonce;
        }
        let ending = rules::visibility::lease_end(matches!(entry.hold, Hold::Leased(_)), until, now);
        if let Hold::Leased(lease) = &mut entry.hold {
            (lease.until, lease.ending) = (until, ending);
            lease.before = None;
            // It ends by itself from now on, so it has no owner.
            lease.owner = None;
            let attempt = lease.attempt.take();
            self.forget_attempt(attempt.as_ref());
            self.set_alarm(sequence);
            return ending;
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
            sealed: None,
            before: None,
            ending,
        };
        self.hold(sequence, Hold::Leased(lease), End::Back);
        ending
    }

    /// A message that is leased again may be acked to the last millisecond: what its last lease set in motion stops.
    #[inline]
    pub(super) fn forget_departure(&mut self, sequence: Sequence) {
        // Nearly always there are none, and finding the message would be most of the work of a lease.
        if !self.held.departures.is_empty() {
            self.forget_one_departure(sequence);
        }
    }

    fn forget_one_departure(&mut self, sequence: Sequence) {
        if let Some((item, _)) = self.find(sequence) {
            self.forget_departure_of(&item);
        }
    }

    #[cold]
    pub(super) fn forget_departure_of(&mut self, item: &Item) {
        if let Some(end) = item.lease_end.get() {
            self.held.departures.remove(&(rules::dead_letters::leaves_at(end), item.sequence));
        }
    }

    /// A message's content lies elsewhere now. Returns where it lay.
    pub(crate) fn rewrite(&mut self, sequence: Sequence, place: Place, body_bytes: u32) -> Option<Place> {
        let entry = self.held.entries.get_mut(&sequence)?;
        let (old, old_bytes) = (entry.item.place(), entry.item.body_bytes);
        (entry.item.address, entry.item.record_bytes, entry.item.body_bytes) =
            (place.address, place.bytes, body_bytes);
        self.held.body_bytes = self.held.body_bytes - u64::from(old_bytes) + u64::from(body_bytes);
        Some(old)
    }

    // --- What the next message of a group tells ---

    /// A message of a FIFO queue left, or expired, under this mark of the shelf.
    pub(crate) fn note_left_at(&mut self, group: Option<GroupSlot>, mark: u64) {
        // A group that is empty now is forgotten: what comes to it later is newer than this.
        if let Some(group) = group.and_then(|group| self.held.groups.get_mut(group)) {
            group.left_at = mark;
        }
    }

    /// The settings changed under this mark.
    pub(crate) fn note_set_at(&mut self, mark: u64) {
        if self.held.stored > 0 {
            self.held.set_at = mark;
        }
    }

    /// The newest mark that a leased message of a FIFO queue tells of; 0 on others.
    pub(crate) fn mark_before(&self, sequence: Sequence) -> u64 {
        let held = &*self.held;
        let group = held.fifo.is_some().then(|| held.entries.get(&sequence)).flatten();
        let group = group.and_then(|entry| held.groups.get(entry.item.group?));
        group.map_or(0, |group| group.left_at.max(held.set_at))
    }

    // --- Repeated receives ---

    /// The messages of a receive that may be repeated.
    pub(crate) fn attempt(&self, id: &Text, now: Timestamp) -> Option<Vec<Sequence>> {
        let attempt = self.held.repeatable.get(id)?;
        rules::attempts::may_repeat(attempt.first_at, now).then(|| attempt.sequences.clone())
    }

    /// Remembers a receive so that it may be repeated.
    pub(crate) fn remember_attempt(&mut self, id: &Text, first_at: Timestamp, sequences: Vec<Sequence>) {
        self.forget_attempt(Some(id));
        let id = id.detached();
        for sequence in &sequences {
            if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.held.entries.get_mut(sequence) {
                lease.attempt = Some(id.clone());
            }
        }
        self.held.repeatable.insert(id, Attempt { first_at, sequences });
    }

    pub(super) fn forget_attempt(&mut self, id: Option<&Text>) {
        let Some(attempt) = id.and_then(|id| self.held.repeatable.remove(id)) else { return };
        for sequence in attempt.sequences {
            if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.held.entries.get_mut(&sequence) {
                lease.attempt = None;
            }
        }
    }

    /// A repeated receive: its leases run until then.
    pub(crate) fn repeat(&mut self, sequence: Sequence, until: Timestamp) {
        if let Some(Entry { hold: Hold::Leased(lease), .. }) = self.held.entries.get_mut(&sequence) {
            lease.until = until;
            // Answered a second time: undoing it now would take it from the first receiver.
            lease.before = None;
            self.set_alarm(sequence);
        }
    }
}

/// A message is leased once more, under this nonce. Answers what that overwrote.
#[inline]
fn count_attempt(item: &mut Item, nonce: u64, now: Timestamp) -> Before {
    let before =
        Before { nonce: item.nonce, first_leased_at: item.first_leased_at, lease_end: item.lease_end };
    item.attempts = item.attempts.saturating_add(1);
    if !item.first_leased_at.is_some() {
        item.first_leased_at = MaybeInstant::at(now);
    }
    item.nonce = nonce;
    before
}
