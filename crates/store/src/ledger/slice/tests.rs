//! An image shows one moment of a queue, whatever happens to it until the image is written.

use std::time::Duration;

use kew_core::{AccountId, Expiry, GroupId, MoveReason, Policy, QueueKey, Return, Sequence, Text, Timestamp};

use super::super::block::UNPACKED;
use super::super::block::tests::item;
use super::super::book::Moment;
use super::*;

fn bytes_of(image: &QueueImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write(&mut |piece| bytes.extend_from_slice(piece));
    bytes
}

fn lease_until(until: u64, now: Timestamp) -> Lease {
    Lease {
        until: Timestamp(until),
        received_at: now,
        cap: None,
        lapse_delay: Duration::ZERO,
        returns: Return::Behind,
        owner: None,
        attempt: None,
        sealed: None,
        before: None,
        ending: LeaseEnd::RanOut,
    }
}

/// A queue to which things happen by chance.
struct Busy {
    book: Book,
    now: u64,
    next: u64,
    chance: u64,
}

impl Busy {
    fn roll(&mut self, sides: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % sides
    }

    fn send(&mut self) {
        let group = GroupId(Text::from(format!("g{}", self.roll(900))));
        // A message of a FIFO queue has no delay of its own.
        let delay = match self.book.queue.policy.kind.is_fifo() {
            true => self.book.queue.policy.delay.as_millis() as u64,
            false if self.roll(4) == 0 => 1 + self.roll(5_000_000),
            false => 0,
        };
        let visible_at = Timestamp(self.now + delay);
        let origin = self.roll(50) == 0;
        let sent = Item {
            sent_at: Timestamp(self.now),
            rank: Timestamp(self.now),
            visible_at,
            expiry: if self.roll(9) == 0 { Expiry::After { seconds: 900 } } else { Expiry::ByQueue },
            group: self.book.group(Some(&group)),
            origin: origin
                .then(|| self.book.origin(&QueueKey::new(AccountId(0), "r", "from"), MoveReason::Redriven)),
            ..item(self.next)
        };
        self.next += 1 + self.roll(20) / 19;
        self.book.enter(sent, Timestamp(self.now));
    }

    fn happen(&mut self) {
        let sequence = Sequence(self.roll(self.next) + 1);
        let now = Timestamp(self.now);
        match self.roll(12) {
            0..=5 => self.send(),
            6 | 7 if self.book.is_ready(sequence) => {
                let (nonce, until) = (self.roll(1 << 60) + 1, self.now + 1 + self.roll(60_000));
                self.book.lease(sequence, nonce, now, lease_until(until, now));
                if self.roll(3) == 0 {
                    let name = Text::from(format!("attempt {nonce}"));
                    self.book.remember_attempt(&name, now, vec![sequence]);
                }
            }
            8 if self.book.is_leased(sequence) => {
                let visible_at = Timestamp(self.now + self.roll(2) * 40_000);
                self.book.release(sequence, now, visible_at, now);
            }
            9 => drop(self.book.leave(sequence)),
            10 => {
                self.now += self.roll(40);
                while self.book.next_instant() <= Timestamp(self.now) {
                    let at = self.book.next_instant();
                    self.book.pass_instant(&Moment::alone(at));
                    for _ in 0..2 {
                        let _departs = self.book.take_departure(at);
                    }
                    self.book.show(1);
                }
            }
            _ => {}
        }
    }
}

fn images_stay(policy: &Policy, seed: u64) {
    let book = Book::of(policy.clone());
    let mut busy = Busy { book, now: 1_700_000_000_000, next: 1, chance: seed | 1 };
    (0..4_000).for_each(|_| busy.send());
    for _ in 0..6 {
        let image = QueueImage(busy.book.image());
        let then = bytes_of(&image);
        for _ in 0..4 {
            (0..700).for_each(|_| busy.happen());
            busy.book.give_back_room();
            assert!(bytes_of(&image) == then, "seed {seed}: the image changed with its queue");
        }
        let (read, bytes) = (Bytes::from(then.clone()), then.len());
        let mut from = Reader::new(&read);
        let mut again = read_book(&mut from, &read, &mut |_| {}).expect("the bytes of an image are a slice");
        assert!(from.is_empty() && bytes > 0);
        assert!(bytes_of(&QueueImage(again.image())) == then, "seed {seed}: it was read as another");
    }
    let mut stored = Vec::new();
    busy.book.each_item(&mut |item: &Item| stored.push(*item));
    let messages = busy.book.stored();
    let mut gone: Vec<Item> = busy.book.clear().remains.expect("messages are there").flatten().collect();
    stored.sort_unstable_by_key(|item| item.sequence);
    gone.sort_unstable_by_key(|item| item.sequence);
    assert_eq!(messages, stored.len() as u64);
    assert!(gone == stored, "seed {seed}: each message is given back once, whatever it was doing");
    assert_eq!(busy.book.image().entries().len(), 0);
}

/// Reads a queue from its bytes, and says how many messages were unpacked and shown for that.
fn read_again(book: &mut Book) -> (Book, u64, u64) {
    let bytes = Bytes::from(bytes_of(&QueueImage(book.image())));
    let (before, mut shown) = (UNPACKED.get(), 0);
    let again = read_book(&mut Reader::new(&bytes), &bytes, &mut |_| shown += 1);
    (again.expect("the bytes of an image are a slice"), UNPACKED.get() - before, shown)
}

#[test]
fn each_message_is_unpacked_once_when_a_queue_is_read() {
    for policy in [Policy::standard(), Policy::fifo()] {
        let mut busy = Busy { book: Book::of(policy), now: 1_700_000_000_000, next: 1, chance: 5 };
        (0..20_000).for_each(|_| busy.send());
        let stored = busy.book.numbers().stored();
        let (_, unpacked, shown) = read_again(&mut busy.book);
        assert_eq!(shown, stored);
        // The last block of a lane is looked at for the key that the next message must be above, the last run is
        // opened.
        assert!(unpacked <= stored + 600, "{unpacked} messages unpacked of {stored}");
    }
}

#[test]
fn groups_offer_after_a_restart_what_they_offered_before_whatever_leaves() {
    let sequences = |book: &Book| book.offered().map(|item| item.sequence.0).collect::<Vec<_>>();
    for seed in [3, 11, 0x9e37_79b9] {
        let mut busy = Busy { book: Book::of(Policy::fifo()), now: 1_700_000_000_000, next: 1, chance: seed };
        (0..3_000).for_each(|_| busy.send());
        (0..3_000).for_each(|_| busy.happen());
        let (mut again, ..) = read_again(&mut busy.book);
        assert_eq!(sequences(&again), sequences(&busy.book), "seed {seed}");
        // Those that stay learn their new neighbours from both of their old ones.
        for sequence in (1..busy.next).filter(|sequence| sequence % 3 != 0) {
            let left = busy.book.leave(Sequence(sequence)).map(|item| item.sequence);
            assert_eq!(again.leave(Sequence(sequence)).map(|item| item.sequence), left, "seed {seed}");
        }
        assert_eq!(sequences(&again), sequences(&busy.book), "seed {seed}");
    }
}

#[test]
fn an_image_of_a_busy_queue_shows_the_moment_it_was_taken_in() {
    for seed in [0x9e37_79b9_7f4a_7c15, 7, 99] {
        images_stay(&Policy::standard(), seed);
        images_stay(&Policy::fifo(), seed);
        images_stay(&Policy { delay: Duration::from_millis(300), ..Policy::fifo() }, seed);
    }
}
