//! Messages hidden for long: they show at their instants, beside a plain list.

use super::*;
use crate::ledger::block::tests::item;
use crate::ledger::block::{BLOCK_ITEMS, UNPACKED};
use crate::ledger::sink::written;

const DAY: Duration = Duration::from_secs(86_400);

fn hidden(sequence: u64, visible_at: u64) -> Item {
    Item { visible_at: Timestamp(visible_at), sent_at: Timestamp(0), rank: Timestamp(0), ..item(sequence) }
}

#[test]
fn message_is_shown_at_its_very_instant() {
    let mut far = Far::default();
    let delays = [2_048, 5_000, 70_000, 900_000, 50_000_000, 80_000_000];
    for (sequence, delay) in (1..).zip(delays) {
        assert!(far.put(hidden(sequence, delay), Timestamp(0), DAY).is_none());
    }
    assert_eq!(far.put(hidden(9, 2_047), Timestamp(0), DAY), Some(hidden(9, 2_047)));
    let mut seen = Vec::new();
    while far.len() > 0 {
        let now = far.next_instant(Timestamp::NEVER);
        far.deal(now, DAY);
        far.show(usize::MAX, |item| {
            assert_eq!(item.visible_at, now);
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
    let mut gone = Expired::default();
    far.expire(Timestamp(60_000), Duration::from_secs(60), &mut gone);
    assert_eq!((gone.take_added().messages, far.len()), (0, 999));
    far.review_expiry(Duration::from_secs(60));
    far.expire(Timestamp(60_000), Duration::from_secs(60), &mut gone);
    assert_eq!((gone.take_added().messages, far.len()), (999, 0));
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
        let (now, before) = (far.next_instant(Timestamp::NEVER), parts_of(&far, INSTANT));
        far.deal(now, DAY);
        let dealt = parts_of(&far, INSTANT).saturating_sub(before);
        assert!(dealt <= BLOCKS_AT_ONCE * BLOCK_ITEMS, "{dealt} at {now:?}");
        shown += far.show(usize::MAX, |item| assert_eq!(item.visible_at, now));
        instants += 1;
    }
    // Each block once from minutes to quarters of a second, and once from there; and each instant once.
    assert!(instants <= 2 * 50 + 501 + 20, "{instants}");
    assert_eq!(shown, count as usize);
}

/// Has every instant until then come, one after the other. Answers the most messages that were unpacked at one.
fn most_unpacked(far: &mut Far, until: u64) -> u64 {
    let mut most = 0;
    while far.next_instant(Timestamp::NEVER) <= Timestamp(until) {
        UNPACKED.set(0);
        far.deal(far.next_instant(Timestamp::NEVER), DAY);
        most = most.max(UNPACKED.get());
    }
    most
}

#[test]
fn blocks_whose_messages_belong_into_one_bucket_move_as_they_are() {
    let mut far = Far::default();
    let count = 100_000_u64;
    for sequence in 1..=count {
        assert!(far.put(hidden(sequence, 1_000_100), Timestamp(0), DAY).is_none());
    }
    let mut again = Far::read(&mut Reader::new(&written(|out| far.write(out))), DAY, &mut |_| {});
    for far in [&mut far, again.as_mut().expect("bytes that this test wrote are read back")] {
        assert_eq!(most_unpacked(far, 1_000_099), 0);
        assert_eq!(far.shown(), 0);
        far.deal(far.next_instant(Timestamp::NEVER), DAY);
        assert_eq!((far.shown(), far.len()), (count, count));
        let mut next = 1;
        far.show(usize::MAX, |item| {
            assert_eq!((item.sequence, item.visible_at), (Sequence(next), Timestamp(1_000_100)));
            next += 1;
        });
        assert_eq!((next, far.len()), (count + 1, 0));
    }
}

#[test]
fn a_bucket_that_is_late_is_dealt_out_evenly_until_it_begins() {
    let (begins, count) = (1_000_192, 100_000_u64);
    assert_eq!(begins % (1 << WIDTHS[0]), 0, "a bucket begins there");
    let mut far = Far::default();
    for sequence in 1..=count {
        let visible_at = begins + 1 + sequence % 200;
        assert!(far.put(hidden(sequence, visible_at), Timestamp(begins - 3_000), DAY).is_none());
    }
    far.deal(Timestamp(begins - 20), DAY);
    let most = most_unpacked(&mut far, begins);
    let evenly = count.div_ceil(20);
    assert!((evenly..evenly + 2 * BLOCK_ITEMS as u64).contains(&most), "{most} at one instant, not {evenly}");
    assert_eq!((parts_of(&far, INSTANT), far.shown()), (count as usize, 0));
    assert_eq!(most_unpacked(&mut far, begins + 201), 0);
    assert_eq!(far.shown(), count);
}

fn parts_of(far: &Far, width: u32) -> usize {
    let buckets = far.buckets.iter().filter(|((wide, _), _)| *wide == width);
    buckets.flat_map(|(_, parts)| parts.iter()).map(|part| part.block.live()).sum()
}

#[test]
fn whoever_comes_late_finds_everything_shown_and_takes_it_in_slices() {
    let mut far = Far::default();
    for sequence in 1..=5_000_u64 {
        far.put(hidden(sequence, 1_000_000 + sequence), Timestamp(sequence), DAY);
    }
    far.deal(Timestamp(1_004_999), DAY);
    assert_eq!((far.shown(), far.len()), (4_999, 5_000));
    assert!(far.take(Sequence(7)).is_some() && far.take(Sequence(5_000)).is_some());
    assert_eq!((far.shown(), far.len()), (4_998, 4_998));
    let again = Far::read(&mut Reader::new(&written(|out| far.write(out))), DAY, &mut |_| {});
    let mut again = again.expect("just written");
    again.deal(Timestamp(1_004_999), DAY);
    for far in [&mut far, &mut again] {
        let mut seen = std::collections::BTreeSet::new();
        for max in [0, 1, 255, 256, 257, 1_000, usize::MAX] {
            let (before, left) = (seen.len(), far.shown());
            let shown = far.show(max, |item| assert!(seen.insert(item.sequence)));
            assert_eq!(shown, usize::try_from(left).unwrap_or(max).min(max));
            assert_eq!((seen.len() - before, far.shown()), (shown, left - shown as u64));
        }
        assert_eq!((seen.len(), far.len(), far.shown()), (4_998, 0, 0));
    }
}

#[test]
fn shown_messages_expire_and_are_counted() {
    let mut far = Far::default();
    for sequence in 1..=1_000 {
        far.put(hidden(sequence, 10_000), Timestamp(0), DAY);
    }
    far.deal(Timestamp(10_000), DAY);
    assert_eq!(far.show(300, |_| {}), 300);
    let mut gone = Expired::default();
    far.review_expiry(Duration::from_secs(10));
    far.expire(Timestamp(10_000), Duration::from_secs(10), &mut gone);
    assert_eq!((gone.take_added().messages, far.len(), far.shown()), (700, 0, 0));
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
        far.deal(now, 30 * DAY);
        far.show(usize::MAX, |item| assert!(known.remove(&item.sequence.0)));
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
    let mut gone = Expired::default();
    far.expire(Timestamp(u64::MAX / 2), Duration::ZERO, &mut gone);
    std::iter::from_fn(|| gone.next()).for_each(|(item, _)| assert!(known.remove(&item.sequence.0)));
    assert!(known.is_empty() && far.len() == 0);
}
