//! A queue's part of a checkpoint, and the parts that belong to no queue.
//!
//! A slice is everything the book knows of one queue at one moment. Packed blocks are written as they are. Two more
//! kinds of slice exist: one for tasks, documents and counters, and one for each generation of deduplication ids.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::time::millis;
use kew_core::{AccountId, ByName, OwnerId, QueueId, Return, Sequence, Text, Timestamp};

use super::Ledger;
use super::block::{BLOCK_ITEMS, Block};
use super::book::Book;
use super::codec;
use super::groups::Groups;
use super::item::{Before, Entry, Hold, Item, Lease, NO_INSTANT};
use super::shelf::Shelf;
use super::varint::{Reader, put, put_bytes, put_signed};

/// The key of the slice that belongs to no queue. Queues have their ids as keys, which begin at 1.
pub const META_KEY: u64 = 0;
/// Set in the keys of generations of deduplication ids.
pub const GENERATION_KEYS: u64 = 1 << 63;

impl<S: Shelf> Ledger<S> {
    /// Begins a checkpoint: the keys of the queues to be written anew. The others are unchanged since the last one.
    pub fn begin_checkpoint(&mut self) -> Vec<u64> {
        let changed = std::mem::take(&mut self.dirty);
        for queue in &changed {
            if let Some(book) = self.books.get_mut(queue) {
                book.changed = false;
                book.rest();
            }
        }
        changed.into_iter().map(|queue| queue.0).collect()
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

    /// The keys of all queues there are.
    pub fn queue_keys(&self) -> Vec<u64> {
        self.books.keys().map(|queue| queue.0).collect()
    }

    /// The keys of all generations of deduplication ids, and how many ids each has: one that has not grown need not be
    /// written again. To be asked after the queues were written: a send that a queue's slice reflects is then in its
    /// generation's slice too.
    pub fn generation_keys(&self) -> Vec<(u64, usize)> {
        self.sends.generations().map(|(start, ids)| (GENERATION_KEYS | start.0, ids)).collect()
    }

    /// The oldest generation of deduplication ids to put away, if more than so many are in memory: its first instant,
    /// and its bytes.
    pub fn generation_to_put_away(&self) -> Option<(Timestamp, Vec<u8>)> {
        if self.sends.len_here() <= self.bounds.deduplication_ids {
            return None;
        }
        self.sends.oldest_full(self.newest)
    }

    /// A generation lies on the shelf now, with these heads.
    pub fn set_put_away(&mut self, generation: Timestamp, heads: Box<[u32]>) {
        self.sends.set_away(generation, heads);
    }

    /// A generation was found on the shelf; said before anything is replayed.
    pub fn add_put_away(&mut self, generation: Timestamp, heads: Box<[u32]>) {
        self.sends.add_away(generation, heads);
    }

    /// The generations that were put away and may still be needed.
    pub fn generations_put_away(&self) -> Vec<Timestamp> {
        self.sends.generations_away().collect()
    }

    /// Writes the slice of a key; false when there is nothing under it (any more).
    pub fn write_slice(&self, key: u64, out: &mut Vec<u8>) -> bool {
        if key == META_KEY {
            self.write_meta(out);
            return true;
        }
        if key & GENERATION_KEYS != 0 {
            return self.sends.write(Timestamp(key & !GENERATION_KEYS), out);
        }
        let Some(book) = self.books.get(&QueueId(key)) else { return false };
        // Large queues are mostly packed blocks, written as they are.
        out.reserve(book.heap_bytes());
        write_book(book, out);
        true
    }

    /// Reads a slice back into an empty ledger; `None` when the bytes are not one.
    pub fn load_slice(&mut self, key: u64, bytes: &Bytes) -> Option<()> {
        let mut from = Reader::new(bytes);
        if key == META_KEY {
            self.read_meta(&mut from)?;
        } else if key & GENERATION_KEYS != 0 {
            self.sends.read(&mut from)?;
        } else {
            let mut book = read_book(&mut from, bytes)?;
            book.queue = self.regions.share_of(book.queue);
            let id = book.queue.id;
            book.each_item(&mut |item: &Item| self.shelf.occupy(item.place()));
            self.next_queue = self.next_queue.max(id.0 + 1);
            self.names.replace(ByName(book.queue.clone()));
            self.books.insert(id, Box::new(book));
            self.register(id);
        }
        from.is_empty().then_some(())
    }

    fn write_meta(&self, out: &mut Vec<u8>) {
        put(out, self.newest.0);
        put(out, self.next_queue);
        put(out, self.next_task);
        put(out, self.tasks.len() as u64);
        for task in self.tasks.values() {
            codec::put_task(out, task);
        }
        put(out, self.documents.len() as u64);
        for ((account, key), bytes) in &self.documents {
            put(out, account.0);
            codec::put_document_key(out, key);
            put_bytes(out, bytes);
        }
    }

    fn read_meta(&mut self, from: &mut Reader<'_>) -> Option<()> {
        self.newest = self.newest.max(Timestamp(from.number()?));
        self.next_queue = self.next_queue.max(from.number()?);
        self.next_task = self.next_task.max(from.number()?);
        for _ in 0..from.number()? {
            let task = codec::read_task(from)?;
            self.tasks.insert(task.id, Arc::new(task));
        }
        for _ in 0..from.number()? {
            let (account, key) = (AccountId(from.number()?), codec::read_document_key(from)?);
            self.documents.insert((account, key), Bytes::copy_from_slice(from.bytes()?));
        }
        Some(())
    }
}

fn write_book(book: &Book, out: &mut Vec<u8>) {
    codec::put_queue(out, &book.queue);
    put(out, book.next_sequence);
    put(out, u64::from(book.epoch));
    let parts = book.parts();
    put(out, parts.origins.len() as u64);
    for (key, reason) in parts.origins {
        codec::put_key(out, key);
        out.push(codec::reason_number(*reason));
    }
    put(out, parts.groups.slots() as u64);
    for name in parts.groups.names() {
        // Free slots are written too: messages name their group by its slot.
        codec::put_option(out, name, |out, name| put_bytes(out, name.as_bytes()));
    }
    match parts.fifo {
        None => {
            parts.ready.write(out);
            parts.far.write(out);
        }
        Some(fifo) => {
            put(out, fifo.first_delayed().map_or(u64::MAX, |(sequence, _)| sequence.0));
            write_items(out, fifo.rest_count(), fifo.rest());
            let rotation: Vec<u32> = fifo.rotation(parts.groups).collect();
            put(out, rotation.len() as u64);
            for group in rotation {
                put(out, u64::from(group));
            }
        }
    }
    let mut entries: Vec<&Entry> = parts.entries.values().collect();
    entries.sort_unstable_by_key(|entry| entry.item.sequence);
    write_items(out, entries.len(), entries.iter().map(|entry| entry.item));
    for entry in entries {
        write_hold(out, &entry.hold);
    }
    put(out, parts.departures.len() as u64);
    for (at, sequence) in parts.departures {
        put(out, at.0);
        put(out, sequence.0);
    }
    put(out, parts.attempts.len() as u64);
    for (id, attempt) in parts.attempts {
        put_bytes(out, id.as_bytes());
        put(out, attempt.first_at.0);
        codec::put_sequences(out, &attempt.sequences);
    }
}

fn read_book(from: &mut Reader<'_>, bytes: &Bytes) -> Option<Book> {
    let queue = Arc::new(codec::read_queue(from, bytes)?);
    let retention = queue.policy.retention;
    let is_fifo = queue.policy.kind.is_fifo();
    let mut book = Book::new(queue);
    let next_sequence = from.number()?;
    book.epoch = u32::try_from(from.number()?).ok()?;
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
            rotation.push(u32::try_from(from.number()?).ok()?);
        }
        let entries = read_entries(from)?;
        book.restore_groups(rest.by_ref().flatten(), delayed_from, entries, &rotation)?;
        rest.was_read()?;
    } else {
        let ready = super::ready::Ready::read(from, retention)?;
        let far = super::far::Far::read(from, retention)?;
        let entries = read_entries(from)?;
        book.restore_order(ready, far, entries)?;
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
    book.rest();
    Some(book)
}

/// Writes so many messages, in blocks.
fn write_items(out: &mut Vec<u8>, count: usize, items: impl Iterator<Item = Item>) {
    put(out, count.div_ceil(BLOCK_ITEMS) as u64);
    let mut block = Block::new();
    for item in items {
        block.push(item);
        if block.is_full() {
            std::mem::replace(&mut block, Block::new()).write(out);
        }
    }
    if block.live() > 0 {
        block.write(out);
    }
}

fn read_items(from: &mut Reader<'_>) -> Option<Vec<Item>> {
    let mut blocks = Blocks::skip(from)?;
    let items = blocks.by_ref().flatten().collect();
    blocks.was_read()?;
    Some(items)
}

/// Messages that [`write_items`] wrote, block by block: all of a large queue at once would take many times the room of what
/// is made of them.
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
        let block = Block::read(&mut self.from)?;
        self.left -= 1;
        Some(block.live_items().map(|(_, item)| item).collect())
    }
}

fn read_entries(from: &mut Reader<'_>) -> Option<Vec<Entry>> {
    let items = read_items(from)?;
    items.into_iter().map(|item| Some(Entry { item, hold: read_hold(from)?, alarm: NO_INSTANT })).collect()
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
        put_signed(out, before.first_leased_at.0.cast_signed());
        put_signed(out, before.lease_end.0.cast_signed());
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
    let flags = from.byte()?;
    let before = if flags & 2 != 0 {
        Some(Before {
            nonce: from.number()?,
            first_leased_at: Timestamp(from.signed()?.cast_unsigned()),
            lease_end: Timestamp(from.signed()?.cast_unsigned()),
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
    }))
}
