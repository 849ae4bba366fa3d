//! A standard queue's groups: one that holds most of the leases, or most of the backlog, does not starve the others.

use kew_core::rules::fairness;
use kew_core::{NewMessage, QueueId};
use std::time::Duration;

use super::Factory;
use super::stage::{Stage, bodies, group, seconds};

fn send_many(stage: &mut Stage<'_>, queue: QueueId, name: &str, count: usize) {
    let messages = (0..count).map(|_| NewMessage { group: group(name), ..stage.message(name) }).collect();
    stage.send_all(queue, messages);
}

pub fn noisy_group_stands_back_for_a_quiet_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    assert_eq!(stage.lease(queue, 30).len(), 30);
    send_many(&mut stage, queue, "quiet", 2);
    assert_eq!(stage.leased_bodies(queue)[..3], ["quiet", "quiet", "noisy"]);
}

pub fn group_turns_noisy_in_the_middle_of_a_receive(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    stage.send_text(queue, &["quiet"; 640]);
    // Less than a tenth of what is stored, until it holds thirty leases.
    let leased = bodies(&stage.lease(queue, 40));
    assert_eq!(leased.iter().position(|body| body == "quiet"), Some(30));
    assert!(leased[30..].iter().all(|body| body == "quiet"));
}

pub fn below_thirty_leases_and_messages_the_order_of_sends_holds(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "busy", 29);
    send_many(&mut stage, queue, "quiet", 1);
    let leased = bodies(&stage.lease(queue, 30));
    assert_eq!(leased.iter().position(|body| body == "quiet"), Some(29));
}

pub fn noisy_backlog_stands_back_though_nothing_is_in_flight(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 30);
    send_many(&mut stage, queue, "quiet", 9);
    stage.send_text(queue, &["alone"; 9]);
    let mut leased = bodies(&stage.lease(queue, 20));
    assert_eq!(leased.iter().filter(|body| *body == "noisy").count(), 2, "every tenth choice is the front's");
    leased.retain(|body| body != "noisy");
    assert_eq!(leased, [["quiet"; 9], ["alone"; 9]].concat(), "and everything else in the order of sends");
    assert_eq!(bodies(&stage.lease(queue, 28)), ["noisy"; 28], "no other group waits now");
}

pub fn noisy_backlog_is_worked_off_however_much_others_send(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    let mut noisy_of = |choices: usize| {
        let mut noisy = 0;
        for _ in 0..choices {
            send_many(&mut stage, queue, "quiet", 1);
            let leased = stage.lease(queue, 1);
            noisy += bodies(&leased).iter().filter(|body| *body == "noisy").count();
            leased.iter().for_each(|leased| stage.ack(leased.token).expect("the queue leases a message"));
            stage.pass(Duration::from_millis(1));
        }
        noisy
    };
    assert_eq!(noisy_of(100), 10, "every tenth choice is the front's");
    // With thirty-one gone it is not noisy any more: the order of sends holds.
    assert_eq!(noisy_of(300), 50);
}

pub fn quiet_message_behind_a_deep_noisy_backlog_comes_when_it_is_near(factory: &dyn Factory) {
    const BEYOND: usize = 500;
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", fairness::LOOK_AHEAD + BEYOND);
    send_many(&mut stage, queue, "quiet", 1);
    let taken = (fairness::LOOK_AHEAD + BEYOND) / 10;
    let before = (0..taken).position(|_| {
        let leased = stage.lease(queue, 10);
        leased.iter().for_each(|leased| stage.ack(leased.token).expect("the queue leases a message"));
        bodies(&leased).iter().any(|body| body == "quiet")
    });
    let before = before.expect("the message comes before the end of the backlog") * 10;
    let blind = fairness::LOOK_AGAIN_AFTER as usize;
    assert!((BEYOND - 10..=BEYOND + blind).contains(&before), "after {before}");
}

pub fn message_without_a_group_is_quiet(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    assert_eq!(stage.lease(queue, 30).len(), 30);
    stage.send_text(queue, &["alone"]);
    assert_eq!(bodies(&stage.lease(queue, 1)), ["alone"]);
}

pub fn noisy_group_uses_what_nobody_else_wants(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 100);
    assert_eq!(stage.lease(queue, 100).len(), 100);
}

pub fn group_is_quiet_again_when_its_leases_have_ended(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    stage.send_text(queue, &["quiet"; 640]);
    assert_eq!(bodies(&stage.lease_for(queue, 30, seconds(5))), ["noisy"; 30]);
    assert_eq!(bodies(&stage.lease(queue, 1)), ["quiet"]);
    stage.pass(seconds(5));
    assert_eq!(bodies(&stage.lease(queue, 1)), ["noisy"]);
}

pub fn tenth_of_the_leases_is_not_too_much(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["alone"; 310]);
    assert_eq!(stage.lease(queue, 310).len(), 310);
    send_many(&mut stage, queue, "busy", 34);
    send_many(&mut stage, queue, "quiet", 1);
    // Thirty of 340 leases are less than a tenth, and so are 34 of 344 and of 345 stored.
    let leased = bodies(&stage.lease(queue, 35));
    assert_eq!(leased.iter().position(|body| body == "quiet"), Some(34));
}
