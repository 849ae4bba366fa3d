//! A message whose content was copied forward, and that then moves to another queue before the next checkpoint.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_core::{Carries, Command, DeadLetterAction, DeadLetterRule, Outcome, Policy, QueueId};
use kew_store_log::{Fault, FaultPlan, Found, LogStore, SimDisk};

use crate::small_store::{Asked, START, entropy, key, open, options, text_of};

/// A message that may be leased once more, alone in a segment that is dead otherwise.
fn about_to_be_copied() -> (SimDisk, Asked, QueueId) {
    let disk = SimDisk::new();
    let (store, _) = LogStore::open(Arc::new(disk.clone()), options(), entropy(1), START).unwrap();
    let asked = Asked::of(store);
    asked.queue("dead", Policy::standard());
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "sqs".into(),
    };
    let plain = asked.queue("plain", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    let busy = asked.queue("busy", Policy::standard());
    asked.send(plain, "copied, then moved");
    for _ in 0..30 {
        asked.send(busy, &"churn ".repeat(40));
        let leased = asked.lease(busy, 1);
        asked.ack(busy, &leased);
    }
    (disk, asked, plain)
}

/// Upkeep fails at one point, the message is dead-lettered, and the process dies or the power goes.
fn dead_lettered_after_upkeep_failed_at(point: u64) -> bool {
    let (disk, mut asked, plain) = about_to_be_copied();
    let fails_at = disk.points() + point;
    disk.set_fault(Some(FaultPlan { at: fails_at, fault: Fault::NoSpace }));
    let failed = asked.store.keep_up().is_err();
    let was_met = disk.points() >= fails_at;
    disk.set_fault(None);
    let copied = asked.store.stats().copied_bytes;
    // A failed sync of the journal ends the run; every other failure leaves it going on.
    let lease = asked.try_ask(Command::Lease(Lease::of(plain, 1, asked.now)));
    if failed && lease.is_ok() {
        asked.later(Duration::from_secs(31));
        asked.ask(Command::Due);
        let dead = asked.find("dead");
        let Outcome::Counts(counts) = asked.ask(Command::Counts(dead)) else { panic!("no counts") };
        assert_eq!(counts.visible, 1);
        let held = text_of(&asked.store).unwrap();
        drop(asked);
        for disk in [disk.reopen_process_crash(), disk.reopen(point, Found::Lost)] {
            let again = Asked::of(open(&disk).unwrap().0);
            let text = text_of(&again.store);
            let text = text.unwrap_or_else(|error| panic!("point {point}, {copied} bytes copied: {error}"));
            // The first line tells the newest instant, which looking moves on.
            assert!(text.lines().skip(1).eq(held.lines().skip(1)), "point {point}");
        }
    }
    was_met
}

#[test]
fn a_message_that_was_copied_and_then_dead_lettered_is_found_after_a_crash() {
    let met = (1..).take_while(|point| dead_lettered_after_upkeep_failed_at(*point)).count();
    assert!(met > 15, "{met} points");
}
