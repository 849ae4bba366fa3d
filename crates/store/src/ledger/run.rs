//! Up to 64 messages of a FIFO queue in the order of sends, and their neighbours within their groups.
//!
//! The run being filled and the one that messages are leased from are open; the others are packed, as blocks of
//! standard queues are, to some eight bytes a message. A neighbour is known by how many places in the order of sends it
//! is away, so that a link stays true whatever becomes of the runs at its ends.

use std::ops::Range;

use kew_core::Sequence;

use super::block::{Unpack, pack};
use super::fifo::{Stand, Sum};
use super::item::Item;
use super::shelf::Address;

/// Messages in a full run.
pub(super) const RUN_ITEMS: usize = 64;

/// No neighbour.
pub(super) const NONE: u32 = 0;
/// A neighbour so far away that it is written down elsewhere.
pub(super) const FAR: u32 = u32::MAX;

/// How far away the neighbours in the group are: distances, [`NONE`] or [`FAR`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Links {
    pub before: u32,
    pub after: u32,
}

#[derive(Clone, Debug)]
enum Body {
    Open(Vec<Item>),
    Packed(Box<[u8]>),
}

/// Some messages in order. Those that left it are marked until it is packed anew.
#[derive(Clone, Debug)]
pub(super) struct Run {
    body: Body,
    /// The sequences of its first and last place; of an empty run, none lies between them.
    sequences: (Sequence, Sequence),
    /// How far each place is behind the first; nothing while none is missing between them.
    offsets: Vec<u32>,
    links: Vec<Links>,
    /// Which places hold a message, one that was never touched, one that is held.
    live: u64,
    rest: u64,
    held: u64,
    /// The lengths of the bodies of those that were never touched, together.
    rest_bytes: u64,
    /// The smallest and largest address of a message at rest it ever held.
    addresses: (Address, Address),
}

impl Default for Run {
    fn default() -> Self {
        Self {
            body: Body::Open(Vec::new()),
            sequences: (Sequence(u64::MAX), Sequence(0)),
            offsets: Vec::new(),
            links: Vec::new(),
            live: 0,
            rest: 0,
            held: 0,
            rest_bytes: 0,
            addresses: (Address(u64::MAX), Address(0)),
        }
    }
}

impl Run {
    /// The sequence of its first place; past all others in an empty run.
    pub(super) fn first(&self) -> Sequence {
        self.sequences.0
    }

    /// The sequence of its last place; before all others in an empty run.
    pub(super) fn last(&self) -> Sequence {
        self.sequences.1
    }

    /// Messages in it.
    pub(super) fn live(&self) -> usize {
        self.live.count_ones() as usize
    }

    /// Messages at rest in it.
    pub(super) fn at_rest(&self) -> usize {
        self.rest.count_ones() as usize
    }

    /// The sum of its messages at rest.
    pub(super) fn sum(&self) -> Sum {
        Sum { messages: self.at_rest() as u64, body_bytes: self.rest_bytes }
    }

    /// Whether this message may follow at the end.
    pub(super) fn has_room_for(&self, sequence: Sequence) -> bool {
        self.links.is_empty()
            || self.links.len() < RUN_ITEMS && u32::try_from(sequence.0 - self.sequences.0.0).is_ok()
    }

    /// Adds a message at the end of a run that has room for it. Sequences rise.
    pub(super) fn push(&mut self, item: &Item, links: Links, stand: Stand) {
        let place = self.links.len();
        let Body::Open(items) = self.opened() else { return };
        items.push(*item);
        if place == 0 {
            self.sequences.0 = item.sequence;
        } else if self.offsets.is_empty() && item.sequence.0 != self.sequences.1.0 + 1 {
            self.offsets = (0..place as u32).collect();
        }
        let offset = item.sequence.0 - self.sequences.0.0;
        if !self.offsets.is_empty() {
            self.offsets.push(offset as u32);
        }
        self.sequences.1 = item.sequence;
        self.links.push(links);
        self.live |= 1 << place;
        if stand == Stand::Rest {
            self.rest |= 1 << place;
            self.rest_bytes += u64::from(item.body_bytes);
            self.note_address(item.address);
        } else {
            self.set_stand(place, stand);
        }
    }

    fn note_address(&mut self, address: Address) {
        self.addresses = (self.addresses.0.min(address), self.addresses.1.max(address));
    }

    /// Unpacks it.
    pub(super) fn open(&mut self) {
        self.opened();
    }

    fn opened(&mut self) -> &mut Body {
        if let Body::Packed(_) = &self.body {
            // Room for those it has and one more: most queues have few, and are packed again before many come.
            let mut items = Vec::with_capacity(self.links.len() + 1);
            items.extend(self.items());
            self.body = Body::Open(items);
        }
        &mut self.body
    }

    /// Packs it, and leaves no room for more.
    pub(super) fn pack(&mut self) {
        if let Body::Open(items) = &self.body {
            self.body = Body::Packed(pack(items));
            self.links.shrink_to_fit();
            self.offsets.shrink_to_fit();
        }
    }

    /// Where this message is.
    #[inline]
    pub(super) fn place(&self, sequence: Sequence) -> Option<usize> {
        if sequence < self.sequences.0 || sequence > self.sequences.1 {
            return None;
        }
        let offset = sequence.0 - self.sequences.0.0;
        let place = match self.offsets.is_empty() {
            true => offset as usize,
            false => self.offsets.binary_search(&u32::try_from(offset).ok()?).ok()?,
        };
        (self.live >> place & 1 == 1).then_some(place)
    }

    /// What a message is doing.
    #[inline]
    pub(super) fn stand(&self, place: usize) -> Stand {
        match (self.rest >> place & 1, self.held >> place & 1) {
            (1, _) => Stand::Rest,
            (_, 1) => Stand::Held,
            _ => Stand::Ready,
        }
    }

    /// A message at rest, with a body of this length, is held from now on.
    pub(super) fn unrest(&mut self, place: usize, body_bytes: u32) {
        let bit = 1 << place;
        (self.rest, self.held) = (self.rest & !bit, self.held | bit);
        self.rest_bytes -= u64::from(body_bytes);
    }

    /// Sets what a message that was touched is doing.
    pub(super) fn set_stand(&mut self, place: usize, stand: Stand) {
        let bit = 1 << place;
        self.held = self.held & !bit | if stand == Stand::Held { bit } else { 0 };
    }

    /// An empty run with room for all its messages.
    pub(super) fn with_room() -> Self {
        let (items, links) = (Vec::with_capacity(RUN_ITEMS), Vec::with_capacity(RUN_ITEMS));
        Self { body: Body::Open(items), links, ..Self::default() }
    }

    /// Sets the links of all its places from the first of these. Answers the others.
    pub(super) fn set_links<'a>(&mut self, links: &'a [Links]) -> &'a [Links] {
        let (own, others) = links.split_at(self.links.len());
        self.links.copy_from_slice(own);
        others
    }

    /// Its neighbours in its group.
    #[inline]
    pub(super) fn links(&self, place: usize) -> Links {
        self.links[place]
    }

    /// Its neighbours in its group, to change.
    pub(super) fn links_mut(&mut self, place: usize) -> &mut Links {
        &mut self.links[place]
    }

    /// A message that is not at rest leaves. True when so few are left that the run is to be packed anew.
    pub(super) fn remove(&mut self, place: usize) -> bool {
        let stays = !(1 << place);
        (self.live, self.held) = (self.live & stays, self.held & stays);
        4 * self.live() <= 3 * self.links.len()
    }

    /// Forgets all that left a run that nothing is left in, but keeps its room.
    pub(super) fn clear(&mut self) {
        let old = std::mem::take(self);
        if let Body::Open(mut items) = old.body {
            items.clear();
            self.body = Body::Open(items);
        }
        self.links = old.links;
        self.links.clear();
    }

    /// Whether the messages of two neighbouring runs fit into one.
    pub(super) fn fits_with(&self, later: &Run) -> bool {
        self.live() + later.live() <= RUN_ITEMS
            && u32::try_from(later.sequences.1.0 - self.sequences.0.0).is_ok()
    }

    /// The same messages, packed.
    pub(super) fn packed_anew(mut self) -> Run {
        if self.live() < self.links.len() {
            return Run::joined(&[&self]);
        }
        self.pack();
        self
    }

    /// The messages of neighbouring runs that fit into one, packed.
    pub(super) fn joined(runs: &[&Run]) -> Run {
        let mut joined = Run::default();
        for run in runs {
            for (place, item) in run.items().enumerate().filter(|(place, _)| run.live >> place & 1 == 1) {
                joined.push(&item, run.links[place], run.stand(place));
            }
        }
        joined.pack();
        joined
    }

    /// The message in a place, as it was when it was never touched.
    pub(super) fn item(&self, place: usize) -> Option<Item> {
        match &self.body {
            Body::Open(items) => items.get(place).copied(),
            Body::Packed(_) => self.items().nth(place),
        }
    }

    /// What every place holds or held, in order.
    fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let (open, packed) = match &self.body {
            Body::Open(items) => (Some(items.iter().copied()), None),
            Body::Packed(bytes) => (None, Some(Unpack::new(bytes, self.links.len() as u16))),
        };
        open.into_iter().flatten().chain(packed.into_iter().flatten())
    }

    /// The messages at rest, in order.
    pub(super) fn rest_items(&self) -> impl Iterator<Item = Item> + '_ {
        #[cfg(test)]
        looked_at::add(self.live());
        self.items().enumerate().filter(|(place, _)| self.rest >> place & 1 == 1).map(|(_, item)| item)
    }

    /// The last message at rest.
    pub(super) fn last_at_rest(&self) -> Option<Item> {
        self.item(self.rest.checked_ilog2()? as usize)
    }

    /// Every message it has, in order: its sequence, what it is doing, and what it was like before it was touched.
    pub(super) fn messages(&self) -> impl Iterator<Item = (Stand, Item)> + '_ {
        let live = self.items().enumerate().filter(|(place, _)| self.live >> place & 1 == 1);
        live.map(|(place, item)| (self.stand(place), item))
    }

    /// Whether any of its messages is held: leased or hidden.
    pub(super) fn has_held(&self) -> bool {
        self.held & self.live != 0
    }

    /// Whether a message at rest may lie within these addresses.
    pub(super) fn may_lie_in(&self, range: &Range<Address>) -> bool {
        self.rest != 0 && self.addresses.0 < range.end && self.addresses.1 >= range.start
    }

    /// Gives every message at rest for which `to` knows a new address that address.
    pub(super) fn relocate(&mut self, to: &mut impl FnMut(&Item) -> Option<Address>) {
        let mut items: Vec<Item> = self.items().collect();
        self.addresses = (Address(u64::MAX), Address(0));
        for (place, item) in items.iter_mut().enumerate() {
            if self.rest >> place & 1 == 1 {
                item.address = to(item).unwrap_or(item.address);
                self.note_address(item.address);
            }
        }
        self.body = match &self.body {
            Body::Open(_) => Body::Open(items),
            Body::Packed(_) => Body::Packed(pack(&items)),
        };
    }

    /// Bytes held beside the run itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let items = match &self.body {
            Body::Open(items) => items.capacity() * size_of::<Item>(),
            Body::Packed(bytes) => bytes.len(),
        };
        given_for(items)
            + given_for(self.links.capacity() * size_of::<Links>())
            + given_for(self.offsets.capacity() * size_of::<u32>())
    }
}

/// What an allocator gives for this many bytes, about: the next multiple of sixteen, or of an eighth of what is asked.
pub(super) fn given_for(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(16))
}

/// How many messages of runs this thread has looked at, for tests of what one step does.
#[cfg(test)]
pub(super) mod looked_at {
    use std::cell::Cell;

    thread_local!(static MESSAGES: Cell<usize> = const { Cell::new(0) });

    pub(super) fn add(messages: usize) {
        MESSAGES.set(MESSAGES.get() + messages);
    }

    /// The number since it was last asked for.
    pub(crate) fn take() -> usize {
        MESSAGES.take()
    }
}
