//! Dead letters: a message leased as often as allowed goes elsewhere, once.

use kew_core::command::View;
use kew_core::{
    Carries, DeadLetterAction, DeadLetterRule, Expiry, MoveReason, NewMessage, Origin, Policy, QueueId,
    RuleError, State,
};

use super::Factory;
use super::stage::{Stage, bodies, dead_letters, group, id, seconds};

/// A dead-letter queue named `dead` and a queue that sends there.
fn pair(stage: &Stage<'_>, attempts_max: u32, carries: Carries) -> (QueueId, QueueId) {
    let dead = stage.named("dead", Policy::standard());
    let dead_letters = dead_letters("dead", attempts_max, carries);
    (stage.named("source", Policy { dead_letters, ..Policy::standard() }), dead)
}

fn fifo_pair(stage: &Stage<'_>, attempts_max: u32) -> (QueueId, QueueId) {
    let dead = stage.named("dead", Policy::fifo());
    let dead_letters = dead_letters("dead", attempts_max, Carries::History);
    (stage.named("source", Policy { dead_letters, ..Policy::fifo() }), dead)
}

pub fn last_allowed_lease_is_followed_by_the_move(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 3, Carries::History);
    stage.send_text(source, &["a"]);
    for attempts in 1..=3 {
        assert_eq!(stage.figures(dead), (0, 0, 0));
        assert_eq!(stage.lease_one(source).message.attempts, attempts);
        stage.pass(seconds(31));
    }
    assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 0, 0)));
    stage.pass(seconds(1_000));
    assert_eq!(stage.figures(dead), (1, 0, 0), "it is moved once");
}

pub fn ack_in_the_last_millisecond_precedes_the_move(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a", "b"]);
    let leased = stage.lease(source, 2);
    stage.at(leased[0].until);
    assert_eq!(stage.ack_by(kew_core::ReceiptRule::Unexpired, leased[0].token), Ok(()));
    assert_eq!(stage.figures(source), (1, 0, 0));
    stage.tick();
    assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 0, 0)));
    assert_eq!(stage.ack(leased[1].token), Err(RuleError::MessageNotFound));
}

pub fn exhausted_message_is_not_offered_at_the_instant_its_lease_ends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a", "b"]);
    let leased = stage.lease_one(source);
    stage.at(leased.until);
    assert_eq!(stage.leased_bodies(source), ["b"]);
    assert_eq!(stage.leased_bodies(dead), ["a"]);
}

pub fn release_of_the_last_lease_moves_at_once_whatever_the_delay(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a"]);
    let leased = stage.lease_one(source);
    assert_eq!(stage.release(leased.token, seconds(100)), Ok(stage.now()));
    assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 0, 0), (1, 0, 0)));
}

pub fn retry_delay_does_not_hold_the_move_back(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a"]);
    let mut asking = stage.asking(source, 1, seconds(5));
    asking.terms.lapse_delay = seconds(1_000);
    let leased = stage.lease_as(asking).remove(0);
    stage.at(leased.until.next());
    assert_eq!(stage.leased_bodies(dead), ["a"]);
}

pub fn history_is_carried_on(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy { delay: seconds(900), ..Policy::standard() });
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    let sent = stage.send_text(source, &["a"]).remove(0);
    stage.pass(seconds(2));
    let first = stage.lease_one(source);
    stage.at(first.until.next());
    let moved = stage.lease_one(dead).message;
    assert_eq!((moved.id, moved.sent_at, moved.attempts), (sent.id, sent.sent_at, 2));
    assert_eq!(moved.first_leased_at, first.message.first_leased_at);
    let origin =
        Origin { queue: Stage::key("source"), reason: MoveReason::AttemptsExhausted, at: stage.now() };
    assert_eq!(moved.origin, Some(origin));
}

pub fn nothing_is_carried_on_where_the_rule_says_so(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy { delay: seconds(9), ..Policy::standard() });
    let rule = dead_letters("dead", 1, Carries::Nothing);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    let sent = stage.send_text(source, &["a"]).remove(0);
    let leased = stage.lease_one(source);
    stage.at(leased.until.next());
    let arrived = stage.now();
    assert_eq!(stage.figures(dead), (0, 0, 1), "the target's own delay applies");
    stage.pass(seconds(9));
    let moved = stage.lease_one(dead).message;
    assert_eq!((moved.id, moved.sent_at, moved.attempts), (sent.id, arrived, 1));
    assert_eq!(moved.first_leased_at, Some(stage.now()));
}

pub fn moved_message_arrives_without_a_lease_and_under_the_targets_timeout(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy { lease_length: seconds(3), ..Policy::standard() });
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    stage.send_text(source, &["a"]);
    let leased = stage.lease_for(source, 1, seconds(1)).remove(0);
    stage.at(leased.until.next());
    let seen = stage.peek(dead, View::Ready).remove(0);
    assert_eq!((seen.state, seen.attempts), (State::Ready, 1));
    let again = stage.lease_as(kew_core::command::Lease::of(dead, 1, stage.now())).remove(0);
    assert_eq!(again.until, stage.now().plus(seconds(3)));
}

pub fn retention_goes_on_under_the_target(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let dead = stage.named("dead", Policy { retention: seconds(100), ..Policy::standard() });
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    stage.send_text(source, &["plain"]);
    let own = NewMessage { expiry: Expiry::After { seconds: 500 }, ..stage.message("own") };
    stage.send(source, own);
    stage.lease(source, 2);
    stage.at_second(99);
    assert_eq!(stage.figures(dead), (2, 0, 0));
    stage.at_second(100);
    assert_eq!(stage.peeked_bodies(dead, View::Ready), ["own"]);
    stage.at_second(500);
    assert_eq!(stage.figures(dead), (0, 0, 0));
}

pub fn missing_target_leaves_the_message_where_it_is(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let rule = dead_letters("dead", 1, Carries::History);
    let source = stage.named("source", Policy { dead_letters: rule, ..Policy::standard() });
    stage.send_text(source, &["a"]);
    for attempts in 1..=3 {
        assert_eq!(stage.lease_one(source).message.attempts, attempts);
        stage.pass(seconds(31));
    }
    assert_eq!(stage.figures(source), (1, 0, 0));
    let dead = stage.named("dead", Policy::standard());
    assert!(stage.lease(source, 1).is_empty(), "decided again at the next lease");
    assert_eq!(stage.leased_bodies(dead), ["a"]);
}

pub fn target_of_the_other_kind_and_the_queue_itself_count_as_missing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    stage.named("dead", Policy::fifo());
    for (name, target) in [("kind", "dead"), ("self", "self")] {
        let rule = dead_letters(target, 1, Carries::History);
        let source = stage.named(name, Policy { dead_letters: rule, ..Policy::standard() });
        stage.send_text(source, &["a"]);
        for attempts in 1..=3 {
            assert_eq!(stage.lease_one(source).message.attempts, attempts);
            stage.pass(seconds(31));
        }
    }
}

pub fn dropped_message_is_gone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let rule = DeadLetterRule {
        attempts_max: 2,
        then: DeadLetterAction::Drop,
        carries: Carries::Nothing,
        written_by: "contract".into(),
    };
    let source = stage.named("source", Policy { dead_letters: Some(rule.into()), ..Policy::standard() });
    stage.send_text(source, &["a", "b"]);
    let twice = stage.lease_for(source, 1, seconds(0)).remove(0);
    let twice_again = stage.lease_for(source, 1, seconds(5)).remove(0);
    assert_eq!(twice.message.id, twice_again.message.id);
    stage.at(twice_again.until.next());
    assert_eq!(stage.figures(source), (1, 0, 0));
    assert_eq!(stage.counts(source).body_bytes, 1);
}

pub fn zero_second_leases_lead_to_the_move_too(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 2, Carries::History);
    stage.send_text(source, &["a"]);
    assert_eq!(stage.lease_for(source, 1, seconds(0)).len(), 1);
    assert_eq!(stage.lease_for(source, 1, seconds(0)).len(), 1);
    assert!(stage.lease_for(source, 1, seconds(0)).is_empty());
    assert_eq!(stage.figures(dead), (1, 0, 0));
}

pub fn cycle_of_two_queues_passes_a_message_on_only_after_leases(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let to = |name| Policy { dead_letters: dead_letters(name, 1, Carries::History), ..Policy::standard() };
    let (a, b) = (stage.named("a", to("b")), stage.named("b", to("a")));
    stage.send_text(a, &["m"]);
    stage.lease(a, 1);
    stage.pass(seconds(31));
    assert_eq!((stage.figures(a), stage.figures(b)), ((0, 0, 0), (1, 0, 0)));
    // In `b` it counts as tried often enough already: the next lease sends it back.
    assert!(stage.lease(b, 1).is_empty());
    assert_eq!((stage.figures(a), stage.figures(b)), ((1, 0, 0), (0, 0, 0)));
    stage.pass(seconds(1_000));
    assert_eq!((stage.figures(a), stage.figures(b)), ((1, 0, 0), (0, 0, 0)));
}

pub fn departed_head_frees_the_next_of_its_group(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = fifo_pair(&stage, 1);
    stage.send_groups(source, &["g-1", "g-2"]);
    let leased = stage.lease(source, 1);
    stage.at(leased[0].until.next());
    assert_eq!(stage.leased_bodies(source), ["g-2"]);
    let moved = stage.lease_one(dead).message;
    assert_eq!(moved.group, group("g"));
    assert_eq!(moved.deduplication, id(&moved.id.to_string()), "it is its own identity there");
}

pub fn exhausted_head_departs_and_the_same_receive_takes_the_next(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = fifo_pair(&stage, 1);
    stage.send_groups(source, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(source, 1);
    stage.at(leased[0].until);
    assert_eq!(bodies(&stage.lease(source, 2)), ["g-2", "g-3"]);
    assert_eq!(stage.peeked_bodies(dead, View::Ready), ["g-1"]);
}

pub fn no_window_of_the_target_swallows_a_dead_letter(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = fifo_pair(&stage, 1);
    for queue in [source, dead] {
        let message = NewMessage { deduplication: id("same"), ..stage.grouped("g", "m") };
        assert!(!stage.send(queue, message).duplicate);
    }
    let leased = stage.lease(source, 1);
    stage.at(leased[0].until.next());
    assert_eq!(stage.figures(dead), (2, 0, 0));
}

pub fn raised_limit_lets_a_message_be_tried_again(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a"]);
    stage.lease_one(source);
    stage.set_policy(
        source,
        Policy { dead_letters: dead_letters("dead", 5, Carries::History), ..Policy::standard() },
    );
    stage.pass(seconds(31));
    assert_eq!(stage.figures(dead), (0, 0, 0));
    assert_eq!(stage.lease_one(source).message.attempts, 2);
}

pub fn lowered_limit_counts_from_the_next_decision(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 5, Carries::History);
    stage.send_text(source, &["a"]);
    stage.lease_for(source, 1, seconds(0));
    stage.set_policy(
        source,
        Policy { dead_letters: dead_letters("dead", 1, Carries::History), ..Policy::standard() },
    );
    assert!(stage.lease(source, 1).is_empty());
    assert_eq!(stage.figures(dead), (1, 0, 0));
}

pub fn thousand_exhausted_messages_at_most_depart_in_one_lease(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 5, Carries::History);
    let messages: Vec<NewMessage> = (0..1_500).map(|number| stage.message(&number.to_string())).collect();
    stage.send_all(source, messages);
    assert_eq!(stage.lease_for(source, 1_500, seconds(0)).len(), 1_500);
    stage.send_text(source, &["fresh"]);
    let rule = dead_letters("dead", 1, Carries::History);
    stage.set_policy(source, Policy { dead_letters: rule, ..Policy::standard() });
    let mut departed = 0;
    while stage.lease(source, 1).is_empty() {
        let (arrived, _, _) = stage.figures(dead);
        assert!((departed + 1..=departed + 1_000).contains(&arrived), "{departed}, then {arrived}");
        departed = arrived;
    }
    assert_eq!((stage.figures(source), stage.figures(dead)), ((0, 1, 0), (1_500, 0, 0)));
}

pub fn new_lease_stops_a_move_that_was_coming(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let (source, dead) = pair(&stage, 1, Carries::History);
    stage.send_text(source, &["a"]);
    let leased = stage.lease_one(source);
    stage.at(leased.until);
    let hiding = kew_core::command::Extend {
        when_free: kew_core::WhenFree::Hide,
        ..Stage::extending(leased.token, std::time::Duration::from_millis(1))
    };
    assert!(stage.extend_as(hiding).is_ok());
    stage.tick();
    assert_eq!(stage.figures(dead), (0, 0, 0), "the lease that hid it may be acked in its last millisecond");
    stage.tick();
    assert_eq!(stage.figures(dead), (1, 0, 0));
}
