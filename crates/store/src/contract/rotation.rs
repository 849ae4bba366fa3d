//! Whose turn it is: groups of a FIFO queue are served one after the other.

use kew_core::command::{Lease, View};

use super::Factory;
use super::stage::{Stage, bodies, seconds};

pub fn served_groups_go_to_the_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g1-1", "g1-2", "g2-1", "g2-2", "g3-1"]);
    assert_eq!(bodies(&stage.lease_for(queue, 3, seconds(0))), ["g1-1", "g1-2", "g2-1"]);
    let all = bodies(&stage.lease_for(queue, 10, seconds(0)));
    assert_eq!(all, ["g3-1", "g1-1", "g1-2", "g2-1", "g2-2"]);
}

pub fn groups_that_were_not_touched_keep_their_turn(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["a-1", "b-1", "c-1"]);
    for expected in ["a-1", "b-1", "c-1", "a-1", "b-1"] {
        assert_eq!(bodies(&stage.lease_for(queue, 1, seconds(0))), [expected]);
    }
}

pub fn group_that_becomes_available_stands_at_the_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["a-1", "a-2", "b-1"]);
    let leased = stage.lease(queue, 1);
    stage.send_groups(queue, &["c-1"]);
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    assert_eq!(stage.peeked_bodies(queue, View::Ready), ["b-1", "c-1", "a-2"]);
    assert_eq!(stage.leased_bodies(queue), ["b-1", "c-1", "a-2"]);
}

pub fn groups_return_in_the_order_their_leases_end(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["a-1", "b-1", "c-1"]);
    for length in [30, 10, 20] {
        assert_eq!(stage.lease_for(queue, 1, seconds(length)).len(), 1);
    }
    stage.pass(seconds(60));
    assert_eq!(stage.leased_bodies(queue), ["b-1", "c-1", "a-1"]);
}

pub fn group_whose_first_message_does_not_fit_keeps_its_turn(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["a-1", "b-far-too-long", "c-1"]);
    let small = Lease { body_bytes_max: 8, ..stage.asking(queue, 10, seconds(30)) };
    assert_eq!(bodies(&stage.lease_as(small)), ["a-1"]);
    assert_eq!(stage.leased_bodies(queue), ["b-far-too-long", "c-1"]);
}

pub fn withdrawn_groups_stand_in_front_again_in_their_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["a-1", "b-1", "c-1"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.withdraw(queue, &leased), 2);
    assert_eq!(stage.leased_bodies(queue), ["a-1", "b-1", "c-1"]);
}

pub fn thousand_groups_are_all_served_in_turn(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let names: Vec<String> = (0..1_000).map(|number| format!("g{number}-1")).collect();
    for batch in names.chunks(100) {
        let messages = batch.iter().map(|name| stage.grouped(name, name)).collect();
        stage.send_all(queue, messages);
    }
    let mut served = Vec::new();
    for _ in 0..100 {
        served.extend(bodies(&stage.lease_for(queue, 10, seconds(0))));
    }
    assert_eq!(served, names);
    assert_eq!(bodies(&stage.lease_for(queue, 1, seconds(0))), ["g0-1"]);
}
