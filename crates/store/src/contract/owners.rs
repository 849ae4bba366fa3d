//! Leases without an end, kept by an owner while it lives.

use kew_core::command::{Lease, ReleaseOwners};
use kew_core::{Carries, Command, Outcome, OwnerId, Policy, QueueId, Timestamp};

use super::Factory;
use super::stage::{Stage, dead_letters, seconds};

fn lease_owned(stage: &Stage<'_>, queue: QueueId, owner: u64) -> kew_core::outcome::Leased {
    let mut asking = stage.asking(queue, 1, seconds(5));
    asking.terms.lapse_delay = seconds(7);
    stage.lease_as(Lease { owner: Some(OwnerId(owner)), ..asking }).remove(0)
}

fn release_all_but(stage: &Stage<'_>, owner: u64) {
    let release = ReleaseOwners { except: OwnerId(owner) };
    assert_eq!(stage.step(Command::ReleaseOwners(release)), Outcome::Done);
}

pub fn owned_lease_never_ends_by_itself(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = lease_owned(&stage, queue, 1);
    assert_eq!(leased.until, Timestamp::NEVER);
    stage.pass(seconds(300_000));
    assert_eq!(stage.figures(queue), (0, 1, 0));
    assert_eq!(stage.ack(leased.token), Ok(()));
}

pub fn leases_of_other_owners_fail_when_one_begins_anew(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.standard(), stage.named("two", Policy::standard()));
    stage.send_text(one, &["dead owner", "living owner", "no owner"]);
    stage.send_text(two, &["dead owner"]);
    lease_owned(&stage, one, 1);
    lease_owned(&stage, one, 2);
    stage.lease(one, 1);
    lease_owned(&stage, two, 1);
    release_all_but(&stage, 2);
    assert_eq!((stage.figures(one), stage.figures(two)), ((0, 2, 1), (0, 0, 1)), "the lapse delay applies");
    stage.pass(seconds(7));
    let again = stage.lease_one(one);
    assert_eq!((super::stage::body(&again.message), again.message.attempts), ("dead owner".to_owned(), 2));
}

pub fn failure_of_an_owner_counts_for_dead_letters(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy::standard());
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    stage.send_text(source, &["a"]);
    lease_owned(&stage, source, 1);
    release_all_but(&stage, 9);
    assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 0, 0)));
}

pub fn extended_lease_ends_by_itself_from_then_on(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    let leased = lease_owned(&stage, queue, 1);
    assert!(stage.extend(leased.token, seconds(10)).is_ok());
    release_all_but(&stage, 9);
    assert_eq!(stage.figures(queue), (0, 1, 0), "it has no owner any more");
    stage.pass(seconds(10));
    assert_eq!(stage.figures(queue), (0, 0, 1));
}
