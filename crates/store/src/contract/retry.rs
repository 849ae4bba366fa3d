//! Retry delays: hidden for a while after a lease that did not end in an ack.

use kew_core::QueueId;
use kew_core::command::Lease;
use std::time::Duration;

use super::Factory;
use super::stage::{Stage, bodies, seconds};

fn asking(stage: &Stage<'_>, queue: QueueId, lapse_delay: Duration) -> Lease {
    let mut asking = stage.asking(queue, 1, seconds(10));
    asking.terms.lapse_delay = lapse_delay;
    asking
}

pub fn message_stays_hidden_for_the_lapse_delay(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_as(asking(&stage, queue, seconds(5))).remove(0);
    stage.at(leased.until);
    assert_eq!(stage.figures(queue), (0, 0, 1));
    stage.at(leased.until.plus(seconds(5)).minus(Duration::from_millis(1)));
    assert!(stage.lease(queue, 1).is_empty());
    stage.tick();
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn lapse_delay_counts_from_the_end_of_the_lease_and_not_from_its_notice(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    stage.lease_as(asking(&stage, queue, seconds(5)));
    stage.pass(seconds(15));
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn lapse_delay_is_kept_by_its_lease_alone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    stage.lease_as(asking(&stage, queue, seconds(5)));
    stage.pass(seconds(15));
    let second = stage.lease_one(queue);
    stage.at(second.until);
    assert_eq!(stage.leased_bodies(queue), ["a"], "the second lease asked for no delay");
}

pub fn extended_lease_keeps_its_lapse_delay(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_as(asking(&stage, queue, seconds(5))).remove(0);
    assert!(stage.extend(leased.token, seconds(20)).is_ok());
    stage.pass(seconds(24));
    assert!(stage.lease(queue, 1).is_empty());
    stage.pass(seconds(1));
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn release_knows_its_own_delay_only(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_as(asking(&stage, queue, seconds(500))).remove(0);
    assert_eq!(stage.release(leased.token, seconds(0)), Ok(stage.now()));
    assert_eq!(bodies(&stage.lease(queue, 1)), ["a"]);
}
