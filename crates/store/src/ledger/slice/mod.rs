//! A queue's part of a checkpoint, and the parts that belong to no queue.
//!
//! A slice is everything the book knows of one queue at one moment. That moment is an image, taken under the writer's
//! lock in a few looks and written without it. Two more kinds of slice exist: one for tasks, documents and counters,
//! and one for each generation of deduplication ids. Those are read some at a time: what is read late does no harm.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::rules::visibility::LeaseEnd;
use kew_core::time::millis;
use kew_core::{
    AccountId, DocumentKey, MoveTask, OwnerId, QueueId, Return, Sequence, TaskId, Text, Timestamp,
};

use super::Ledger;
use super::block::{BLOCK_ITEMS, Block};
use super::book::{Book, Image};
use super::codec;
use super::dedup::{First, PutAwayEntry, Sends};
use super::groups::{GroupSlot, Groups};
use super::item::{Before, Entry, Hold, Item, Lease, MaybeInstant};
use super::shelf::Shelf;
use super::sink::Sink;
use super::varint::{Reader, put, put_bytes, put_signed};

/// The key of the slice that belongs to no queue. Queues have their ids as keys, which begin at 1.
pub const META_KEY: u64 = 0;
/// Set in the keys of generations of deduplication ids.
const GENERATION_KEYS: u64 = 1 << 63;

/// Where a document stands in the order of all documents.
pub type DocumentPlace = (AccountId, DocumentKey);

/// A queue at one moment, to be written to a checkpoint.
#[derive(Debug)]
pub struct QueueImage(Image);

impl QueueImage {
    /// How many pieces were looked at to take it: what the writer's lock was held for.
    pub fn pieces(&self) -> usize {
        self.0.pieces()
    }

    /// Hands on the bytes of the queue's slice, piece by piece.
    pub fn write(&self, give: &mut dyn FnMut(&[u8])) {
        let mut out = Sink::new(give);
        write_image(&self.0, &mut out);
        out.finish();
    }
}

/// The deduplication ids of a store that is opened. They may be read while another thread reads its queues.
#[derive(Debug, Default)]
pub struct IdsRead(Sends);

impl IdsRead {
    /// Whether the slice of a key is one of these.
    pub fn has_key(key: u64) -> bool {
        key & GENERATION_KEYS != 0
    }

    /// A generation was found on the shelf; said before any slice is read.
    pub fn add_put_away(&mut self, generation: Timestamp, heads: Box<[u32]>) {
        self.0.add_away(generation, heads);
    }

    /// Slices of this many bytes will be read.
    pub fn make_room(&mut self, bytes: usize) {
        self.0.make_room(bytes);
    }

    /// Reads the slice of a generation; `None` when the bytes are not one.
    pub fn read(&mut self, slice: &[u8]) -> Option<()> {
        self.0.read(&mut Reader::new(slice))
    }

    /// Remembers sends that were made behind the checkpoint.
    pub fn remember(&mut self, sent: SentIds) {
        sent.0.into_iter().for_each(|(identity, first)| self.0.remember(identity, first));
    }
}

/// The ids of sends that were replayed, in their order.
#[derive(Debug)]
pub struct SentIds(Vec<(u128, First)>);

impl SentIds {
    /// Bytes they take.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u128, First)>()
    }
}

/// What belongs to no queue, to be written to a checkpoint. Documents are added to it some at a time: replay brings
/// each to its newest state whenever it was read.
#[derive(Debug)]
pub struct MetaImage {
    newest: Timestamp,
    next_queue: QueueId,
    next_task: TaskId,
    tasks: Vec<Arc<MoveTask>>,
    documents: Vec<(DocumentPlace, Bytes)>,
}

impl MetaImage {
    /// Adds documents behind those it has.
    pub fn add(&mut self, documents: Vec<(DocumentPlace, Bytes)>) {
        self.documents.extend(documents);
    }

    /// The last document it has.
    pub fn last(&self) -> Option<&DocumentPlace> {
        self.documents.last().map(|(place, _)| place)
    }

    /// Hands on the bytes of the slice, piece by piece.
    pub fn write(&self, give: &mut dyn FnMut(&[u8])) {
        let mut out = Sink::new(give);
        out.number(self.newest.0);
        out.number(self.next_queue.0);
        out.number(self.next_task.0);
        out.number(self.tasks.len() as u64);
        for task in &self.tasks {
            out.with(|out| codec::put_task(out, task));
        }
        out.number(self.documents.len() as u64);
        for ((account, key), bytes) in &self.documents {
            out.with(|out| {
                put(out, account.0);
                codec::put_document_key(out, key);
                put_bytes(out, bytes);
            });
        }
        out.finish();
    }
}

impl<S: Shelf> Ledger<S> {
    /// Begins a checkpoint: the queues to be written anew. The others are unchanged since the last one.
    pub fn begin_checkpoint(&mut self) -> BTreeSet<QueueId> {
        std::mem::take(&mut self.dirty)
    }

    /// A checkpoint that was begun failed: these must be written by the next one.
    pub fn mark_changed(&mut self, keys: &[u64]) {
        for queue in keys.iter().map(|key| QueueId(*key)) {
            if let Some(book) = self.books.get_mut(&queue) {
                book.changed = true;
                self.dirty.insert(queue);
            }
        }
    }

    /// All queues there are. Looks at every queue.
    pub fn queue_ids(&self) -> Vec<QueueId> {
        self.books.keys().copied().collect()
    }

    /// Whether there is a queue under this key.
    pub fn has_queue(&self, key: u64) -> bool {
        self.books.contains_key(&QueueId(key))
    }

    /// The keys of all generations of deduplication ids, and how many ids each has: one that has not grown need not be
    /// written again. To be asked after the queues were written: a send that a queue's slice reflects is then in its
    /// generation's slice too.
    pub fn generation_keys(&self) -> Vec<(u64, usize)> {
        self.sends.generations().map(|(start, ids)| (GENERATION_KEYS | start.0, ids)).collect()
    }

    /// The oldest generation of deduplication ids to put away, if more than the bound are in memory: its first instant,
    /// and how many ids it has.
    pub fn generation_to_put_away(&self) -> Option<(Timestamp, usize)> {
        if self.sends.len_here() <= self.bounds.deduplication_ids {
            return None;
        }
        self.sends.oldest_full(self.newest)
    }

    /// Some ids of a generation that is to be put away; `None` when it is not in memory any more.
    pub fn ids_to_put_away(&self, generation: Timestamp, places: Range<usize>) -> Option<Vec<PutAwayEntry>> {
        self.sends.entries(generation, places)
    }

    /// A generation lies on the shelf now, with these heads. Its ids leave memory by [`Ledger::let_ids_go`].
    pub fn set_put_away(&mut self, generation: Timestamp, heads: Box<[u32]>) {
        self.sends.set_away(generation, heads);
    }

    /// At most `max` ids of generations that need not be in memory leave it. True when there are more.
    pub fn let_ids_go(&mut self, max: usize) -> bool {
        self.sends.let_some_go(max)
    }

    /// From now on the ids of sends that are replayed are only collected, until [`Ledger::set_ids`] is called: another
    /// thread remembers them.
    pub fn set_ids_aside(&mut self) {
        self.sends.set_aside();
    }

    /// The ids that were collected, if they are at least this many.
    pub fn take_sent_ids(&mut self, at_least: usize) -> Option<SentIds> {
        self.sends.take_aside(at_least).map(SentIds)
    }

    /// The ids that were read meanwhile. What was collected and not taken comes behind them.
    pub fn set_ids(&mut self, ids: IdsRead) {
        let collected = self.sends.take_aside(0);
        self.sends = ids.0;
        collected.into_iter().flatten().for_each(|(identity, first)| self.sends.remember(identity, first));
    }

    /// The generations that were put away and may still be needed.
    pub fn generations_put_away(&self) -> Vec<Timestamp> {
        self.sends.generations_away().collect()
    }

    /// The queue of a key as it is now, which counts as unchanged from here; `None` when there is none (any more).
    pub fn image(&mut self, key: u64) -> Option<QueueImage> {
        self.books.get_mut(&QueueId(key)).map(|book| QueueImage(book.image()))
    }

    /// Tasks and counters as they are now, without any documents.
    pub fn meta(&self) -> MetaImage {
        let tasks = self.tasks.values().cloned().collect();
        let (next_queue, next_task) = (self.next_queue, self.next_task);
        MetaImage { newest: self.newest, next_queue, next_task, tasks, documents: Vec::new() }
    }

    /// At most `max` documents behind this one.
    pub fn documents_behind(&self, last: Option<&DocumentPlace>, max: usize) -> Vec<(DocumentPlace, Bytes)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let documents = self.documents.range((from, Bound::Unbounded)).take(max);
        documents.map(|(place, bytes)| (place.clone(), bytes.clone())).collect()
    }

    /// Writes some ids of the generation of a key, the first ones behind what begins its slice; false when it is not in
    /// memory any more.
    pub fn write_ids(&self, key: u64, places: Range<usize>, out: &mut Vec<u8>) -> bool {
        let start = Timestamp(key & !GENERATION_KEYS);
        if places.start == 0 {
            put(out, start.0);
        }
        self.sends.write_some(start, places, out)
    }

    /// Reads a slice back into an empty ledger, but for those of [`IdsRead`]; `None` when the bytes are not one.
    pub fn load_slice(&mut self, key: u64, bytes: &Bytes) -> Option<()> {
        let mut from = Reader::new(bytes);
        if key == META_KEY {
            self.read_meta(&mut from)?;
        } else {
            let shelf = &mut self.shelf;
            let mut book = read_book(&mut from, bytes, &mut |item| shelf.occupy(item.place()))?;
            book.queue = self.regions.share_of(book.queue);
            book.expire_through(self.expiry_through);
            let id = book.queue.id;
            self.next_queue = self.next_queue.max(QueueId(id.0 + 1));
            self.note_outbox(&book.queue);
            self.names.set(book.queue.clone());
            self.books.insert(id, book);
            self.register(id);
        }
        from.is_empty().then_some(())
    }

    fn read_meta(&mut self, from: &mut Reader<'_>) -> Option<()> {
        self.newest = self.newest.max(Timestamp(from.number()?));
        self.next_queue = self.next_queue.max(QueueId(from.number()?));
        self.next_task = self.next_task.max(TaskId(from.number()?));
        for _ in 0..from.number()? {
            let task = codec::read_task(from)?;
            self.tasks.insert(task.id, Arc::new(task));
        }
        for _ in 0..from.number()? {
            let (account, key) = (AccountId(from.number()?), codec::read_document_key(from)?);
            self.documents.insert((account, key), Bytes::copy_from_slice(from.bytes()?));
        }
        self.follow_expiry_hold();
        Some(())
    }
}

fn write_image(image: &Image, out: &mut Sink<'_>) {
    out.with(|out| {
        codec::put_queue(out, &image.queue);
        put(out, image.next_sequence);
        put(out, u64::from(image.ids_epoch));
        put(out, image.origins.len() as u64);
        for (key, reason) in &image.origins {
            codec::put_key(out, key);
            out.push(codec::reason_number(*reason));
        }
    });
    out.number(image.groups.slots() as u64);
    for name in image.groups.names() {
        // Free slots are written too: messages name their group by its slot.
        out.with(|out| codec::put_option(out, name, |out, name| put_bytes(out, name.as_bytes())));
    }
    match &image.fifo {
        None => {
            image.ready.write(out);
            image.far.write(out);
        }
        Some(fifo) => {
            out.number(fifo.first_delayed().map_or(u64::MAX, |(sequence, _)| sequence.0));
            write_items(out, fifo.rest_count(), fifo.rest());
            let rotation: Vec<GroupSlot> = fifo.rotation(&image.groups).collect();
            out.number(rotation.len() as u64);
            rotation.into_iter().for_each(|group| out.number(u64::from(group.index())));
        }
    }
    let entries = image.entries();
    write_items(out, entries.len(), entries.iter().map(|entry| entry.item));
    for entry in entries {
        out.with(|out| write_hold(out, &entry.hold));
    }
    out.number(image.departures.len() as u64);
    for (at, sequence) in image.departures.iter() {
        out.number(at.0);
        out.number(sequence.0);
    }
    let attempts = image.attempts();
    out.number(attempts.len() as u64);
    for (id, attempt) in attempts {
        out.with(|out| {
            put_bytes(out, id.as_bytes());
            put(out, attempt.first_at.0);
            codec::put_sequences(out, &attempt.sequences);
        });
    }
}

/// Reads a queue, and shows each of its messages: each is unpacked once.
fn read_book(from: &mut Reader<'_>, bytes: &Bytes, see: &mut dyn FnMut(&Item)) -> Option<Book> {
    let queue = Arc::new(codec::read_queue(from, bytes)?);
    let retention = queue.policy.retention;
    let is_fifo = queue.policy.kind.is_fifo();
    let mut book = Book::new(queue);
    let next_sequence = from.number()?;
    book.ids_epoch = u32::try_from(from.number()?).ok()?;
    let mut origins = Vec::new();
    for _ in 0..from.number()? {
        origins.push((codec::read_key(from)?, codec::read_reason(from)?));
    }
    let groups = Groups::read(from.number()?, || {
        codec::read_option(from, |from| std::str::from_utf8(from.bytes()?).ok())
    })?;
    book.restore_tables(origins, groups);
    if is_fifo {
        let delayed_from = Sequence(from.number()?);
        let mut rest = Blocks::skip(from)?;
        let mut rotation = Vec::new();
        for _ in 0..from.number()? {
            rotation.push(GroupSlot::at(u32::try_from(from.number()?).ok()?));
        }
        let entries = read_entries(from)?;
        book.restore_groups(rest.by_ref().flatten(), delayed_from, entries, &rotation, see)?;
        rest.was_read()?;
    } else {
        let mut are_counted = true;
        let mut count = |item: &Item| {
            are_counted &= book.restore_count(item).is_some();
            see(item);
        };
        let ready = super::ready::Ready::read(from, retention, &mut count)?;
        let far = super::far::Far::read(from, retention, &mut count)?;
        let entries = are_counted.then(|| read_entries(from))??;
        book.restore_order(ready, far, entries, see)?;
    }
    for _ in 0..from.number()? {
        book.restore_departure(Timestamp(from.number()?), Sequence(from.number()?));
    }
    for _ in 0..from.number()? {
        let id = Text::from_utf8(Bytes::copy_from_slice(from.bytes()?))?;
        let first_at = Timestamp(from.number()?);
        book.remember_attempt(&id, first_at, codec::read_sequences(from)?);
    }
    book.next_sequence = next_sequence;
    book.give_back_room();
    Some(book)
}

/// Writes `count` messages, in blocks.
fn write_items(out: &mut Sink<'_>, count: usize, items: impl Iterator<Item = Item>) {
    out.number(count.div_ceil(BLOCK_ITEMS) as u64);
    let mut block = Block::new();
    for item in items {
        block.push(item);
        if block.is_full() {
            let full = std::mem::replace(&mut block, Block::new());
            out.with(|out| full.write(out));
        }
    }
    if block.live() > 0 {
        out.with(|out| block.write(out));
    }
}

fn read_items(from: &mut Reader<'_>) -> Option<Vec<Item>> {
    let mut blocks = Blocks::skip(from)?;
    let items = blocks.by_ref().flatten().collect();
    blocks.was_read()?;
    Some(items)
}

/// Messages that [`write_items`] wrote, block by block: all of a large queue at once would take many times the room of
/// what is made of them.
struct Blocks<'a> {
    from: Reader<'a>,
    left: u64,
}

impl<'a> Blocks<'a> {
    /// Passes over the blocks that begin here, to be read meanwhile or later.
    fn skip(from: &mut Reader<'a>) -> Option<Self> {
        let left = from.number()?;
        let blocks = Self { from: from.clone(), left };
        (0..left).try_for_each(|_| Block::skip(from))?;
        Some(blocks)
    }

    /// Whether all of them were blocks; asked at the end.
    fn was_read(&self) -> Option<()> {
        (self.left == 0).then_some(())
    }
}

impl Iterator for Blocks<'_> {
    type Item = Vec<Item>;

    fn next(&mut self) -> Option<Vec<Item>> {
        if self.left == 0 {
            return None;
        }
        let items = Block::read_items(&mut self.from)?;
        self.left -= 1;
        Some(items)
    }
}

fn read_entries(from: &mut Reader<'_>) -> Option<Vec<Entry>> {
    let items = read_items(from)?;
    items
        .into_iter()
        .map(|item| Some(Entry { item, hold: read_hold(from)?, alarm: Timestamp::NEVER }))
        .collect()
}

fn write_hold(out: &mut Vec<u8>, hold: &Hold) {
    let lease = match hold {
        Hold::Ready => return out.push(0),
        Hold::Delayed => return out.push(1),
        Hold::Leased(lease) => lease,
    };
    out.push(2);
    put(out, lease.until.0);
    put(out, lease.received_at.0);
    put(out, lease.cap.map_or(0, |cap| millis(cap) + 1));
    put(out, millis(lease.lapse_delay));
    out.push(codec::return_number(lease.returns));
    put(out, lease.owner.map_or(0, |owner| owner.0.wrapping_add(1)));
    out.push(u8::from(lease.owner.is_some()) | (u8::from(lease.before.is_some()) << 1));
    if let Some(before) = lease.before {
        put(out, before.nonce);
        put_signed(out, before.first_leased_at.number().cast_signed());
        put_signed(out, before.lease_end.number().cast_signed());
    }
}

fn read_hold(from: &mut Reader<'_>) -> Option<Hold> {
    match from.byte()? {
        0 => return Some(Hold::Ready),
        1 => return Some(Hold::Delayed),
        2 => {}
        _ => return None,
    }
    let (until, received_at) = (Timestamp(from.number()?), Timestamp(from.number()?));
    let cap = from.number()?.checked_sub(1).map(Duration::from_millis);
    let lapse_delay = Duration::from_millis(from.number()?);
    let returns: Return = codec::read_return(from)?;
    let owner = OwnerId(from.number()?.wrapping_sub(1));
    let flags = from.byte().filter(|flags| *flags < 4)?;
    let before = if flags & 2 != 0 {
        Some(Before {
            nonce: from.number()?,
            first_leased_at: MaybeInstant::of_number(from.signed()?.cast_unsigned()),
            lease_end: MaybeInstant::of_number(from.signed()?.cast_unsigned()),
        })
    } else {
        None
    };
    let owner = (flags & 1 != 0).then_some(owner);
    let (attempt, sealed) = (None, None);
    Some(Hold::Leased(Lease {
        until,
        received_at,
        cap,
        lapse_delay,
        returns,
        owner,
        attempt,
        sealed,
        before,
        ending: LeaseEnd::RanOut,
    }))
}

#[cfg(test)]
mod tests;
