//! The runs of an order: which of them holds a message, which are open and which packed, and what they are together.

use std::ops::Range;
use std::sync::Arc;

use kew_core::Sequence;

use super::{Fifo, Item, Run, Sum, given_for};
use crate::ledger::shelf::Address;

impl Fifo {
    /// The run being filled is full: another one is begun.
    pub(super) fn put_full(&mut self) {
        let run = std::mem::take(&mut self.filling);
        self.put_anew(run.first(), run);
    }

    /// Packs a run anew that is not among the full ones, into a neighbour if both fit into one.
    fn put_anew(&mut self, key: Sequence, run: Run) {
        if run.live() == 0 {
            return;
        }
        let before = self.full.before(&key).filter(|(key, _)| self.served != Some(*key));
        let after = self.full.at_or_after(&key).filter(|(key, _)| self.served != Some(*key));
        let (key, packed) = match (before, after) {
            (Some((first, before)), _) if before.fits_with(&run) => (first, Run::joined(&[before, &run])),
            (_, Some((second, after))) if run.fits_with(after) => {
                let joined = Run::joined(&[&run, after]);
                self.full.remove(&second);
                self.resting.remove(&second);
                (key, joined)
            }
            _ => (key, run.packed_anew()),
        };
        if packed.at_rest() > 0 {
            self.resting.insert(key, packed.sum());
        }
        self.full.insert(key, Arc::new(packed));
    }

    /// Opens the run with the oldest message at rest, and packs the one that had it before.
    pub(super) fn serve_oldest(&mut self) {
        if self.oldest_resting() == self.served {
            return;
        }
        self.put_served();
        self.served = self.oldest_resting();
        if let Some(run) = self.served.and_then(|served| self.full.get_mut(&served)) {
            Arc::make_mut(run).open();
        }
    }

    fn put_served(&mut self) {
        let Some(key) = self.served.take() else { return };
        self.resting.remove(&key);
        if let Some(run) = self.full.remove(&key) {
            self.put_anew(key, Arc::unwrap_or_clone(run));
        }
    }

    /// Packs what is open: said before a queue is written to a checkpoint, after which perhaps nothing happens to it.
    pub(crate) fn settle(&mut self) {
        self.put_served();
        if self.filling.live() > 0 {
            self.filling.pack();
        }
    }

    pub(super) fn vacate(&mut self, sequence: Sequence) {
        let served = self.served;
        let Some((key, run, place)) = self.find_mut(sequence) else { return };
        let is_sparse = run.remove(place);
        match key {
            // The one being served is packed anew when it is left.
            Some(key) if served == Some(key) && run.live() > 0 => {}
            Some(key) if is_sparse => {
                self.served = served.filter(|served| *served != key);
                let run = self.full.remove(&key);
                self.resting.remove(&key);
                if let Some(run) = run {
                    self.put_anew(key, Arc::unwrap_or_clone(run));
                }
            }
            Some(_) => {}
            None if run.live() == 0 => run.clear(),
            None => {}
        }
    }

    /// The run and the place of a message.
    #[inline]
    pub(super) fn find(&self, sequence: Sequence) -> Option<(&Run, usize)> {
        let run = if sequence >= self.filling.first() {
            &self.filling
        } else {
            self.full.at_or_before(&sequence)?.1
        };
        Some((run, run.place(sequence)?))
    }

    /// The run of a message, its key among the full ones, and the message's place.
    #[inline]
    pub(super) fn find_mut(&mut self, sequence: Sequence) -> Option<(Option<Sequence>, &mut Run, usize)> {
        let (key, run) = if sequence >= self.filling.first() {
            (None, &mut self.filling)
        } else {
            let (key, run) = self.full.at_or_before_mut(&sequence)?;
            (Some(key), Arc::make_mut(run))
        };
        let place = run.place(sequence)?;
        Some((key, run, place))
    }

    /// The runs from the one that may hold this sequence on, in order.
    pub(crate) fn runs_from(&self, sequence: Sequence) -> impl Iterator<Item = &Run> {
        let full = self.full.from(sequence).map(|(_, run)| &**run);
        full.chain(std::iter::once(&self.filling))
    }

    /// All runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.full.values().map(|run| &**run).chain(std::iter::once(&self.filling))
    }

    /// The messages at rest that may lie within these addresses.
    pub(crate) fn rest_near<'a>(&'a self, range: &Range<Address>) -> impl Iterator<Item = Item> + use<'a> {
        let range = range.clone();
        self.runs().filter(move |run| run.may_lie_in(&range)).flat_map(Run::rest_items)
    }

    /// Gives every message at rest for which `to` knows a new address, out of this range, that address.
    pub(crate) fn relocate(&mut self, range: &Range<Address>, mut to: impl FnMut(&Item) -> Option<Address>) {
        let near = self.full.iter().filter(|(_, run)| run.may_lie_in(range));
        let near: Vec<Sequence> = near.map(|(key, _)| *key).collect();
        for key in near {
            if let Some(run) = self.full.get_mut(&key) {
                Arc::make_mut(run).relocate(&mut to);
            }
        }
        if self.filling.may_lie_in(range) {
            self.filling.relocate(&mut to);
        }
    }

    /// Everything here, piece by piece; a piece may hold no message at rest.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        let beside = self.resting.into_keys().map(drop).chain(self.far.into_iter().map(drop));
        let runs = self.full.into_values().chain(std::iter::once(Arc::new(self.filling)));
        // Those that are over go on as such.
        let (has_over, to) = (self.over.messages > 0, self.over.to);
        let stays = move |item: &Item| !(has_over && item.sequence < to);
        // A run in which nothing rests is a piece of work as well.
        let pieces = move |run: Arc<Run>| {
            std::iter::once(None).chain(run.rest_items().filter(stays).map(Some).collect::<Vec<_>>())
        };
        runs.flat_map(pieces).chain(beside.map(|()| None))
    }

    /// The same messages as they are now, to be written to a checkpoint: the lists that are made of them are left out.
    pub(crate) fn image(&self) -> Self {
        Self {
            full: self.full.clone(),
            filling: self.filling.clone(),
            far: self.far.clone(),
            first_delayed: self.first_delayed,
            turns: self.turns,
            shown: self.shown.clone(),
            over: self.over.clone(),
            ..Self::default()
        }
    }

    /// What an image shares or copies, in pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.full.leaves() + self.far.len() + 1
    }

    /// Bytes held beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        // A tree's nodes have eleven places, and six of them filled where keys only rise.
        let listed = self.full.heap_bytes() + self.resting.len() * (8 + size_of::<Sum>()) * 11 / 6;
        // A run is shared with images, and has two counts for that.
        let run_bytes = given_for(size_of::<Run>() + 2 * size_of::<usize>());
        let runs: usize = self.full.values().map(|run| run_bytes + run.heap_bytes()).sum();
        listed + runs + self.filling.heap_bytes() + self.far.len() * 48
    }
}
