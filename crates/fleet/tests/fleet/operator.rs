//! What operators ask of a fleet: a shard goes where they want it, and stays there.

use std::time::Duration;

use kew_core::ShardId;
use kew_fleet::NodeId;

use super::world::{Node, World};

/// Longer than nodes wait before they spread shards evenly.
const LONG: Duration = Duration::from_secs(30);

/// Three nodes with two shards each.
async fn three(world: &std::sync::Arc<World>) -> [Node; 3] {
    world.keep_publishing();
    let nodes = [world.start("a").await, world.start("b").await, world.start("c").await];
    world.settled(&[&nodes[0], &nodes[1], &nodes[2]]).await;
    assert_eq!(world.owned(), [2, 2, 2]);
    nodes
}

#[tokio::test(start_paused = true)]
async fn shard_goes_where_an_operator_wants_it_and_stays_until_a_node_joins() {
    let world = World::of(6);
    let [a, b, c] = three(&world).await;
    let shard = a.fleet.kept()[0];
    let mut queues = Vec::new();
    for name in ["one", "two", "three", "four", "five", "six"] {
        let queue = b.make(name).await.expect("the queue is made");
        b.send(&queue, "kept").await.expect("a send through any node is acknowledged");
        queues.push(queue);
    }
    // Asked of a node that does not keep it.
    c.fleet.hand_over(shard, &b.id).await.expect("the owner begins");
    world.until("the shard is handed over", || b.fleet.keeps_shard(shard)).await;
    for queue in &queues {
        let got = c.take(queue, Duration::ZERO).await.expect("a receive through any node is answered");
        assert_eq!(got.as_deref(), Some("kept"));
    }
    tokio::time::sleep(LONG).await;
    assert_eq!(world.owned(), [1, 3, 2], "the shards are not spread again");
    let d = world.start("d").await;
    world.until("the shards are even", || world.owned().into_iter().max() == Some(2)).await;
    world.settled(&[&a, &b, &c, &d]).await;
}

#[tokio::test(start_paused = true)]
async fn receives_that_wait_go_along_with_their_shard() {
    const WAIT: Duration = Duration::from_secs(20);
    let world = World::of(6);
    let [a, b, c] = three(&world).await;
    let queue = a.make("queue").await.expect("the queue is made");
    let shard = a.fleet.shard_of(queue.id);
    let [owner, next, other] = {
        let mut nodes = [&a, &b, &c];
        nodes.sort_by_key(|node| !node.fleet.keeps_shard(shard));
        nodes
    };
    let begun = tokio::time::Instant::now();
    let ends = async |node: &Node| {
        let got = node.take(&queue, WAIT).await.expect("a receive that waits is answered");
        (got, begun.elapsed().as_secs())
    };
    let moves = async {
        // Later than a step waits for a shard to have an owner.
        tokio::time::sleep(Duration::from_secs(12)).await;
        other.fleet.hand_over(shard, &next.id).await.expect("the owner begins");
        world.until("the shard is handed over", || next.fleet.keeps_shard(shard)).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        other.send(&queue, "later").await.expect("a send is acknowledged");
    };
    let (at_owner, at_next, at_other, ()) = tokio::join!(ends(owner), ends(next), ends(other), moves);
    let all = [at_owner, at_next, at_other];
    let (got, empty): (Vec<_>, Vec<_>) = all.iter().partition(|(got, _)| got.is_some());
    assert_eq!(got.len(), 1, "{all:?}");
    assert!(got.iter().all(|(_, after)| (15..18).contains(after)), "{all:?}");
    assert!(empty.iter().all(|(_, after)| *after == WAIT.as_secs()), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn shard_is_given_to_no_node_that_has_gone_or_stops() {
    let world = World::of(6);
    let [a, b, c] = three(&world).await;
    let shard = a.fleet.kept()[0];
    let refused = b.fleet.hand_over(shard, &NodeId("nobody".into())).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("has gone")), "there is no such node");
    // It stops: the others hear of that before it hands its shards over.
    let stopped = c.id.clone();
    c.leave(&world).await;
    let refused = b.fleet.hand_over(shard, &stopped).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("has gone")), "that node has stopped");
    let unknown = b.fleet.hand_over(ShardId(600), &b.id).await;
    assert!(unknown.is_err(), "there is no such shard");
    assert!(a.fleet.keeps_shard(shard));
}

#[tokio::test(start_paused = true)]
async fn shard_that_is_there_already_stays_and_nothing_is_disturbed() {
    let world = World::of(6);
    let [a, b, _c] = three(&world).await;
    let shard = a.fleet.kept()[0];
    b.fleet.hand_over(shard, &a.id).await.expect("handing a shard to its owner is no error");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(a.fleet.keeps_shard(shard));
}

#[tokio::test(start_paused = true)]
async fn node_shows_itself_to_others_and_one_that_does_not_answer_is_not_waited_for() {
    let world = World::of(3);
    let (a, b) = (world.start("a").await, world.start("b").await);
    a.fleet.show_with(Box::new(|question| Box::pin(async move { format!("a saw {question}") })));
    b.fleet.show_with(Box::new(|_| Box::pin(std::future::pending())));
    assert_eq!(b.fleet.look_at(&a.id, "this").await.as_deref(), Some("a saw this"));
    let begun = tokio::time::Instant::now();
    assert_eq!(a.fleet.look_at(&b.id, "this").await, None);
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
    assert_eq!(a.fleet.look_at(&NodeId("nobody".into()), "this").await, None);
}
