//! Queues that are made and renamed while their shard leaves its node.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::UpdateQueue;
use kew_core::{Queue, ShardId};
use kew_engine::EngineError;
use tokio::task::JoinHandle;

use crate::world::{Node, World, key};

const SHARD: ShardId = ShardId(0);

/// A fleet of one node and one shard.
async fn one() -> (Arc<World>, Node) {
    let world = World::of(1);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    (world, a)
}

type Defining = JoinHandle<Result<Arc<Queue>, EngineError>>;

fn begin_to_make(node: &Node, name: &str) -> Defining {
    let engine = Arc::clone(&node.engine);
    let create = kew_core::command::CreateQueue {
        key: key(name),
        policy: kew_core::Policy::standard(),
        documents: Vec::new(),
    };
    tokio::spawn(async move { engine.create_queue(create).await })
}

fn begin_to_rename(node: &Node, queue: &Queue, name: &str) -> Defining {
    let (engine, queue, rename) = (Arc::clone(&node.engine), queue.id, Some(key(name)));
    let update = UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename };
    tokio::spawn(async move { engine.update_queue(update).await })
}

/// The shard leaves the node, whose database is silent for a moment.
async fn leave(world: &World, node: &Node) {
    world.silence(node, 0);
    world.until("the shard has left", || !node.fleet.keeps_shard(SHARD)).await;
}

async fn come_back(world: &World, node: &Node) {
    world.hear(node, 0);
    world.until("the shard has come back", || node.fleet.keeps_shard(SHARD)).await;
}

async fn ended(defining: Defining) -> Arc<Queue> {
    let ended = tokio::time::timeout(Duration::from_secs(20), defining).await;
    ended.expect("the definition ends").expect("the definition does not panic").expect("the shard is back")
}

#[tokio::test(start_paused = true)]
async fn queue_whose_name_was_claimed_when_its_shard_left_is_made_when_the_shard_comes_back() {
    let (world, a) = one().await;
    world.answer_claims_late(true);
    let making = begin_to_make(&a, "orders");
    world.until("the name is claimed", || world.named("orders").is_some()).await;
    leave(&world, &a).await;
    // The step is to be taken now: the shard is nowhere.
    world.answer_claims_late(false);
    tokio::time::sleep(Duration::from_millis(100)).await;
    come_back(&world, &a).await;
    ended(making).await;
    assert_eq!(world.named("orders"), Some(SHARD));
    a.make("next").await.expect("other queues of the shard are made too");
}

#[tokio::test(start_paused = true)]
async fn queue_has_its_name_although_its_shard_left_and_came_back_while_the_name_was_claimed() {
    let (world, a) = one().await;
    world.answer_claims_late(true);
    let making = begin_to_make(&a, "orders");
    world.until("the name is claimed", || world.named("orders").is_some()).await;
    leave(&world, &a).await;
    come_back(&world, &a).await;
    assert_eq!(world.named("orders"), None, "the shard came back without a queue of the name");
    world.answer_claims_late(false);
    ended(making).await;
    assert_eq!(world.named("orders"), Some(SHARD));
}

#[tokio::test(start_paused = true)]
async fn queue_is_renamed_although_its_shard_left_and_came_back_while_the_name_was_claimed() {
    let (world, a) = one().await;
    let queue = a.make("orders").await.expect("the queue is made");
    for (name, back_first) in [("first", false), ("second", true)] {
        world.answer_claims_late(true);
        let renaming = begin_to_rename(&a, &queue, name);
        world.until("the name is claimed", || world.named(name).is_some()).await;
        leave(&world, &a).await;
        if back_first {
            come_back(&world, &a).await;
        }
        world.answer_claims_late(false);
        tokio::time::sleep(Duration::from_millis(100)).await;
        come_back(&world, &a).await;
        assert_eq!(*ended(renaming).await.key.name, *name);
        assert_eq!(world.named(name), Some(SHARD));
    }
    assert_eq!((world.named("orders"), world.named("first")), (None, None));
}
