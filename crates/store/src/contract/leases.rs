//! Leases: hidden while they run, offered again from the very instant they end.

use kew_core::command::{Lease, OverLimit};
use kew_core::{Command, LeaseTerms, Policy, RuleError, State};

use super::Factory;
use super::stage::{Stage, bodies, seconds};

pub fn hides_until_its_end(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = stage.lease_one(queue);
    assert_eq!(leased.until, stage.now().plus(seconds(30)));
    assert_eq!(leased.message.state, State::Leased { until: leased.until });
    assert!(stage.lease(queue, 1).is_empty());
    stage.at(leased.until.minus(std::time::Duration::from_millis(1)));
    assert!(stage.lease(queue, 1).is_empty());
    assert_eq!(stage.figures(queue), (0, 1, 0));
}

pub fn offers_again_from_the_very_instant_it_ends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let first = stage.lease_one(queue);
    stage.at(first.until);
    assert_eq!(stage.figures(queue), (1, 0, 0));
    let second = stage.lease_one(queue);
    assert_ne!(second.token, first.token);
    assert_eq!(second.message.id, first.message.id);
}

pub fn never_two_live_leases_of_one_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c"]);
    let mut all = bodies(&stage.lease(queue, 2));
    all.extend(bodies(&stage.lease(queue, 2)));
    assert_eq!(all, ["a", "b", "c"]);
    assert!(stage.lease(queue, 2).is_empty());
}

pub fn attempts_rise_by_one_and_the_first_lease_is_remembered(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    stage.pass(seconds(3));
    let first_leased_at = stage.now();
    for attempts in 1..=4 {
        let leased = stage.lease_one(queue);
        assert_eq!(leased.message.attempts, attempts);
        assert_eq!(leased.message.first_leased_at, Some(first_leased_at));
        stage.at(leased.until);
    }
}

pub fn zero_seconds_count_and_offer_the_message_again_at_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    for attempts in 1..=3 {
        let leased = stage.lease_for(queue, 1, seconds(0));
        assert_eq!(leased[0].message.attempts, attempts);
        assert_eq!(leased[0].until, stage.now());
        assert_eq!(stage.figures(queue), (1, 0, 0));
    }
}

pub fn one_step_returns_a_message_at_most_once_whatever_its_length(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (standard, fifo) = (stage.standard(), stage.fifo());
    stage.send_text(standard, &["a", "b"]);
    stage.send_groups(fifo, &["g-1", "g-2", "h-1"]);
    assert_eq!(bodies(&stage.lease_for(standard, 10, seconds(0))), ["a", "b"]);
    assert_eq!(bodies(&stage.lease_for(fifo, 10, seconds(0))), ["g-1", "g-2", "h-1"]);
}

pub fn takes_at_most_as_many_as_asked_for(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    assert!(stage.lease(queue, 10).is_empty());
    stage.send_text(queue, &["a", "b", "c"]);
    assert_eq!(bodies(&stage.lease(queue, 2)), ["a", "b"]);
    assert_eq!(bodies(&stage.lease(queue, 10)), ["c"]);
}

pub fn without_a_length_the_queues_own_one_holds(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { lease_length: seconds(7), ..Policy::standard() });
    stage.send_text(queue, &["a", "b"]);
    let plain = || Lease::of(queue, 1, stage.now());
    let first = stage.lease_as(plain());
    assert_eq!(first[0].until, stage.now().plus(seconds(7)));
    stage.set_policy(queue, Policy { lease_length: seconds(70), ..Policy::standard() });
    assert_eq!(stage.lease_as(plain())[0].until, stage.now().plus(seconds(70)));
    stage.at(first[0].until);
    assert_eq!(bodies(&stage.lease(queue, 10)), ["a"]);
}

pub fn every_lease_has_a_receipt_of_its_own(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let mut receipts = std::collections::BTreeSet::new();
    for _ in 0..50 {
        assert!(receipts.insert(stage.lease_for(queue, 1, seconds(0))[0].token));
    }
}

pub fn limit_of_leases_refuses_or_finds_nothing_as_the_caller_says(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c", "d"]);
    let limited = |over_limit| Lease { in_flight_max: 3, over_limit, ..stage.asking(queue, 2, seconds(30)) };
    assert_eq!(bodies(&stage.lease_as(limited(OverLimit::Refuse))), ["a", "b"]);
    // Room for one more only.
    assert_eq!(bodies(&stage.lease_as(limited(OverLimit::Refuse))), ["c"]);
    assert_eq!(stage.refused(Command::Lease(limited(OverLimit::Refuse))), RuleError::TooManyInFlight);
    assert!(stage.lease_as(limited(OverLimit::FindNothing)).is_empty());
    stage.pass(seconds(30));
    let limited = Lease { in_flight_max: 3, ..stage.asking(queue, 10, seconds(30)) };
    assert_eq!(stage.lease_as(limited).len(), 3);
}

pub fn different_lengths_end_each_at_its_own_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c"]);
    for length in [30, 10, 20] {
        stage.lease_for(queue, 1, seconds(length));
    }
    for (second, expected) in [(9, vec![]), (10, vec!["b"]), (20, vec!["c"]), (30, vec!["a"])] {
        stage.at_second(second);
        let terms = LeaseTerms { length: Some(seconds(100)), ..LeaseTerms::default() };
        assert_eq!(bodies(&stage.lease_as(Lease { terms, ..Lease::of(queue, 10, stage.now()) })), expected);
    }
}

pub fn time_that_was_slept_through_ends_all_that_ended_in_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b", "c"]);
    stage.lease(queue, 3);
    stage.pass(seconds(86_400));
    assert_eq!(stage.leased_bodies(queue), ["a", "b", "c"]);
}
