//! Nodes of a fleet, over shards in memory: any node serves any queue, and shards go from node to node.
#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

mod databases;
mod defining;
mod faults;
mod knowing;
mod moving;
mod operator;
mod renaming;
mod time;
mod world;

use std::time::Duration;

use kew_core::command::DeleteQueue;
use kew_core::{DeadLetterAction, DeadLetterRule, Pause, Policy};
use kew_engine::EngineError;
use kew_fleet::CUT_OFF_AFTER;
use world::{World, key};

const AT_ONCE: Duration = Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn any_node_serves_a_queue_that_another_keeps() {
    let world = World::of(4);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    for name in ["one", "two", "three", "four", "five"] {
        let queue = a.make(name).await.expect("the queue is made");
        for node in [&a, &b, &c] {
            assert_eq!(node.finds(name).map(|queue| queue.id), Some(queue.id), "{name} at {}", node.id);
        }
        b.send(&queue, "hello").await.expect("a send through any node is acknowledged");
        assert_eq!(
            c.take(&queue, AT_ONCE).await.expect("a receive through any node is answered").as_deref(),
            Some("hello")
        );
        assert_eq!(a.take(&queue, AT_ONCE).await.expect("a receive of an empty queue is answered"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn new_queues_go_to_the_emptiest_shard_and_a_source_to_that_of_its_dead_letters() {
    let world = World::of(4);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let mut shards: Vec<u16> = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let queue = a.make(name).await.expect("the queue is made");
        shards.push(a.fleet.shard_of(queue.id).0);
    }
    shards.sort_unstable();
    assert_eq!(shards, [0, 1, 2, 3]);
    let dead = a.finds("three").expect("every node knows a queue that was made");
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("three")),
        carries: kew_core::Carries::History,
        written_by: "test".into(),
    };
    let policy = Policy { dead_letters: Some(Box::new(rule)), ..Policy::standard() };
    let source = b.make_with("source", policy).await.expect("the queue is made");
    assert_eq!(b.fleet.shard_of(source.id), b.fleet.shard_of(dead.id));
}

#[tokio::test(start_paused = true)]
async fn receive_that_waits_on_one_node_gets_what_is_sent_through_another() {
    let world = World::of(3);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    for name in ["one", "two", "three"] {
        let queue = a.make(name).await.expect("the queue is made");
        let waits = a.take(&queue, Duration::from_secs(20));
        let sends = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            b.send(&queue, "late").await.expect("a send through any node is acknowledged");
            tokio::time::Instant::now()
        };
        let (taken, sent) = tokio::join!(
            async { (waits.await.expect("a receive that waits is answered"), tokio::time::Instant::now()) },
            sends
        );
        assert_eq!(taken.0.as_deref(), Some("late"));
        assert!(taken.1.duration_since(sent) < Duration::from_millis(10), "the receive was served late");
    }
}

#[tokio::test(start_paused = true)]
async fn one_name_is_one_queue_whichever_nodes_make_it_at_once() {
    let world = World::of(4);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    for name in ["one", "two", "three", "four"] {
        let (x, y, z) = tokio::join!(a.make(name), b.make(name), c.make(name));
        let made = [x, y, z].into_iter().filter_map(Result::ok).map(|queue| queue.id);
        let made: Vec<_> = made.collect();
        assert_eq!(made.len(), 1, "{name} was made {} times", made.len());
        for node in [&a, &b, &c] {
            assert_eq!(node.finds(name).map(|queue| queue.id), Some(made[0]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_queue_is_gone_everywhere_and_its_name_is_free_for_any_shard() {
    let world = World::of(4);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let first = a.make("again").await.expect("the queue is made");
    b.engine
        .delete_queue(DeleteQueue { queue: first.id, if_version: None })
        .await
        .expect("the queue is deleted");
    assert!(a.finds("again").is_none() && b.finds("again").is_none());
    let second = b.make("again").await.expect("the queue is made again");
    assert_ne!(first.id, second.id);
    assert_eq!(a.finds("again").map(|queue| queue.id), Some(second.id));
}

#[tokio::test(start_paused = true)]
async fn shards_of_a_node_that_dies_are_kept_by_the_others_with_all_their_messages() {
    let world = World::of(6);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    assert_eq!(world.owned(), [2, 2, 2]);
    let mut queues = Vec::new();
    for name in ["one", "two", "three", "four", "five", "six"] {
        let queue = a.make(name).await.expect("the queue is made");
        a.send(&queue, "kept").await.expect("a send through any node is acknowledged");
        queues.push(queue);
    }
    c.kill(&world);
    // Steps wait for the new owners.
    for queue in &queues {
        assert_eq!(
            a.take(queue, AT_ONCE).await.expect("a receive through any node is answered").as_deref(),
            Some("kept")
        );
    }
    world.settled(&[&a, &b]).await;
    assert_eq!(world.owned(), [3, 3]);
}

#[tokio::test(start_paused = true)]
async fn question_for_a_queue_waits_until_the_shards_of_a_dead_node_are_known() {
    let world = World::of(6);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    b.kill(&world);
    let unsure = a.engine.find(&key("orders"));
    assert_eq!(unsure.err(), Some(EngineError::NotAllKnown), "b may have made one");
    assert!(a.engine.until_all_known().await, "a keeps all shards in time");
    assert_eq!(a.engine.find(&key("orders")), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn question_for_a_queue_is_refused_when_other_nodes_stay_unheard() {
    let world = World::of(6);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    world.cut(&a, &b);
    tokio::time::sleep(CUT_OFF_AFTER).await;
    let asked = tokio::time::Instant::now();
    assert!(!a.engine.until_all_known().await);
    assert!(asked.elapsed() < Duration::from_secs(6), "its client is not kept for long");
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_on_one_node_is_paused_on_all_for_the_same_time() {
    let world = World::of(3);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let pause = Pause::Name(key("orders"));
    let until = a.engine.now().plus(Duration::from_secs(60));
    a.engine.note_pause(&pause, until);
    assert!(!b.engine.is_paused(&pause));
    a.engine.share_pause(&pause, until).await;
    assert!(b.engine.is_paused(&pause));
    assert!(!b.engine.begin_pause(&pause, until));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!a.engine.is_paused(&pause) && !b.engine.is_paused(&pause));
}

#[tokio::test(start_paused = true)]
async fn node_that_joins_gets_its_share_and_one_that_leaves_gives_its_own_away() {
    let world = World::of(6);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let queue = a.make("orders").await.expect("the queue is made");
    a.send(&queue, "first").await.expect("a send through any node is acknowledged");
    let b = world.start("b").await;
    world.until("the shards are even", || world.owned() == [3, 3]).await;
    world.settled(&[&a, &b]).await;
    assert!(b.finds("orders").is_some());
    assert_eq!(
        b.take(&queue, AT_ONCE).await.expect("a receive through any node is answered").as_deref(),
        Some("first")
    );
    a.leave(&world).await;
    world.settled(&[&b]).await;
    b.send(&queue, "second").await.expect("a send through any node is acknowledged");
    assert_eq!(
        b.take(&queue, AT_ONCE).await.expect("a receive through any node is answered").as_deref(),
        Some("second")
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_all_leave_together_do_not_wait_for_each_other_to_take_their_shards() {
    let world = World::of(6);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    let all = async { tokio::join!(a.leave(&world), b.leave(&world), c.leave(&world)) };
    tokio::time::timeout(Duration::from_secs(5), all).await.expect("no other node is left to take a shard");
    assert_eq!(world.owned().len(), 0, "no node is left");
    let d = world.start("d").await;
    world.settled(&[&d]).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_is_cut_off_does_not_claim_to_know_all_names() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    world.cut(&a, &b);
    world.until("both notice", || !a.fleet.knows_all() && !b.fleet.knows_all()).await;
    // Made in the shard that this node keeps.
    let mine = a.fleet.kept()[0];
    let mut made = None;
    for name in ["one", "two", "three"] {
        if let Ok(queue) = a.make(name).await {
            assert_eq!(a.fleet.shard_of(queue.id), mine);
            made = Some(queue);
            break;
        }
    }
    let queue = made.expect("each of two nodes keeps a shard, so a queue of one was made");
    assert!(b.engine.queue_by_id(queue.id).is_none());
    world.mend();
    world.settled(&[&a, &b]).await;
    assert!(b.engine.queue_by_id(queue.id).is_some());
}
