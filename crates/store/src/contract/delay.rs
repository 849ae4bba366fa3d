//! Delays of new messages.

use kew_core::command::{FirstReceipts, Send, View};
use kew_core::{Command, Expiry, NewMessage, Policy, RuleError, State};
use std::time::Duration;

use super::{Ending, Factory};
use super::stage::{Stage, first_receipt, seconds};

pub fn delayed_message_shows_at_the_very_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(60), ..Policy::standard() });
    let sent = stage.send_text(queue, &["a"]).remove(0);
    assert_eq!(stage.figures(queue), (0, 0, 1));
    assert_eq!(stage.peek(queue, View::Delayed)[0].state, State::Delayed { until: sent.visible_at });
    stage.at(sent.visible_at.minus(Duration::from_millis(1)));
    assert!(stage.lease(queue, 1).is_empty());
    stage.tick();
    assert_eq!(stage.figures(queue), (1, 0, 0));
    assert_eq!(stage.leased_bodies(queue), ["a"]);
}

pub fn own_delay_wins_over_the_queues_also_when_it_is_zero(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(60), ..Policy::standard() });
    for (body, delay) in [("none", None), ("zero", Some(seconds(0))), ("short", Some(seconds(5)))] {
        let message = NewMessage { delay, ..stage.message(body) };
        stage.send(queue, message);
    }
    for (second, expected) in [(0, "zero"), (5, "short"), (60, "none")] {
        stage.at_second(second);
        assert_eq!(super::stage::bodies(&stage.lease_for(queue, 10, seconds(1_000))), [expected]);
    }
}

pub fn changed_delay_holds_for_later_sends_of_a_standard_queue(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(10), ..Policy::standard() });
    stage.send_text(queue, &["before"]);
    stage.set_policy(queue, Policy { delay: seconds(0), ..Policy::standard() });
    stage.send_text(queue, &["after"]);
    assert_eq!(stage.leased_bodies(queue), ["after"]);
    stage.pass(seconds(10));
    assert_eq!(stage.leased_bodies(queue), ["before"]);
}

/// Messages that a store may keep at hand although they are hidden, and what it may show in one step.
const AT_HAND: usize = 1_024;
const SLICE: usize = 1_000;

pub fn delays_that_end_together_are_counted_at_once_and_offered_to_the_last(factory: &dyn Factory) {
    for beside in [SLICE - 1, SLICE, SLICE + 1, 3 * SLICE + 1] {
        let mut stage = Stage::new(factory);
        let queue = stage.named("q", Policy { delay: seconds(600), ..Policy::standard() });
        let all = AT_HAND + beside;
        let bodies: Vec<String> = (0..all).map(|number| number.to_string()).collect();
        let sent = stage.send_backlog(queue, &bodies);
        let shows_at = sent[0].visible_at;
        stage.at(shows_at.minus(Duration::from_millis(1)));
        assert_eq!(stage.figures(queue), (0, 0, all as u64));
        stage.tick();
        assert_eq!(stage.figures(queue), (all as u64, 0, 0));
        assert!(stage.peek(queue, View::Delayed).is_empty());
        // Receipts find every message, also those no step has looked at yet.
        assert_eq!(stage.ack(first_receipt(&sent[all - 1])), Ok(()));
        assert_eq!(stage.figures(queue), (all as u64 - 1, 0, 0));
        if stage.reopen(Ending::Close) {
            assert_eq!(stage.figures(queue), (all as u64 - 1, 0, 0));
        }
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < all - 1 {
            let leased = super::stage::bodies(&stage.lease_for(queue, 10, seconds(1_000)));
            assert!(!leased.is_empty(), "{} of {all} are offered", seen.len());
            leased.into_iter().for_each(|body| assert!(seen.insert(body), "a message is leased once"));
            assert_eq!(stage.figures(queue), ((all - 1 - seen.len()) as u64, seen.len() as u64, 0));
        }
        assert!(!seen.contains(&(all - 1).to_string()) && stage.lease(queue, 10).is_empty());
    }
}

pub fn changed_delay_moves_what_is_in_a_fifo_queue_both_ways(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let delayed = |length| Policy { delay: seconds(length), ..Policy::fifo() };
    let queue = stage.named("q", delayed(10));
    stage.send_groups(queue, &["g-1", "h-1"]);
    stage.at_second(5);
    stage.set_policy(queue, delayed(3));
    assert_eq!(stage.figures(queue), (2, 0, 0));
    stage.set_policy(queue, delayed(60));
    assert_eq!(stage.figures(queue), (0, 0, 2));
    stage.at_second(59);
    assert!(stage.lease(queue, 10).is_empty());
    stage.at_second(60);
    assert_eq!(stage.leased_bodies(queue), ["g-1", "h-1"]);
}

pub fn lowered_delay_brings_groups_in_by_the_order_of_their_sends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(60), ..Policy::fifo() });
    let names: Vec<String> = (0..20).map(|number| format!("g{number}-1")).collect();
    for (place, name) in names.iter().enumerate() {
        // Some with a life of their own, some with the queue's: a store may keep the two apart.
        let expiry = if place % 3 == 0 { Expiry::Never } else { Expiry::ByQueue };
        let message = NewMessage { expiry, ..stage.grouped(name, name) };
        stage.send(queue, message);
    }
    stage.set_policy(queue, Policy::fifo());
    assert_eq!(stage.peeked_bodies(queue, View::Ready), names);
}

pub fn changed_delay_leaves_messages_alone_that_were_leased(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "h-1"]);
    let leased = stage.lease(queue, 1);
    assert!(stage.release(leased[0].token, seconds(0)).is_ok());
    stage.set_policy(queue, Policy { delay: seconds(100), ..Policy::fifo() });
    assert_eq!(stage.leased_bodies(queue), ["g-1"]);
    assert_eq!(stage.figures(queue), (0, 1, 1));
}

pub fn fifo_takes_no_delay_for_one_message_but_zero(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(10), ..Policy::fifo() });
    let own = NewMessage { delay: Some(seconds(2)), ..stage.grouped("g", "own") };
    let send = Send { queue, messages: vec![own], receipts: FirstReceipts::Told };
    assert_eq!(stage.refused(Command::Send(send)), RuleError::DelayNotAllowed);
    let zero = NewMessage { delay: Some(seconds(0)), ..stage.grouped("g", "zero") };
    assert_eq!(
        stage.send(queue, zero).visible_at,
        stage.now().plus(seconds(10)),
        "zero means the queue's delay"
    );
}

pub fn delayed_group_keeps_its_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(10), ..Policy::fifo() });
    stage.send_groups(queue, &["g-1", "g-2"]);
    stage.pass(seconds(5));
    stage.send_groups(queue, &["g-3"]);
    stage.pass(seconds(5));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2"]);
}

pub fn far_and_near_delays_end_each_in_its_turn(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let delays: Vec<u64> = (0..1_500).map(|number| (number * 7_919) % 100_003).collect();
    for batch in delays.chunks(100) {
        let delayed = |stage: &mut Stage<'_>, delay: &u64| NewMessage {
            delay: Some(Duration::from_millis(*delay)),
            ..stage.message(&delay.to_string())
        };
        let messages = batch.iter().map(|delay| delayed(&mut stage, delay)).collect();
        stage.send_all(queue, messages);
    }
    let begun = stage.now();
    let mut seen = 0;
    for second in 0..=101 {
        stage.at(begun.plus(seconds(second)));
        let due = delays.iter().filter(|delay| **delay <= second * 1_000).count();
        seen += stage.lease_for(queue, 2_000, seconds(100_000)).len();
        assert_eq!(seen, due, "after {second} seconds");
    }
}
