//! Messages of a standard queue hidden for long, in buckets of time.
//!
//! A queue may hold millions of messages that show in some minutes or hours. They wait packed, in buckets that are
//! the wider the farther off they are; a bucket that comes near is dealt out into narrower ones, and the narrowest
//! hands its messages to the queue, which wakes each at its instant. A bucket may hold millions, so it is dealt out a
//! little at a time, in the time before it begins.

mod filter;

use std::collections::BTreeMap;
use std::time::Duration;

use kew_core::{Sequence, Timestamp};

use super::block::Block;
use super::item::{Item, NO_INSTANT};
use super::row::Row;
use super::sink::Sink;
use super::varint::Reader;
use filter::Filter;

/// Widths of buckets as powers of two of milliseconds: a quarter of a second, a minute, an hour.
const WIDTHS: [u32; 3] = [8, 16, 22];
/// Who shows sooner than so many widths from now is put into something narrower.
const WAIT_WIDTHS: u64 = 8;
/// A wide bucket is dealt out from so many of its widths before it begins, the narrowest from one: what it hands over
/// takes far more room with the queue than here.
const LEAD_WIDTHS: u64 = 4;
/// Blocks dealt out at one instant, about two thousand messages. The next are dealt out a millisecond later.
const BLOCKS_AT_ONCE: usize = 8;

/// A bucket's width and its first instant.
type Bucket = (u32, Timestamp);

/// Some messages of a bucket.
#[derive(Clone, Debug)]
struct Part {
    block: Block,
    filter: Filter,
}

impl Part {
    fn of(block: Block) -> Self {
        let mut filter = Filter::default();
        block.live_items().for_each(|(_, item)| filter.add(item.sequence));
        Self { block, filter }
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
    /// The earliest expiry, or earlier; meaningless when nothing is here.
    expiry: Timestamp,
}

impl Far {
    pub(crate) fn len(&self) -> u64 {
        self.live
    }

    /// Puts a delayed message away, or gives it back when it shows too soon for that.
    pub(crate) fn put(&mut self, item: Item, now: Timestamp, retention: Duration) -> Option<Item> {
        let wait = item.visible_at.0.saturating_sub(now.0);
        let Some(width) = WIDTHS.iter().rev().find(|width| wait >= WAIT_WIDTHS << **width) else {
            return Some(item);
        };
        let start = Timestamp(item.visible_at.0 >> width << width);
        let parts = self.buckets.entry((*width, start)).or_default();
        if parts.back().is_none_or(|part| part.block.is_full()) {
            if let Some(full) = parts.back_mut() {
                full.block.pack();
            }
            parts.push_back(Part::of(Block::new()));
        }
        if let Some(part) = parts.back_mut() {
            part.filter.add(item.sequence);
            part.block.push(item);
        }
        let expires_at = item.expires_at(retention);
        self.expiry = if self.live == 0 { expires_at } else { self.expiry.min(expires_at) };
        self.live += 1;
        None
    }

    /// The next instant something here must be looked at. Nothing expires that is over after `through`.
    pub(crate) fn next_instant(&self, through: Timestamp) -> Timestamp {
        if self.live == 0 {
            return NO_INSTANT;
        }
        let deals = WIDTHS.iter().filter_map(|width| self.first(*width)).map(|bucket| self.deals_at(bucket));
        let expiry = if self.expiry <= through { self.expiry } else { NO_INSTANT };
        deals.fold(expiry, Timestamp::min)
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

    /// Deals out every bucket that has begun at `now`, and some of what comes next; what shows soon is handed over.
    pub(crate) fn deal(&mut self, now: Timestamp, retention: Duration, mut near: impl FnMut(Item)) {
        // From wide to narrow: what is dealt out of one bucket may belong into another that has begun too.
        for width in WIDTHS.into_iter().rev() {
            while let Some(bucket) = self.first(width).filter(|(_, start)| *start <= now) {
                self.deal_blocks(bucket, usize::MAX, now, retention, &mut near);
            }
        }
        if self.dealt_at >= now {
            return;
        }
        // The narrowest are the most urgent.
        let ahead = WIDTHS.into_iter().filter_map(|width| self.first(width));
        if let Some(bucket) = ahead.into_iter().find(|bucket| deals_from(*bucket) <= now) {
            self.deal_blocks(bucket, BLOCKS_AT_ONCE, now, retention, &mut near);
            self.dealt_at = now;
        }
    }

    fn deal_blocks(
        &mut self,
        bucket: Bucket,
        max: usize,
        now: Timestamp,
        retention: Duration,
        near: &mut impl FnMut(Item),
    ) {
        let Some(parts) = self.buckets.get_mut(&bucket) else { return };
        let dealt: Vec<Part> = std::iter::from_fn(|| parts.pop_front()).take(max).collect();
        if parts.len() == 0 {
            self.buckets.remove(&bucket);
        }
        for (_, item) in dealt.iter().flat_map(|part| part.block.live_items()) {
            self.live -= 1;
            if let Some(item) = self.put(item, now, retention) {
                near(item);
            }
        }
    }

    /// Takes message `sequence` out.
    pub(crate) fn take(&mut self, sequence: Sequence) -> Option<Item> {
        let found = |part: &Part| part.may_hold(sequence) && part.block.get(sequence).is_some();
        let (bucket, place) =
            self.buckets.iter().find_map(|(bucket, parts)| Some((*bucket, parts.iter().position(found)?)))?;
        let item = self.buckets.get_mut(&bucket)?.get_mut(place)?.block.take(sequence)?;
        self.live -= 1;
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

    /// Takes out every message that has expired at `now`.
    pub(crate) fn expire(&mut self, now: Timestamp, retention: Duration, mut gone: impl FnMut(Item)) {
        if self.live == 0 || self.expiry > now {
            return;
        }
        let is_due =
            |Part { block, .. }: &Part| block.oldest_by_queue.plus(retention).min(block.earliest_own) <= now;
        let mut expired = 0;
        for parts in self.buckets.values_mut() {
            parts.change(is_due, |part| {
                part.block.sweep(|item| {
                    let is_over = item.expires_at(retention) <= now;
                    if is_over {
                        gone(*item);
                        expired += 1;
                    }
                    is_over
                });
            });
        }
        self.live -= expired;
        self.review_expiry(retention);
    }

    /// Finds the earliest expiry anew, for this retention.
    pub(crate) fn review_expiry(&mut self, retention: Duration) {
        let blocks = self.blocks().filter(|block| block.live() > 0);
        self.expiry = blocks
            .map(|block| block.oldest_by_queue.plus(retention).min(block.earliest_own))
            .min()
            .unwrap_or(NO_INSTANT);
    }

    /// All messages here, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Item> + '_ {
        self.blocks().flat_map(|block| block.live_items().map(|(_, item)| item))
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
        out.number(self.buckets.len() as u64);
        for ((width, start), parts) in &self.buckets {
            out.number(start.0);
            out.number(u64::from(*width));
            out.number(parts.len() as u64);
            for part in parts.iter() {
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
                let mut filter = Filter::default();
                let block = Block::read(from, &mut |item| {
                    filter.add(item.sequence);
                    see(item);
                })?;
                far.live += block.live() as u64;
                parts.push_back(Part { block, filter });
            }
            far.buckets.insert((width, start), parts);
        }
        far.review_expiry(retention);
        Some(far)
    }
}

/// From when on a bucket may be dealt out.
fn deals_from((width, start): Bucket) -> Timestamp {
    let widths = if width == WIDTHS[0] { 1 } else { LEAD_WIDTHS };
    Timestamp(start.0.saturating_sub(widths << width))
}

#[cfg(test)]
mod tests {
    use super::super::block::tests::item;
    use super::super::sink::written;
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn hidden(sequence: u64, visible_at: u64) -> Item {
        Item {
            visible_at: Timestamp(visible_at),
            sent_at: Timestamp(0),
            rank: Timestamp(0),
            ..item(sequence)
        }
    }

    #[test]
    fn message_is_handed_over_before_it_shows_and_never_after() {
        let mut far = Far::default();
        let delays = [2_048, 5_000, 70_000, 900_000, 50_000_000, 80_000_000];
        for (sequence, delay) in (1..).zip(delays) {
            assert!(far.put(hidden(sequence, delay), Timestamp(0), DAY).is_none());
        }
        assert_eq!(far.put(hidden(9, 2_047), Timestamp(0), DAY), Some(hidden(9, 2_047)));
        let mut seen = Vec::new();
        while far.len() > 0 {
            let now = far.next_instant(NO_INSTANT);
            far.deal(now, DAY, |item| {
                assert!(now <= item.visible_at && item.visible_at.since(now) < Duration::from_millis(2_304));
                seen.push(item.visible_at.0);
            });
        }
        assert_eq!(seen, delays);
    }

    #[test]
    fn hidden_messages_are_found_and_expire() {
        let mut far = Far::default();
        for sequence in 1..=1_000 {
            far.put(hidden(sequence, 1_000_000 + sequence * 1_000), Timestamp(0), DAY);
        }
        assert!(far.get(Sequence(500)).is_some());
        assert!(far.take(Sequence(500)).is_some());
        assert!(far.take(Sequence(500)).is_none());
        let bytes = written(|out| far.write(out));
        let mut far = Far::read(&mut Reader::new(&bytes), DAY, &mut |_| {}).expect("just written");
        assert_eq!(far.len(), 999);
        let mut gone = 0;
        far.expire(Timestamp(60_000), Duration::from_secs(60), |_| gone += 1);
        assert_eq!((gone, far.len()), (0, 999));
        far.review_expiry(Duration::from_secs(60));
        far.expire(Timestamp(60_000), Duration::from_secs(60), |_| gone += 1);
        assert_eq!((gone, far.len()), (999, 0));
    }

    #[test]
    fn a_large_bucket_is_dealt_out_a_little_at_a_time_and_in_time() {
        let mut far = Far::default();
        let count = 50_000_u64;
        for sequence in 1..=count {
            far.put(hidden(sequence, 1_000_000 + sequence / 100), Timestamp(sequence / 100), DAY);
        }
        let (mut shown, mut instants) = (0, 0);
        while far.len() > 0 {
            let (now, mut at_once) = (far.next_instant(NO_INSTANT), 0);
            far.deal(now, DAY, |item| {
                assert!(now <= item.visible_at, "{now:?} {:?}", item.visible_at);
                at_once += 1;
            });
            assert!(at_once <= BLOCKS_AT_ONCE * super::super::block::BLOCK_ITEMS, "{at_once} at {now:?}");
            shown += at_once;
            instants += 1;
        }
        // Once from minutes to quarters of a second, and once from there to the queue.
        assert!((2 * 25..2 * 25 + 20).contains(&instants), "{instants}");
        assert_eq!(shown, count as usize);
    }

    #[test]
    fn whoever_comes_late_finds_everything_dealt_out() {
        let mut far = Far::default();
        for sequence in 1..=5_000_u64 {
            far.put(hidden(sequence, 1_000_000 + sequence), Timestamp(sequence), DAY);
        }
        let mut shown = 0;
        far.deal(Timestamp(1_005_001), DAY, |_| shown += 1);
        assert_eq!((shown, far.len()), (5_000, 0));
    }

    /// Delays all over a week.
    fn spread(count: u64) -> Far {
        let mut far = Far::default();
        for sequence in 1..=count {
            let delay = 3_000 + sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 604_800_000;
            assert!(far.put(hidden(sequence, delay), Timestamp(0), 30 * DAY).is_none());
        }
        far
    }

    #[test]
    fn one_of_very_many_is_looked_for_in_few_places() {
        let far = spread(300_000);
        let parts = far.blocks().count();
        let looks: usize = (1..=300_000).step_by(1_000).map(|one| far.parts_for(Sequence(one)).count()).sum();
        assert!(looks < 300 + 300 * parts / 20, "{looks} looks for 300 among {parts}");
        assert!((1..=300_000).step_by(1_000).all(|one| far.get(Sequence(one)).is_some()));
    }

    #[test]
    fn messages_are_found_wherever_they_have_got_to() {
        let mut far = spread(2_000);
        let mut known: std::collections::BTreeSet<u64> = (1..=2_000).collect();
        for step in 1..40_u64 {
            let now = Timestamp(step * 15_000_000);
            far.deal(now, 30 * DAY, |item| assert!(known.remove(&item.sequence.0)));
            for sequence in (step..=2_000).step_by(97) {
                assert_eq!(far.take(Sequence(sequence)).is_some(), known.remove(&sequence));
            }
            let late = hidden(10_000 + step, now.0 + 50_000_000);
            assert!(far.put(late, now, 30 * DAY).is_none());
            known.insert(10_000 + step);
            let found = (1..=10_040).filter(|sequence| far.get(Sequence(*sequence)).is_some());
            assert!(found.eq(known.iter().copied()), "step {step}");
            assert_eq!(far.len(), known.len() as u64);
        }
        far.review_expiry(Duration::ZERO);
        far.expire(Timestamp(u64::MAX / 2), Duration::ZERO, |item| assert!(known.remove(&item.sequence.0)));
        assert!(known.is_empty() && far.len() == 0);
    }
}
