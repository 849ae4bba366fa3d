//! When something happens by itself, and which queues are reported to have messages again.

use kew_core::command::{DeleteQueue, FirstReceipts, Extend, Lease, Purge, Release, Send};
use kew_core::{Carries, Command, Expiry, NewMessage, Policy, QueueId, ReceiptRule, Timestamp};

use super::Factory;
use super::model::subject::block_on;
use super::stage::{Stage, bodies, dead_letters, seconds};

/// More than the messages that leave as dead letters in one step.
const MORE_THAN_LEAVE_AT_ONCE: usize = 2_500;

/// The store may name an earlier instant, never a later one.
fn assert_due_by(stage: &Stage<'_>, at: Timestamp) {
    let due = stage.store().next_due().expect("something is due");
    assert!(due <= at, "due at {due:?}, to be done by {at:?}");
}

fn freed(stage: &Stage<'_>, command: Command) -> Vec<QueueId> {
    let submission = stage.store().step(stage.now(), &command);
    stage.store().commit();
    let freed = submission.freed.to_vec();
    block_on(submission).expect("the step is allowed");
    freed
}

pub fn next_instant_is_known_for_leases_delays_and_lives(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let immortal = |message| NewMessage { expiry: Expiry::Never, ..message };
    let mortal = NewMessage { expiry: Expiry::After { seconds: 90 }, ..stage.message("mortal") };
    stage.send(queue, mortal);
    assert_due_by(&stage, stage.now().plus(seconds(90)));
    let delayed = NewMessage { delay: Some(seconds(60)), ..immortal(stage.message("delayed")) };
    stage.send(queue, delayed);
    assert_due_by(&stage, stage.now().plus(seconds(60)));
    let leased = stage.lease_one(queue);
    assert_due_by(&stage, leased.until);
    assert!(stage.extend(leased.token, seconds(5)).is_ok());
    assert_due_by(&stage, stage.now().plus(seconds(5)));
}

pub fn due_work_catches_up_until_nothing_is_left_of_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let immortal = NewMessage { expiry: Expiry::Never, ..stage.message("a") };
    stage.send(queue, immortal);
    stage.lease_for(queue, 1, seconds(5));
    for _ in 0..10 {
        let Some(due) = stage.store().next_due() else { return };
        stage.at(due.max(stage.now()));
        stage.step(Command::Due);
    }
    panic!("after all is done nothing should be due");
}

pub fn send_frees_its_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (queue, other) = (stage.standard(), stage.fifo());
    let message = stage.message("a");
    assert_eq!(freed(&stage, Command::Send(Send { queue, messages: vec![message], receipts: FirstReceipts::Told })), [queue]);
    let message = stage.grouped("g", "a");
    assert_eq!(freed(&stage, Command::Send(Send { queue: other, messages: vec![message], receipts: FirstReceipts::Told })), [other]);
}

pub fn ends_of_leases_and_delays_free_their_queues_whoever_asks(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two, three) = (stage.standard(), stage.fifo(), stage.named("three", Policy::standard()));
    stage.send_text(one, &["a"]);
    stage.lease_for(one, 1, seconds(5));
    stage.send_groups(two, &["g-1"]);
    stage.lease_for(two, 1, seconds(5));
    let delayed = NewMessage { delay: Some(seconds(5)), ..stage.message("c") };
    stage.send(three, delayed);
    stage.pass(seconds(5));
    let mut freed = freed(&stage, Command::Queues);
    freed.sort();
    assert_eq!(freed, [one, two, three]);
}

pub fn release_and_extension_to_zero_free_their_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease(queue, 2);
    let entries = vec![(leased[0].token, seconds(0))];
    let release = Release { queue, receipt: ReceiptRule::Current, entries };
    assert_eq!(freed(&stage, Command::Release(release)), [queue]);
    let extend: Extend = Stage::extending(leased[1].token, seconds(0));
    let mut reported = freed(&stage, Command::Extend(extend));
    reported.extend(freed(&stage, Command::Due));
    assert!(reported.contains(&queue));
}

pub fn ack_that_unlocks_a_group_frees_its_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2"]);
    let leased = stage.lease(queue, 1);
    let ack = kew_core::command::Ack { queue, receipt: ReceiptRule::Current, tokens: vec![leased[0].token] };
    assert_eq!(freed(&stage, Command::Ack(ack)), [queue]);
}

pub fn dead_letters_free_their_target(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy::standard());
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    stage.send_text(source, &["a"]);
    stage.lease(source, 1);
    stage.pass(seconds(31));
    assert!(freed(&stage, Command::Due).contains(&dead));
}

pub fn lease_that_ends_with_its_message_frees_a_queue_at_its_limit(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("short", Policy { retention: seconds(60), ..Policy::standard() });
    stage.send_text(queue, &["a"]);
    stage.at_second(30);
    stage.send_text(queue, &["b"]);
    let limited = |stage: &Stage<'_>| Lease { in_flight_max: 1, ..stage.asking(queue, 1, seconds(1_000)) };
    assert_eq!(bodies(&stage.lease_as(limited(&stage))), ["a"]);
    assert!(stage.lease_as(limited(&stage)).is_empty());
    stage.at_second(60);
    assert_eq!(freed(&stage, Command::Due), [queue], "receives that wait for room must learn of it");
    assert_eq!(bodies(&stage.lease_as(limited(&stage))), ["b"]);
}

pub fn slices_of_due_work_are_not_put_off_by_the_steps_that_come_meanwhile(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (queue, other) = (stage.standard(), stage.named("other", Policy::standard()));
    let messages: Vec<NewMessage> = (0..3_500).map(|_| stage.message("a")).collect();
    stage.send_all(queue, messages);
    // Their room is given back a thousand at a time.
    stage.step(Command::Purge(Purge { queue }));
    for _ in 0..8 {
        // A step of the same instant comes before the timers look.
        stage.tick();
        stage.send_text(other, &["b"]);
        if stage.store().next_due().is_some_and(|due| due <= stage.now()) {
            stage.step(Command::Due);
        }
    }
    assert!(stage.store().next_due().is_none_or(|due| due > stage.now().next()), "slices are left");
}

/// A queue that sends to `dead`, where many messages that were leased as often as allowed stand before a fresh one.
fn many_exhausted_before_a_fresh_one(stage: &mut Stage<'_>, policy: &Policy) -> QueueId {
    stage.named("dead", policy.clone());
    let source = stage.named("source", policy.clone());
    let is_fifo = policy.kind.is_fifo();
    let message = |stage: &mut Stage<'_>, body: &str| match is_fifo {
        true => stage.grouped("g", body),
        false => stage.message(body),
    };
    let messages: Vec<NewMessage> =
        (0..MORE_THAN_LEAVE_AT_ONCE).map(|number| message(stage, &number.to_string())).collect();
    stage.send_all(source, messages);
    let all = u32::try_from(MORE_THAN_LEAVE_AT_ONCE).expect("a few thousand fit");
    assert_eq!(stage.lease_for(source, all, seconds(0)).len(), MORE_THAN_LEAVE_AT_ONCE);
    // All that those leases leave to do is done.
    while stage.store().next_due().is_some_and(|due| due <= stage.now().next()) {
        stage.tick();
        stage.step(Command::Due);
    }
    let fresh = message(stage, "fresh");
    stage.send(source, fresh);
    let rule = dead_letters("dead", 1, Carries::History);
    stage.set_policy(source, Policy { dead_letters: rule, ..policy.clone() });
    source
}

pub fn receive_that_only_sent_dead_letters_off_is_followed_by_a_look_soon(factory: &dyn Factory) {
    for policy in [Policy::standard(), Policy::fifo()] {
        let mut stage = Stage::new(factory);
        let source = many_exhausted_before_a_fresh_one(&mut stage, &policy);
        let mut looks = 0;
        while stage.lease(source, 1).is_empty() {
            assert_due_by(&stage, stage.now().next());
            stage.tick();
            assert!(freed(&stage, Command::Due).contains(&source), "receives that wait must learn of it");
            looks += 1;
        }
        assert!((2..=3).contains(&looks), "{looks} looks");
        // That one found what it wanted, and the next finds that there is nothing.
        assert!(stage.lease(source, 1).is_empty());
        for _ in 0..3 {
            stage.tick();
            assert!(!freed(&stage, Command::Due).contains(&source), "there is nothing to look for");
        }
        assert!(stage.store().next_due().is_none_or(|due| due > stage.now().next()));
    }
}

pub fn look_that_was_to_follow_a_receive_is_forgotten_with_its_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let source = many_exhausted_before_a_fresh_one(&mut stage, &Policy::standard());
    assert!(stage.lease(source, 1).is_empty());
    stage.step(Command::DeleteQueue(DeleteQueue { queue: source, if_version: None }));
    for _ in 0..5 {
        stage.tick();
        assert!(!freed(&stage, Command::Due).contains(&source));
    }
    assert!(stage.store().next_due().is_none_or(|due| due > stage.now().next()));
}

pub fn withdrawal_frees_its_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let tokens = vec![stage.lease_one(queue).token];
    let withdraw = kew_core::command::Withdraw { queue, tokens };
    assert_eq!(freed(&stage, Command::Withdraw(withdraw)), [queue]);
}

pub fn newest_instant_follows_the_steps(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    assert!(stage.store().newest_instant() >= stage.now());
    stage.pass(seconds(5));
    stage.send_text(queue, &["b"]);
    assert!(stage.store().newest_instant() >= stage.now());
}
