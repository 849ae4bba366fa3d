//! Emptying a queue at once.

use kew_core::command::{Purge, View};
use kew_core::{Command, NewMessage, Outcome, QueueId, RuleError};

use super::Factory;
use super::stage::{Stage, seconds};

fn purge(stage: &Stage<'_>, queue: QueueId) -> u64 {
    match stage.step(Command::Purge(Purge { queue })) {
        Outcome::Purged(messages) => messages,
        other => panic!("a purge is expected: {other:?}"),
    }
}

pub fn everything_goes_whatever_it_is_doing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let delayed = NewMessage { delay: Some(seconds(50)), ..stage.message("delayed") };
    stage.send(queue, delayed);
    stage.send_text(queue, &["leased", "ready"]);
    let leased = stage.lease_one(queue);
    assert_eq!(purge(&stage, queue), 3);
    assert_eq!((stage.figures(queue), stage.counts(queue).body_bytes), ((0, 0, 0), 0));
    assert_eq!(stage.ack(leased.token), Err(RuleError::MessageNotFound));
    stage.pass(seconds(1_000));
    assert!(stage.lease(queue, 10).is_empty());
    for view in [View::Ready, View::Delayed, View::Leased] {
        assert!(stage.peek(queue, view).is_empty());
    }
}

pub fn sequences_go_on_after_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a", "b"]);
    purge(&stage, queue);
    assert_eq!(stage.send_text(queue, &["c"])[0].sequence.0, 3);
    assert_eq!(stage.leased_bodies(queue), ["c"]);
}

pub fn other_queues_keep_theirs(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (one, two) = (stage.standard(), stage.named("two", kew_core::Policy::standard()));
    stage.send_text(one, &["a"]);
    stage.send_text(two, &["b"]);
    assert_eq!(purge(&stage, one), 1);
    assert_eq!(stage.leased_bodies(two), ["b"]);
}

pub fn locked_groups_are_unlocked_by_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2"]);
    stage.lease(queue, 1);
    assert_eq!(purge(&stage, queue), 2);
    stage.send_groups(queue, &["g-3"]);
    assert_eq!(stage.leased_bodies(queue), ["g-3"]);
}

pub fn empty_queue_is_purged_of_nothing(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    assert_eq!(purge(&stage, queue), 0);
}
