//! Retention: when a message dies unread.

use kew_core::{Carries, Expiry, NewMessage, Policy, RuleError};
use std::time::Duration;

use super::stage::{Stage, body, dead_letters, first_receipt, seconds};
use super::{Ending, Factory};

const TICK: Duration = Duration::from_millis(1);

pub fn message_is_gone_from_the_very_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(60), ..Policy::standard() });
    let sent = stage.send_text(queue, &["a"]).remove(0);
    let dies = sent.expires_at.expect("the message has an end");
    stage.at(dies.minus(TICK));
    assert_eq!(stage.figures(queue), (1, 0, 0));
    stage.tick();
    assert_eq!(stage.figures(queue), (0, 0, 0));
    assert_eq!(stage.counts(queue).body_bytes, 0);
    assert!(stage.lease(queue, 1).is_empty());
}

pub fn death_waits_for_no_lease_and_no_delay(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(60), ..Policy::standard() });
    let delayed = NewMessage { delay: Some(seconds(90)), ..stage.message("delayed") };
    stage.send(queue, delayed);
    stage.send_text(queue, &["leased"]);
    let leased = stage.lease_for(queue, 1, seconds(1_000)).remove(0);
    stage.at_second(59);
    assert_eq!(stage.figures(queue), (0, 1, 1));
    stage.at_second(60);
    assert_eq!(stage.figures(queue), (0, 0, 0));
    assert_eq!(stage.ack(leased.token), Err(RuleError::MessageNotFound));
    assert_eq!(stage.extend(leased.token, seconds(1)), Err(RuleError::MessageNotFound));
    stage.pass(seconds(10_000));
    assert!(stage.lease(queue, 1).is_empty());
}

pub fn own_time_to_live_beats_the_queue_both_ways(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(60), ..Policy::standard() });
    let lives = [
        ("short", Expiry::After { seconds: 5 }),
        ("long", Expiry::After { seconds: 500 }),
        ("ever", Expiry::Never),
    ];
    for (body, expiry) in lives {
        let message = NewMessage { expiry, ..stage.message(body) };
        stage.send(queue, message);
    }
    stage.send_text(queue, &["plain"]);
    let alive = |stage: &Stage<'_>| stage.peeked_bodies(queue, kew_core::command::View::Ready);
    stage.at_second(5);
    assert_eq!(alive(&stage), ["long", "ever", "plain"]);
    stage.at_second(60);
    assert_eq!(alive(&stage), ["long", "ever"]);
    stage.at_second(500);
    assert_eq!(alive(&stage), ["ever"]);
    stage.at_second(1_000_000_000);
    assert_eq!(alive(&stage), ["ever"]);
}

pub fn retention_is_the_queues_present_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let keeping = |length| Policy { retention: seconds(length), ..Policy::standard() };
    let queue = stage.named("q", keeping(60));
    stage.send_text(queue, &["a"]);
    stage.at_second(50);
    stage.send_text(queue, &["b"]);
    stage.set_policy(queue, keeping(600));
    stage.at_second(100);
    assert_eq!(stage.figures(queue), (2, 0, 0));
    assert_eq!(
        stage.peek(queue, kew_core::command::View::Ready)[0].expires_at,
        Some(stage.now().plus(seconds(500)))
    );
    stage.set_policy(queue, keeping(70));
    assert_eq!(stage.leased_bodies(queue), ["b"]);
    stage.at_second(120);
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

pub fn longer_retention_revives_nothing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(60), ..Policy::standard() });
    stage.send_text(queue, &["a"]);
    stage.at_second(60);
    stage.set_policy(queue, Policy::standard());
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

/// What a store may clear away in one step.
const SLICE: usize = 1_000;

/// Of two halves of a queue sent a minute apart the first one dies, whatever was done with its messages, and stays dead
/// when the retention is raised again, also after a restart at any of these moments.
pub fn lowered_retention_ends_a_backlog_at_once_and_for_good(factory: &dyn Factory) {
    let keeping = |length| Policy { retention: seconds(length), ..Policy::standard() };
    for half in [SLICE - 1, SLICE, SLICE + 1, 2 * SLICE + 1] {
        for ending in [Ending::Close, Ending::Kill] {
            let mut stage = Stage::new(factory);
            let queue = stage.named("q", keeping(10_000));
            let bodies: Vec<String> = (0..half).map(|number| number.to_string()).collect();
            let old = stage.send_backlog(queue, &bodies);
            stage.at_second(60);
            let young = stage.send_backlog(queue, &bodies);
            let in_flight = stage.lease_for(queue, 10, seconds(5_000));
            stage.at_second(1_000);
            stage.set_policy(queue, keeping(1_000));
            let left = half as u64;
            let body_bytes = bodies.iter().map(|body| body.len() as u64).sum();
            let counts = stage.counts(queue);
            assert_eq!((counts.visible, counts.in_flight, counts.body_bytes), (left, 0, body_bytes));
            assert_eq!(counts.oldest_sent_at, Some(young[0].sent_at));
            for dead in [first_receipt(&old[half - 1]), in_flight[0].token] {
                assert_eq!(stage.ack(dead), Err(RuleError::MessageNotFound));
            }
            assert_eq!(stage.peek(queue, kew_core::command::View::Ready)[0].sequence, young[0].sequence);
            stage.set_policy(queue, keeping(10_000));
            assert_eq!(stage.figures(queue), (left, 0, 0), "it brings nothing back");
            if stage.reopen(ending) {
                assert_eq!(stage.figures(queue), (left, 0, 0), "{ending:?}");
            }
            stage.pass(seconds(1));
            let first = stage.lease_for(queue, 1, seconds(10)).remove(0);
            assert_eq!(first.message.sequence, young[0].sequence);
            stage.at_second(10_059);
            assert_eq!(stage.counts(queue).stored(), left);
            stage.at_second(10_060);
            assert_eq!(stage.counts(queue).stored(), 0);
        }
    }
}

/// Of the first half of a FIFO queue some messages are leased, given back, deleted or hidden behind those; all of it
/// dies. What is left comes in the order of each group, and the groups in the same turns whether or not the store was
/// opened anew.
pub fn lowered_retention_leaves_groups_in_their_order_and_turns(factory: &dyn Factory) {
    let keeping = |length| Policy { retention: seconds(length), ..Policy::fifo() };
    let mut orders = Vec::new();
    for ending in [None, Some(Ending::Close), Some(Ending::Kill)] {
        let mut stage = Stage::new(factory);
        let queue = stage.named("q.fifo", keeping(10_000));
        let send = |stage: &mut Stage<'_>, first: u32| {
            for number in first..first + 200 {
                stage.send_groups(queue, &[&format!("g{}-{number:03}", number * number % 11)]);
            }
        };
        send(&mut stage, 0);
        for step in 0..30 {
            let Some(leased) = stage.lease_for(queue, 1, seconds(5_000)).pop() else { break };
            match step % 3 {
                0 => assert_eq!(stage.ack(leased.token), Ok(())),
                1 => assert!(stage.release(leased.token, seconds(0)).is_ok()),
                _ => {}
            }
        }
        stage.at_second(60);
        send(&mut stage, 200);
        stage.at_second(1_000);
        stage.set_policy(queue, keeping(1_000));
        assert_eq!(stage.figures(queue), (200, 0, 0));
        stage.set_policy(queue, keeping(10_000));
        assert_eq!(stage.figures(queue), (200, 0, 0), "it brings nothing back");
        if ending.is_some_and(|ending| !stage.reopen(ending)) {
            break;
        }
        let mut order = Vec::new();
        while let Some(leased) = stage.lease_for(queue, 1, seconds(10)).pop() {
            order.push(body(&leased.message));
            assert_eq!(stage.ack(leased.token), Ok(()));
        }
        let mut sorted = order.clone();
        sorted.sort_by_key(|body| body.split_once('-').map(|(_, number)| number.to_owned()));
        sorted.sort_by_key(|body| body.split_once('-').map(|(group, _)| group.to_owned()));
        let mut by_group = order.clone();
        by_group.sort_by_key(|body| body.split_once('-').map(|(group, _)| group.to_owned()));
        assert_eq!((by_group.len(), &by_group), (200, &sorted), "{ending:?}");
        orders.push(order);
    }
    assert!(orders.windows(2).all(|pair| pair[0] == pair[1]));
}

/// It was leased as often as it may be, and its time is over later than it leaves: no step comes between the two.
pub fn message_that_departs_before_its_time_is_over_departs_also_in_a_leap(factory: &dyn Factory) {
    for (lease, departed) in [(58_998, 1), (59_998, 1), (59_999, 0), (60_000, 0)] {
        let mut stage = Stage::new(factory);
        stage.named("dead", Policy { retention: seconds(100_000), ..Policy::standard() });
        let dead_letters = dead_letters("dead", 1, Carries::Nothing);
        let queue =
            stage.named("q", Policy { retention: seconds(60), dead_letters, ..Policy::standard() });
        stage.send_text(queue, &["tried", "untouched"]);
        assert_eq!(stage.lease_for(queue, 1, Duration::from_millis(lease)).len(), 1);
        stage.at_second(10_000);
        assert_eq!(stage.figures(queue), (0, 0, 0));
        let dead = stage.queues().iter().find(|queue| &*queue.key.name == "dead").expect("the message is found").id;
        assert_eq!(stage.counts(dead).stored(), departed, "a lease of {lease} ms");
    }
}

pub fn dead_head_of_a_group_frees_the_next_one(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let mortal = NewMessage { expiry: Expiry::After { seconds: 5 }, ..stage.grouped("g", "g-1") };
    stage.send(queue, mortal);
    stage.send_groups(queue, &["g-2"]);
    assert_eq!(stage.lease_for(queue, 1, seconds(100)).len(), 1);
    stage.at_second(4);
    assert!(stage.lease(queue, 1).is_empty());
    stage.at_second(5);
    assert_eq!(stage.leased_bodies(queue), ["g-2"]);
}

pub fn shortest_lives_end_where_they_begin(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let fleeting = NewMessage { expiry: Expiry::After { seconds: 0 }, ..stage.message("a") };
    assert_eq!(stage.send(queue, fleeting).expires_at, Some(stage.now()));
    assert_eq!(stage.figures(queue), (0, 0, 0));
}

pub fn many_mixed_lives_end_each_at_its_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(300), ..Policy::standard() });
    let lives: Vec<u32> = (0..1_000).map(|number| (number * 37) % 400).collect();
    for batch in lives.chunks(50) {
        let mortal = |stage: &mut Stage<'_>, life: u32| {
            let expiry =
                if life.is_multiple_of(3) { Expiry::ByQueue } else { Expiry::After { seconds: life } };
            NewMessage { expiry, ..stage.message("m") }
        };
        let messages = batch.iter().map(|life| mortal(&mut stage, *life)).collect();
        stage.send_all(queue, messages);
    }
    for second in [0_u32, 1, 2, 50, 100, 299, 300, 301, 398, 399] {
        stage.at_second(u64::from(second));
        let alive = |life: &&u32| if life.is_multiple_of(3) { second < 300 } else { second < **life };
        assert_eq!(
            stage.counts(queue).visible,
            lives.iter().filter(alive).count() as u64,
            "at {second} seconds"
        );
    }
}
