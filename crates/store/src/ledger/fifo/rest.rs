//! Messages at rest: the oldest, the first that is delayed, and the line between those that show and those that do not.

use kew_core::{Sequence, Timestamp};

use super::{Fifo, Item, NO_SEQUENCE, Next, Run, Shown, Stand, Sum};
use crate::ledger::groups::GroupSlot;

impl Fifo {
    pub(super) fn unrest(&mut self, item: &Item) {
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

    pub(super) fn first_at_rest_from(&self, sequence: Sequence) -> Next {
        self.rest_from(sequence).next().map(|item| (item.sequence, item.sent_at))
    }

    /// The messages at rest from this one on that are not over, in the order of sends.
    pub(crate) fn rest_from(&self, sequence: Sequence) -> impl Iterator<Item = Item> + '_ {
        let sequence = sequence.max(self.over.to);
        self.resting_from(sequence).flat_map(Run::rest_items).skip_while(move |item| item.sequence < sequence)
    }

    /// The runs with messages at rest from the one that may have this message on, and the one being filled.
    pub(super) fn resting_from(&self, sequence: Sequence) -> impl Iterator<Item = &Run> {
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
    pub(super) fn item_at_rest(&self, sequence: Sequence) -> Option<Item> {
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
}
