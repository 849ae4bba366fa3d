//! The order of a FIFO queue made anew, from messages that come one after the other in the order of sends.
//!
//! The links of all messages lie in one row until the last has come. To look for the run of each neighbour took most of
//! the time in which a store was opened.

use std::sync::Arc;

use kew_core::Sequence;

use super::links::distance;
use super::{FAR, Fifo, Links, NONE, Run, Side, Stand, untouched};
use crate::ledger::groups::{GroupSlot, Groups, NO_SEQUENCE};
use crate::ledger::item::Item;
use crate::ledger::ordered::Ordered;

/// The messages so far.
pub(crate) struct Rebuilt {
    fifo: Fifo,
    runs: Vec<(Sequence, Arc<Run>)>,
    /// By place in the order of sends.
    links: Vec<Links>,
    /// The place of the newest message of each group, by the group's slot.
    newest: Vec<u32>,
    last: Option<Sequence>,
}

impl Rebuilt {
    /// None so far, and this number of slots of groups.
    pub(crate) fn of(slots: usize) -> Self {
        let fifo = Fifo { filling: Run::with_room(), ..Fifo::default() };
        Self { fifo, runs: Vec::new(), links: Vec::new(), newest: vec![0; slots], last: None }
    }

    /// Adds a message that was never touched. `None` when it does not come behind the last, or its group is not there.
    pub(crate) fn push_rest(&mut self, groups: &mut Groups, item: &Item, delayed: bool) -> Option<()> {
        self.push(groups, item, Stand::Rest)?;
        let here = Some((item.sequence, item.sent_at));
        self.fifo.oldest = self.fifo.oldest.or(here);
        if delayed {
            self.fifo.delayed += 1;
            self.fifo.first_delayed = self.fifo.first_delayed.or(here);
        }
        Some(())
    }

    /// Adds a message that has an entry elsewhere; `None` as above.
    pub(crate) fn push(&mut self, groups: &mut Groups, item: &Item, stand: Stand) -> Option<()> {
        let sequence = item.sequence;
        if sequence == NO_SEQUENCE || self.last.is_some_and(|last| last >= sequence) {
            return None;
        }
        let slot = item.group?;
        let group = groups.get_mut(slot)?;
        let before = std::mem::replace(&mut group.ends.1, sequence);
        if before == NO_SEQUENCE {
            group.ends.0 = sequence;
        }
        self.last = Some(sequence);
        self.link(slot, before, sequence)?;
        if !self.fifo.filling.has_room_for(sequence) {
            self.put_full();
        }
        self.fifo.filling.push(&untouched(item), Links { before: NONE, after: NONE }, stand);
        Some(())
    }

    /// A message takes the next place, behind the newest of its group.
    fn link(&mut self, slot: GroupSlot, before: Sequence, sequence: Sequence) -> Option<()> {
        let place = u32::try_from(self.links.len()).ok()?;
        let newest = std::mem::replace(self.newest.get_mut(slot.index() as usize)?, place);
        let mut links = Links { before: NONE, after: NONE };
        if before != NO_SEQUENCE {
            links.before = distance(before, sequence);
            self.links.get_mut(newest as usize)?.after = links.before;
        }
        if links.before == FAR {
            self.fifo.far.insert((before, Side::After), sequence);
            self.fifo.far.insert((sequence, Side::Before), before);
        }
        self.links.push(links);
        Some(())
    }

    fn put_full(&mut self) {
        let mut run = std::mem::replace(&mut self.fifo.filling, Run::with_room());
        run.pack();
        self.runs.push((run.first(), Arc::new(run)));
    }

    /// All have come.
    pub(crate) fn finish(mut self) -> Fifo {
        let mut links = self.links.as_slice();
        for (_, run) in &mut self.runs {
            links = Arc::make_mut(run).set_links(links);
        }
        self.fifo.filling.set_links(links);
        let resting = self.runs.iter().filter(|(_, run)| run.at_rest() > 0);
        self.fifo.resting = resting.map(|(first, run)| (*first, run.sum())).collect();
        self.fifo.full = Ordered::of(self.runs);
        self.fifo
    }
}
