//! Figures that a full scan would find.

use kew_core::{Expiry, NewMessage};

use super::Factory;
use super::stage::{Stage, seconds};

pub fn three_states_add_up_to_all_messages(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    assert_eq!(stage.figures(queue), (0, 0, 0));
    stage.send_text(queue, &["a", "bb", "ccc"]);
    let delayed = NewMessage { delay: Some(seconds(5)), ..stage.message("dddd") };
    stage.send(queue, delayed);
    stage.lease(queue, 1);
    let counts = stage.counts(queue);
    assert_eq!((counts.visible, counts.in_flight, counts.delayed), (2, 1, 1));
    assert_eq!((counts.stored(), counts.body_bytes), (4, 10));
}

pub fn figures_change_with_time_alone(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let delayed = NewMessage { delay: Some(seconds(5)), ..stage.message("delayed") };
    let mortal = NewMessage { expiry: Expiry::After { seconds: 20 }, ..stage.message("mortal") };
    stage.send_all(queue, vec![delayed, mortal]);
    stage.lease_for(queue, 1, seconds(10));
    for (second, figures) in [(0, (0, 1, 1)), (5, (1, 1, 0)), (10, (2, 0, 0)), (20, (1, 0, 0))] {
        stage.at_second(second);
        assert_eq!(stage.figures(queue), figures, "at {second} seconds");
    }
}

pub fn oldest_message_tells_the_age_whatever_it_is_doing(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let began = stage.now();
    assert_eq!(stage.counts(queue).oldest_sent_at, None);
    stage.send_text(queue, &["old"]);
    stage.pass(seconds(1));
    stage.send_text(queue, &["young"]);
    assert_eq!(stage.counts(queue).oldest_sent_at, Some(began));
    let old = stage.lease(queue, 1);
    assert_eq!(stage.counts(queue).oldest_sent_at, Some(began));
    for leased in old {
        assert_eq!(stage.ack(leased.token), Ok(()));
    }
    assert_eq!(stage.counts(queue).oldest_sent_at, Some(began.plus(seconds(1))));
}

pub fn figures_survive_a_long_mixed_life(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.standard();
    let mut stored = 0_u64;
    for round in 0..60_u64 {
        let messages: Vec<_> = (0..7)
            .map(|number| {
                let delay = number % 3 == 0;
                NewMessage { delay: delay.then_some(seconds(number)), ..stage.message("mm") }
            })
            .collect();
        stored += stage.send_all(queue, messages).len() as u64;
        let leased = stage.lease_for(queue, 5, seconds(3 + round % 4));
        for (place, leased) in leased.iter().enumerate() {
            match place {
                0 | 1 => {
                    assert_eq!(stage.ack(leased.token), Ok(()));
                    stored -= 1;
                }
                2 => assert!(stage.release(leased.token, seconds(2)).is_ok()),
                _ => {}
            }
        }
        stage.pass(seconds(1));
        let counts = stage.counts(queue);
        assert_eq!((counts.stored(), counts.body_bytes), (stored, 2 * stored));
    }
    stage.pass(seconds(1_000));
    assert_eq!(stage.figures(queue), (stored, 0, 0));
}

pub fn fifo_figures_are_exact_too(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3", "h-1"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.figures(queue), (2, 2, 0));
    assert!(stage.release(leased[0].token, seconds(5)).is_ok());
    assert_eq!(stage.figures(queue), (2, 1, 1));
    assert_eq!(stage.ack(leased[1].token), Ok(()));
    assert_eq!(stage.figures(queue), (2, 0, 1));
}
