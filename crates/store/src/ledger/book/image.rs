//! A queue as it is at one moment, taken in a few looks however many messages it has, and written
//! later, without the lock.
//!
//! The image shares the large pieces of the book: whatever is changed afterwards is copied first, piece by piece. So a
//! checkpoint of a queue shows one moment of it, and the writer's lock is held only to take the image.

use std::sync::Arc;

use kew_core::{GroupId, MoveReason, Queue, QueueKey, Sequence, Text};

use super::departures::DepartureTimes;
use super::{Attempt, Book};
use crate::ledger::far::Far;
use crate::ledger::fifo::Fifo;
use crate::ledger::groups::Groups;
use crate::ledger::item::Entry;
use crate::ledger::keyed::KeyedImage;
use crate::ledger::ready::ReadyImage;
use crate::ledger::transfer::CarriedOrder;

/// A queue at one moment.
#[derive(Debug)]
pub(crate) struct Image {
    pub queue: Arc<Queue>,
    pub next_sequence: u64,
    pub ids_epoch: u32,
    pub origins: Vec<(QueueKey, MoveReason)>,
    pub groups: Groups,
    pub ready: ReadyImage,
    pub far: Far,
    pub fifo: Option<Fifo>,
    pub entries: KeyedImage<Sequence, Entry>,
    pub departures: DepartureTimes,
    pub repeatable: KeyedImage<Text, Attempt>,
}

impl Book {
    /// The queue as it is now, for a checkpoint; and as far as that knows, it is unchanged from here.
    pub(crate) fn image(&mut self) -> Image {
        self.changed = false;
        self.give_back_room();
        let held = &*self.held;
        Image {
            queue: self.queue.clone(),
            next_sequence: self.next_sequence,
            ids_epoch: self.ids_epoch,
            origins: held.origins.clone(),
            groups: held.groups.image(),
            ready: held.ready.image(),
            far: held.far.image(),
            fifo: held.fifo.as_ref().map(|fifo| fifo.image()),
            entries: held.entries.image(),
            departures: held.departures.clone(),
            repeatable: held.repeatable.image(),
        }
    }

    /// What stands between the messages, for an export.
    pub(crate) fn order(&self) -> CarriedOrder {
        let held = &*self.held;
        let name = |slot| held.groups.get(slot).map(|group| GroupId(Text::from(&*group.name)));
        let turns = held.fifo.iter().flat_map(|fifo| fifo.rotation(&held.groups)).filter_map(name).collect();
        let attempts = held.repeatable.image();
        let carried =
            |(id, attempt): &(Text, Attempt)| (id.clone(), attempt.first_at, attempt.sequences.clone());
        let mut attempts: Vec<_> = attempts.iter().map(carried).collect();
        attempts.sort_unstable();
        let departures = held.departures.iter().copied().collect();
        CarriedOrder { turns, departures, attempts }
    }
}

impl Image {
    /// How many pieces were shared or copied to take it: what the lock was held for.
    pub(crate) fn pieces(&self) -> usize {
        let fifo = self.fifo.as_ref().map_or(0, Fifo::pieces);
        let tables = self.groups.pieces() + self.entries.pieces() + self.repeatable.pieces();
        let order = self.ready.pieces() + self.far.pieces() + fifo;
        1 + self.origins.len() + tables + order + self.departures.leaves()
    }

    /// The messages with an entry, in order.
    pub(crate) fn entries(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.iter().map(|(_, entry)| entry).collect();
        entries.sort_unstable_by_key(|entry| entry.item.sequence);
        entries
    }

    /// The receives that may be repeated, in the order of their names.
    pub(crate) fn attempts(&self) -> Vec<&(Text, Attempt)> {
        let mut attempts: Vec<&(Text, Attempt)> = self.repeatable.iter().collect();
        attempts.sort_unstable_by(|one, other| one.0.as_bytes().cmp(other.0.as_bytes()));
        attempts
    }
}
