//! Statements that hang while the server lives.

use std::time::Duration;

use kew_log_pg::TENURE;
use kew_log_pg::simulated::{AtAppends, Fault, Rates, World};

use crate::found::{owner, put_a_document};

#[test]
fn append_that_hangs_holds_a_lane_up_that_was_cut_no_longer_than_a_tenure() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let next = world.database().counts().0 + 1;
    let fault_at = |first, fault| {
        let at_appends = Some(AtAppends { first, one_in: 1_000, fault });
        world.database().set_rates(Rates { at_appends, ..Rates::default() });
    };
    // The answer of the first append never comes; the connection of the second one is cut.
    fault_at(next, Fault::Hangs);
    put_a_document(&world, &mut node, &mut history);
    fault_at(next + 1, Fault::CutDuring);
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, next + 1, "both appends are under way");
    world.database().set_rates(Rates::default());
    world.pass(TENURE + Duration::from_secs(1));
    assert_eq!(node.answered.lock().waiting, 0, "both are found and answered, or refused");
    let before = node.answered.lock().successes;
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_millis(500));
    assert!(node.answered.lock().successes > before, "the lane does not go on");
}

#[test]
fn append_that_hangs_is_given_up_while_other_connections_are_answered() {
    let world = World::new(1, Rates::default());
    let _inside = world.enter();
    let (mut node, mut history) = owner(&world);
    let first = world.database().counts().0 + 1;
    let at_appends = Some(AtAppends { first, one_in: 1_000, fault: Fault::Hangs });
    world.database().set_rates(Rates { at_appends, ..Rates::default() });
    put_a_document(&world, &mut node, &mut history);
    assert_eq!(world.database().counts().0, first, "the append is under way");
    world.pass(2 * TENURE + Duration::from_millis(1_500));
    let before = node.answered.lock().successes;
    put_a_document(&world, &mut node, &mut history);
    world.pass(Duration::from_millis(500));
    assert!(node.answered.lock().successes > before, "the lane does not go on");
    assert!(node.tenure.is_held());
}
