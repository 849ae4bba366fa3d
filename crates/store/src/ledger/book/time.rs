//! What happens in a queue by itself: leases lapse, delays end, messages expire, the tried too often depart.
//!
//! And what new settings change about that.

use std::sync::Arc;

use kew_core::time::millis;
use kew_core::{Queue, Sequence, Timestamp, rules};

use super::contents::Contents;
use super::{BESIDE_MAX, Book, Ended, Happened, Moment, SHOWN_AMONG_OTHERS, held_until};
use crate::ledger::fifo::{End, Shown};
use crate::ledger::item::{Entry, Hold, Item};

impl Book {
    /// The next instant something happens here by itself, or an earlier one.
    pub(crate) fn next_instant(&self) -> Timestamp {
        let held = &*self.held;
        let departs = held.departures.first().map_or(Timestamp::NEVER, |(at, _)| *at);
        let next = held.alarms.first_at().unwrap_or(Timestamp::NEVER).min(departs);
        let next = held.ends.next_at().map_or(next, |ends| ends.min(next));
        match &held.fifo {
            Some(fifo) => {
                let expires =
                    fifo.oldest().map_or(Timestamp::NEVER, |(_, sent_at)| sent_at.plus(self.retention()));
                let expires = held_until(expires, self.expiry_through);
                let shows = fifo
                    .first_delayed()
                    .map_or(Timestamp::NEVER, |(_, sent_at)| sent_at.plus(self.queue.policy.delay));
                next.min(expires).min(shows)
            }
            None => {
                let expires = held.ready.next_expiry(self.retention());
                next.min(held_until(expires, self.expiry_through))
                    .min(held.far.next_instant(self.expiry_through))
            }
        }
    }

    /// Does what happens here by itself at one instant. Nothing earlier is left to do. If more leases of a standard
    /// queue end than may be seen to, all of them are over and wait for [`Book::lapse_some`]. Of messages hidden for
    /// long, all whose delay is over by now are shown. What they do at that instant does not hang on it.
    pub(crate) fn pass_instant(&mut self, moment: &Moment) -> Happened {
        let Moment { at, now, .. } = *moment;
        let mut happened = Happened::default();
        // Groups of a FIFO queue take their turns in the order in which their leases ended.
        let lapses_max = if self.held.fifo.is_some() { usize::MAX } else { moment.lapses_max };
        let undisturbed = self.undisturbed(moment);
        let mut ended = self.held.ends.end_by(at, lapses_max);
        if self.held.far.len() > 0 {
            self.held.far.deal(now, self.queue.policy.retention);
        }
        self.expire_at_rest(at, now, &mut happened);
        self.expire_in_groups(undisturbed.min(self.expiry_through), moment, &mut happened);
        self.expire(at.min(self.expiry_through), &mut ended, &mut happened);
        self.wake(at, &ended, &mut happened);
        happened
    }

    /// Whether a message may have been tried too often, and is to be looked at by `at`.
    #[inline]
    pub(crate) fn departs_by(&self, at: Timestamp) -> bool {
        self.held.departures.first().is_some_and(|(due, _)| *due <= at)
    }

    /// Takes the first of those messages, with the instant at which it is due.
    pub(crate) fn take_departure(&mut self, at: Timestamp) -> Option<(Timestamp, Sequence)> {
        let departure = self.held.departures.first().copied().filter(|(due, _)| *due <= at)?;
        self.held.departures.pop_first();
        Some(departure)
    }

    /// It is not decided whether this message leaves. While changes are replayed the journal may say so later.
    pub(crate) fn leave_undecided(&mut self, departure: (Timestamp, Sequence)) {
        self.held.departures.leave_undecided(departure);
    }

    /// The journal says what was decided of a message.
    pub(crate) fn note_decided(&mut self, sequence: Sequence) {
        self.forget_departure(sequence);
    }

    /// Messages of which it is not decided whether they leave are to be looked at again.
    pub(crate) fn take_up_undecided(&mut self) {
        if !self.held.departures.is_empty() {
            self.held.departures.take_up_undecided();
        }
    }

    /// Messages that are shown by the figures already, and not yet among those that are offered.
    #[inline]
    pub(crate) fn shows_left(&self) -> bool {
        self.held.far.shown() > 0 || self.held.fifo.as_ref().is_some_and(|fifo| fifo.shows_left())
    }

    /// Puts at most `max` of them among those that are offered. Returns how many.
    pub(crate) fn show(&mut self, max: usize) -> usize {
        let retention = self.queue.policy.retention;
        let Contents { far, ready, fifo, groups, .. } = &mut *self.held;
        if let Some(fifo) = fifo {
            return fifo.show(groups, max);
        }
        far.show(max, |item| ready.put(Item { visible_at: Timestamp::ZERO, ..item }, retention))
    }

    /// Messages of a standard queue without an entry whose time is over by `now`, many at once perhaps. Before it is,
    /// nothing happens to them but that their delay ends, or that they depart.
    fn expire_at_rest(&mut self, at: Timestamp, now: Timestamp, happened: &mut Happened) {
        let departs = self.held.departures.first().map_or(Timestamp::NEVER, |(at, _)| *at);
        let through = now.min(departs).max(at).min(self.expiry_through);
        let retention = self.retention();
        let is_due = self.held.ready.next_expiry(retention).min(self.held.far.next_expiry()) <= through;
        if !is_due {
            return;
        }
        let backlog_bytes = self.backlog_bytes(through);
        let Contents { ready, far, groups, stored, body_bytes, .. } = &mut *self.held;
        let expired = &mut happened.expired_at_rest;
        if let Some(backlog_bytes) = backlog_bytes {
            ready.expire_many(through, backlog_bytes, retention, expired);
        }
        ready.expire(through, retention, expired);
        far.expire(through, retention, expired);
        let added = expired.take_added();
        (*stored, *body_bytes) = (*stored - added.messages, *body_bytes - added.body_bytes);
        added.groups.iter().for_each(|group| groups.count_message(*group, -1));
        // A lease that ended with its message makes room for another.
        happened.freed |= added.messages > 0 && std::mem::take(&mut self.limited);
    }

    /// The bytes of the bodies of a standard queue's backlog, where very many messages of it are over by `through` and
    /// few stand elsewhere. It is not kept: every send and receive would pay for it.
    fn backlog_bytes(&self, through: Timestamp) -> Option<u64> {
        let held = &*self.held;
        let few = held.far.len() == 0 && held.entries.len() <= BESIDE_MAX;
        if !few || !held.ready.has_many_over(through, self.retention()) {
            return None;
        }
        let entries = held.entries.values().map(|entry| u64::from(entry.item.body_bytes)).sum::<u64>();
        Some(held.body_bytes - entries - held.ready.body_bytes_beside(BESIDE_MAX)?)
    }

    /// A message that expired is seen off: its group is forgotten if nothing is in it.
    pub(crate) fn see_off(&mut self, item: &Item) {
        if !self.held.departures.is_empty() {
            self.forget_departure_of(item);
        }
        if self.held.stored == 0 {
            // The next checkpoint would be the first to do it.
            self.give_back_room();
        } else if let Some(slot) = item.group {
            self.held.groups.forget_empty(slot);
        }
    }

    /// Messages with an entry whose time is over by `at`. Those whose lease `ended` now are taken out of that list.
    fn expire(&mut self, at: Timestamp, ended: &mut Vec<Sequence>, happened: &mut Happened) {
        let retention = self.retention();
        let entries = &self.held.entries;
        let is_over = |sequence: &Sequence| {
            entries.get(sequence).is_some_and(|entry| entry.item.expires_at(retention) <= at)
        };
        let mut leaving: Vec<Sequence> = self.held.alarms.due_by(at).filter(is_over).collect();
        leaving.extend(ended.extract_if(.., |sequence| is_over(sequence)));
        leaving.sort_unstable();
        let expired = leaving.into_iter().filter_map(|sequence| self.leave(sequence));
        let expired: Vec<(Timestamp, Item)> = expired.map(|item| (at, item)).collect();
        // A group's next message may have become its head.
        // A lease that ended with its message makes room for another.
        let frees = !expired.is_empty() && (self.held.fifo.is_some() || std::mem::take(&mut self.limited));
        happened.freed |= frees;
        happened.expired = expired;
    }

    /// Sees to some of the leases that are over.
    pub(crate) fn lapse_some(&mut self, at: Timestamp, max: usize) -> Happened {
        let ended = self.held.ends.some_over(max);
        self.lapse(at, ended)
    }

    /// Sees to the lease of this message, if it is over.
    pub(crate) fn lapse_one(&mut self, sequence: Sequence, at: Timestamp) -> Happened {
        let is_over = match self.held.entries.get(&sequence).map(|entry| &entry.hold) {
            Some(Hold::Leased(lease)) => !self.is_running(lease),
            _ => false,
        };
        self.lapse(at, if is_over { vec![sequence] } else { Vec::new() })
    }

    /// Leases that were over before `at` are seen to now. Messages whose own time is over by now expire, as they would
    /// have done after their lease; those that were tried too often depart first.
    fn lapse(&mut self, at: Timestamp, ended: Vec<Sequence>) -> Happened {
        let mut happened = Happened { freed: !ended.is_empty(), ..Happened::default() };
        let through = at.min(self.expiry_through);
        for sequence in ended {
            let Some(entry) = self.held.entries.get(&sequence) else { continue };
            let (end, over_at) = (entry.visible_at(), entry.item.expires_at(self.retention()));
            let exhausted = happened.exhausted;
            if over_at > end.min(through) {
                self.wake_entry(sequence, at, &mut happened);
            }
            if over_at <= through && exhausted == happened.exhausted {
                happened.expired.extend(self.leave(sequence).map(|item| (over_at, item)));
            }
        }
        happened
    }

    fn wake(&mut self, at: Timestamp, ended: &[Sequence], happened: &mut Happened) {
        let mut waking: Vec<Sequence> = self.held.alarms.due_by(at).collect();
        waking.extend_from_slice(ended);
        waking.sort_unstable();
        let mut shown = self.show_rested(at);
        happened.freed |= shown.is_some() || !waking.is_empty();
        let mut among = SHOWN_AMONG_OTHERS;
        for sequence in waking {
            self.show_before(&mut shown, sequence, &mut among);
            self.wake_entry(sequence, at, happened);
        }
        self.show_later(shown);
    }

    /// Messages at rest whose delay ends: they are shown now, and their groups enter the rotation some at a time.
    fn show_rested(&mut self, at: Timestamp) -> Option<Shown> {
        let delay = self.queue.policy.delay;
        let fifo = self.held.fifo.as_mut()?;
        fifo.show_delayed(|sent_at| sent_at.plus(delay) <= at)
    }

    /// The groups of messages shown just now enter the rotation in the order of sends, also among those of other
    /// messages.
    fn show_before(&mut self, shown: &mut Option<Shown>, sequence: Sequence, max: &mut usize) {
        let Some(shown) = shown else { return };
        let Contents { fifo: Some(fifo), groups, .. } = &mut *self.held else { return };
        *max -= fifo.show_before(groups, shown, sequence, *max);
    }

    fn show_later(&mut self, shown: Option<Shown>) {
        if let (Some(shown), Some(fifo)) = (shown, &mut self.held.fifo) {
            fifo.show_later(shown);
        }
    }

    fn wake_entry(&mut self, sequence: Sequence, at: Timestamp, happened: &mut Happened) {
        let Some(entry) = self.held.entries.get(&sequence) else { return };
        match &entry.hold {
            Hold::Ready => self.set_alarm(sequence),
            // Its time is over, and expiry is held: it goes on as it is.
            Hold::Delayed | Hold::Leased(_) if entry.visible_at() > at => self.set_alarm(sequence),
            Hold::Delayed => self.hold(sequence, Hold::Ready, End::Back),
            Hold::Leased(lease) => {
                let (until, ending) = (lease.until, lease.ending);
                let visible_at = rules::retry::after_lapse(until, lease.lapse_delay);
                let attempts = entry.item.attempts;
                self.release(sequence, until, visible_at, at);
                let rule = self.queue.policy.dead_letters.as_deref();
                let exhausted = rules::dead_letters::is_exhausted(attempts, rule);
                let visible_at = if exhausted { until } else { visible_at };
                happened.ended.push(Ended { at: until, sequence, visible_at, ending, is_last: exhausted });
                if exhausted {
                    happened.exhausted += 1;
                    self.held.departures.insert((rules::dead_letters::leaves_at(until), sequence));
                }
            }
        }
    }

    /// New settings take hold. What was due under the old ones has been done.
    pub(crate) fn set_queue(&mut self, queue: Arc<Queue>, now: Timestamp) {
        let old = std::mem::replace(&mut self.queue, queue);
        if old.policy.retention != self.queue.policy.retention {
            let retention = self.retention();
            self.held.ready.review_expiry(retention);
            self.held.far.review_expiry(retention);
            // An alarm that has become too early does no harm: when it rings it is set anew.
            let dies = |entry: &Entry| held_until(entry.item.expires_at(retention), self.expiry_through);
            let sooner = self.held.entries.values().filter(|entry| dies(entry) < entry.alarm);
            let sooner: Vec<Sequence> = sooner.map(|entry| entry.item.sequence).collect();
            sooner.into_iter().for_each(|sequence| self.set_alarm(sequence));
        }
        if old.policy.delay != self.queue.policy.delay && self.held.fifo.is_some() {
            self.review_delay(now);
        }
    }

    /// The delay of a FIFO queue changed: it moves messages already there, both ways, unless they were ever touched.
    fn review_delay(&mut self, now: Timestamp) {
        let delay = self.queue.policy.delay;
        let Some(fifo) = &mut self.held.fifo else { return };
        let shown_through = (now.0 >= millis(delay)).then(|| now.minus(delay));
        // Each message that is hidden or has an entry, with its group, in the order of sends: that of the groups'
        // turns.
        let (mut changed, mut shown) = fifo.redraw_delay(shown_through);
        let follows: Vec<Sequence> = self
            .held
            .entries
            .values()
            .filter(|entry| {
                !entry.item.has_nonce()
                    && entry.item.visible_at != Timestamp::ZERO
                    && entry.item.attempts == 0
            })
            .filter(|entry| !matches!(entry.hold, Hold::Leased(_)))
            .map(|entry| entry.item.sequence)
            .collect();
        for sequence in follows {
            let Some(entry) = self.held.entries.get_mut(&sequence) else { continue };
            entry.item.visible_at = entry.item.sent_at.plus(delay);
            changed.extend(entry.item.group.map(|group| (sequence, group)));
        }
        changed.sort_unstable();
        let mut among = SHOWN_AMONG_OTHERS;
        for (sequence, group) in changed {
            self.show_before(&mut shown, sequence, &mut among);
            match self.held.entries.get(&sequence).map(|entry| entry.item.visible_at > now) {
                Some(true) => self.hold(sequence, Hold::Delayed, End::Back),
                Some(false) => self.hold(sequence, Hold::Ready, End::Back),
                None => {
                    self.regroup(group, End::Back);
                }
            }
        }
        self.show_later(shown);
    }
}
