//! Retention: when a message dies unread.

use kew_core::{Expiry, NewMessage, Policy, RuleError};
use std::time::Duration;

use super::Factory;
use super::stage::{Stage, seconds};

const TICK: Duration = Duration::from_millis(1);

pub fn message_is_gone_from_the_very_instant(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { retention: seconds(60), ..Policy::standard() });
    let sent = stage.send_text(queue, &["a"]).remove(0);
    let dies = sent.expires_at.expect("it dies");
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
