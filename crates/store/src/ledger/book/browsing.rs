//! Looking through a queue in the order of sends, whatever its messages are doing, a slice at a time.
//!
//! On a FIFO queue every message has a place in a run. On a standard one the messages lie in several orders; each is
//! asked for the first ones from a sequence on, and what they find is merged. Only the messages with an entry are in no
//! order: they are looked up one by one where sequences are dense, and all looked at where they are not.

use std::ops::Range;

use kew_core::command::{self, StateKind};
use kew_core::{Sequence, State, Timestamp};

use super::Book;
use crate::ledger::fifo::Stand;
use crate::ledger::groups::{Group, GroupSlot};
use crate::ledger::item::{Entry, Hold, Item};

/// Where sequences are so dense that a range of them is at most this often as long as there are entries, each is looked
/// up; elsewhere every entry is looked at.
const DENSE: u64 = 4;

/// A part of a queue to be looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// From this message on.
    pub from: Sequence,
    /// What they are doing.
    pub state: Option<StateKind>,
    /// How many at most.
    pub max: usize,
}

/// A message that was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked {
    /// The message.
    pub item: Item,
    /// What it is doing.
    pub state: State,
    /// When its running lease was asked for.
    pub leased_at: Option<Timestamp>,
}

/// A group that was looked at.
#[derive(Debug)]
pub(crate) struct LookedGroup<'a> {
    /// Its name.
    pub name: &'a str,
    /// Messages in it that are not leased.
    pub waiting: u64,
    /// On a FIFO queue: its first leased message, and when that lease ends.
    pub lock: Option<(Item, Timestamp)>,
}

/// Messages of a group that are looked at to find the one that locks it.
const LOCK_LOOKS: usize = 1_000;

impl Looked {
    fn ready(item: Item) -> Self {
        Self { item, state: State::Ready, leased_at: None }
    }

    fn delayed(item: Item, until: Timestamp) -> Self {
        Self { item, state: State::Delayed { until }, leased_at: None }
    }

    fn is(&self, kind: Option<StateKind>) -> bool {
        match (kind, self.state) {
            (None, _)
            | (Some(StateKind::Visible), State::Ready)
            | (Some(StateKind::InFlight), State::Leased { .. })
            | (Some(StateKind::Delayed), State::Delayed { .. }) => true,
            (Some(_), _) => false,
        }
    }
}

impl Book {
    /// The first messages of a part in the order of sends, and where the rest of it begins.
    pub(crate) fn look(&self, look: Look) -> (Vec<Looked>, Option<Sequence>) {
        if self.queue.policy.kind.is_fifo() { self.look_by_runs(look) } else { self.look_by_orders(look) }
    }

    fn look_by_orders(&self, look: Look) -> (Vec<Looked>, Option<Sequence>) {
        let (from, max) = (look.from, look.max.saturating_add(1));
        let held = &*self.held;
        let mut found: Vec<Looked> = match look.state {
            None | Some(StateKind::Visible) => held.ready.from(from).take(max).map(Looked::ready).collect(),
            Some(StateKind::InFlight | StateKind::Delayed) => Vec::new(),
        };
        // What is behind as many as are asked for is for a later slice.
        let end = |found: &[Looked]| match found.last() {
            Some(last) if found.len() >= max => last.item.sequence,
            _ => Sequence(u64::MAX),
        };
        if look.state != Some(StateKind::InFlight) {
            let looked = |item: Item| match held.far.is_shown(&item) {
                true => Looked::ready(item),
                false => Looked::delayed(item, item.visible_at),
            };
            let is_wanted = |item: &Item| looked(*item).is(look.state);
            let far = held.far.within(&(from..end(&found)), max, is_wanted);
            found.extend(far.into_iter().map(looked));
            found.sort_unstable_by_key(|looked| looked.item.sequence);
            found.truncate(max);
        }
        found.extend(self.entries_in(from..end(&found), look.state, max));
        found.sort_unstable_by_key(|looked| looked.item.sequence);
        let next = found.get(look.max).map(|looked| looked.item.sequence);
        found.truncate(look.max);
        (found, next)
    }

    /// The first messages with an entry in a range, in no particular order.
    fn entries_in(&self, range: Range<Sequence>, state: Option<StateKind>, max: usize) -> Vec<Looked> {
        let entries = &self.held.entries;
        let looked = |entry: &Entry| Some(self.looked(entry)).filter(|looked| looked.is(state));
        if range.end.0.saturating_sub(range.start.0) <= DENSE * entries.len() as u64 {
            let sequences = (range.start.0..range.end.0).map(Sequence);
            let found = sequences.filter_map(|sequence| looked(entries.get(&sequence)?));
            return found.take(max).collect();
        }
        let wanted = entries.values().filter(|entry| range.contains(&entry.item.sequence));
        let wanted = wanted.filter(|entry| looked(entry).is_some());
        let mut sequences: Vec<Sequence> = wanted.map(|entry| entry.item.sequence).collect();
        if sequences.len() > max {
            sequences.select_nth_unstable(max);
            sequences.truncate(max);
        }
        sequences.into_iter().filter_map(|sequence| looked(entries.get(&sequence)?)).collect()
    }

    /// What a message with an entry is doing.
    fn looked(&self, entry: &Entry) -> Looked {
        match &entry.hold {
            Hold::Leased(lease) if self.is_running(lease) => Looked {
                item: entry.item,
                state: State::Leased { until: lease.until },
                leased_at: Some(lease.received_at),
            },
            Hold::Delayed => Looked::delayed(entry.item, entry.item.visible_at),
            Hold::Ready | Hold::Leased(_) => Looked::ready(entry.item),
        }
    }

    /// The groups that are looked for, among those looked at; and where the rest begins.
    pub(crate) fn look_at_groups(&self, look: &command::Groups) -> (Vec<LookedGroup<'_>>, Option<u32>) {
        let (mut found, slots) = (Vec::new(), u32::try_from(self.held.groups.slots()).unwrap_or(u32::MAX));
        let end = look.from.saturating_add(look.look_max.max(1)).min(slots);
        let is_wanted = |group: &&Group| group.name.starts_with(look.prefix.as_str());
        for slot in (look.from..end).map(GroupSlot::at) {
            let Some(group) = self.held.groups.get(slot).filter(is_wanted) else { continue };
            if found.len() >= look.max as usize {
                return (found, Some(slot.index()));
            }
            let lock = if group.leased > 0 { self.lock_of(slot) } else { None };
            let over = u64::from(group.messages.saturating_sub(group.leased));
            found.push(LookedGroup { name: &group.name, waiting: over, lock });
        }
        (found, (end < slots).then_some(end))
    }

    fn lock_of(&self, slot: GroupSlot) -> Option<(Item, Timestamp)> {
        let fifo = self.held.fifo.as_ref()?;
        let mut members = fifo.members(&self.held.groups, slot).take(LOCK_LOOKS);
        members.find_map(|sequence| {
            let lease = self.running_lease(sequence)?;
            Some((self.entry(sequence)?.item, lease.until))
        })
    }

    /// A run that is passed over counts as one message: so a slice is bounded where nothing is of the wanted state.
    fn look_by_runs(&self, look: Look) -> (Vec<Looked>, Option<Sequence>) {
        let (mut found, mut passed) = (Vec::new(), 0_usize);
        let Some(fifo) = &self.held.fifo else { return (found, None) };
        let delay = self.queue.policy.delay;
        for run in fifo.runs_from(look.from).filter(|run| run.live() > 0 && run.last() >= look.from) {
            if found.len() + passed >= look.max {
                return (found, Some(run.first().max(look.from)));
            }
            passed += 1;
            if look.state == Some(StateKind::InFlight) && !run.has_held() {
                continue;
            }
            for (stand, item) in run.messages().filter(|(_, item)| item.sequence >= look.from) {
                if found.len() >= look.max {
                    return (found, Some(item.sequence));
                }
                let looked = match (stand, self.entry(item.sequence)) {
                    // It is no message any more, and leaves its group in one of the next slices.
                    (Stand::Rest, _) if fifo.is_over(item.sequence) => continue,
                    (Stand::Rest, _) if fifo.is_delayed(item.sequence) => {
                        Looked::delayed(item, item.sent_at.plus(delay))
                    }
                    (Stand::Rest, _) => Looked::ready(item),
                    (_, Some(entry)) => self.looked(entry),
                    (_, None) => continue,
                };
                if looked.is(look.state) {
                    found.push(looked);
                }
            }
        }
        (found, None)
    }
}
