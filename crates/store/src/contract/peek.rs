//! Looking without touching.

use kew_core::command::{Identify, Peek, View};
use kew_core::{Command, LeaseToken, NewMessage, Outcome, Policy, RuleError, State};

use super::Factory;
use super::stage::{Stage, seconds, first_receipt};

pub fn look_changes_nothing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["a"]);
    for _ in 0..3 {
        let seen = stage.peek(queue, View::Ready);
        assert_eq!((seen[0].attempts, seen[0].state), (0, State::Ready));
    }
    assert_eq!(stage.lease_one(queue).message.attempts, 1);
}

pub fn any_receipt_tells_its_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (queue, other) = (stage.standard(), stage.named("other", Policy::standard()));
    let sent = stage.send_text(queue, &["a"]).remove(0);
    let leased = stage.lease_one(queue);
    let identify = |queue, token| Command::Identify(Identify { queue, token });
    for token in [first_receipt(&sent), leased.token] {
        assert_eq!(stage.step(identify(queue, token)), Outcome::Identified(sent.id));
        assert_eq!(stage.refused(identify(other, token)), RuleError::TokenOfOtherQueue);
    }
    let forged = LeaseToken { mac: !first_receipt(&sent).mac, ..first_receipt(&sent) };
    assert_eq!(stage.refused(identify(queue, forged)), RuleError::TokenForged);
    assert_eq!(stage.ack(leased.token), Ok(()));
    assert_eq!(stage.refused(identify(queue, first_receipt(&sent))), RuleError::MessageNotFound);
}

pub fn ready_messages_are_seen_in_the_order_of_leases(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (standard, fifo) = (stage.standard(), stage.fifo());
    stage.send_text(standard, &["a", "b", "c"]);
    stage.lease_for(standard, 1, seconds(1));
    stage.send_groups(fifo, &["g-1", "h-1", "g-2", "h-2"]);
    stage.lease_for(fifo, 1, seconds(0));
    stage.pass(seconds(1));
    assert_eq!(stage.peeked_bodies(standard, View::Ready), ["a", "b", "c"]);
    assert_eq!(stage.peeked_bodies(fifo, View::Ready), ["h-1", "h-2", "g-1", "g-2"]);
}

pub fn locked_messages_of_a_group_are_not_seen_as_ready(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    stage.lease(queue, 1);
    assert_eq!(stage.peeked_bodies(queue, View::Ready), ["h-1"]);
}

pub fn delayed_messages_are_seen_by_when_they_show(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    for (body, delay) in [("late", 30), ("soon", 10), ("later", 60), ("also soon", 10)] {
        let message = NewMessage { delay: Some(seconds(delay)), ..stage.message(body) };
        stage.send(queue, message);
    }
    assert_eq!(stage.peeked_bodies(queue, View::Delayed), ["soon", "also soon", "late", "later"]);
    assert!(stage.peek(queue, View::Ready).is_empty());
}

pub fn fifo_messages_in_the_queues_delay_are_seen_too(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(10), ..Policy::fifo() });
    let sent = stage.send_groups(queue, &["g-1", "h-1"]);
    let seen = stage.peek(queue, View::Delayed);
    assert_eq!(seen[0].state, State::Delayed { until: sent[0].visible_at });
    assert_eq!(stage.peeked_bodies(queue, View::Delayed), ["g-1", "h-1"]);
}

pub fn leased_messages_are_seen_by_when_their_leases_end(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["long", "short", "middle"]);
    for length in [30, 10, 20] {
        stage.lease_for(queue, 1, seconds(length));
    }
    assert_eq!(stage.peeked_bodies(queue, View::Leased), ["short", "middle", "long"]);
    let first = stage.peek(queue, View::Leased).remove(0);
    assert_eq!(first.state, State::Leased { until: stage.now().plus(seconds(10)) });
}

pub fn look_can_be_taken_page_by_page(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let sent: Vec<String> = (0..25).map(|number| number.to_string()).collect();
    stage.send_text(queue, &sent.iter().map(String::as_str).collect::<Vec<_>>());
    let mut seen = Vec::new();
    for page in 0..4 {
        let peek = Peek { skip: page * 7, max: 7, ..Stage::looking(queue, View::Ready) };
        seen.extend(stage.peek_as(peek).iter().map(|(message, _)| super::stage::body(message)));
    }
    assert_eq!(seen, sent);
}

pub fn look_holds_as_many_bytes_as_asked_for_and_at_least_one_message(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    stage.send_text(queue, &["aaaa", "bbbb", "c"]);
    for (body_bytes_max, expected) in [(0, 1), (7, 1), (8, 2), (9, 3)] {
        let peek = Peek { body_bytes_max, ..Stage::looking(queue, View::Ready) };
        assert_eq!(stage.peek_as(peek).len(), expected);
    }
}
