//! Undoing leases whose taker went away before it was answered.

use kew_core::command::Lease;
use kew_core::{Policy, RuleError, Text};

use super::Factory;
use super::stage::{Stage, bodies, seconds, first_receipt};

pub fn withdrawn_lease_was_never_taken(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.withdraw(queue, &leased), 2);
    assert_eq!(stage.figures(queue), (2, 0, 0));
    assert_eq!(stage.ack(leased[1].token), Err(RuleError::TokenStale));
    assert_eq!(stage.ack(first_receipt(&sent[1])), Ok(()), "the receipt before it is the newest again");
    stage.pass(seconds(5));
    let again = stage.lease_one(queue).message;
    assert_eq!((again.attempts, again.first_leased_at), (1, Some(stage.now())));
}

pub fn earlier_leases_stay_counted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let first_leased_at = stage.now();
    stage.lease_for(queue, 1, seconds(1));
    stage.pass(seconds(1));
    let second = stage.lease(queue, 1);
    assert_eq!(stage.withdraw(queue, &second), 1);
    let again = stage.lease_one(queue).message;
    assert_eq!((again.attempts, again.first_leased_at), (2, Some(first_leased_at)));
}

pub fn changed_or_ended_lease_is_not_undone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["extended", "released", "acked", "lapsed"]);
    let mut leased = stage.lease(queue, 3);
    leased.extend(stage.lease_for(queue, 1, seconds(0)));
    assert!(stage.extend(leased[0].token, seconds(30)).is_ok());
    assert!(stage.release(leased[1].token, seconds(5)).is_ok());
    assert_eq!(stage.ack(leased[2].token), Ok(()));
    assert_eq!(stage.withdraw(queue, &leased), 0);
    assert_eq!(stage.figures(queue), (1, 1, 1));
}

pub fn same_lease_is_undone_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    assert_eq!(stage.withdraw(queue, &[leased.clone(), leased.clone()]), 1);
    assert_eq!(stage.withdraw(queue, &[leased]), 0);
}

pub fn part_of_a_group_is_undone_from_its_end(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.withdraw(queue, &leased[1..]), 1);
    assert_eq!(stage.leased_bodies(queue), ["h-1"], "the group is still locked by its head");
    assert_eq!(stage.withdraw(queue, &leased[..1]), 1);
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2"]);
}

pub fn repeated_receive_does_not_undo_the_first_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    let asking = Lease { attempt: Some(Text::from("a")), ..stage.asking(queue, 1, seconds(30)) };
    let first = stage.lease_as(asking.clone());
    let again = stage.lease_as(asking);
    assert_eq!(bodies(&again), bodies(&first));
    assert_eq!(stage.withdraw(queue, &again), 0, "these leases were answered before");
    assert_eq!(stage.ack(first[0].token), Ok(()));
}

pub fn withdrawn_receive_cannot_be_repeated(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let asking = Lease { attempt: Some(Text::from("a")), ..stage.asking(queue, 1, seconds(30)) };
    let first = stage.lease_as(asking.clone());
    assert_eq!(stage.withdraw(queue, &first), 1);
    let again = stage.lease_as(asking);
    assert_eq!(bodies(&again), ["g-1"]);
    assert_ne!(again[0].token, first[0].token);
    assert_eq!(again[0].message.attempts, 1);
}

pub fn receipts_of_other_queues_undo_nothing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.standard(), stage.named("two", Policy::standard()));
    stage.send_text(one, &["a"]);
    let leased = stage.lease(one, 1);
    assert_eq!(stage.withdraw(two, &leased), 0);
    assert_eq!(stage.figures(one), (0, 1, 0));
}
