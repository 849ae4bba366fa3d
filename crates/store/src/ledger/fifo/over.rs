//! Messages at rest on a FIFO queue whose time is over, millions at once perhaps: a line is drawn behind the last.
//!
//! From that instant on no read finds a message before the line that was never touched, and the figures follow by one
//! sum over the runs. What is before the line is taken out some at a time: see the module `expiring`. Meanwhile a group
//! that begins with such messages keeps its turn, and a receive takes them out before it looks at what the group
//! offers.

use std::collections::VecDeque;
use std::time::Duration;

use kew_core::{Sequence, Timestamp};

use super::{Fifo, Run, Side, Stand};
use crate::ledger::groups::{GroupSlot, Groups, NO_SEQUENCE};
use crate::ledger::item::Item;

/// Runs that are looked at one after the other to find the line, before it is searched for among all.
const NEAR_RUNS: usize = 16;

/// How many retentions under which messages expired are kept apart. Those of further ones are put to the last.
const PARTS_MAX: usize = 16;

/// Messages at rest whose time is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Over {
    /// All messages at rest before this one are over.
    pub(super) to: Sequence,
    /// How many there are.
    pub(super) messages: usize,
    /// The retention under which each part of them expired, and where the part ends.
    parts: VecDeque<(Sequence, Duration)>,
    /// The first of them whose delay was not over. Behind it in its group there may be a message that shows: then the
    /// groups enter the rotation in the order in which their first messages leave.
    pub(super) delayed_from: Option<Sequence>,
    /// Whether groups that begin with one of them may stand outside of the rotation.
    some_wait: bool,
}

impl Over {
    /// When the time of this message, which is one of these, was over.
    pub(super) fn at(&self, item: &Item) -> Timestamp {
        let part = self.parts.iter().find(|(to, _)| item.sequence < *to);
        let (_, retention) = part.expect("a message before the line lies in one of the parts before it");
        item.expires_at(*retention)
    }

    /// Whether this message, which is one of these, was not shown when its time was over.
    pub(super) fn is_hidden(&self, sequence: Sequence) -> bool {
        self.delayed_from.is_some_and(|from| sequence >= from) && sequence < self.to
    }

    fn add_part(&mut self, retention: Duration) {
        let is_full = self.parts.len() == PARTS_MAX;
        match self.parts.back_mut() {
            Some(last) if last.1 == retention || is_full => last.0 = self.to,
            _ => self.parts.push_back((self.to, retention)),
        }
    }
}

/// How many messages, and the lengths of their bodies together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sum {
    pub messages: u64,
    pub body_bytes: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
    }
}

impl Fifo {
    /// Whether there are messages that are over and were not taken out.
    #[inline]
    pub(crate) fn has_over(&self) -> bool {
        self.over.messages > 0
    }

    /// Whether groups may offer something behind messages that are over, although none is found now.
    pub(crate) fn may_begin_to_offer(&self) -> bool {
        self.has_over() && (self.over.some_wait || self.first_turn().is_some())
    }

    /// Draws the line behind the last message at rest for which `is_over` says, by when it was sent, that it is over
    /// under this retention. Returns the sum of those that were not over before.
    pub(crate) fn draw_line(&mut self, is_over: impl Fn(Timestamp) -> bool, retention: Duration) -> Sum {
        let Some((oldest, _)) = self.oldest.filter(|(_, sent_at)| is_over(*sent_at)) else {
            return Sum::default();
        };
        let line = self.line_from(oldest, &is_over);
        let sum = self.sum_at_rest(oldest, line);
        self.oldest = self.first_at_rest_from(line);
        if let Some((delayed, _)) = self.first_delayed.filter(|(first, _)| *first < line) {
            self.delayed -= self.sum_at_rest(delayed, line).messages;
            self.first_delayed = self.oldest;
            self.over.delayed_from = self.over.delayed_from.or(Some(delayed));
        }
        self.over.some_wait |= self.over.delayed_from.is_some() || self.shows_left();
        self.over.to = line;
        self.over.messages += sum.messages as usize;
        self.over.add_part(retention);
        self.show_from_line(line);
        sum
    }

    /// Everything at rest in an order that has left its queue, this number of messages, is over under this retention.
    pub(crate) fn end_all(&mut self, messages: u64, retention: Duration) {
        self.over = Over { to: NO_SEQUENCE, messages: messages as usize, ..Over::default() };
        self.over.add_part(retention);
    }

    /// The place behind the last message at rest from this one on that `is_over`, by when it was sent.
    pub(super) fn line_from(&self, oldest: Sequence, is_over: impl Fn(Timestamp) -> bool) -> Sequence {
        let mut line = oldest;
        for run in self.resting_from(oldest).take(NEAR_RUNS) {
            for item in run.rest_items().filter(|item| item.sequence >= oldest) {
                if !is_over(item.sent_at) {
                    return item.sequence;
                }
                line = behind(&item);
            }
        }
        let over = self.last_over(line, &is_over).map(Run::rest_items).into_iter().flatten();
        over.take_while(|item| is_over(item.sent_at)).last().map_or(line, |item| line.max(behind(&item)))
    }

    /// The last run of which some are over, if there is one from here on. Later ones were sent later.
    fn last_over(&self, from: Sequence, is_over: impl Fn(Timestamp) -> bool) -> Option<&Run> {
        let begins_over = |run: &Run| run.rest_items().next().is_some_and(|item| is_over(item.sent_at));
        if begins_over(&self.filling) {
            return Some(&self.filling);
        }
        let resting = |key: &Sequence| self.full.get(key).map(|run| &**run);
        let (mut low, mut high) = (from.0, self.resting.last_key_value()?.0.0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let (key, _) = self.resting.range(Sequence(middle)..).next()?;
            if resting(key).is_some_and(begins_over) {
                low = key.0 + 1;
            } else {
                high = middle;
            }
        }
        resting(self.resting.range(from..Sequence(low.max(from.0))).next_back()?.0)
    }

    /// The sum of the messages at rest from one on and before another.
    pub(super) fn sum_at_rest(&self, from: Sequence, to: Sequence) -> Sum {
        let first = self.resting.range(..=from).next_back().map_or(from, |(key, _)| *key);
        let mut sum = Sum::default();
        let mut runs = self.resting.range(first..to).peekable();
        while let Some((key, of_run)) = runs.next() {
            // The first and the last have others too.
            let is_whole = *key >= from && runs.peek().is_some();
            if is_whole && self.served != Some(*key) {
                // Its sum stands here: a look at each of very many runs would wait for memory.
                sum.add(*of_run);
            } else if let Some(run) = self.full.get(key) {
                sum.add(sum_within(run, from, to));
            }
        }
        sum.add(sum_within(&self.filling, from, to));
        sum
    }

    /// The run to have open: the one with the oldest message at rest that is not over.
    pub(super) fn oldest_resting(&self) -> Option<Sequence> {
        if !self.has_over() {
            return self.resting.first_key_value().map(|(key, _)| *key);
        }
        let at_line = self.resting.range(..=self.over.to).next_back();
        at_line.or_else(|| self.resting.range(self.over.to..).next()).map(|(key, _)| *key)
    }

    /// Whether this message is over.
    #[inline]
    pub(crate) fn is_over(&self, sequence: Sequence) -> bool {
        self.has_over() && sequence < self.over.to && self.stand(sequence) == Some(Stand::Rest)
    }

    /// When the time of this message was over, if it is over.
    pub(crate) fn over_at(&self, sequence: Sequence) -> Option<Timestamp> {
        if !self.has_over() || sequence >= self.over.to {
            return None;
        }
        self.item_at_rest(sequence).map(|item| self.over.at(&item))
    }

    /// This message of a group, or the first behind it that is not over; `None` after as many looks as are left.
    pub(super) fn behind_over(&self, mut sequence: Sequence, looks: &mut usize) -> Option<Sequence> {
        while self.is_over(sequence) {
            *looks = looks.checked_sub(1)?;
            sequence = self.neighbour(sequence, Side::After);
        }
        Some(sequence)
    }

    /// Whether a group begins with a message that is over.
    #[inline]
    pub(crate) fn begins_over(&self, groups: &Groups, group: GroupSlot) -> bool {
        self.has_over() && groups.get(group).is_some_and(|group| self.is_over(group.ends.0))
    }

    /// Whether a message of a group that is not over is reached with as many looks as are left.
    pub(crate) fn reaches(&self, groups: &Groups, group: GroupSlot, looks: &mut usize) -> bool {
        !self.has_over()
            || groups.get(group).is_some_and(|group| self.behind_over(group.ends.0, looks).is_some())
    }

    /// Whether a group offers anything, with no look at what is over.
    pub(super) fn offers(&self, groups: &Groups, group: GroupSlot) -> bool {
        let mut looks = usize::MAX;
        let first = groups.get(group).and_then(|group| self.behind_over(group.ends.0, &mut looks));
        first.is_some_and(|first| self.is_offerable(first))
    }

    /// The groups outside of the rotation that begin with a message that is over, and offer one behind it.
    pub(super) fn begin_to_offer<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = GroupSlot> + 'a {
        let runs = self.runs().filter(|run| self.has_over() && run.at_rest() > 0);
        let over = runs.flat_map(Run::rest_items).take_while(|item| item.sequence < self.over.to);
        over.filter_map(move |item| {
            let slot = item.group?;
            let group = groups.get(slot)?;
            let waits = group.turn.is_none() && group.ends.0 == item.sequence;
            (waits && self.offers(groups, slot)).then_some(slot)
        })
    }

    /// What is over leaves an order that is emptied: as an order of its own, or `None` when there is nothing.
    pub(crate) fn split_over(&mut self) -> Option<Box<Self>> {
        if !self.has_over() {
            return None;
        }
        let to = self.over.to;
        let later = self.full.split_off(&to);
        let full = std::mem::replace(&mut self.full, later);
        if let Some((key, run)) = full.last().filter(|(_, run)| run.last() >= to) {
            // Each takes its own part of this one.
            self.full.insert(*key, run.clone());
        }
        let filling = if self.filling.first() < to { self.filling.clone() } else { Run::default() };
        Some(Box::new(Self { full, filling, over: self.over.clone(), ..Self::default() }))
    }

    /// How many messages are over and were not taken out.
    pub(crate) fn over_count(&self) -> u64 {
        self.over.messages as u64
    }
}

/// The place behind a message.
fn behind(item: &Item) -> Sequence {
    Sequence(item.sequence.0 + 1)
}

/// The sum of the messages at rest of one run from one on and before another.
fn sum_within(run: &Run, from: Sequence, to: Sequence) -> Sum {
    if run.first() >= from && run.last() < to {
        return run.sum();
    }
    let mut sum = Sum::default();
    if run.first() < to && run.last() >= from {
        for item in run.rest_items().filter(|item| (from..to).contains(&item.sequence)) {
            sum.add(Sum { messages: 1, body_bytes: u64::from(item.body_bytes) });
        }
    }
    sum
}
