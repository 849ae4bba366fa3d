//! Shards that lie in several databases: one that is silent holds nothing up that lies in the others.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, DeleteQueue, UpdateQueue};
use kew_core::{Policy, Queue, ShardId};
use kew_fleet::{UNREADY_AFTER, WANTED_FOR};
use kew_store::Store as _;
use tokio::time::Instant;

use crate::world::{Node, World, key};

const AT_ONCE: Duration = Duration::ZERO;
/// By then a node that hears a database no more has found the owners of its shards there.
const FOUND_AFTER: Duration = UNREADY_AFTER.saturating_add(Duration::from_secs(2));

/// Three nodes with eight shards in two databases.
async fn three() -> (Arc<World>, [Node; 3]) {
    let world = World::over(8, 2);
    world.keep_publishing();
    let nodes = [world.start("a").await, world.start("b").await, world.start("c").await];
    world.settled(&nodes.each_ref()).await;
    (world, nodes)
}

/// A queue in each shard, in the order of the shards.
async fn queue_in_each(node: &Node) -> Vec<Arc<Queue>> {
    let mut queues = Vec::new();
    for number in 0..8 {
        queues.push(node.make(&format!("queue-{number}")).await.expect("the queue is made"));
    }
    queues.sort_by_key(|queue| node.fleet.shard_of(queue.id));
    let shards: Vec<u16> = queues.iter().map(|queue| node.fleet.shard_of(queue.id).0).collect();
    assert_eq!(shards, (0..8).collect::<Vec<u16>>());
    queues
}

/// A message comes through one node and goes through another.
async fn passes(queue: &Queue, from: &Node, to: &Node) -> bool {
    from.send(queue, "hello").await.is_ok()
        && matches!(to.take(queue, AT_ONCE).await, Ok(Some(body)) if body == "hello")
}

#[tokio::test(start_paused = true)]
async fn shards_of_each_database_are_spread_and_their_sums_are_even() {
    let (world, nodes) = three().await;
    world.until("each node has its share", || world.owned() == [3, 3, 2]).await;
    for node in &nodes {
        let of = |database| {
            node.fleet.kept().iter().filter(|shard| world.database_of(**shard) == database).count()
        };
        assert!((1..=2).contains(&of(0)) && (1..=2).contains(&of(1)), "{:?}", node.fleet.kept());
        assert!(node.fleet.health().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn node_that_one_database_does_not_answer_reaches_its_queues_through_their_new_owners() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    let [a, b, c] = &nodes;
    let kept = |database| {
        let of = |shard: &ShardId| world.database_of(*shard) == database;
        a.fleet.kept().into_iter().filter(of).collect::<Vec<ShardId>>()
    };
    let (there, lost) = (kept(0), kept(1));
    assert!(!there.is_empty() && !lost.is_empty());
    world.silence(a, 1);
    tokio::time::sleep(FOUND_AFTER).await;
    assert_eq!(a.fleet.kept(), there, "what lies in the other database is kept");
    for queue in &queues {
        assert!(passes(queue, a, b).await && passes(queue, c, a).await, "{}", queue.key.name);
    }
    // What others made there meanwhile may not have been heard of here.
    assert!(!a.fleet.knows_all() && b.fleet.knows_all());
    let said = a.fleet.health().map_err(|error| error.to_string());
    assert!(said.as_ref().is_err_and(|said| said.contains("database 2 of 2")), "{said:?}");
    assert!(b.fleet.health().is_ok() && c.fleet.health().is_ok());
    // The shards go from one to the other, and are found again.
    world.silence(b, 1);
    tokio::time::sleep(FOUND_AFTER + WANTED_FOR).await;
    for queue in &queues {
        assert!(passes(queue, a, c).await && passes(queue, b, a).await, "{}", queue.key.name);
    }
    world.hear(a, 1);
    world.hear(b, 1);
    world.settled(&nodes.each_ref()).await;
    assert!(a.fleet.health().is_ok() && b.fleet.health().is_ok());
    for queue in &queues {
        assert!(passes(queue, a, b).await, "{}", queue.key.name);
    }
}

#[tokio::test(start_paused = true)]
async fn database_that_is_away_takes_its_queues_along_and_no_others() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    let [a, b, c] = &nodes;
    nodes.iter().for_each(|node| world.silence(node, 1));
    tokio::time::sleep(FOUND_AFTER).await;
    for (queue, shard) in queues.iter().zip(0..) {
        let is_there = world.database_of(ShardId(shard)) == 0;
        let begun = Instant::now();
        assert_eq!(passes(queue, a, b).await, is_there, "{}", queue.key.name);
        assert!(is_there || begun.elapsed() < Duration::from_secs(10));
    }
    for node in &nodes {
        // Every node would say so: clients had none to go to.
        assert!(node.fleet.health().is_ok());
        assert!(!node.fleet.knows_all(), "a queue that is not found may be one of the database that is away");
    }
    for number in 0..6 {
        let made = c.make(&format!("new-{number}")).await.expect("new queues go where they can be kept");
        assert_eq!(world.database_of(c.fleet.shard_of(made.id)), 0);
        assert!(passes(&made, b, a).await);
    }
    // After a while a request is refused at once: it would hold a connection for nothing.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let begun = Instant::now();
    assert!(b.send(&queues[1], "nowhere").await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    nodes.iter().for_each(|node| world.hear(node, 1));
    world.settled(&nodes.each_ref()).await;
    for queue in &queues {
        assert!(passes(queue, c, a).await, "{}", queue.key.name);
    }
}

#[tokio::test(start_paused = true)]
async fn node_that_leaves_hands_over_what_it_can_beside_a_database_that_is_away() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    nodes.iter().for_each(|node| world.silence(node, 1));
    tokio::time::sleep(FOUND_AFTER).await;
    let [a, b, c] = nodes;
    let begun = Instant::now();
    a.leave(&world).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    world.until("the others have its shards", || b.fleet.kept().len() + c.fleet.kept().len() == 4).await;
    for queue in queues.iter().step_by(2) {
        assert!(passes(queue, &b, &c).await, "{}", queue.key.name);
    }
}

#[tokio::test(start_paused = true)]
async fn shards_are_taken_over_while_the_database_of_names_is_away_which_is_made_up_for() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    nodes.iter().for_each(|node| world.silence(node, 0));
    tokio::time::sleep(FOUND_AFTER).await;
    let [a, b, c] = nodes;
    let [left, ..] = b.fleet.kept()[..] else { unreachable!("each node keeps shards of both databases") };
    world.leave_name("left", left);
    b.kill(&world);
    world.until("the others keep its shards", || a.fleet.kept().len() + c.fleet.kept().len() == 4).await;
    for queue in queues.iter().skip(1).step_by(2) {
        assert!(passes(queue, &a, &c).await, "{}", queue.key.name);
    }
    assert!(a.make("new").await.is_err(), "no node can say whether the name is free");
    [&a, &c].iter().for_each(|node| world.hear(node, 0));
    world.settled(&[&a, &c]).await;
    world.until("the name of no queue is free", || world.named("left").is_none()).await;
    for queue in &queues {
        assert_eq!(world.named(&queue.key.name), Some(a.fleet.shard_of(queue.id)));
        assert!(passes(queue, &c, &a).await, "{}", queue.key.name);
    }
    assert!(a.make("new").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn definitions_that_need_no_name_wait_for_none_while_the_database_of_names_is_away() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    nodes.iter().for_each(|node| world.silence(node, 0));
    tokio::time::sleep(FOUND_AFTER).await;
    let [a, b, _c] = &nodes;
    // Those that need a name are refused: many at once, all of whom would have their turn before the others.
    let made: Vec<_> = (0..20)
        .map(|number| {
            let (engine, name) = (Arc::clone(&a.engine), format!("new-{number}"));
            let create = CreateQueue { key: key(&name), policy: Policy::standard(), documents: Vec::new() };
            tokio::spawn(async move { engine.create_queue(create).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let begun = Instant::now();
    for queue in queues.iter().skip(1).step_by(2) {
        let (policy, documents) = (Some(queue.policy.clone()), Vec::new());
        let update = UpdateQueue { queue: queue.id, if_version: None, policy, documents, rename: None };
        b.engine.update_queue(update).await.expect("settings of the queue need no name");
        let delete = DeleteQueue { queue: queue.id, if_version: None };
        b.engine.delete_queue(delete).await.expect("the queue is deleted, whatever becomes of its name");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for made in made {
        assert!(made.await.expect("nothing panics").is_err(), "no node can say whether the name is free");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    nodes.iter().for_each(|node| world.hear(node, 0));
    world.settled(&nodes.each_ref()).await;
    world.until("names of deleted queues are free", || world.named(&queues[1].key.name).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn shard_that_is_wanted_in_another_database_lies_there_and_is_served() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    let [a, _, c] = &nodes;
    let moved = ShardId(3);
    assert_eq!(world.database_of(moved), 1);
    world.want_in(moved, Some(0));
    world.until("it lies in the other one", || world.database_of(moved) == 0).await;
    world.settled(&nodes.each_ref()).await;
    for queue in &queues {
        assert!(passes(queue, c, a).await, "{}", queue.key.name);
    }
    // Which of the databases is silent counts for it from then on.
    let owner = nodes.iter().find(|node| node.fleet.kept().contains(&moved)).expect("a node keeps it");
    world.silence(owner, 1);
    tokio::time::sleep(FOUND_AFTER).await;
    assert!(owner.fleet.kept().contains(&moved));
    world.want_in(moved, Some(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.hear(owner, 1);
    world.until("it has come back", || world.database_of(moved) == 1).await;
    world.settled(&nodes.each_ref()).await;
    assert!(passes(&queues[3], a, c).await);
}

#[tokio::test(start_paused = true)]
async fn move_that_fails_is_tried_again_until_it_is_not_wanted_any_more() {
    let (world, nodes) = three().await;
    let queues = queue_in_each(&nodes[0]).await;
    let (first, second) = (ShardId(3), ShardId(4));
    *world.faults(first).cannot_copy.lock() = Some("there is no room".to_owned());
    world.want_in(first, Some(0));
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(world.database_of(first), 1);
    assert!(passes(&queues[3], &nodes[0], &nodes[1]).await, "it is served meanwhile");
    *world.faults(first).cannot_copy.lock() = None;
    world.until("it is tried again", || world.database_of(first) == 0).await;
    *world.faults(second).cannot_copy.lock() = Some("there is no room".to_owned());
    world.want_in(second, Some(1));
    tokio::time::sleep(Duration::from_secs(7)).await;
    world.want_in(second, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    *world.faults(second).cannot_copy.lock() = None;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.database_of(second), 0, "it stays");
    assert!(passes(&queues[4], &nodes[1], &nodes[2]).await);
}
