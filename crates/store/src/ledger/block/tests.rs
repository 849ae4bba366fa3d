//! Blocks of messages: packed and open they hold the same, and damaged bytes are refused.

use super::packed::before_first;
use super::*;
use crate::ledger::item::{MaybeInstant, OriginSlot};

pub(crate) fn item(sequence: u64) -> Item {
    let sent_at = Timestamp(1_700_000_000_000 + sequence / 3);
    Item {
        sequence: Sequence(sequence),
        address: Address(sequence * 340),
        record_bytes: 330,
        body_bytes: 256,
        sent_at,
        rank: sent_at,
        ..before_first()
    }
}

/// Names every field, so that one that is packed wrongly is seen.
fn odd(sequence: u64) -> Item {
    let Item { address, sent_at, .. } = item(sequence);
    Item {
        sequence: Sequence(sequence),
        address,
        sent_at,
        record_bytes: 70,
        body_bytes: 1,
        rank: Timestamp(5),
        visible_at: Timestamp(1_700_000_600_000),
        expiry: Expiry::After { seconds: 7 },
        group: Some(GroupSlot::at(2)),
        attempts: 4,
        first_leased_at: MaybeInstant::at(Timestamp(9)),
        nonce: u64::MAX,
        lease_end: MaybeInstant::at(Timestamp(11)),
        origin: Some(OriginSlot::at(1)),
        moved_at: Timestamp(12),
    }
}

fn block(items: &[Item]) -> Block {
    let mut block = Block::new();
    for item in items {
        block.push(*item);
    }
    block
}

#[test]
fn packed_block_holds_what_the_open_one_held() {
    let items: Vec<Item> = (1..200).map(|n| if n % 7 == 0 { odd(n) } else { item(n) }).collect();
    let mut block = block(&items);
    block.pack();
    assert!(block.live_items().map(|(_, item)| item).eq(items));
}

#[test]
fn ordinary_messages_take_about_six_bytes() {
    let items: Vec<Item> = (1..=256).map(item).collect();
    let mut block = block(&items);
    block.pack();
    assert!(block.heap_bytes() < 256 * 6, "{} bytes", block.heap_bytes());
}

#[test]
fn messages_leave_in_any_order_and_the_front_follows() {
    let mut block = block(&[item(1), item(2), item(3)]);
    block.pack();
    assert_eq!(block.take(Sequence(1)), Some(item(1)));
    assert_eq!(block.take(Sequence(1)), None);
    block.open();
    assert_eq!(block.pop_front(), Some(item(2)));
    assert_eq!(block.pop_front(), Some(item(3)));
    assert_eq!(block.pop_front(), None);
    assert_eq!(block.live(), 0);
}

#[test]
fn oldest_send_is_that_of_the_live_ones_open_and_packed() {
    // One that was moved here may have been sent before those in front of it.
    let early = Item { sent_at: Timestamp(5), ..item(90) };
    let mut block = block(&[item(1), item(40), early, item(100)]);
    let oldest = |block: &mut Block| {
        block.open();
        let open = block.oldest_sent_at();
        block.pack();
        assert_eq!(open, block.oldest_sent_at());
        open
    };
    assert_eq!(oldest(&mut block), Some(Timestamp(5)));
    assert!(block.take(Sequence(1)).is_some() && block.take(Sequence(90)).is_some());
    assert_eq!(oldest(&mut block), Some(item(40).sent_at));
    assert!(block.take(Sequence(40)).is_some() && block.take(Sequence(100)).is_some());
    assert_eq!(oldest(&mut block), None);
    block.open();
    block.push(item(200));
    assert_eq!(oldest(&mut block), Some(item(200).sent_at));
}

#[test]
fn block_survives_its_bytes_with_its_gaps() {
    let items: Vec<Item> = (1..=256).map(|n| if n % 5 == 0 { odd(n) } else { item(n) }).collect();
    let mut block = block(&items);
    for gone in [1, 2, 100, 256] {
        assert!(block.take(Sequence(gone)).is_some());
    }
    let mut bytes = Vec::new();
    block.write(&mut bytes);
    let again = Block::read(&mut Reader::new(&bytes), &mut |_| {}).expect("just written");
    assert!(again.live_items().eq(block.live_items()));
    assert_eq!(again.live(), 252);
}

#[test]
fn bytes_with_a_flag_that_no_program_writes_are_no_block() {
    let mut bytes = pack(&[odd(1)]).to_vec();
    let unpacked = |bytes: &[u8]| Unpack::new(bytes, 1).count();
    assert_eq!((unpacked(&bytes), bytes[1]), (1, 0b11), "the second byte has the rare flags");
    bytes[1] |= 1 << 2;
    assert_eq!(unpacked(&bytes), 0);
}

#[test]
fn cut_bytes_are_no_block() {
    let mut bytes = Vec::new();
    block(&[item(1), odd(2)]).write(&mut bytes);
    for end in 0..bytes.len() {
        assert!(Block::read(&mut Reader::new(&bytes[..end]), &mut |_| {}).is_none());
    }
}

#[test]
fn those_that_expire_with_the_queue_are_split_off_and_the_rest_stays_as_it_was() {
    let own = |n: u64| Item { expiry: [Expiry::Never, odd(n).expiry][n as usize / 2 % 2], ..item(n) };
    let items: Vec<Item> = (1..=256).map(|n| if n % 2 == 0 { own(n) } else { item(n) }).collect();
    for packed in [false, true] {
        let mut block = block(&items);
        [1, 2, 3, 200, 201].iter().for_each(|gone| assert!(block.take(Sequence(*gone)).is_some()));
        if packed {
            block.pack();
        }
        let (bytes, live) = (block.body_bytes(), block.live());
        let last = item(255).sent_at;
        assert!(!block.is_over_by_queue(last.plus(Duration::from_millis(59_999)), Duration::from_secs(60)));
        assert!(block.is_over_by_queue(last.plus(Duration::from_secs(60)), Duration::from_secs(60)));
        let split = block.split_by_queue();
        assert!(!block.is_over_by_queue(Timestamp::NEVER, Duration::ZERO), "none is left");
        assert_eq!((block.live() + split.live(), block.body_bytes() + split.body_bytes()), (live, bytes));
        let split: Vec<u64> = split.live_items().map(|(_, item)| item.sequence.0).collect();
        assert!(split.into_iter().eq((5..=255).step_by(2).filter(|n| *n != 201)));
        block.open();
        assert_eq!(block.front(), Some(&own(4)));
        assert_eq!(
            (block.earliest_own, block.oldest_by_queue),
            (odd_own(2), Timestamp::NEVER),
            "one that left counts too"
        );
        let left: Vec<Item> = std::iter::from_fn(|| block.pop_front()).collect();
        assert!(left.into_iter().eq((4..=256).step_by(2).filter(|n| *n != 200).map(own)));
        assert_eq!((block.live(), block.body_bytes()), (0, 0));
    }
}

#[test]
fn blocks_that_were_split_before_they_were_full_take_more_messages() {
    let mut block = block(&[item(1), Item { expiry: Expiry::Never, ..item(2) }, item(3)]);
    let mut split = block.split_by_queue();
    for half in [&mut block, &mut split] {
        half.push(item(4));
    }
    let numbers = |block: &Block| block.live_items().map(|(_, item)| item.sequence.0).collect::<Vec<_>>();
    assert_eq!((numbers(&block), numbers(&split)), (vec![2, 4], vec![1, 3, 4]));
    assert_eq!((block.live(), split.live()), (2, 3));
}

fn odd_own(sequence: u64) -> Timestamp {
    Item { expiry: odd(sequence).expiry, ..item(sequence) }.expires_at(Duration::ZERO)
}

#[test]
fn sweep_finds_the_earliest_expiries_of_the_rest() {
    let mut block = block(&[item(1), item(9), odd(20)]);
    assert_eq!(block.oldest_by_queue, item(1).sent_at);
    block.sweep(|item| item.sequence == Sequence(1));
    assert_eq!(block.oldest_by_queue, item(9).sent_at);
    assert_eq!(block.live(), 2);
}
