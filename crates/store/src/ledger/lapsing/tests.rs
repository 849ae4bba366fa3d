//! Leases that end by themselves, many at once: seen to in slices.

use std::time::Duration;

use kew_core::command::{Ack, Extend, Extension, Lease, Purge, Release};
use kew_core::{
    Carries, Command, DeadLetterAction, DeadLetterRule, LeaseTerms, LeaseToken, Outcome, Policy, QueueId,
    ReceiptRule, Sequence, Timestamp, WhenFree,
};

use crate::ledger::Bounds;
use crate::ledger::scene::{NOW, Scene};

const SLICE: usize = 10;
const LEASE: Duration = Duration::from_secs(30);

fn bounds() -> Bounds {
    Bounds { lapses: SLICE, ..Bounds::default() }
}

impl Scene {
    /// A queue with this number of messages, all leased until one instant; and their receipts.
    fn with_leased(messages: usize, policy: Policy) -> (Self, QueueId, Vec<LeaseToken>) {
        let mut scene = Self::new(bounds());
        let queue = scene.queue("q", policy);
        (0..messages).for_each(|_| scene.send(queue));
        let mut tokens = Vec::new();
        while tokens.len() < messages {
            tokens.extend(scene.lease(NOW, queue, 10).into_iter().map(|(_, token)| token));
        }
        (scene, queue, tokens)
    }

    /// Each message with how often it was leased by now.
    fn lease(&mut self, at: Timestamp, queue: QueueId, max: u32) -> Vec<(u32, LeaseToken)> {
        let terms = LeaseTerms { length: Some(LEASE), ..LeaseTerms::default() };
        match self.step(at, &Command::Lease(Lease { terms, ..Lease::of(queue, max, at) })) {
            Outcome::Leased(leased) => {
                leased.iter().map(|leased| (leased.message.attempts, leased.token)).collect()
            }
            other => panic!("leases are expected: {other:?}"),
        }
    }
}

#[test]
fn leases_that_end_together_are_over_at_once_and_seen_to_a_slice_at_each_millisecond() {
    for messages in [1, SLICE - 1, SLICE, SLICE + 1, 300] {
        let (mut scene, queue, _) = Scene::with_leased(messages, Policy::standard());
        let mut at = NOW.plus(LEASE);
        scene.step(Timestamp(at.0 - 1), &Command::Queues);
        assert_eq!(scene.figures(queue), (0, messages as u64, 0), "not one millisecond early");
        scene.ledger.take_freed();
        scene.step(at, &Command::Due);
        assert_eq!(scene.figures(queue), (messages as u64, 0, 0), "all count as visible at their instant");
        // The step that meets them sees to a slice, and does one slice of what is left.
        let mut left = messages.saturating_sub(SLICE);
        while left > 0 {
            assert_eq!(scene.ledger.next_due(), Some(at.next()));
            assert_eq!(scene.ledger.take_freed()[..], [queue], "those who wait are served");
            assert_eq!(scene.offered(queue), messages - left);
            scene.step(at, &Command::Queues);
            assert_eq!(scene.offered(queue), messages - left, "steps of others see to none");
            at = at.next();
            scene.step(at, &Command::Due);
            left = left.saturating_sub(SLICE);
            assert_eq!(scene.figures(queue), (messages as u64, 0, 0));
        }
        assert_eq!(scene.offered(queue), messages);
        assert!(scene.ledger.next_due().is_none_or(|due| due > at.next()), "nothing is left to do");
        assert_eq!(scene.ledger.tally().lapsed, messages as u64);
    }
}

#[test]
fn a_receive_finds_messages_while_any_is_counted_as_visible() {
    let (mut scene, queue, _) = Scene::with_leased(700, Policy::standard());
    let at = NOW.plus(LEASE);
    let mut leased = Vec::new();
    while leased.len() < 700 {
        let taken = scene.lease(at, queue, 10);
        assert!(!taken.is_empty(), "after {}", leased.len());
        assert!(taken.iter().all(|(attempts, _)| *attempts == 2));
        leased.extend(taken.into_iter().map(|(_, token)| token.sequence));
        assert_eq!(scene.figures(queue), (700 - leased.len() as u64, leased.len() as u64, 0));
    }
    leased.sort_unstable();
    assert_eq!(leased, (1..=700).map(Sequence).collect::<Vec<_>>(), "each of them once");
    assert!(scene.lease(at, queue, 10).is_empty());
}

#[test]
fn a_receipt_of_a_lease_that_is_over_is_judged_as_if_it_had_been_seen_to() {
    let (mut scene, queue, tokens) = Scene::with_leased(100, Policy::standard());
    let at = NOW.plus(LEASE);
    scene.step(at, &Command::Due);
    let receipt = ReceiptRule::Current;
    let last: Vec<LeaseToken> = tokens.iter().rev().copied().take(4).collect();
    let [acked, hidden, ignored, released] = last[..] else { unreachable!("four were taken") };
    scene.step(at, &Command::Ack(Ack { queue, receipt, tokens: vec![acked] }));
    assert_eq!(scene.figures(queue), (99, 0, 0));
    let extend = |token, when_free| {
        let entry = Extension { token, length: Duration::from_secs(5), content: None };
        Command::Extend(Extend { queue, receipt, when_free, renew: false, entries: vec![entry] })
    };
    scene.step(at, &extend(hidden, WhenFree::Hide));
    assert_eq!(scene.figures(queue), (98, 1, 0), "it is leased anew, without an attempt");
    let answer = scene.step(at, &extend(ignored, WhenFree::Ignore));
    assert!(format!("{answer:?}").contains("Free"), "{answer:?}");
    let entries = vec![(released, Duration::ZERO)];
    let answer = scene.step(at, &Command::Release(Release { queue, receipt, entries }));
    assert!(format!("{answer:?}").contains("LeaseEnded"), "{answer:?}");
    assert_eq!(scene.figures(queue), (98, 1, 0));
    let later = at.plus(Duration::from_secs(5));
    scene.step(later, &Command::Due);
    assert_eq!(scene.figures(queue), (99, 0, 0));
}

#[test]
fn messages_that_expire_while_they_wait_are_never_given_out() {
    let policy = Policy { retention: LEASE + Duration::from_millis(2), ..Policy::standard() };
    let (mut scene, queue, _) = Scene::with_leased(400, policy);
    scene.step(NOW.plus(LEASE), &Command::Due);
    let over = NOW.plus(LEASE + Duration::from_millis(2));
    assert!(scene.lease(over, queue, 10).is_empty());
    let mut at = over;
    while scene.ledger.next_due().is_some() && at < over.plus(Duration::from_secs(1)) {
        at = at.next();
        scene.step(at, &Command::Due);
    }
    assert_eq!(scene.figures(queue), (0, 0, 0));
}

#[test]
fn messages_that_were_tried_too_often_depart_whenever_their_lease_is_seen_to() {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::Drop,
        carries: Carries::History,
        written_by: "test".into(),
    };
    let policy = Policy { dead_letters: Some(Box::new(rule)), ..Policy::standard() };
    let (mut scene, queue, _) = Scene::with_leased(100, policy);
    let mut at = NOW.plus(LEASE);
    for _ in 0..30 {
        scene.step(at, &Command::Due);
        at = at.next();
    }
    assert_eq!(scene.figures(queue), (0, 0, 0));
    assert!(scene.lease(at, queue, 10).is_empty());
}

#[test]
fn a_purge_takes_those_that_wait_along() {
    let (mut scene, queue, _) = Scene::with_leased(100, Policy::standard());
    let at = NOW.plus(LEASE);
    scene.step(at, &Command::Due);
    scene.step(at, &Command::Purge(Purge { queue }));
    assert_eq!(scene.figures(queue), (0, 0, 0));
    scene.step(at.next(), &Command::Due);
    let soon = at.next().next();
    scene.step(soon, &Command::Due);
    assert_eq!(scene.figures(queue), (0, 0, 0));
    assert!(scene.ledger.next_due().is_none_or(|due| due > soon.next()), "no slice is left to do");
}
