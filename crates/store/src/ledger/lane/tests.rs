//! A lane: messages come out in their order, and expire from their instant on, never before.

use super::super::block::tests::item;
use super::super::sink::written;
use super::*;

fn lane(sequences: std::ops::RangeInclusive<u64>) -> Lane {
    let mut lane = Lane::default();
    for sequence in sequences {
        lane.push(item(sequence));
    }
    lane
}

#[test]
fn messages_come_out_in_order_over_many_blocks() {
    let mut lane = lane(1..=2_000);
    assert!(lane.take(Sequence(700)).is_some());
    assert!(lane.get(Sequence(700)).is_none());
    assert_eq!(lane.get(Sequence(701)), Some(item(701)));
    let out: Vec<u64> = std::iter::from_fn(|| lane.pop_front()).map(|item| item.sequence.0).collect();
    assert!(out.iter().copied().eq((1..=2_000).filter(|n| *n != 700)));
    assert_eq!(lane.len(), 0);
}

#[test]
fn deep_lane_is_packed() {
    let lane = lane(1..=100_000);
    assert!(lane.heap_bytes() < 100_000 * 8, "{}", lane.heap_bytes());
}

#[test]
fn empty_lane_takes_up_an_older_message_and_finds_everything_after_it() {
    let mut lane = lane(1..=200);
    while lane.pop_front().is_some() {}
    for sequence in 100..=500 {
        assert!(lane.takes(&item(sequence)));
        lane.push(item(sequence));
    }
    assert!((100..=500).all(|sequence| lane.get(Sequence(sequence)).is_some()));
}

#[test]
fn messages_expire_from_the_instant() {
    let mut lane = lane(1..=600);
    let retention = Duration::from_secs(1);
    let at = item(300).sent_at.plus(retention);
    let mut gone = Expired::default();
    lane.expire(at, retention, &mut gone);
    let gone: Vec<u64> = std::iter::from_fn(|| gone.next()).map(|(item, _)| item.sequence.0).collect();
    assert_eq!(gone, (1..=302).collect::<Vec<_>>());
    assert_eq!(lane.len(), 298);
    assert_eq!(lane.next_expiry(retention), item(303).sent_at.plus(retention));
    lane.expire(Timestamp::NEVER, retention, &mut Expired::default());
    assert_eq!(lane.len(), 0);
    lane.push(item(601));
    assert_eq!(lane.pop_front(), Some(item(601)));
}

/// What a lane lets go at `now`, and what stays, by the slow way and by the quick one.
fn expired(lane: &mut Lane, now: Timestamp, retention: Duration) -> (Vec<u64>, Vec<u64>) {
    let mut gone = Expired::default();
    let bytes = |lane: &Lane| lane.iter().map(|item| u64::from(item.body_bytes)).sum::<u64>();
    let (live_before, bytes_before) = (lane.len() as u64, bytes(lane));
    if let Some(over) = lane.many_over(now, retention) {
        lane.expire_many(over, bytes_before, retention, &mut gone);
    }
    lane.expire(now, retention, &mut gone);
    let added = gone.take_added();
    assert_eq!(lane.iter().count(), lane.len());
    assert_eq!(
        (lane.len() as u64, bytes(lane)),
        (live_before - added.messages, bytes_before - added.body_bytes)
    );
    let mut gone: Vec<u64> = std::iter::from_fn(|| gone.next()).map(|(item, _)| item.sequence.0).collect();
    assert_eq!(gone.len() as u64, added.messages);
    gone.sort_unstable();
    (gone, lane.iter().map(|item| item.sequence.0).collect())
}

#[test]
fn many_blocks_expire_at_once_and_none_before_its_time() {
    let (retention, last) = (Duration::from_secs(1), 300_000_u64);
    for through in [1, 255 * 256, 256 * 256, 257 * 256 + 7, 150_000, last - 1, last] {
        let mut lane = lane(1..=last);
        (1..=300).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
        (290_000..290_100).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
        let all: Vec<u64> = lane.iter().map(|item| item.sequence.0).collect();
        let at = item(through).sent_at.plus(retention);
        let is_over = |n: &u64| item(*n).sent_at.plus(retention) <= at;
        let (gone, stay): (Vec<u64>, Vec<u64>) = all.into_iter().partition(is_over);
        assert_eq!(lane.many_over(at, retention).is_some(), through > 256 * 256, "through {through}");
        assert_eq!(expired(&mut lane, at, retention), (gone, stay), "through {through}");
        lane.push(item(last + 1));
        assert!(lane.get(Sequence(last + 1)).is_some());
        assert_index(&lane);
    }
}

/// The indexes have each block that they should, and no other.
fn assert_index(lane: &Lane) {
    let numbered = || (lane.first_block..).zip(lane.blocks());
    let has_any = |(at, _): &(Timestamp, u64)| *at != Timestamp::NEVER;
    let by_age: BTreeSet<_> = numbered().map(|(n, block)| (block.oldest_by_queue, n)).collect();
    assert!(lane.by_age.iter().eq(by_age.iter().filter(|entry| has_any(entry))));
    let by_own: BTreeSet<_> = numbered().map(|(n, block)| (block.earliest_own, n)).collect();
    assert!(lane.by_own.iter().eq(by_own.iter().filter(|entry| has_any(entry))));
}

#[test]
fn blocks_that_leave_together_leave_the_index_in_whatever_order_their_messages_were_sent() {
    let (retention, last) = (Duration::from_secs(1), 200_000_u64);
    // Each block has one message that was sent long before the others: the later the block, the earlier.
    let sent_at = |n: u64| if n % 256 == 9 { Timestamp(10_000_000 - n) } else { Timestamp(20_000_000 + n) };
    let message = |n: u64| Item { sent_at: sent_at(n), ..item(n) };
    for through in [80_000, 150_000, last] {
        let mut lane = Lane::default();
        (1..=last).for_each(|n| lane.push(message(n)));
        (last - 255..=last).step_by(3).for_each(|n| assert!(lane.take(Sequence(n)).is_some()));
        let at = sent_at(through).plus(retention);
        let over = lane.many_over(at, retention).expect("hundreds of blocks are over");
        let bytes = lane.iter().map(|item| u64::from(item.body_bytes)).sum();
        lane.expire_many(over, bytes, retention, &mut Expired::default());
        assert!(lane.first_block > 250);
        assert_index(&lane);
    }
}

#[test]
fn an_older_message_in_the_last_block_expires_with_those_before_it() {
    let (retention, last) = (Duration::from_secs(1), 300 * 256 + 6_u64);
    for (sent_with, expires) in [(60_000, true), (70_000, false)] {
        let mut lane = lane(1..=last - 1);
        lane.push(Item { sent_at: item(sent_with).sent_at, ..item(last) });
        let at = item(68_000).sent_at.plus(retention);
        assert!(lane.plain.rises() && lane.many_over(at, retention).is_some());
        let (gone, _) = expired(&mut lane, at, retention);
        assert_eq!((gone.contains(&last), lane.first_block > 250), (expires, true));
        assert_index(&lane);
    }
}

/// A number below `below`, by a plain generator (xorshift).
fn chance(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

#[test]
fn lanes_with_a_few_older_messages_let_exactly_those_go_that_are_over() {
    let retention = Duration::from_secs(1);
    for seed in 1..=40_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let last = match seed % 2 {
            0 => 300 * 256 + chance(&mut state, 100_000),
            // The last block is the first of a chunk.
            _ => (5 + chance(&mut state, 4)) * 64 * 256 + 1 + chance(&mut state, 3),
        };
        let (mut sent, mut lane) = (Vec::new(), Lane::default());
        for n in 1..=last {
            // A few older messages, at times many in a row, now and then just a little older.
            let older = n == last
                || chance(&mut state, 20_000) == 0
                || (n % 256 == 1 && chance(&mut state, 200) == 0);
            let by = if chance(&mut state, 2) == 0 { chance(&mut state, 900) } else { chance(&mut state, n) };
            let sent_at =
                if older && seed % 4 != 0 { item(n.saturating_sub(by)).sent_at } else { item(n).sent_at };
            sent.push(sent_at);
            lane.push(Item { sent_at, ..item(n) });
        }
        let sent_at = |n: u64| sent[usize::try_from(n - 1).expect("messages are counted from 1")];
        for _ in 0..4 {
            // Some messages leave by receipts: single ones, and nearly all of a block.
            for _ in 0..50 {
                lane.take(Sequence(1 + chance(&mut state, last)));
            }
            let block = chance(&mut state, last / 256) * 256;
            for n in block + 3..=block + 256 {
                lane.take(Sequence(n));
            }
            let through = match chance(&mut state, 2) {
                0 => chance(&mut state, last),
                _ => last - chance(&mut state, 600),
            };
            let at = item(through).sent_at.plus(retention);
            let is_over = |n: &u64| sent_at(*n).plus(retention) <= at;
            let all = lane.iter().map(|item| item.sequence.0);
            let (over, left): (Vec<u64>, Vec<u64>) = all.partition(is_over);
            let (gone, stay) = expired(&mut lane, at, retention);
            assert!(gone == over && stay == left, "seed {seed}: others went than those that are over");
            assert_index(&lane);
        }
    }
}

#[test]
fn a_search_for_what_is_over_does_not_ask_the_last_block() {
    let retention = Duration::from_secs(1);
    for full in [384, 448, 768] {
        let mut lane = lane(1..=full * 256);
        let last = full * 256 + 1;
        lane.push(Item { sent_at: item(1).sent_at, ..item(last) });
        let at = item((full - 1) * 256).sent_at.plus(retention);
        let (gone, stay) = expired(&mut lane, at, retention);
        let is_over = |n: &u64| *n == last || item(*n).sent_at.plus(retention) <= at;
        assert!(gone.iter().all(is_over), "{:?} went before its time", gone.iter().find(|n| !is_over(n)));
        assert!(!stay.iter().any(is_over));
    }
}

#[test]
fn none_expires_before_its_time_because_an_older_one_stands_behind_it() {
    let retention = Duration::from_secs(1);
    // The block in the middle, which a search looks at first, begins with two that were sent earlier. It is the
    // last of a chunk, and chunks leave as a whole.
    let (blocks, odd) = (638_u64, 319_u64);
    let in_odd = |n: u64| (n - 1) / 256 == odd;
    let early = |n: u64| if n % 256 == 1 { item(1).sent_at } else { item(odd * 256 - 5).sent_at };
    let message = |n: u64| {
        if in_odd(n) && (1..=2).contains(&(n % 256)) {
            Item { sent_at: early(n), ..item(n) }
        } else {
            item(n)
        }
    };
    let mut lane = Lane::default();
    (1..=blocks * 256).for_each(|n| lane.push(message(n)));
    // Only the early ones of it are left, and of these one expires.
    (1..=blocks * 256).filter(|n| in_odd(*n) && !(1..=2).contains(&(n % 256))).for_each(|n| {
        assert!(lane.take(Sequence(n)).is_some());
    });
    expired(&mut lane, item(1).sent_at.plus(retention), retention);
    let at = item(odd * 256 - 5).sent_at.plus(retention);
    let (gone, stay) = expired(&mut lane, at, retention);
    let is_over = |n: &u64| message(*n).sent_at.plus(retention) <= at;
    assert!(gone.iter().all(is_over), "{:?} went before its time", gone.iter().find(|n| !is_over(n)));
    assert!(!stay.iter().any(is_over));
}

#[test]
fn a_lane_with_older_messages_behind_newer_ones_lets_only_those_go_that_are_over() {
    let retention = Duration::from_secs(1);
    let mut lane = lane(1..=100_000);
    for sequence in 100_001..=200_000 {
        // As dead letters come: the time they were sent is kept.
        lane.push(Item { sent_at: item(1).sent_at, ..item(sequence) });
    }
    (200_001..=200_300).for_each(|sequence| lane.push(item(sequence)));
    let at = item(50_000).sent_at.plus(retention);
    let over = |sequence: &u64| item(*sequence).sent_at.plus(retention) <= at;
    assert_eq!(lane.many_over(Timestamp::NEVER, retention), None);
    let (gone, stay) = expired(&mut lane, at, retention);
    assert!(gone.into_iter().eq((1..=100_000).filter(over).chain(100_001..=200_000)));
    assert!(stay.into_iter().eq((1..=100_000).filter(|n| !over(n)).chain(200_001..=200_300)));
}

#[test]
fn lane_survives_its_bytes() {
    let mut lane = lane(1..=1_000);
    for sequence in 1..=300 {
        lane.take(Sequence(sequence));
    }
    let bytes = written(|out| write_blocks(&lane.image(), out));
    let mut again =
        Lane::read(&mut Reader::new(&bytes), &mut |_| {}).expect("bytes that this test wrote are read back");
    assert!(again.iter().eq(lane.iter()));
    assert_eq!(again.len(), 700);
    assert!(again.takes(&item(1_001)));
    assert!(!again.takes(&item(999)));
    again.push(item(1_001));
    assert_eq!(again.front(), Some(&item(301)));
}
