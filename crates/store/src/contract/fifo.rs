//! Groups of a FIFO queue: strict order within one, none between them.

use kew_core::Policy;

use super::Factory;
use super::stage::{Stage, bodies, seconds};

pub fn group_is_leased_in_the_order_of_sends(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    for expected in ["g-1", "g-2", "g-3"] {
        let leased = stage.lease(queue, 1);
        assert_eq!(bodies(&leased), [expected]);
        assert!(stage.lease(queue, 10).is_empty(), "a leased message locks its group");
        assert_eq!(stage.ack(leased[0].token), Ok(()));
    }
}

pub fn batch_is_filled_from_one_group_first(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g1-1", "g2-1", "g1-2", "g1-3"]);
    assert_eq!(stage.leased_bodies(queue), ["g1-1", "g1-2", "g1-3", "g2-1"]);
}

pub fn locked_group_never_blocks_another(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    assert_eq!(bodies(&stage.lease(queue, 1)), ["g-1"]);
    assert_eq!(stage.leased_bodies(queue), ["h-1"]);
    stage.send_groups(queue, &["g-3", "i-1"]);
    assert_eq!(stage.leased_bodies(queue), ["i-1"]);
}

pub fn unleased_messages_of_a_locked_group_count_as_visible(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3", "g-4", "g-5"]);
    stage.lease(queue, 4);
    assert_eq!(stage.figures(queue), (1, 4, 0));
}

pub fn head_made_visible_is_returned_alone_while_the_second_is_leased(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(queue, 2);
    assert!(stage.extend(leased[0].token, seconds(0)).is_ok());
    assert_eq!(stage.leased_bodies(queue), ["g-1"]);
}

pub fn extended_second_holds_back_what_is_behind_it(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(queue, 3);
    assert!(stage.extend(leased[1].token, seconds(100)).is_ok());
    stage.pass(seconds(30));
    assert_eq!(stage.leased_bodies(queue), ["g-1"]);
}

pub fn extended_head_holds_back_the_whole_group(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(queue, 3);
    assert!(stage.extend(leased[0].token, seconds(100)).is_ok());
    stage.pass(seconds(30));
    assert!(stage.lease(queue, 10).is_empty());
    stage.pass(seconds(70));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2", "g-3"]);
}

pub fn group_unlocks_when_all_its_leased_messages_are_deleted(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.ack(leased[0].token), Ok(()));
    assert!(stage.lease(queue, 10).is_empty(), "one of two is still leased");
    assert_eq!(stage.ack(leased[1].token), Ok(()));
    assert_eq!(stage.leased_bodies(queue), ["g-3"]);
}

pub fn group_stays_locked_when_a_later_message_is_deleted_first(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    let leased = stage.lease(queue, 2);
    assert_eq!(stage.ack(leased[1].token), Ok(()));
    assert!(stage.lease(queue, 10).is_empty());
    stage.pass(seconds(30));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-3"]);
}

pub fn redelivery_keeps_the_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3"]);
    stage.lease(queue, 2);
    stage.pass(seconds(30));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2", "g-3"]);
}

pub fn head_released_with_a_delay_blocks_its_own_group_only(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "h-1"]);
    let leased = stage.lease(queue, 1);
    assert!(stage.release(leased[0].token, seconds(10)).is_ok());
    assert_eq!(stage.leased_bodies(queue), ["h-1"]);
    assert_eq!(stage.figures(queue), (1, 1, 1));
    stage.pass(seconds(10));
    assert_eq!(stage.leased_bodies(queue), ["g-1", "g-2"]);
}

pub fn delayed_message_does_not_block_earlier_visible_ones(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.named("q", Policy { delay: seconds(10), ..Policy::fifo() });
    stage.send_groups(queue, &["g-1"]);
    stage.pass(seconds(5));
    stage.send_groups(queue, &["g-2"]);
    stage.pass(seconds(5));
    assert_eq!(stage.leased_bodies(queue), ["g-1"]);
    assert_eq!(stage.figures(queue), (0, 1, 1));
}

pub fn second_receive_of_a_batch_never_overtakes_the_first(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    let names: Vec<String> = (0..40).map(|number| format!("g{}-{}", number % 4, number / 4)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.send_groups(queue, &names);
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    let mut acked = 0;
    while acked < 40 {
        for leased in stage.lease(queue, 7) {
            let body = super::stage::body(&leased.message);
            let (group, place) = body.split_once('-').expect("a body names its group and place");
            let next = seen.entry(group.to_owned()).or_default();
            assert_eq!(place.parse(), Ok(*next), "{group} goes in order");
            *next += 1;
            assert_eq!(stage.ack(leased.token), Ok(()));
            acked += 1;
        }
    }
}

pub fn in_flight_limit_cuts_a_group_in_its_order(factory: &dyn Factory) {
    let mut stage = Stage::new(factory);
    let queue = stage.fifo();
    stage.send_groups(queue, &["g-1", "g-2", "g-3", "h-1"]);
    let limited = kew_core::command::Lease { in_flight_max: 2, ..stage.asking(queue, 10, seconds(30)) };
    assert_eq!(bodies(&stage.lease_as(limited.clone())), ["g-1", "g-2"]);
    assert!(stage.lease_as(limited).is_empty());
    assert_eq!(stage.leased_bodies(queue), ["h-1"]);
}
