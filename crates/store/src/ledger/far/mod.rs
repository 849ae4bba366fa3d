//! Messages of a standard queue hidden for long, in buckets of time.
//!
//! A queue may hold millions of messages that show in some minutes or hours. They wait packed, in buckets that are
//! the wider the farther off they are; a bucket that comes near is dealt out into narrower ones, in the end into one
//! for each millisecond. A bucket may hold millions, so it is dealt out a little at a time, in the time before it
//! begins. Blocks whose messages all show by now, or all belong into one narrower bucket, move as they are.
//!
//! When its instant comes, a bucket counts as shown at once, however much it holds: that is one addition. Its messages
//! are handed to the queue in slices. Their order is that of their ranks there, so slices leave nothing to record.

mod filter;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Sequence, Timestamp};

use super::block::Block;
use super::expired::Expired;
use super::item::Item;
use super::row::Row;
use super::sink::Sink;
use super::varint::Reader;
use filter::Filter;

/// Widths of buckets as powers of two of milliseconds: a quarter of a second, a minute, an hour.
const WIDTHS: [u32; 3] = [8, 16, 22];
/// The width of the buckets that all others are dealt out into in the end: one instant.
const INSTANT: u32 = 0;
/// What shows sooner than this number of widths from now is put into something narrower.
const WAIT_WIDTHS: u64 = 8;
/// A bucket is dealt out from this number of its widths before it begins.
const LEAD_WIDTHS: u64 = 4;
/// Blocks dealt out at one instant, about two thousand messages, unless a bucket would not be empty when it begins. The
/// next are dealt out a millisecond later.
const BLOCKS_AT_ONCE: usize = 8;

/// A bucket's width and its first instant.
type Bucket = (u32, Timestamp);

/// Some messages of a bucket.
#[derive(Clone, Debug)]
struct Part {
    block: Block,
    filter: Filter,
    /// When the first of its messages shows, or earlier.
    earliest: Timestamp,
    /// When the last of its messages shows, or later.
    latest: Timestamp,
}

impl Part {
    fn new() -> Self {
        let (earliest, latest) = (Timestamp::NEVER, Timestamp::ZERO);
        Self { block: Block::new(), filter: Filter::default(), earliest, latest }
    }

    /// A message is in its block.
    fn note(&mut self, item: &Item) {
        self.filter.add(item.sequence);
        self.earliest = self.earliest.min(item.visible_at);
        self.latest = self.latest.max(item.visible_at);
    }

    /// Whether it is worth looking for this message here.
    fn may_hold(&self, sequence: Sequence) -> bool {
        let (first, last) = self.block.sequences;
        (first..=last).contains(&sequence) && self.block.live() > 0 && self.filter.may_hold(sequence)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Far {
    /// Messages by the bucket's width and its first instant.
    buckets: BTreeMap<Bucket, Row<Part>>,
    /// When something was dealt out ahead of its time last.
    dealt_at: Timestamp,
    live: u64,
    /// Messages that show at this instant or before are shown. All of them are in buckets of one instant.
    shown_through: Timestamp,
    /// How many of those are still here.
    shown: u64,
    /// The earliest expiry, or earlier; meaningless when nothing is here.
    expiry: Timestamp,
}

impl Far {
    /// Messages here, shown ones too.
    pub(crate) fn len(&self) -> u64 {
        self.live
    }

    /// Messages that are shown, and wait here only to be handed over.
    #[inline]
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// Whether a message that is here is shown.
    pub(crate) fn is_shown(&self, item: &Item) -> bool {
        item.visible_at <= self.shown_through
    }

    /// Puts a delayed message away, or gives it back when it shows too soon for that.
    pub(crate) fn put(&mut self, item: Item, now: Timestamp, retention: Duration) -> Option<Item> {
        if self.is_shown(&item) {
            self.put_in(INSTANT, item, retention);
            return None;
        }
        let Some(width) = width_for(item.visible_at, now) else { return Some(item) };
        self.put_in(width, item, retention);
        None
    }

    fn put_in(&mut self, width: u32, item: Item, retention: Duration) {
        let parts = self.buckets.entry(bucket_of(width, item.visible_at)).or_default();
        if parts.back().is_none_or(|part| part.block.is_full()) {
            if let Some(full) = parts.back_mut() {
                full.block.pack();
            }
            parts.push_back(Part::new());
        }
        if let Some(part) = parts.back_mut() {
            part.note(&item);
            part.block.push(item);
        }
        self.shown += u64::from(self.is_shown(&item));
        let expires_at = item.expires_at(retention);
        self.expiry = if self.live == 0 { expires_at } else { self.expiry.min(expires_at) };
        self.live += 1;
    }

    /// The next instant something here must be looked at. Nothing expires that is over after `through`.
    pub(crate) fn next_instant(&self, through: Timestamp) -> Timestamp {
        if self.live == 0 {
            return Timestamp::NEVER;
        }
        let deals = WIDTHS.iter().filter_map(|width| self.first(*width)).map(|bucket| self.deals_at(bucket));
        let expiry = if self.expiry <= through { self.expiry } else { Timestamp::NEVER };
        let shows = self.buckets_shown(self.shown_through.next(), Timestamp::NEVER).next();
        deals.fold(expiry, Timestamp::min).min(shows.map_or(Timestamp::NEVER, |((_, at), _)| *at))
    }

    /// The earliest expiry, or earlier.
    #[inline]
    pub(crate) fn next_expiry(&self) -> Timestamp {
        if self.live == 0 { Timestamp::NEVER } else { self.expiry }
    }

    /// The buckets of one instant, for the instants between these two.
    fn buckets_shown(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (&Bucket, &Row<Part>)> {
        self.buckets.range((INSTANT, from)..=(INSTANT, to.max(from)))
    }

    /// The first bucket of this width.
    fn first(&self, width: u32) -> Option<Bucket> {
        let mut buckets = self.buckets.range((width, Timestamp::ZERO)..=(width, Timestamp(u64::MAX)));
        buckets.next().map(|(bucket, _)| *bucket)
    }

    /// When a bucket is dealt out, or some more of it, which is when it begins at the latest.
    fn deals_at(&self, (width, start): Bucket) -> Timestamp {
        let from = deals_from((width, start));
        if self.dealt_at < from { from } else { Timestamp(self.dealt_at.0.saturating_add(1)).min(start) }
    }

    /// Deals out every bucket that has begun at `now`, and some of what comes next. What shows by now is shown.
    pub(crate) fn deal(&mut self, now: Timestamp, retention: Duration) {
        // From wide to narrow: what is dealt out of one bucket may belong into another that has begun too.
        for width in WIDTHS.into_iter().rev() {
            while let Some(bucket) = self.first(width).filter(|(_, start)| *start <= now) {
                self.deal_blocks(bucket, usize::MAX, now, retention);
            }
        }
        if self.dealt_at < now {
            let ahead = WIDTHS.into_iter().filter_map(|width| self.first(width));
            let ahead = ahead.filter(|bucket| deals_from(*bucket) <= now);
            // Of two that begin together what is in the wider one goes through the narrower one.
            if let Some(bucket) = ahead.min_by_key(|(width, start)| (*start, Reverse(*width))) {
                self.deal_blocks(bucket, self.blocks_due(bucket, now), now, retention);
                self.dealt_at = now;
            }
        }
        if self.shown_through < now {
            let begun = self.buckets_shown(self.shown_through.next(), now);
            self.shown +=
                begun.flat_map(|(_, parts)| parts.iter()).map(|part| part.block.live() as u64).sum::<u64>();
            self.shown_through = now;
        }
    }

    /// How many blocks of a bucket that has not begun are dealt out now: as many at each millisecond until it begins.
    fn blocks_due(&self, bucket: Bucket, now: Timestamp) -> usize {
        let blocks = self.buckets.get(&bucket).map_or(0, Row::len);
        let instants = bucket.1.0.saturating_sub(now.0).max(1);
        BLOCKS_AT_ONCE.max(blocks.div_ceil(usize::try_from(instants).unwrap_or(usize::MAX)))
    }

    fn deal_blocks(&mut self, bucket: Bucket, max: usize, now: Timestamp, retention: Duration) {
        let Some(parts) = self.buckets.get_mut(&bucket) else { return };
        let dealt: Vec<Part> = std::iter::from_fn(|| parts.pop_front()).take(max).collect();
        if parts.len() == 0 {
            self.buckets.remove(&bucket);
        }
        for part in dealt.into_iter().filter(|part| part.block.live() > 0) {
            if part.latest <= now {
                let at = part.latest.max(self.shown_through.next()).min(now);
                self.shown += if at <= self.shown_through { part.block.live() as u64 } else { 0 };
                self.buckets.entry((INSTANT, at)).or_default().push_back(part);
                continue;
            }
            let width = width_for(part.earliest, now).unwrap_or(INSTANT);
            if bucket_of(width, part.earliest) == bucket_of(width, part.latest) {
                self.buckets.entry(bucket_of(width, part.earliest)).or_default().push_back(part);
                continue;
            }
            for (_, item) in part.block.live_items() {
                self.live -= 1;
                if let Some(item) = self.put(item, now, retention) {
                    self.put_in(INSTANT, item, retention);
                }
            }
        }
    }

    /// Hands over at most `max` of the messages that are shown, the earliest first. Returns how many.
    pub(crate) fn show(&mut self, max: usize, mut to: impl FnMut(Item)) -> usize {
        let mut left = max;
        while left > 0
            && self.shown > 0
            && let Some(mut first) = self.buckets.first_entry()
        {
            let Some(part) = first.get_mut().front_mut() else {
                first.remove();
                continue;
            };
            let before = part.block.live();
            part.block.sweep(|item| {
                let goes = left > 0;
                if goes {
                    left -= 1;
                    to(*item);
                }
                goes
            });
            let gone = (before - part.block.live()) as u64;
            self.live -= gone;
            self.shown -= gone;
            if part.block.live() == 0 {
                first.get_mut().pop_front();
            }
        }
        max - left
    }

    /// Takes message `sequence` out.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        let found = |part: &Part| part.may_hold(sequence) && part.block.get(sequence).is_some();
        let (bucket, place) =
            self.buckets.iter().find_map(|(bucket, parts)| Some((*bucket, parts.iter().position(found)?)))?;
        let item = self.buckets.get_mut(&bucket)?.get_mut(place)?.block.take(sequence)?;
        self.live -= 1;
        self.shown -= u64::from(self.is_shown(&item));
        Some(item)
    }

    /// Message `sequence`, if it is here.
    pub(crate) fn get(&self, sequence: Sequence) -> Option<Item> {
        self.parts_for(sequence).find_map(|part| part.block.get(sequence))
    }

    /// Where a message has to be looked for.
    fn parts_for(&self, sequence: Sequence) -> impl Iterator<Item = &Part> {
        self.buckets.values().flat_map(Row::iter).filter(move |part| part.may_hold(sequence))
    }

    /// Takes out every message that has expired at `now`. Blocks of which all have are taken out as they are.
    pub(crate) fn expire(&mut self, now: Timestamp, retention: Duration, expired: &mut Expired) {
        if self.live == 0 || self.expiry > now {
            return;
        }
        let shown_through = self.shown_through;
        for ((width, at), parts) in &mut self.buckets {
            let gone = expire_bucket(parts, now, retention, expired);
            self.live -= gone;
            // What is shown is in a bucket of one instant, and nothing else is in one that was shown.
            self.shown -= if *width == INSTANT && *at <= shown_through { gone } else { 0 };
        }
        self.buckets.retain(|_, parts| parts.len() > 0);
        self.review_expiry(retention);
    }

    /// Finds the earliest expiry anew, for this retention.
    pub(crate) fn review_expiry(&mut self, retention: Duration) {
        let blocks = self.blocks().filter(|block| block.live() > 0);
        self.expiry = blocks
            .map(|block| block.oldest_by_queue.plus(retention).min(block.earliest_own))
            .min()
            .unwrap_or(Timestamp::NEVER);
    }

    /// All messages here, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        self.blocks().flat_map(|block| block.live_items().map(|(_, item)| item))
    }

    /// At most `max` of the wanted messages in a range, in the order of sends. Buckets follow the time, so the parts
    /// that begin first are opened until no other can hold an earlier message.
    pub(crate) fn within(
        &self,
        range: &Range<Sequence>,
        max: usize,
        is_wanted: impl Fn(&Item) -> bool,
    ) -> Vec<Item> {
        let may_hold = |part: &&Part| {
            let (first, last) = part.block.sequences;
            last >= range.start && first < range.end && part.block.live() > 0
        };
        let parts: Vec<&Part> = self.buckets.values().flat_map(Row::iter).filter(may_hold).collect();
        let begin =
            |(place, part): (usize, &&Part)| Reverse((part.block.sequences.0.max(range.start), place));
        let mut begins: BinaryHeap<_> = parts.iter().enumerate().map(begin).collect();
        let mut found: BTreeMap<Sequence, Item> = BTreeMap::new();
        while let Some(Reverse((begin, place))) = begins.pop() {
            let is_full = found.len() >= max;
            if is_full && found.last_key_value().is_some_and(|(last, _)| *last < begin) {
                break;
            }
            let items = parts.get(place).into_iter().flat_map(|part| part.block.live_items());
            let wanted =
                items.map(|(_, item)| item).filter(|item| range.contains(&item.sequence) && is_wanted(item));
            found.extend(wanted.map(|item| (item.sequence, item)));
            while found.len() > max {
                found.pop_last();
            }
        }
        found.into_values().collect()
    }

    /// Everything here, piece by piece; a piece may hold no message.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<Item>> {
        self.buckets.into_values().flat_map(Row::into_values).flat_map(|part| part.block.pieces())
    }

    /// When the oldest message was sent, by the first block of each bucket.
    pub(crate) fn oldest_sent_at(&self) -> Option<Timestamp> {
        let firsts = self
            .buckets
            .values()
            .filter_map(|parts| parts.iter().map(|part| &part.block).find(|block| block.live() > 0));
        firsts.flat_map(|block| block.live_items().map(|(_, item)| item.sent_at)).min()
    }

    /// All blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.buckets.values().flat_map(Row::iter).map(|part| &part.block)
    }

    /// Changes where contents lie, in the blocks for which `is_near` says so.
    pub(crate) fn relocate(&mut self, is_near: impl Fn(&Block) -> bool, change: impl Fn(&mut Block)) {
        for parts in self.buckets.values_mut() {
            parts.change(|part| is_near(&part.block), |part| change(&mut part.block));
        }
    }

    /// The same messages as they are now, to be written to a checkpoint.
    pub(crate) fn image(&self) -> Self {
        self.clone()
    }

    /// What an image shares, in pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.buckets.values().map(|parts| 1 + parts.chunks()).sum()
    }

    /// Bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rows: usize = self.buckets.values().map(Row::heap_bytes).sum();
        rows + self.blocks().map(Block::heap_bytes).sum::<usize>()
    }

    /// Writes everything for a checkpoint.
    pub(crate) fn write(&self, out: &mut Sink<'_>) {
        // An instant is none of the widths that are stored: its messages stand in the narrowest bucket they belong to.
        let mut stored: BTreeMap<Bucket, Vec<&Row<Part>>> = BTreeMap::new();
        for ((width, start), parts) in &self.buckets {
            let width = (*width).max(WIDTHS[0]);
            stored.entry((width, Timestamp(start.0 >> width << width))).or_default().push(parts);
        }
        out.number(stored.len() as u64);
        for ((width, start), rows) in stored {
            out.number(start.0);
            out.number(u64::from(width));
            out.number(rows.iter().map(|parts| parts.len() as u64).sum());
            for part in rows.into_iter().flat_map(Row::iter) {
                out.with(|out| part.block.write(out));
            }
        }
    }

    /// Reads everything back, and shows each message.
    pub(crate) fn read(
        from: &mut Reader<'_>,
        retention: Duration,
        see: &mut dyn FnMut(&Item),
    ) -> Option<Self> {
        let mut far = Self::default();
        for _ in 0..from.number()? {
            let start = Timestamp(from.number()?);
            let width = u32::try_from(from.number()?).ok()?;
            let mut parts = Row::default();
            for _ in 0..from.number()? {
                let mut part = Part::new();
                part.block = Block::read(from, &mut |item| {
                    part.note(item);
                    see(item);
                })?;
                far.live += part.block.live() as u64;
                parts.push_back(part);
            }
            far.buckets.insert((width, start), parts);
        }
        far.review_expiry(retention);
        Some(far)
    }
}

/// Takes what has expired out of one bucket. Returns how many messages.
fn expire_bucket(parts: &mut Row<Part>, now: Timestamp, retention: Duration, expired: &mut Expired) -> u64 {
    if !parts.iter().all(|part| part.block.is_over(now, retention)) {
        return (0..parts.len()).map(|place| expire_part(parts, place, now, retention, expired)).sum();
    }
    let mut gone = 0;
    for part in std::mem::take(parts).into_values() {
        gone += part.block.live() as u64;
        expired.add_block(Arc::new(Arc::unwrap_or_clone(part).block), retention);
    }
    gone
}

/// Takes what has expired out of one part. Returns how many messages.
fn expire_part(
    parts: &mut Row<Part>,
    place: usize,
    now: Timestamp,
    retention: Duration,
    expired: &mut Expired,
) -> u64 {
    let is_due = |block: &&Block| block.oldest_by_queue.plus(retention).min(block.earliest_own) <= now;
    let Some(block) = parts.get(place).map(|part| &part.block).filter(is_due) else { return 0 };
    let live = block.live();
    if block.is_over(now, retention) {
        if let Some(part) = parts.replace(place, Part::new()) {
            expired.add_block(Arc::new(Arc::unwrap_or_clone(part).block), retention);
        }
        return live as u64;
    }
    let Some(part) = parts.get_mut(place) else { return 0 };
    expired.take_from(&mut part.block, now, retention);
    (live - part.block.live()) as u64
}

/// How wide the bucket is that a message which shows then is put into; none where it shows too soon for that.
fn width_for(visible_at: Timestamp, now: Timestamp) -> Option<u32> {
    let wait = visible_at.0.saturating_sub(now.0);
    WIDTHS.into_iter().rev().find(|width| wait >= WAIT_WIDTHS << width)
}

/// The bucket of this width that an instant lies in.
fn bucket_of(width: u32, at: Timestamp) -> Bucket {
    (width, Timestamp(at.0 >> width << width))
}

/// From when on a bucket may be dealt out.
fn deals_from((width, start): Bucket) -> Timestamp {
    Timestamp(start.0.saturating_sub(LEAD_WIDTHS << width))
}

#[cfg(test)]
mod tests;
