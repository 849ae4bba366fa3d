//! Giving a lease up.

use kew_core::command::Lease;
use kew_core::{LeaseTerms, Return, RuleError};

use super::Factory;
use super::stage::{Stage, bodies, seconds, first_receipt};

pub fn shows_the_message_at_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    assert_eq!(stage.release(leased.token, seconds(0)), Ok(stage.now()));
    assert_eq!(stage.figures(queue), (1, 0, 0));
    assert_eq!(stage.lease_one(queue).message.attempts, 2);
}

pub fn hides_the_message_for_the_delay_asked_for(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    let shows = stage.now().plus(seconds(90));
    assert_eq!(stage.release(leased.token, seconds(90)), Ok(shows));
    assert_eq!(stage.figures(queue), (0, 0, 1));
    stage.at(shows.minus(std::time::Duration::from_millis(1)));
    assert!(stage.lease(queue, 1).is_empty());
    stage.tick();
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn needs_a_running_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease_one(queue);
    assert_eq!(stage.release(first_receipt(&sent[1]), seconds(0)), Err(RuleError::LeaseEnded));
    assert!(stage.release(leased.token, seconds(5)).is_ok());
    assert_eq!(stage.release(leased.token, seconds(0)), Err(RuleError::LeaseEnded));
    stage.pass(seconds(100));
    assert_eq!(stage.release(leased.token, seconds(0)), Err(RuleError::LeaseEnded));
}

pub fn receipt_still_deletes_until_the_next_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let leased = stage.lease(queue, 2);
    for each in &leased {
        assert!(stage.release(each.token, seconds(0)).is_ok());
    }
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    stage.lease(queue, 1);
    assert_eq!(stage.ack(leased[1].token), Err(RuleError::TokenStale));
}

pub fn message_returns_to_its_place_or_behind_by_the_terms_of_its_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    for (returns, expected) in [(Return::InPlace, ["a", "b"]), (Return::Behind, ["b", "a"])] {
        stage.send_text(queue, &["a"]);
        stage.pass(seconds(1));
        stage.send_text(queue, &["b"]);
        let terms = LeaseTerms { returns, ..LeaseTerms::default() };
        let leased = stage.lease_as(Lease { terms, ..Lease::of(queue, 1, stage.now()) });
        stage.pass(seconds(1));
        assert!(stage.release(leased[0].token, seconds(0)).is_ok());
        let both = stage.lease(queue, 10);
        assert_eq!(bodies(&both), expected);
        both.iter().for_each(|leased| assert_eq!(stage.ack(leased.token), Ok(())));
    }
}
