//! Queues that are renamed to names that another shard has, or had.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{DeleteQueue, UpdateQueue};
use kew_core::{Command, Queue, QueueId, RuleError, ShardId};
use kew_engine::EngineError;
use kew_peer::{Refusal, Request};
use kew_store::StoreError;
use tokio::time::Instant;

use crate::world::{Node, World, key};

fn rename(queue: QueueId, name: &str) -> UpdateQueue {
    let rename = Some(key(name));
    UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename }
}

async fn renamed(node: &Node, queue: &Queue, name: &str) -> Result<Arc<Queue>, EngineError> {
    node.engine.update_queue(rename(queue.id, name)).await
}

fn exists(queue: &Arc<Queue>) -> Result<Arc<Queue>, EngineError> {
    Err(EngineError::Rule(RuleError::QueueExists(Arc::clone(queue))))
}

/// Queues `x` and `y`, in two shards.
async fn pair(node: &Node) -> (Arc<Queue>, Arc<Queue>) {
    let x = node.make("x").await.expect("the queue is made");
    let y = node.make("y").await.expect("the queue is made");
    assert_ne!(node.fleet.shard_of(x.id), node.fleet.shard_of(y.id));
    (x, y)
}

/// Whether nodes and names agree that these two are the queues.
fn assert_still(world: &World, nodes: &[&Node], queues: [&Queue; 2]) {
    for queue in queues {
        let name = &queue.key.name;
        for node in nodes {
            assert_eq!(node.finds(name).map(|found| found.id), Some(queue.id), "{name} at {}", node.id);
        }
        assert_eq!(world.named(name), Some(nodes[0].fleet.shard_of(queue.id)), "the name {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn name_of_a_queue_in_another_shard_of_the_node_is_refused_and_its_shards_open_again() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let (x, y) = pair(&a).await;
    assert_eq!(renamed(&a, &x, "y").await, exists(&y));
    assert_still(&world, &[&a], [&x, &y]);
    a.kill(&world);
    let b = world.start("b").await;
    world.settled(&[&b]).await;
    assert_still(&world, &[&b], [&x, &y]);
}

#[tokio::test(start_paused = true)]
async fn name_of_a_queue_that_another_node_keeps_is_refused_by_any_node() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    let (x, y) = pair(&a).await;
    for node in [&a, &b, &c] {
        assert_eq!(renamed(node, &x, "y").await, exists(&y), "at {}", node.id);
        assert_eq!(renamed(node, &y, "x").await, exists(&x), "at {}", node.id);
    }
    assert_still(&world, &[&a, &b, &c], [&x, &y]);
    b.kill(&world);
    world.settled(&[&a, &c]).await;
    assert_still(&world, &[&a, &c], [&x, &y]);
}

#[tokio::test(start_paused = true)]
async fn two_queues_that_want_each_others_names_do_not_wait_for_each_other() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    let begun = Instant::now();
    for (one, other) in [(&a, &b), (&b, &a)] {
        let both = async { tokio::join!(renamed(one, &x, "y"), renamed(other, &y, "x")) };
        let answers = tokio::time::timeout(Duration::from_secs(20), both).await;
        assert_eq!(answers.expect("both are answered"), (exists(&y), exists(&x)));
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_still(&world, &[&a, &b], [&x, &y]);
}

#[tokio::test(start_paused = true)]
async fn name_of_a_deleted_queue_of_another_shard_is_free_for_a_rename() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    b.engine.delete_queue(DeleteQueue { queue: y.id, if_version: None }).await.expect("the queue is deleted");
    let renamed = renamed(&b, &x, "y").await.expect("no queue has the name");
    assert_eq!(renamed.id, x.id);
    assert_eq!((world.named("x"), world.named("y")), (None, Some(a.fleet.shard_of(x.id))));
    for node in [&a, &b] {
        assert_eq!(node.finds("y").map(|queue| queue.id), Some(x.id));
        assert_eq!(node.finds("x"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn rename_waits_for_a_name_that_another_shard_is_about_to_release_and_is_refused_when_it_does_not() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    world.keep_names(true);
    let delete = DeleteQueue { queue: y.id, if_version: None };
    a.engine.delete_queue(delete).await.expect("the queue is deleted, whatever becomes of its name");
    let begun = Instant::now();
    let refused = renamed(&b, &x, "y").await;
    assert!(matches!(refused, Err(EngineError::Unavailable { .. })), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(world.named("y"), Some(a.fleet.shard_of(y.id)), "only its own shard releases it");
    let (done, ()) = tokio::join!(renamed(&b, &x, "y"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.keep_names(false);
    });
    assert_eq!(done.expect("the name was released").id, x.id);
    assert_eq!(world.named("y"), Some(a.fleet.shard_of(x.id)));
}

#[tokio::test(start_paused = true)]
async fn name_that_a_ledger_without_room_did_not_take_is_free() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let x = a.make("x").await.expect("the queue is made");
    let faults = world.faults(a.fleet.shard_of(x.id));
    *faults.refuses.lock() = Some(StoreError::NoSpace);
    assert_eq!(renamed(&a, &x, "y").await, Err(EngineError::NoSpace));
    *faults.refuses.lock() = None;
    assert_eq!(world.named("y"), None);
    assert_eq!(world.named("x"), Some(a.fleet.shard_of(x.id)));
}

#[tokio::test(start_paused = true)]
async fn shard_neither_changes_nor_deletes_a_queue_of_another() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    let delete = DeleteQueue { queue: x.id, if_version: None };
    let wrong: ShardId = a.fleet.shard_of(y.id);
    for command in [Command::UpdateQueue(rename(x.id, "z")), Command::DeleteQueue(delete)] {
        let owner = if a.fleet.keeps_shard(wrong) { &a } else { &b };
        let refused = owner.fleet.serve(&b.id, Request::Step { shard: wrong, command }).await;
        assert!(matches!(refused, Err(Refusal::Store(StoreError::Unavailable { .. }))), "{refused:?}");
    }
    assert_still(&world, &[&a, &b], [&x, &y]);
    assert_eq!(world.named("z"), None);
}
