//! What a node claims to know of shards whose owners it did not hear for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kew_core::{DeadLetterAction, DeadLetterRule, Policy, Queue, ShardId};

use crate::world::{Node, World, key};

/// A queue of a shard.
async fn make_in(node: &Node, shard: ShardId) -> Arc<Queue> {
    for number in 0..3 {
        let made = node.make(&format!("q{number}")).await.expect("the queue is made");
        if node.fleet.shard_of(made.id) == shard {
            return made;
        }
    }
    unreachable!("new queues go to the emptiest of at most three shards")
}

/// A queue whose dead letters go to another one, and which is in the same shard.
async fn make_beside(node: &Node, other: &Queue) -> Arc<Queue> {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(other.key.clone()),
        carries: kew_core::Carries::History,
        written_by: "test".into(),
    };
    let policy = Policy { dead_letters: Some(Box::new(rule)), ..Policy::standard() };
    let made = node.make_with("source", policy).await.expect("the owner of the shard is heard");
    assert_eq!(node.fleet.shard_of(made.id), node.fleet.shard_of(other.id));
    made
}

/// A node either knows a queue, or does not claim to know all.
fn does_not_deny(node: &Node, queue: &Queue) {
    let found = node.engine.find(&queue.key);
    assert_ne!(found, Ok(None), "{} denies a queue that exists", node.id);
}

#[tokio::test(start_paused = true)]
async fn node_denies_no_queue_of_an_owner_that_it_did_not_hear_and_that_died_since() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let shard = b.fleet.kept()[0];
    let other = make_in(&b, shard).await;
    world.cut(&a, &b);
    let queue = make_beside(&b, &other).await;
    does_not_deny(&a, &queue);
    world.faults(shard).untaken.store(true, Ordering::Release);
    b.kill(&world);
    for _ in 0..100 {
        does_not_deny(&a, &queue);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.faults(shard).untaken.store(false, Ordering::Release);
    world.settled(&[&a]).await;
    assert_eq!(a.finds(&queue.key.name).map(|found| found.id), Some(queue.id));
}

#[tokio::test(start_paused = true)]
async fn node_that_took_a_shard_and_could_not_open_it_denies_none_of_its_queues() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let shard = b.fleet.kept()[0];
    let other = make_in(&b, shard).await;
    world.cut(&a, &b);
    let queue = make_beside(&b, &other).await;
    world.faults(shard).unsettled.store(true, Ordering::Release);
    b.kill(&world);
    for _ in 0..100 {
        does_not_deny(&a, &queue);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.faults(shard).unsettled.store(false, Ordering::Release);
    world.settled(&[&a]).await;
    assert_eq!(a.finds(&queue.key.name).map(|found| found.id), Some(queue.id));
}

#[tokio::test(start_paused = true)]
async fn node_reads_a_list_again_when_a_shard_comes_back_to_its_owner_from_one_that_was_not_heard() {
    let world = World::of(3);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    let shard = b.fleet.kept()[0];
    let other = make_in(&b, shard).await;
    world.cut(&a, &c);
    b.fleet.hand_over(shard, &c.id).await.expect("the shard is to go to c");
    world.until("c keeps the shard", || c.fleet.keeps_shard(shard)).await;
    let queue = make_beside(&c, &other).await;
    c.fleet.hand_over(shard, &b.id).await.expect("the shard is to go to b again");
    world.until("b keeps the shard", || b.fleet.keeps_shard(shard)).await;
    world.mend();
    for _ in 0..100 {
        does_not_deny(&a, &queue);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.settled(&[&a, &b, &c]).await;
    assert_eq!(a.finds(&queue.key.name).map(|found| found.id), Some(queue.id));
    assert_eq!(a.engine.find(&key("none")), Ok(None), "it knows all again");
}
