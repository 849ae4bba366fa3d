//! The order of a standard queue: by the place a message was given, then by its send.

use kew_core::command::Lease;
use kew_core::{LeaseTerms, NewMessage, Return};

use super::Factory;
use super::stage::{Stage, bodies, seconds};

pub fn earlier_sends_are_offered_first(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    for body in ["a", "b", "c", "d"] {
        stage.send_text(queue, &[body]);
        stage.pass(seconds(1));
    }
    assert_eq!(stage.leased_bodies(queue), ["a", "b", "c", "d"]);
}

pub fn message_that_returns_is_offered_before_younger_ones(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    stage.lease_for(queue, 1, seconds(10));
    stage.pass(seconds(10));
    stage.send_text(queue, &["c"]);
    assert_eq!(stage.leased_bodies(queue), ["a", "b", "c"]);
}

pub fn message_put_back_behind_waits_for_those_visible_before_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let terms = LeaseTerms { length: Some(seconds(10)), returns: Return::Behind, ..LeaseTerms::default() };
    stage.lease_as(Lease { terms, ..Lease::of(queue, 1, stage.now()) });
    stage.at_second(9);
    stage.send_text(queue, &["c"]);
    stage.at_second(11);
    stage.send_text(queue, &["d"]);
    assert_eq!(stage.leased_bodies(queue), ["b", "c", "a", "d"]);
}

pub fn delayed_message_takes_its_old_place_or_one_behind(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let delayed = |message| NewMessage { delay: Some(seconds(10)), ..message };
    let in_place = delayed(stage.message("in place"));
    let behind = NewMessage { returns: Return::Behind, ..delayed(stage.message("behind")) };
    stage.send_all(queue, vec![in_place, behind]);
    stage.at_second(5);
    stage.send_text(queue, &["younger"]);
    stage.at_second(10);
    assert_eq!(stage.leased_bodies(queue), ["in place", "younger", "behind"]);
}

pub fn lapse_delay_puts_a_message_behind_by_when_it_shows(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let terms = LeaseTerms {
        length: Some(seconds(5)),
        lapse_delay: seconds(5),
        returns: Return::Behind,
        ..LeaseTerms::default()
    };
    stage.lease_as(Lease { terms, ..Lease::of(queue, 1, stage.now()) });
    stage.at_second(9);
    stage.send_text(queue, &["b"]);
    stage.at_second(12);
    assert_eq!(stage.leased_bodies(queue), ["b", "a"]);
}

pub fn many_messages_come_out_in_the_order_they_went_in(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    for batch in sent.chunks(50) {
        let messages = batch.iter().map(|body| stage.message(body)).collect();
        stage.send_all(queue, messages);
        stage.tick();
    }
    let mut leased = Vec::new();
    while leased.len() < sent.len() {
        let some = stage.lease_for(queue, 70, seconds(1_000));
        assert!(!some.is_empty());
        leased.extend(bodies(&some));
    }
    assert_eq!(leased, sent);
}
