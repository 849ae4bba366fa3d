//! Time in a fleet: expiry that is held goes with its shard, and no shard's time is another's.

use std::time::Duration;

use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{Command, Policy, ShardId, Timestamp};
use kew_store::Store as _;

use crate::world::World;

const AT_ONCE: Duration = Duration::ZERO;
const MONTH: Duration = Duration::from_secs(30 * 86_400);

#[tokio::test(start_paused = true)]
async fn messages_that_a_leap_of_the_clock_would_end_stay_when_their_shard_goes_to_another_node() {
    let world = World::of(1);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let queue = a.make("orders").await.expect("the queue is made");
    a.send(&queue, "kept").await.expect("the send is acknowledged");
    world.leap(MONTH);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(a.engine.held_expiry().is_some(), "the leap is in doubt");
    // It has seen no leap.
    let b = world.start("b").await;
    assert!(b.engine.held_expiry().is_none());
    a.leave(&world).await;
    world.settled(&[&b]).await;
    assert!(b.engine.held_expiry().is_some(), "somebody has to confirm the time");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(b.engine.counts(queue.id).await.expect("the owner counts the queue").visible, 1);
    assert!(b.engine.confirm_clock().await.expect("the time is confirmed"));
    assert!(world.store(ShardId(0)).expiry_hold().is_none());
    assert_eq!(b.take(&queue, AT_ONCE).await.expect("the receive is answered"), None);
}

#[tokio::test(start_paused = true)]
async fn store_that_was_off_for_long_waits_until_the_clock_has_run_evenly() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let queue = a.make("orders").await.expect("the queue is made");
    a.send(&queue, "kept").await.expect("the send is acknowledged");
    a.kill(&world);
    world.leap(MONTH);
    let b = world.start("b").await;
    world.settled(&[&b]).await;
    assert!(b.engine.held_expiry().is_some(), "a month has passed, if the clock is right");
    assert_eq!(b.engine.counts(queue.id).await.expect("the owner counts the queue").visible, 1);
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert!(b.engine.held_expiry().is_none(), "by now it is believed");
    assert_eq!(b.take(&queue, AT_ONCE).await.expect("the receive is answered"), None);
}

#[tokio::test(start_paused = true)]
async fn hold_of_one_shard_is_not_spread_to_another_and_not_lost() {
    let world = World::of(2);
    world.keep_publishing();
    let hold = ExpiryHold { through: Timestamp(world.now().0 - 1), until: HoldEnd::Confirmed };
    drop(world.store(ShardId(1)).step(world.now(), &Command::HoldExpiry(Some(hold))));
    // A clock that is an hour and a half ahead by then: the hold is not let go as of one that came back.
    world.leap(Duration::from_secs(5_400));
    let now = world.now();
    for shard in [ShardId(0), ShardId(1)] {
        let hold = world.store(shard).expiry_hold();
        drop(world.store(shard).step(now, &Command::HoldExpiry(hold)));
    }
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    // Time is recorded now and then on a node that has nothing to do.
    tokio::time::sleep(Duration::from_secs(2_000)).await;
    assert!(world.store(ShardId(0)).newest_instant() > Timestamp(now.0 + 800_000), "no time was recorded");
    assert_eq!(world.store(ShardId(0)).expiry_hold(), None);
    assert_eq!(world.store(ShardId(1)).expiry_hold(), Some(hold));
}

#[tokio::test(start_paused = true)]
async fn shard_that_is_ahead_takes_no_other_along_and_its_leases_end() {
    let world = World::of(2);
    world.keep_publishing();
    let ahead = Timestamp(world.now().0 + 300_000);
    drop(world.store(ShardId(0)).step(ahead, &Command::HoldExpiry(None)));
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let (one, two) =
        (a.make("one").await.expect("queue one is made"), a.make("two").await.expect("queue two is made"));
    for queue in [&one, &two] {
        a.send(queue, "again").await.expect("the send is acknowledged");
        let lease = kew_core::command::Lease::of(queue.id, 1, a.engine.now());
        let leased = a.engine.lease(lease).await.expect("the lease is answered");
        assert_eq!(leased.len(), 1);
    }
    assert!(a.engine.now() < Timestamp(world.now().0 + 1_000));
    assert!(world.store(ShardId(1)).newest_instant() < Timestamp(world.now().0 + 1_000));
    let length = Policy::standard().lease_length;
    tokio::time::sleep(length - Duration::from_secs(1)).await;
    for queue in [&one, &two] {
        assert_eq!(
            a.take(queue, AT_ONCE).await.expect("the receive is answered"),
            None,
            "{}",
            queue.key.name
        );
    }
    // An eighth slower than the other.
    for (queue, late) in [(&two, Duration::from_secs(2)), (&one, Duration::from_secs(6))] {
        let waits = a.take(queue, late).await.expect("the receive is answered");
        assert_eq!(waits.as_deref(), Some("again"), "{}", queue.key.name);
    }
}

#[tokio::test(start_paused = true)]
async fn due_work_that_was_refused_is_done_on_a_node_that_has_nothing_else_to_do() {
    let world = World::of(1);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let policy = Policy { retention: Duration::from_secs(60), ..Policy::standard() };
    let queue = a.make_with("short", policy).await.expect("the queue is made");
    a.send(&queue, "gone").await.expect("the send is acknowledged");
    let faults = world.faults(ShardId(0));
    faults.stalled.store(true, std::sync::atomic::Ordering::Release);
    tokio::time::sleep(Duration::from_secs(70)).await;
    faults.stalled.store(false, std::sync::atomic::Ordering::Release);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let next = world.store(ShardId(0)).next_due();
    assert!(next.is_none_or(|due| due > world.now()), "the message is still to be seen off at {next:?}");
}
