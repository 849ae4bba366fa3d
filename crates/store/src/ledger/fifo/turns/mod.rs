//! The rotation: groups that offer something, each in its turn.
//!
//! Where delays end together, a million perhaps, their messages are shown at once by moving a line, and their groups
//! enter the rotation some at a time. Their turns come as if they had entered at that instant: groups that enter later
//! wait in a row of their own, which is joined to the rotation when the last of them is in it. Only where the first of
//! a group leaves before it had its turn may the group come later than it would have.

use kew_core::{Sequence, Timestamp};

use super::{End, Fifo, Run, Stand};
use crate::ledger::groups::{Group, GroupSlot, Groups, NO_SEQUENCE, Turn};

#[cfg(test)]
mod tests;

/// How many instants at which delays ended are kept apart. Those of further ones are put to the last.
const SHOWN_MAX: usize = 16;

/// First and last of groups that stand in a row, each of which knows its neighbours.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct GroupRow {
    first: Option<GroupSlot>,
    last: Option<GroupSlot>,
}

/// Messages at rest whose delays ended together, and whose groups are not all in the rotation yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// They stand from here on.
    from: Sequence,
    /// And before this one.
    to: Sequence,
    /// The groups that came after their delays had ended.
    behind: GroupRow,
}

impl Fifo {
    /// Shows the messages whose delay `is_over`, by when they were sent, up to the first that is not over: they are
    /// counted and may be offered, and are to be handed to [`Fifo::show_later`]. `None` when there are none.
    pub(crate) fn show_delayed(&mut self, is_over: impl Fn(Timestamp) -> bool) -> Option<Shown> {
        let (from, _) = self.first_delayed.filter(|(_, sent_at)| is_over(*sent_at))?;
        let to = self.line_from(from, is_over);
        self.delayed -= self.sum_at_rest(from, to).messages;
        self.first_delayed = self.first_at_rest_from(to);
        Some(Shown { from, to, behind: GroupRow::default() })
    }

    /// The groups of these messages enter the rotation by [`Fifo::show`], behind all that are in it now.
    pub(crate) fn show_later(&mut self, shown: Shown) {
        let is_full = self.shown.len() == SHOWN_MAX;
        match self.shown.last_mut() {
            Some(last) if last.behind.first.is_none() || is_full => last.to = shown.to,
            _ => self.shown.push(shown),
        }
    }

    /// The groups of those of these messages that stand before another one enter the rotation now, at most `max`.
    /// Returns how many messages it looked at.
    pub(crate) fn show_before(
        &mut self,
        groups: &mut Groups,
        shown: &mut Shown,
        before: Sequence,
        max: usize,
    ) -> usize {
        let to = shown.to.min(before);
        if max == 0 || shown.from >= to {
            return 0;
        }
        let (looked, next) = self.show_from(groups, (shown.from, to), self.shown.len(), max);
        shown.from = next.unwrap_or(to);
        looked
    }

    /// Messages at rest from this one on are delayed again.
    pub(super) fn hide_from(&mut self, first: Sequence) {
        self.shown.iter_mut().for_each(|shown| shown.to = shown.to.min(first));
    }

    /// Messages before this line are over: their groups enter the rotation when they are taken out.
    pub(super) fn show_from_line(&mut self, line: Sequence) {
        self.shown.iter_mut().for_each(|shown| shown.from = shown.from.max(line));
    }

    /// Whether groups of shown messages are not in the rotation yet.
    #[inline]
    pub(crate) fn shows_left(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Whether this message is shown, and its group enters the rotation because of it if it is its first.
    pub(super) fn waits_for_its_turn(&self, sequence: Sequence) -> bool {
        self.shown.iter().any(|shown| (shown.from..shown.to).contains(&sequence))
            && self.stand(sequence) == Some(Stand::Rest)
    }

    /// Looks at `max` messages that were shown, and puts their groups into the rotation. Returns how many it looked
    /// at.
    pub(crate) fn show(&mut self, groups: &mut Groups, max: usize) -> usize {
        let mut left = max;
        while left > 0 && self.shows_left() {
            let Shown { from, to, .. } = self.shown[0];
            let (looked, next) = self.show_from(groups, (from, to), 0, left);
            left -= looked;
            match next {
                Some(next) => self.shown[0].from = next,
                None => self.join(groups),
            }
        }
        max - left
    }

    /// The same, some at a time, until a group has its turn.
    pub(crate) fn show_first(&mut self, groups: &mut Groups, at_once: usize, max: usize) {
        let mut left = max;
        while self.first_turn().is_none() && left > 0 && self.shows_left() {
            left -= self.show(groups, at_once.min(left));
        }
    }

    /// The groups of at most `max` messages at rest within these bounds enter a row. Returns how many there were, and
    /// the next one.
    fn show_from(
        &mut self,
        groups: &mut Groups,
        (from, to): (Sequence, Sequence),
        row: usize,
        max: usize,
    ) -> (usize, Option<Sequence>) {
        let mut items = self.rest_from(from).take_while(|item| item.sequence < to);
        let looked: Vec<(Sequence, Option<GroupSlot>)> =
            items.by_ref().take(max).map(|item| (item.sequence, item.group)).collect();
        let next = items.next().map(|item| item.sequence);
        drop(items);
        for (sequence, group) in &looked {
            let enters = |group: &Group| group.turn.is_none() && group.ends.0 == *sequence;
            if let Some(group) = group.filter(|group| groups.get(*group).is_some_and(enters)) {
                self.enter_row(groups, group, row);
            }
        }
        (looked.len(), next)
    }

    /// All that were shown first are in the rotation: what came later follows.
    fn join(&mut self, groups: &mut Groups) {
        let joining = self.shown.remove(0).behind;
        if joining.first.is_none() {
            return;
        }
        let GroupRow { first, last } = self.turns;
        self.turns = GroupRow { first: first.or(joining.first), last: joining.last };
        if let Some(turn) = turn_mut(groups, last) {
            turn.after = joining.first;
        }
        if let Some(turn) = turn_mut(groups, joining.first) {
            turn.before = last;
        }
    }

    /// First and last group of one row: the first of all is the rotation, and each other one stands behind those that
    /// were shown together.
    fn row_mut(&mut self, row: usize) -> &mut GroupRow {
        match row.checked_sub(1) {
            Some(place) => &mut self.shown[place].behind,
            None => &mut self.turns,
        }
    }

    /// Puts a group into the rotation or out of it, by whether it offers anything. True when it entered.
    pub(crate) fn regroup(&mut self, groups: &mut Groups, group: GroupSlot, end: End) -> bool {
        let head = self.head(groups, group);
        let stands = groups.get(group).is_some_and(|group| group.turn.is_some());
        match (head, stands) {
            (Some(head), false) if self.shows_left() && self.waits_for_its_turn(head) => false,
            (Some(_), false) if end == End::Back => {
                self.enter_now(groups, group);
                true
            }
            (Some(_), false) => {
                self.enter_first(groups, group);
                true
            }
            (None, true) => {
                self.leave(groups, group);
                false
            }
            _ => false,
        }
    }

    /// Puts a group behind all others, as a checkpoint says; `None` when it has no message or has its turn already.
    /// What it offers is not looked up: that took longer than all else when a queue of very many groups was opened.
    pub(crate) fn restore_turn(&mut self, groups: &mut Groups, group: GroupSlot) -> Option<()> {
        groups.get(group).filter(|group| group.turn.is_none() && group.ends.0 != NO_SEQUENCE)?;
        self.enter_now(groups, group);
        Some(())
    }

    /// Puts a group behind all others.
    pub(super) fn enter_now(&mut self, groups: &mut Groups, group: GroupSlot) {
        self.enter_row(groups, group, self.shown.len());
    }

    /// Puts a group at the end of a row.
    fn enter_row(&mut self, groups: &mut Groups, group: GroupSlot, row: usize) {
        let row = self.row_mut(row);
        let before = row.last.replace(group);
        row.first = row.first.or(Some(group));
        if let Some(turn) = turn_mut(groups, before) {
            turn.after = Some(group);
        }
        if let Some(entry) = groups.get_mut(group) {
            entry.turn = Some(Turn { before, after: None });
        }
    }

    /// Puts a group before all others.
    fn enter_first(&mut self, groups: &mut Groups, group: GroupSlot) {
        let after = self.turns.first.replace(group);
        self.turns.last = self.turns.last.or(Some(group));
        if let Some(turn) = turn_mut(groups, after) {
            turn.before = Some(group);
        }
        if let Some(entry) = groups.get_mut(group) {
            entry.turn = Some(Turn { before: None, after });
        }
    }

    /// Takes a group out of the rotation.
    pub(crate) fn leave(&mut self, groups: &mut Groups, group: GroupSlot) {
        let turn = groups.get_mut(group).and_then(|entry| entry.turn.take());
        let Some(Turn { before, after }) = turn else { return };
        match turn_mut(groups, before) {
            Some(turn) => turn.after = after,
            None => {
                self.rows_mut().filter(|row| row.first == Some(group)).for_each(|row| row.first = after);
            }
        }
        match turn_mut(groups, after) {
            Some(turn) => turn.before = before,
            None => {
                self.rows_mut().filter(|row| row.last == Some(group)).for_each(|row| row.last = before);
            }
        }
    }

    fn rows_mut(&mut self) -> impl Iterator<Item = &mut GroupRow> {
        std::iter::once(&mut self.turns).chain(self.shown.iter_mut().map(|shown| &mut shown.behind))
    }

    /// The group whose turn it is, among those that are in the rotation.
    pub(crate) fn first_turn(&self) -> Option<GroupSlot> {
        self.turns.first
    }

    /// The groups in the rotation, in order, with those that are about to enter it in their places. Where messages are
    /// over, looks at all that are: groups that offer nothing behind them are left out.
    pub(crate) fn rotation<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = GroupSlot> + 'a {
        let standing = self.standing(groups);
        let offering = standing.filter(|group| !self.has_over() || self.offers(groups, *group));
        offering.chain(self.begin_to_offer(groups))
    }

    /// The same, with groups that offer nothing behind messages that are over, and without those that begin to.
    pub(crate) fn standing<'a>(&'a self, groups: &'a Groups) -> impl Iterator<Item = GroupSlot> + 'a {
        let waiting = self
            .shown
            .iter()
            .flat_map(move |shown| self.entering(groups, shown).chain(row(groups, shown.behind.first)));
        row(groups, self.turns.first).chain(waiting)
    }

    /// The groups that enter the rotation because of these messages.
    fn entering<'a>(&'a self, groups: &'a Groups, shown: &Shown) -> impl Iterator<Item = GroupSlot> + 'a {
        let Shown { from, to, .. } = *shown;
        let runs = self.runs().filter(move |run| run.last() >= from && run.first() < to);
        let items = runs.flat_map(Run::rest_items).filter(move |item| (from..to).contains(&item.sequence));
        items.filter_map(move |item| {
            let group = groups.get(item.group?)?;
            item.group.filter(|_| group.turn.is_none() && group.ends.0 == item.sequence)
        })
    }
}

/// The groups of a row from this one on.
fn row(groups: &Groups, first: Option<GroupSlot>) -> impl Iterator<Item = GroupSlot> + '_ {
    std::iter::successors(first, |group| groups.get(*group)?.turn?.after)
}

/// The place of a group in its row.
fn turn_mut(groups: &mut Groups, group: Option<GroupSlot>) -> Option<&mut Turn> {
    groups.get_mut(group?)?.turn.as_mut()
}
