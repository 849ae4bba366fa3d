//! What goes wrong beside a queue: askers that go away, names that stay, maps that are old, shards that stall.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kew_core::command::DeleteQueue;
use kew_core::{Command, ShardId, Text};
use kew_fleet::NodeId;
use kew_peer::Request;
use kew_store::Store as _;

use crate::world::{Node, World};

/// Two nodes with two shards, one each.
async fn two() -> (Arc<World>, Node, Node) {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    (world, a, b)
}

/// A queue in a shard that this node keeps.
async fn make_at(node: &Node, stem: &str) -> Arc<kew_core::Queue> {
    for number in 0..8 {
        let made = node.make(&format!("{stem}{number}")).await.expect("the queue is made");
        if node.fleet.keeps_shard(node.fleet.shard_of(made.id)) {
            return made;
        }
    }
    unreachable!("new queues go to the emptiest shard, and this node keeps one of two");
}

#[tokio::test(start_paused = true)]
async fn others_hear_of_a_queue_whose_maker_went_away_meanwhile() {
    let (world, a, b) = two().await;
    let taken = Arc::new(tokio::sync::Notify::new());
    for shard in [ShardId(0), ShardId(1)] {
        let taken = Arc::clone(&taken);
        let at_step = move |command: &Command| {
            if matches!(command, Command::CreateQueue(_)) {
                taken.notify_one();
            }
        };
        *world.faults(shard).at_step.lock() = Some(Box::new(at_step));
    }
    // Gone when the step is taken, before any node heard of it.
    tokio::select! {
        biased;
        () = taken.notified() => {}
        _made = a.make("orders") => unreachable!("telling the other node takes a while"),
    }
    world.until("both know the queue", || a.finds("orders").is_some() && b.finds("orders").is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn others_hear_of_a_deletion_whose_name_cannot_be_released_which_is_done_later() {
    let (world, a, b) = two().await;
    let queue = a.make("orders").await.expect("the queue is made");
    world.keep_names(true);
    let delete = DeleteQueue { queue: queue.id, if_version: None };
    a.engine.delete_queue(delete).await.expect("the queue is deleted, whatever becomes of its name");
    assert!(b.finds("orders").is_none());
    assert!(world.named("orders").is_some());
    // A queue of the name that is made meanwhile keeps it.
    let again = b.make("orders").await.expect("the queue is made again");
    world.keep_names(false);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.named("orders"), Some(a.fleet.shard_of(again.id)));
    world.keep_names(true);
    let delete = DeleteQueue { queue: again.id, if_version: None };
    b.engine.delete_queue(delete).await.expect("the queue is deleted, whatever becomes of its name");
    world.keep_names(false);
    world.until("the name is free", || world.named("orders").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_has_just_joined_hears_of_changes_of_an_owner_whose_map_does_not_show_it_yet() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    world.blind(&a);
    let b = world.start("b").await;
    world.until("b knows all", || b.fleet.knows_all()).await;
    let queue = a.make("orders").await.expect("the queue is made");
    assert_eq!(b.finds("orders").map(|queue| queue.id), Some(queue.id));
}

#[tokio::test(start_paused = true)]
async fn node_that_others_took_for_gone_denies_no_queue_that_was_made_meanwhile() {
    let (world, a, b) = two().await;
    // By now changes are not sent to it because it asked.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(b.fleet.knows_all());
    world.silence(&b, 0);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let queue = make_at(&a, "q").await;
    world.hear(&b, 0);
    world.publish();
    tokio::task::yield_now().await;
    world.until("b knows all", || b.fleet.knows_all()).await;
    let found = b.engine.queue(&queue.key).map(|queue| queue.id);
    assert_eq!(found, Some(queue.id));
}

#[tokio::test(start_paused = true)]
async fn map_that_is_shown_again_is_no_newer_than_it_was() {
    let (world, a, _b) = two().await;
    assert!(a.fleet.knows_all());
    world.blind(&a);
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.show_again(&a);
    }
    assert!(!a.fleet.knows_all(), "a map of three seconds ago may miss a new owner");
}

#[tokio::test(start_paused = true)]
async fn shard_that_stalls_keeps_no_other_from_answering() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let (one, two) =
        (a.make("one").await.expect("queue one is made"), a.make("two").await.expect("queue two is made"));
    assert_ne!(a.fleet.shard_of(one.id), a.fleet.shard_of(two.id));
    world.faults(a.fleet.shard_of(one.id)).stalled.store(true, Ordering::Release);
    assert!(a.engine.may_answer(), "the other shard's replies leave");
    assert!(!a.engine.may_answer_for(one.id));
    assert!(a.engine.may_answer_for(two.id));
    a.send(&one, "no").await.expect_err("the shard may not answer");
    a.send(&two, "yes").await.expect("the other shard answers");
    world.faults(a.fleet.shard_of(two.id)).stalled.store(true, Ordering::Release);
    assert!(!a.engine.may_answer(), "a node that stood still may answer for none");
}

#[tokio::test(start_paused = true)]
async fn owner_that_may_not_answer_gives_out_no_list() {
    let (world, a, b) = two().await;
    let queue = make_at(&a, "q").await;
    world.faults(a.fleet.shard_of(queue.id)).stalled.store(true, Ordering::Release);
    // It reads the list again.
    world.cut(&a, &b);
    world.until("b notices", || !b.fleet.knows_all()).await;
    world.mend();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!b.fleet.knows_all(), "b has the list of an owner that may not answer");
    world.faults(a.fleet.shard_of(queue.id)).stalled.store(false, Ordering::Release);
    world.settled(&[&a, &b]).await;
}

#[tokio::test(start_paused = true)]
async fn shard_whose_commit_hangs_keeps_no_other_from_being_committed() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let (slow, other) = (world.faults(ShardId(0)), world.faults(ShardId(1)));
    let before = [&slow, &other].map(|faults| faults.committed.load(Ordering::Acquire));
    let hangs = slow.commits.lock();
    for round in 1..4 {
        assert!(a.fleet.commit_at_once(true), "the event loop has nothing left to wait for");
        assert_eq!(other.committed.load(Ordering::Acquire), before[1] + round);
    }
    assert_eq!(slow.committed.load(Ordering::Acquire), before[0]);
    drop(hangs);
    // Once for what was there, and once for what came meanwhile.
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while slow.committed.load(Ordering::Acquire) < before[0] + 2 {
        assert!(std::time::Instant::now() < end, "the slow shard was not committed");
        std::thread::yield_now();
    }
}

#[tokio::test(start_paused = true)]
async fn list_of_many_queues_is_read_whole_whatever_changes_meanwhile() {
    let world = World::of(1);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    for number in 0..1_203 {
        a.make(&format!("q{number}")).await.expect("the queue is made");
    }
    let b = world.start("b").await;
    a.make("meanwhile").await.expect("the queue is made");
    let gone = a.finds("q7").expect("node a knows the queue");
    let delete = DeleteQueue { queue: gone.id, if_version: None };
    a.engine.delete_queue(delete).await.expect("the queue is deleted");
    world.until("b knows all", || b.fleet.knows_all()).await;
    assert_eq!(b.engine.queue_count(), 1_203);
    assert!(b.finds("q7").is_none() && b.finds("meanwhile").is_some());
}

#[tokio::test(start_paused = true)]
async fn list_that_is_read_again_shows_what_is_new_and_nothing_that_is_gone() {
    let world = World::of(1);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    for number in 0..1_203 {
        a.make(&format!("q{number}")).await.expect("the queue is made");
    }
    let b = world.start("b").await;
    world.settled(&[&a, &b]).await;
    let (owner, other) = if a.fleet.keeps_shard(ShardId(0)) { (&a, &b) } else { (&b, &a) };
    world.cut(&a, &b);
    for name in ["q7", "q1201"] {
        let gone = owner.finds(name).expect("the owner of the shard shows the queue");
        let delete = DeleteQueue { queue: gone.id, if_version: None };
        owner.engine.delete_queue(delete).await.expect("the queue is deleted");
    }
    let again = owner.make("q7").await.expect("the name is free");
    world.mend();
    world.settled(&[&a, &b]).await;
    assert_eq!(other.engine.queue_count(), 1_202);
    assert_eq!(other.finds("q7").map(|queue| queue.id), Some(again.id));
    assert!(other.finds("q1201").is_none());
}

#[tokio::test(start_paused = true)]
async fn node_that_says_it_leaves_before_any_map_shows_it_is_given_nothing() {
    let world = World::of(4);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let leaves = Request::Leaves(Text::from("b"));
    let told = a.fleet.serve(&NodeId("b".into()), leaves).await;
    assert!(told.is_ok(), "{told:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _b = world.start("b").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.owned(), [4, 0]);
}

#[tokio::test(start_paused = true)]
async fn shard_is_served_while_it_is_made_ready_for_another_node() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let served = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for shard in [ShardId(0), ShardId(1)] {
        let (fleet, served) = (Arc::clone(&a.fleet), Arc::clone(&served));
        let at_prepare = move || {
            if fleet.keeps_shard(shard) {
                served.fetch_add(1, Ordering::AcqRel);
            }
        };
        *world.faults(shard).at_prepare.lock() = Some(Box::new(at_prepare));
    }
    let b = world.start("b").await;
    world.until("one shard has gone over", || world.owned() == [1, 1]).await;
    world.settled(&[&a, &b]).await;
    assert_eq!(served.load(Ordering::Acquire), 1, "it was made ready once, before it left");
}
