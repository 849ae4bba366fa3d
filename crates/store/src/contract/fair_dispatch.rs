//! A standard queue's groups: one that holds most of the leases does not starve the others.

use kew_core::{NewMessage, QueueId};

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
    send_many(&mut stage, queue, "quiet", 2);
    assert_eq!(stage.lease(queue, 30).len(), 30);
    assert_eq!(stage.leased_bodies(queue)[..3], ["quiet", "quiet", "noisy"]);
}

pub fn group_turns_noisy_in_the_middle_of_a_receive(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    send_many(&mut stage, queue, "quiet", 1);
    let leased = bodies(&stage.lease(queue, 40));
    assert_eq!(leased.iter().position(|body| body == "quiet"), Some(30));
}

pub fn below_thirty_leases_the_order_of_sends_holds(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "busy", 40);
    send_many(&mut stage, queue, "quiet", 1);
    assert_eq!(stage.lease(queue, 29).len(), 29);
    assert_eq!(bodies(&stage.lease(queue, 1)), ["busy"]);
    assert_eq!(bodies(&stage.lease(queue, 1)), ["quiet"]);
}

pub fn message_without_a_group_is_quiet(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    send_many(&mut stage, queue, "noisy", 60);
    stage.send_text(queue, &["alone"]);
    assert_eq!(stage.lease(queue, 30).len(), 30);
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
    send_many(&mut stage, queue, "quiet", 1);
    stage.lease_for(queue, 30, seconds(5));
    stage.pass(seconds(5));
    assert_eq!(bodies(&stage.lease(queue, 1)), ["noisy"]);
}

pub fn tenth_of_the_leases_is_not_too_much(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["alone"; 300]);
    assert_eq!(stage.lease(queue, 300).len(), 300);
    send_many(&mut stage, queue, "busy", 34);
    send_many(&mut stage, queue, "quiet", 1);
    // Thirty of 330 leases are less than a tenth; the thirty-fourth of 334 would be over it.
    let leased = bodies(&stage.lease(queue, 35));
    assert_eq!(leased.iter().position(|body| body == "quiet"), Some(34));
}
