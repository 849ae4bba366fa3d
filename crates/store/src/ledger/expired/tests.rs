//! Messages that expire, millions at once: seen off in slices, with the figures right from the first instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{
    Ack, CreateQueue, DeleteQueue, FirstReceipts, History, Lease, Peek, Purge, Send, UpdateQueue, View,
    Withdraw,
};
use kew_core::outcome::Leased;
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{
    AccountId, Command, Counts, DeduplicationId, EventKind, Expiry, GroupId, LeaseTerms, MessageId,
    NewMessage, Outcome, Policy, QueueId, QueueKey, ReceiptRule, Sequence, Text, Timestamp,
};

use crate::contract::model::SeededEntropy;
use crate::ledger::run::looked_at;
use crate::ledger::{Bounds, Ledger};
use crate::memory::MemoryShelf;
use crate::token::TokenKey;

const SLICE: u64 = 10;
/// Messages of one run of a FIFO queue.
const RUN: usize = 64;
/// Hidden messages that a queue keeps at hand.
const AT_HAND: u64 = 1_024;
const NOW: Timestamp = Timestamp(1_700_000_000_000);
/// Between two sends: so long that all slices of one scene fit between.
const GAP: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// A queue with messages sent one after the other from `NOW` on, whose retention is lowered from a day to an hour.
struct Scene {
    ledger: Ledger<MemoryShelf>,
    queue: QueueId,
    policy: Policy,
    sent: u64,
}

/// How the messages of a scene are sent.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Delayed,
    Grouped,
    /// On a FIFO queue.
    Fifo,
    /// Every third lives an hour, every third for ever.
    Mixed,
}

impl Scene {
    fn new() -> Self {
        Self::of(Policy::standard())
    }

    fn of(policy: Policy) -> Self {
        let slice = SLICE as usize;
        let bounds = Bounds { slice, expired_in_groups: slice, ..Bounds::default() };
        let (key, entropy) = (TokenKey([7; 16]), Arc::new(SeededEntropy::new(7)));
        let ledger = Ledger::new(MemoryShelf::default(), key, entropy, bounds);
        let mut scene = Self { ledger, queue: QueueId(0), policy, sent: 0 };
        scene.queue = scene.create("q");
        scene
    }

    fn with(kind: Kind, messages: u64) -> Self {
        let is_fifo = matches!(kind, Kind::Fifo);
        let mut scene = Self::of(if is_fifo { Policy::fifo() } else { Policy::standard() });
        (0..messages).for_each(|_| scene.send(kind));
        scene
    }

    fn step(&mut self, at: Timestamp, command: &Command) -> Outcome {
        self.ledger.step(at, command).expect("the step is allowed")
    }

    fn create(&mut self, name: &str) -> QueueId {
        let key = QueueKey::new(AccountId(0), "r", name);
        let policy = Policy { retention: DAY, ..self.policy.clone() };
        match self.step(NOW, &Command::CreateQueue(CreateQueue { key, policy, documents: Vec::new() })) {
            Outcome::Queue(queue) => queue.id,
            other => panic!("a queue is expected: {other:?}"),
        }
    }

    /// Sends message number `sent` with a body of a length of its own.
    fn send(&mut self, kind: Kind) {
        let number = self.sent;
        self.sent += 1;
        let body = "b".repeat(1 + number as usize % 7);
        let message = NewMessage::text(MessageId::from_chance(u128::from(number + 1) << 64), body);
        let message = match kind {
            Kind::Plain => message,
            Kind::Delayed => NewMessage { delay: Some(Duration::from_secs(7_200)), ..message },
            Kind::Grouped => {
                let name = GroupId(Text::from(format!("g{}", number % 40)));
                NewMessage { group: Some(name), ..message }
            }
            Kind::Fifo => {
                let group = Some(GroupId(Text::from(format!("g{}", number % 40))));
                let deduplication = Some(DeduplicationId(Text::from(format!("n{number}"))));
                NewMessage { group, deduplication, ..message }
            }
            Kind::Mixed => {
                let expiry =
                    [Expiry::ByQueue, Expiry::After { seconds: 3_600 }, Expiry::Never][number as usize % 3];
                NewMessage { expiry, ..message }
            }
        };
        let send = Send { queue: self.queue, messages: vec![message], receipts: FirstReceipts::Told };
        self.step(sent_at(number), &Command::Send(send));
    }

    /// Sends a message of a FIFO queue, made another one by `change`.
    fn send_at(&mut self, at: Timestamp, change: impl Fn(NewMessage) -> NewMessage) {
        self.sent += 1;
        let number = self.sent;
        let message = NewMessage::text(MessageId::from_chance(u128::from(number) << 64), "later".to_owned());
        let group = Some(GroupId(Text::from("g1")));
        let deduplication = Some(DeduplicationId(Text::from(format!("later {number}"))));
        let messages = vec![change(NewMessage { group, deduplication, ..message })];
        let send = Send { queue: self.queue, messages, receipts: FirstReceipts::Told };
        self.step(at, &Command::Send(send));
    }

    fn leased(&mut self, at: Timestamp, max: u32) -> Vec<Leased> {
        let terms = LeaseTerms { length: Some(DAY), ..LeaseTerms::default() };
        match self.step(at, &Command::Lease(Lease { terms, ..Lease::of(self.queue, max, at) })) {
            Outcome::Leased(leased) => leased,
            other => panic!("a lease is expected: {other:?}"),
        }
    }

    /// What this number of receives at one instant are given.
    fn found(&mut self, at: Timestamp, receives: u32) -> Vec<u64> {
        let mut found = Vec::new();
        for _ in 0..receives {
            found.extend(self.leased(at, 10).iter().map(|leased| leased.message.sequence.0));
        }
        found
    }

    fn keep_for(&mut self, at: Timestamp, retention: Duration) {
        let policy = Some(Policy { retention, ..self.policy.clone() });
        let queue = self.queue;
        let update = UpdateQueue { queue, policy, rename: None, documents: Vec::new(), if_version: None };
        self.step(at, &Command::UpdateQueue(update));
    }

    fn counts(&mut self, at: Timestamp) -> Counts {
        match self.step(at, &Command::Counts(self.queue)) {
            Outcome::Counts(counts) => counts,
            other => panic!("counts are expected: {other:?}"),
        }
    }

    fn peeked(&mut self, at: Timestamp, view: View) -> Vec<Sequence> {
        let peek = Peek { queue: self.queue, view, skip: 0, max: u32::MAX, body_bytes_max: u64::MAX };
        match self.step(at, &Command::Peek(peek)) {
            Outcome::Peeked(messages) => messages.into_iter().map(|(message, _)| message.sequence).collect(),
            other => panic!("messages are expected: {other:?}"),
        }
    }

    /// What happened to a message last, and when.
    fn last_of(&mut self, at: Timestamp, sequence: u64) -> Option<(Timestamp, EventKind)> {
        let history = History { queue: self.queue, sequence: Sequence(sequence) };
        match self.step(at, &Command::History(history)) {
            Outcome::History(events) => events.last().map(|event| (event.at, event.kind.clone())),
            other => panic!("a history is expected: {other:?}"),
        }
    }

    fn kept(&self) -> u64 {
        self.ledger.shelf.kept() as u64
    }

    /// Does the slices that are left. Returns the instant of the last.
    fn see_all_off(&mut self, from: Timestamp) -> Timestamp {
        let mut at = from;
        while !self.ledger.expiring.is_empty() {
            at = at.next();
            assert!(self.ledger.next_due().is_some_and(|due| due <= at), "the next slice is due");
            let before = self.kept();
            self.step(at, &Command::Due);
            assert!(before - self.kept() <= SLICE, "one slice at a time");
        }
        at
    }
}

fn sent_at(number: u64) -> Timestamp {
    NOW.plus(GAP * u32::try_from(number).expect("few are sent"))
}

/// The instant at which, under a retention of an hour, the last of this number of messages is just over.
fn over(messages: u64) -> Timestamp {
    match messages.checked_sub(1) {
        Some(last) => sent_at(last).plus(HOUR),
        None => sent_at(0).plus(HOUR).minus(Duration::from_millis(1)),
    }
}

#[test]
fn retention_lowered_over_a_backlog_takes_effect_at_once_and_is_cleared_away_in_slices() {
    for (kind, at_hand) in [(Kind::Plain, 0), (Kind::Delayed, AT_HAND), (Kind::Grouped, 0), (Kind::Fifo, 0)] {
        for dead in [0, 1, 9, 10, 11, 63, 64, 65, 255, 256, 257, 511, 512, 699, 700] {
            let (all, dead) = (at_hand + 700, at_hand + dead);
            let mut scene = Scene::with(kind, all);
            let at = over(dead);
            scene.keep_for(at, HOUR);
            let counts = scene.counts(at);
            let view = if matches!(kind, Kind::Delayed) { View::Delayed } else { View::Ready };
            let alive: Vec<u64> = (dead..all).collect();
            let bytes: u64 = alive.iter().map(|number| 1 + number % 7).sum();
            let oldest = alive.first().map(|number| sent_at(*number));
            assert_eq!(
                (counts.stored(), counts.body_bytes, counts.oldest_sent_at),
                (all - dead, bytes, oldest)
            );
            assert_eq!(scene.ledger.tally().expired, dead);
            let mut peeked = scene.peeked(at, view);
            // Groups take turns.
            peeked.sort_unstable();
            assert!(
                peeked.into_iter().eq(alive.iter().map(|number| Sequence(number + 1))),
                "{dead} are over"
            );
            let seen_off = all - at_hand - scene.kept();
            assert_eq!(seen_off, (dead - at_hand).min(SLICE), "the first step did a slice");
            let at = scene.see_all_off(at);
            assert!(at < over(dead).plus(GAP));
            assert_eq!((scene.kept(), scene.ledger.tally().expired), (all - dead, dead));
        }
    }
}

#[test]
fn each_message_goes_at_its_very_instant_wherever_it_stands_in_its_block() {
    for (kind, life) in [(Kind::Plain, 3), (Kind::Mixed, 2)] {
        let mut scene = Scene::with(kind, 600);
        scene.keep_for(sent_at(600), HOUR);
        for dead in [0, 1, 254, 255, 256, 257, 258, 511, 512, 513, 598, 599, 600] {
            let gone = (0..dead).filter(|number| number % 3 < life).count() as u64;
            assert_eq!(scene.counts(over(dead)).visible, 600 - gone, "{dead}");
        }
        let at = scene.see_all_off(over(600));
        let left = if life == 3 { 0 } else { 200 };
        assert_eq!((scene.kept(), scene.counts(at).visible), (left, left));
    }
}

#[test]
fn raised_again_between_slices_it_brings_nothing_back() {
    let mut scene = Scene::with(Kind::Plain, 700);
    let at = over(300);
    scene.keep_for(at, HOUR);
    scene.keep_for(at, DAY);
    assert_eq!((scene.counts(at).visible, scene.peeked(at, View::Ready).len()), (400, 400));
    let history: Vec<_> = (1..=700).map(|sequence| scene.last_of(at, sequence)).collect();
    let at_end = scene.see_all_off(at);
    assert_eq!(scene.counts(at_end).visible, 400);
    (1..).zip(history).for_each(|(sequence, before)| assert_eq!(before, scene.last_of(at, sequence)));
    // The end that the history tells of is that under the retention of then.
    assert_eq!(scene.last_of(at, 300), Some((over(300), EventKind::Expired)));
    assert!(!matches!(scene.last_of(at, 301), Some((_, EventKind::Expired))));
    assert_eq!((scene.kept(), scene.counts(at_end).visible), (400, 400));
    assert_eq!(scene.counts(sent_at(400).plus(DAY)).visible, 400 - 101, "the others die in their time");
}

#[test]
fn a_purge_or_deletion_between_slices_leaves_nothing_due_and_nothing_kept() {
    let delete = |queue| Command::DeleteQueue(DeleteQueue { queue, if_version: None });
    for empty in [&(|queue| Command::Purge(Purge { queue })) as &dyn Fn(QueueId) -> Command, &delete] {
        let mut scene = Scene::with(Kind::Plain, 700);
        let mut at = over(600);
        scene.keep_for(at, HOUR);
        match scene.step(at, &empty(scene.queue)) {
            Outcome::Purged(messages) | Outcome::QueueDeleted(messages) => assert_eq!(messages, 100),
            other => panic!("a number is expected: {other:?}"),
        }
        assert_eq!(scene.last_of(at, 600), Some((over(600), EventKind::Expired)), "it is not purged");
        for _ in 0..800 {
            at = at.next();
            scene.step(at, &Command::Due);
        }
        assert!(scene.ledger.expiring.is_empty());
        assert_eq!(scene.last_of(at, 600), Some((over(600), EventKind::Expired)));
        assert_eq!((scene.ledger.next_due(), scene.kept()), (None, 0));
    }
}

#[test]
fn a_neighbour_is_served_between_slices() {
    let mut scene = Scene::with(Kind::Plain, 700);
    let queue = scene.queue;
    let other = scene.create("other");
    let at = over(600);
    scene.keep_for(at, HOUR);
    scene.queue = other;
    assert_eq!(scene.counts(at).visible, 0);
    assert_eq!(scene.kept(), 700 - SLICE, "the step did one slice");
    scene.queue = queue;
    assert_eq!(scene.counts(at).visible, 100);
}

#[test]
fn fairness_groups_are_forgotten_with_their_last_message_also_by_a_checkpoint_between_slices() {
    let mut scene = Scene::with(Kind::Grouped, 700);
    let at = over(690);
    scene.keep_for(at, HOUR);
    scene.step(at, &Command::Queues);
    let groups = |ledger: &Ledger<MemoryShelf>, queue| {
        ledger.book(queue).expect("the queue of the scene was made").group_count()
    };
    assert_eq!(groups(&scene.ledger, scene.queue), 30, "a slice was forgotten, and ten stay");
    let mut bytes = Vec::new();
    let image = scene.ledger.image(scene.queue.0).expect("the queue of the scene was made");
    image.write(&mut |piece| bytes.extend_from_slice(piece));
    let mut again = Scene::new();
    again.ledger.load_slice(scene.queue.0, &bytes.into()).expect("just written");
    scene.see_all_off(at);
    assert_eq!((groups(&scene.ledger, scene.queue), groups(&again.ledger, scene.queue)), (10, 10));
}

#[test]
fn a_queue_of_which_all_is_over_is_bare_when_the_last_is_seen_off() {
    let mut scene = Scene::with(Kind::Plain, 700);
    let at = over(700);
    scene.keep_for(at, HOUR);
    assert_eq!(scene.counts(at).stored(), 0);
    let lease = Command::Lease(Lease::of(scene.queue, 10, at));
    assert!(matches!(scene.step(at, &lease), Outcome::Leased(leased) if leased.is_empty()));
    let bare = Scene::new().ledger.heap_bytes();
    assert!(scene.ledger.heap_bytes() > bare);
    scene.see_all_off(at);
    assert_eq!((scene.ledger.heap_bytes(), scene.kept()), (bare, 0));
}

#[test]
fn figures_are_exact_where_very_many_messages_are_over_at_once_and_others_are_leased() {
    let all = 80_000;
    for (dead, leased) in [(70_000, 0), (70_000, 20), (79_999, 20), (80_000, 20), (70_000, 2_000)] {
        let mut scene = Scene::with(Kind::Plain, all);
        let start = sent_at(all);
        for _ in 0..leased / 10 {
            let terms = LeaseTerms { length: Some(DAY), ..LeaseTerms::default() };
            let lease = Lease { terms, ..Lease::of(scene.queue, 10, start) };
            scene.step(start, &Command::Lease(lease));
        }
        let at = over(dead).max(start);
        scene.keep_for(at, HOUR);
        let counts = scene.counts(at);
        let bytes: u64 = (dead..all).map(|number| 1 + number % 7).sum();
        assert_eq!((counts.stored(), counts.body_bytes), (all - dead, bytes), "{dead} over, {leased} leased");
        assert_eq!((counts.in_flight, scene.ledger.tally().expired), (0, dead));
        let ends = scene.last_of(at, dead).map(|(at, kind)| (at, matches!(kind, EventKind::Expired)));
        assert_eq!(ends, Some((over(dead), true)), "the last of them has its end before it is seen off");
        // More go meanwhile, one every hundred slices.
        let at = scene.see_all_off(at);
        let stored = scene.counts(at).stored();
        assert_eq!((scene.kept(), scene.ledger.tally().expired), (stored, all - stored));
    }
}

#[test]
fn a_fifo_queue_of_which_all_is_over_is_cleared_away_without_a_look_at_each() {
    let mut scene = Scene::with(Kind::Fifo, 20_000);
    let at = over(20_000);
    looked_at::take();
    scene.keep_for(at, HOUR);
    assert_eq!(scene.counts(at).stored(), 0);
    assert!(looked_at::take() <= RUN, "the step looks at the messages of its slice");
    assert_eq!(scene.ledger.tally().expired, 20_000);
    assert_eq!(scene.last_of(at, 20_000), Some((over(20_000), EventKind::Expired)));
    scene.send_at(at, |message| message);
    assert_eq!(scene.peeked(at, View::Ready), [Sequence(20_001)], "its group begins anew");
    looked_at::take();
    let at = scene.see_all_off(at);
    assert!(looked_at::take() <= 20_000, "each is looked at once, in all slices together");
    assert_eq!((scene.kept(), scene.counts(at).visible), (1, 1));
}

#[test]
fn messages_beside_those_that_are_over_stay_in_their_groups_and_in_order() {
    let mut scene = Scene::of(Policy::fifo());
    let kept = |message: NewMessage| NewMessage {
        group: Some(GroupId(Text::from("kept"))),
        expiry: Expiry::Never,
        ..message
    };
    scene.send_at(NOW, kept);
    scene.send_at(NOW, kept);
    let leased = scene.leased(NOW, 10);
    (0..2_000).for_each(|_| scene.send(Kind::Fifo));
    let at = over(scene.sent);
    looked_at::take();
    scene.keep_for(at, HOUR);
    let counts = scene.counts(at);
    assert!(looked_at::take() <= RUN, "the step looks at the messages of its slice");
    assert_eq!((counts.stored(), counts.in_flight, counts.body_bytes), (2, 2, 10));
    scene.send_at(at, kept);
    scene.send_at(at, |message| message);
    let sequences =
        |leased: Vec<Leased>| -> Vec<u64> { leased.iter().map(|leased| leased.message.sequence.0).collect() };
    assert_eq!(sequences(scene.leased(at, 10)), [2_004], "the group that is locked is passed over");
    for (leased, next) in leased.iter().zip([&[][..], &[2_003]]) {
        let tokens = vec![leased.token];
        let ack = Command::Ack(Ack { queue: scene.queue, receipt: ReceiptRule::Current, tokens });
        assert_eq!(scene.step(at, &ack), Outcome::Acked(vec![Ok(())]));
        assert_eq!(sequences(scene.leased(at, 10)), next, "a group waits for all that are leased of it");
    }
    let at = scene.see_all_off(at);
    assert_eq!((scene.kept(), scene.counts(at).in_flight), (2, 2));
}

#[test]
fn one_message_that_is_not_over_or_may_be_offered_keeps_the_order_in_place() {
    for (dead, returned) in [(899, false), (900, true)] {
        let mut scene = Scene::with(Kind::Fifo, 900);
        if returned {
            // Back from its lease, it has a turn among the groups.
            let leased = scene.leased(sent_at(900), 1);
            let tokens = leased.iter().map(|leased| leased.token).collect();
            let back = Command::Withdraw(Withdraw { queue: scene.queue, tokens });
            scene.step(sent_at(900), &back);
        }
        let at = over(dead);
        scene.keep_for(at, HOUR);
        assert_eq!(scene.counts(at).stored(), 900 - dead);
        let offered = scene.found(at, 4);
        assert!(offered.iter().all(|sequence| *sequence == 900));
        assert_eq!(offered.len() as u64, 900 - dead);
        scene.see_all_off(at);
        assert_eq!(scene.kept(), 900 - dead);
    }
}

/// How half of a queue comes to be over at once.
#[derive(Clone, Copy, Debug)]
enum Half {
    /// The retention is lowered.
    Lowered,
    /// A hold of expiry ends.
    HoldEnds,
    /// The clock leaps.
    Leap,
}

#[test]
fn half_of_a_fifo_queue_that_is_over_is_cleared_away_without_a_look_at_each() {
    for half in [Half::Lowered, Half::HoldEnds, Half::Leap] {
        let mut scene = Scene::with(Kind::Fifo, 20_000);
        let returned = scene.leased(sent_at(19_999), 4);
        let tokens = returned.iter().map(|leased| leased.token).collect();
        scene.step(sent_at(19_999), &Command::Withdraw(Withdraw { queue: scene.queue, tokens }));
        let at = match half {
            Half::Lowered => over(10_000),
            Half::HoldEnds | Half::Leap => sent_at(9_999).plus(DAY),
        };
        match half {
            Half::Lowered => {
                scene.keep_for(at, HOUR);
            }
            Half::HoldEnds => {
                let hold = ExpiryHold { through: sent_at(0), until: HoldEnd::Confirmed };
                scene.step(sent_at(20_000), &Command::HoldExpiry(Some(hold)));
                assert_eq!(scene.counts(at).stored(), 20_000);
                scene.step(at, &Command::HoldExpiry(None));
            }
            Half::Leap => {}
        }
        looked_at::take();
        let counts = scene.counts(at);
        let looks = looked_at::take();
        assert!(looks <= 64 * RUN, "{half:?}: the step looks at {looks} messages");
        let bytes: u64 = (10_000..20_000).map(|number| 1 + number % 7).sum();
        assert_eq!((counts.stored(), counts.body_bytes), (10_000, bytes), "{half:?}");
        assert_eq!(scene.ledger.tally().expired, 10_000);
        assert_eq!(scene.last_of(at, 10_000).map(|(_, kind)| kind), Some(EventKind::Expired));
        assert!(!scene.last_of(at, 10_001).is_some_and(|(_, kind)| kind == EventKind::Expired));
        let kept = scene.kept();
        scene.counts(at);
        assert_eq!(scene.kept(), kept, "a step that is not of this queue's messages clears nothing away");
        looked_at::take();
        let at = scene.see_all_off(at);
        let looks = looked_at::take();
        assert!(looks <= 200_000, "{half:?}: all slices together look at {looks} messages");
        // More go meanwhile, one every hundred slices.
        let stored = scene.counts(at).stored();
        assert_eq!((scene.kept(), scene.ledger.tally().expired), (stored, 20_000 - stored), "{half:?}");
        assert_eq!(scene.peeked(at, View::Ready).len() as u64, stored);
    }
}

#[test]
fn a_receive_between_slices_is_given_each_group_in_order_and_nothing_that_is_over() {
    let mut scene = Scene::with(Kind::Fifo, 2_000);
    let at = over(1_000);
    scene.keep_for(at, HOUR);
    let mut found = scene.found(at, 2_000);
    // A group is locked while one of its messages is leased, so each is given its first ten.
    let mut by_group: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    found.iter().for_each(|sequence| by_group.entry((sequence - 1) % 40).or_default().push(*sequence));
    for (group, given) in by_group {
        let alive = (1_001..=2_000).filter(|sequence| (sequence - 1) % 40 == group);
        assert!(given.iter().copied().eq(alive.take(given.len())), "group {group}: {given:?}");
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 400, "each group gave as much as one receive takes");
    let counts = scene.counts(at);
    assert_eq!((counts.stored(), counts.in_flight), (1_000, 400));
    let at = scene.see_all_off(at);
    assert_eq!((scene.kept(), scene.counts(at).stored()), (1_000, 1_000));
}

#[test]
fn what_is_over_in_a_fifo_queue_stays_over_whatever_becomes_of_the_queue_between_slices() {
    for dead in [300, 699] {
        let mut scene = Scene::with(Kind::Fifo, 700);
        let at = over(dead);
        scene.keep_for(at, HOUR);
        scene.keep_for(at, DAY);
        assert_eq!(scene.counts(at).visible, 700 - dead, "raised again, it brings nothing back");
        assert_eq!(scene.last_of(at, dead), Some((over(dead), EventKind::Expired)));
        // A checkpoint between slices knows nothing of them.
        let mut bytes = Vec::new();
        let image = scene.ledger.image(scene.queue.0).expect("the queue of the scene was made");
        image.write(&mut |piece| bytes.extend_from_slice(piece));
        let mut again = Scene::of(Policy::fifo());
        again.ledger.load_slice(scene.queue.0, &bytes.into()).expect("the bytes of an image are a slice");
        let offered = |scene: &Scene| -> Vec<Sequence> {
            let book = scene.ledger.book(scene.queue).expect("the queue of the scene was made");
            book.offered().map(|item| item.sequence).collect()
        };
        assert_eq!(offered(&scene).len() as u64, 700 - dead);
        assert_eq!(offered(&again), offered(&scene));
        assert_eq!(again.counts(at), scene.counts(at));
        // A purge leaves what expired before to its slices.
        scene.step(at, &Command::Purge(Purge { queue: scene.queue }));
        assert_eq!(scene.last_of(at, dead), Some((over(dead), EventKind::Expired)), "it is not purged");
        let mut at = at;
        for _ in 0..800 {
            at = at.next();
            scene.step(at, &Command::Due);
        }
        assert_eq!(scene.last_of(at, dead), Some((over(dead), EventKind::Expired)));
        assert!(!scene.last_of(at, dead + 1).is_some_and(|(_, kind)| kind == EventKind::Expired));
        assert_eq!((scene.ledger.next_due(), scene.kept()), (None, 0));
    }
}

#[test]
fn a_fifo_queue_whose_newest_message_was_received_first_is_cleared_away_without_a_look_at_each() {
    let mut scene = Scene::with(Kind::Fifo, 2_000);
    let terms = LeaseTerms { length: Some(DAY), ..LeaseTerms::default() };
    scene.send_at(over(2_000), |message| NewMessage { group: Some(GroupId(Text::from("new"))), ..message });
    // Every group gives one, the new one last.
    for _ in 0..41 {
        let lease = Lease { terms, ..Lease::of(scene.queue, 1, over(2_000)) };
        assert!(
            matches!(scene.step(over(2_000), &Command::Lease(lease)), Outcome::Leased(one) if one.len() == 1)
        );
    }
    looked_at::take();
    scene.keep_for(over(2_000), HOUR);
    assert_eq!(scene.counts(over(2_000)).stored(), 1);
    assert!(looked_at::take() <= RUN, "the step looks at the messages of its slice");
}
