//! What happened to a message: why it was delivered again.

use kew_core::command::{Extend, Extension, History};
use kew_core::event::Tag;
use kew_core::{
    Carries, Command, Content, EventKind, Expiry, NewMessage, Outcome, Policy, QueueId, Sequence, WhenFree,
};

use super::Factory;
use super::stage::{Stage, dead_letters, first_receipt, seconds};

fn events(stage: &Stage<'_>, queue: QueueId, sequence: Sequence) -> Vec<(u64, EventKind)> {
    match stage.step(Command::History(History { queue, sequence })) {
        Outcome::History(events) => {
            let first = events.first().map_or(0, |event| event.at.0);
            assert!(events.iter().all(|event| (event.queue, event.sequence) == (queue, sequence)));
            events.iter().map(|event| ((event.at.0 - first) / 1_000, event.kind.clone())).collect()
        }
        other => panic!("a history is expected: {other:?}"),
    }
}

pub fn life_of_a_message_is_told_in_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a"]).remove(0);
    let asking = kew_core::command::Lease { by: Tag::new("me"), ..stage.asking(queue, 1, seconds(10)) };
    let leased = stage.lease_as(asking).remove(0);
    stage.at_second(20);
    let again = stage.lease_one(queue);
    stage.at_second(25);
    let content = Some(Content::default());
    let rewriting = Extend {
        entries: vec![Extension { token: again.token, length: seconds(5), content }],
        ..Stage::extending(again.token, seconds(0))
    };
    assert!(stage.extend_as(rewriting).is_ok());
    stage.at_second(26);
    let released = stage.release(again.token, seconds(4)).expect("the sent message is leased");
    stage.at_second(30);
    assert_eq!(stage.ack(again.token), Ok(()));
    let expected = [
        (0, EventKind::Sent { id: sent.id, visible_at: sent.visible_at }),
        (0, EventKind::Leased { by: Tag::new("me"), until: leased.until, attempts: 1 }),
        (10, EventKind::Lapsed { visible_at: leased.until }),
        (20, EventKind::Leased { by: Tag::default(), until: again.until, attempts: 2 }),
        (25, EventKind::Extended { until: released }),
        (25, EventKind::Rewritten),
        (26, EventKind::Released { visible_at: released }),
        (30, EventKind::Acked),
    ];
    assert_eq!(events(&stage, queue, sent.sequence), expected);
}

pub fn lease_that_is_given_back_is_told_as_released_once(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    for queue in [stage.standard(), stage.fifo()] {
        let message = match stage.queue(queue).policy.kind.is_fifo() {
            true => stage.grouped("g", "a"),
            false => stage.message("a"),
        };
        let sent = stage.send(queue, message);
        let begun = stage.now();
        let leased = stage.lease_one(queue);
        stage.pass(seconds(5));
        let content = Some(Content::default());
        let giving = Extend {
            renew: true,
            entries: vec![Extension { token: leased.token, length: seconds(0), content }],
            ..Stage::extending(leased.token, seconds(0))
        };
        assert!(stage.extend_as(giving).is_ok());
        let back = stage.now();
        let again = stage.lease_one(queue);
        let expected = [
            (0, EventKind::Sent { id: sent.id, visible_at: sent.visible_at }),
            (0, EventKind::Leased { by: Tag::default(), until: begun.plus(seconds(30)), attempts: 1 }),
            (5, EventKind::Rewritten),
            (5, EventKind::Released { visible_at: back }),
            (5, EventKind::Leased { by: Tag::default(), until: again.until, attempts: 2 }),
        ];
        assert_eq!(events(&stage, queue, sent.sequence), expected);
    }
}

pub fn message_that_is_hidden_for_no_time_was_not_leased(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent = stage.send_text(queue, &["a"]).remove(0);
    let content = Some(Content::default());
    let token = first_receipt(&sent);
    let rewriting = Extend {
        renew: true,
        when_free: WhenFree::Hide,
        entries: vec![Extension { token, length: seconds(0), content }],
        ..Stage::extending(token, seconds(0))
    };
    assert!(stage.extend_as(rewriting).is_ok());
    let expected =
        [(0, EventKind::Sent { id: sent.id, visible_at: sent.visible_at }), (0, EventKind::Rewritten)];
    assert_eq!(events(&stage, queue, sent.sequence), expected);
    assert_eq!(stage.lease_one(queue).message.attempts, 1);
}

pub fn death_by_age_is_told(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let mortal = NewMessage { expiry: Expiry::After { seconds: 5 }, ..stage.message("a") };
    let sent = stage.send(queue, mortal);
    stage.at_second(9);
    stage.step(Command::Due);
    assert_eq!(events(&stage, queue, sent.sequence).last(), Some(&(5, EventKind::Expired)));
}

pub fn move_to_the_dead_letters_is_told_on_both_sides(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy::standard());
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    let sent = stage.send_text(source, &["a"]).remove(0);
    stage.lease(source, 1);
    stage.at_second(60);
    stage.step(Command::Due);
    let left = EventKind::DeadLettered { to: dead, sequence: Sequence(1) };
    assert_eq!(events(&stage, source, sent.sequence).last(), Some(&(30, left)));
    let arrived = EventKind::Arrived { from: source, sequence: sent.sequence };
    assert_eq!(events(&stage, dead, Sequence(1)), [(0, arrived)]);
}

pub fn nothing_is_told_of_what_never_was(factory: &dyn Factory) {
    let stage = Stage::new(factory);
    let queue = stage.standard();
    assert!(events(&stage, queue, Sequence(1)).is_empty());
    assert!(events(&stage, QueueId(404), Sequence(1)).is_empty());
}
