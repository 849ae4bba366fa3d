//! Receive-attempt ids: a receive that is asked again gives the same messages again.

use kew_core::command::{Lease, OverLimit};
use kew_core::outcome::Leased;
use kew_core::{QueueId, RuleError, Text};
use std::time::Duration;

use super::Factory;
use super::stage::{Stage, bodies, seconds};

fn asking(stage: &Stage<'_>, queue: QueueId, attempt: &str, length: Duration) -> Lease {
    Lease { attempt: Some(Text::from(attempt)), ..stage.asking(queue, 10, length) }
}

fn receive(stage: &Stage<'_>, queue: QueueId, attempt: &str) -> Vec<Leased> {
    stage.lease_as(asking(stage, queue, attempt, seconds(30)))
}

fn tokens(leased: &[Leased]) -> Vec<kew_core::LeaseToken> {
    leased.iter().map(|leased| leased.token).collect()
}

pub fn same_id_gives_the_same_messages_and_a_fresh_end(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    let first = receive(&stage, queue, "a");
    stage.send_groups(queue, &["i-1"]);
    stage.pass(seconds(20));
    let again = receive(&stage, queue, "a");
    assert_eq!(tokens(&again), tokens(&first));
    assert_eq!(bodies(&again), ["g-1", "g-2", "h-1"]);
    for each in &again {
        assert_eq!(each.until, stage.now().plus(seconds(30)));
        assert_eq!(each.message.attempts, 1);
    }
    stage.pass(seconds(29));
    assert_eq!(stage.leased_bodies(queue), ["i-1"], "the fresh end hides them");
    assert_eq!(stage.ack(again[0].token), Ok(()));
}

pub fn another_id_is_another_receive(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    assert_eq!(receive(&stage, queue, "a").len(), 1);
    assert!(receive(&stage, queue, "b").is_empty());
    assert!(stage.lease(queue, 10).is_empty());
}

pub fn start_of_the_twelve_hours_does_not_move(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    let begun = stage.now();
    receive(&stage, queue, "a");
    stage.pass(seconds(10));
    let again = stage.lease_as(asking(&stage, queue, "a", seconds(43_200)));
    assert_eq!(again[0].until, begun.plus(seconds(43_200)), "no repeat stretches a lease past its cap");
    let too_long = Err(RuleError::LeaseTooLong { cap: seconds(43_200) });
    assert_eq!(stage.extend(again[0].token, seconds(43_191)), too_long);
}

pub fn receive_can_be_repeated_for_five_minutes(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1"]);
    let long = |stage: &Stage<'_>| stage.lease_as(asking(stage, queue, "a", seconds(1_000)));
    let first = long(&stage);
    stage.at(first[0].until.minus(seconds(700)).minus(Duration::from_millis(1)));
    assert_eq!(tokens(&long(&stage)), tokens(&first));
    stage.tick();
    assert!(long(&stage).is_empty(), "the window counts from the first receive");
}

pub fn id_acts_afresh_once_one_of_its_leases_changed(factory: &dyn Factory) {
    for change in ["ack", "extend", "release", "lapse"] {
        let mut stage = Stage::new(factory);
        let queue = stage.fifo();
        stage.send_groups(queue, &["g-1", "h-1", "i-1"]);
        let first = stage.lease_as(Lease { max: 2, ..asking(&stage, queue, "a", seconds(30)) });
        match change {
            "ack" => assert_eq!(stage.ack(first[0].token), Ok(())),
            "extend" => assert!(stage.extend(first[0].token, seconds(60)).is_ok()),
            "release" => assert!(stage.release(first[0].token, seconds(60)).is_ok()),
            _ => stage.at(first[0].until),
        }
        let again = receive(&stage, queue, "a");
        let expected = if change == "lapse" { vec!["i-1", "g-1", "h-1"] } else { vec!["i-1"] };
        assert_eq!(bodies(&again), expected, "after {change}");
        assert!(tokens(&again).iter().all(|token| !tokens(&first).contains(token)));
    }
}

pub fn id_that_acted_afresh_can_be_repeated_itself(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let first = stage.lease_as(Lease { max: 1, ..asking(&stage, queue, "a", seconds(30)) });
    assert_eq!(stage.ack(first[0].token), Ok(()));
    let second = receive(&stage, queue, "a");
    assert_eq!(bodies(&second), ["h-1"]);
    assert_eq!(tokens(&receive(&stage, queue, "a")), tokens(&second));
}

pub fn standard_queue_pays_no_heed_to_ids(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    let one = |stage: &Stage<'_>| stage.lease_as(Lease { max: 1, ..asking(stage, queue, "x", seconds(30)) });
    assert_eq!(bodies(&one(&stage)), ["a"]);
    assert_eq!(bodies(&one(&stage)), ["b"]);
}

pub fn repeat_asks_for_no_room_among_the_leases(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let first = receive(&stage, queue, "a");
    let full =
        Lease { in_flight_max: 2, over_limit: OverLimit::Refuse, ..asking(&stage, queue, "a", seconds(30)) };
    assert_eq!(tokens(&stage.lease_as(full)), tokens(&first));
}

pub fn receive_that_found_nothing_is_not_remembered(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    assert!(receive(&stage, queue, "a").is_empty());
    stage.send_groups(queue, &["g-1"]);
    assert_eq!(bodies(&receive(&stage, queue, "a")), ["g-1"]);
}
