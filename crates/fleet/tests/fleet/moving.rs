//! Messages that move between shards, while nodes that keep the shards come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{Lease, ListMoves, StartMove, UpdateQueue};
use kew_core::{Carries, DeadLetterAction, DeadLetterRule, Policy, Queue, QueueId, Sequence, TaskState};

use crate::world::{Node, World, key};

fn rule(to: &str) -> Policy {
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key(to)),
        carries: Carries::History,
        written_by: "test".into(),
    };
    Policy { dead_letters: Some(Box::new(rule)), ..Policy::standard() }
}

async fn set_rule(node: &Node, queue: QueueId, policy: Policy) {
    let update =
        UpdateQueue { queue, if_version: None, policy: Some(policy), documents: Vec::new(), rename: None };
    node.engine.update_queue(update).await.expect("a rule may lead to any shard");
}

/// Two nodes that keep a shard each.
async fn two_nodes() -> (Arc<World>, Node, Node) {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    (world, a, b)
}

/// Two queues in two shards, the first with a rule that leads to the second.
async fn linked(node: &Node) -> (Arc<Queue>, Arc<Queue>) {
    let source = node.make("source").await.expect("the queue is made");
    let dead = node.make("dead").await.expect("the queue is made");
    assert_ne!(node.fleet.shard_of(source.id), node.fleet.shard_of(dead.id));
    set_rule(node, source.id, rule("dead")).await;
    (source, dead)
}

/// Leases everything once and lets the leases end.
async fn fail_all(node: &Node, queue: &Queue, messages: usize) {
    let mut leased = 0;
    while leased < messages {
        let lease = Lease::of(queue.id, 10, node.engine.now());
        match node.engine.lease_waiting(lease, Duration::ZERO).await {
            Ok(some) if some.is_empty() => break,
            Ok(some) => leased += some.len(),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Takes messages until there were as many, and counts each.
async fn take_all(node: &Node, queue: &Queue, messages: usize) -> BTreeMap<String, u32> {
    let mut taken = BTreeMap::new();
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    while taken.len() < messages && tokio::time::Instant::now() < end {
        match node.take(queue, Duration::from_secs(1)).await {
            Ok(Some(body)) => *taken.entry(body).or_insert(0) += 1,
            Ok(None) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    while let Ok(Some(body)) = node.take(queue, Duration::from_secs(5)).await {
        *taken.entry(body).or_insert(0) += 1;
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn dead_letters_go_to_another_shard_once_each_while_its_owners_change() {
    const MESSAGES: usize = 1_500;
    let world = World::of(3);
    world.keep_publishing();
    let (a, b, c) = (world.start("a").await, world.start("b").await, world.start("c").await);
    world.settled(&[&a, &b, &c]).await;
    let (source, dead) = linked(&c).await;
    for number in 0..MESSAGES {
        let body: &'static str = Box::leak(format!("{number}").into_boxed_str());
        c.send(&source, body).await.expect("a send through any node is acknowledged");
    }
    fail_all(&c, &source, MESSAGES).await;
    // The leases end in half a minute, all at once.
    tokio::time::sleep(Duration::from_millis(30_001)).await;
    a.kill(&world);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let d = world.start("d").await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    b.kill(&world);
    world.settled(&[&c, &d]).await;
    let taken = take_all(&d, &dead, MESSAGES).await;
    assert_eq!(taken.len(), MESSAGES);
    assert!(taken.values().all(|times| *times == 1), "some came twice");
    assert_eq!(c.take(&source, Duration::ZERO).await.expect("a receive is answered"), None);
}

#[tokio::test(start_paused = true)]
async fn move_task_brings_messages_to_the_shard_they_came_from() {
    const MESSAGES: usize = 40;
    let (_world, a, b) = two_nodes().await;
    let (source, dead) = linked(&a).await;
    for number in 0..MESSAGES {
        let body: &'static str = Box::leak(format!("{number}").into_boxed_str());
        a.send(&source, body).await.expect("a send is acknowledged");
    }
    fail_all(&a, &source, MESSAGES).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let start = StartMove { source: dead.id, destination: None, rate_max: None, running_max: 10 };
    let task = b.engine.start_move(start).await.expect("a task may lead to any shard");
    assert_eq!(task.to_move, MESSAGES as u64);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let tasks = a.engine.list_moves(ListMoves { source: Some(dead.id) }).await.expect("tasks are listed");
    assert_eq!((tasks[0].state, tasks[0].moved), (TaskState::Completed, MESSAGES as u64));
    let taken = take_all(&b, &source, MESSAGES).await;
    assert_eq!((taken.len(), taken.values().max()), (MESSAGES, Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn trail_of_a_message_leads_from_its_first_queue_into_the_other_shard() {
    let (_world, a, b) = two_nodes().await;
    let (source, dead) = linked(&a).await;
    a.send(&source, "poison").await.expect("a send is acknowledged");
    fail_all(&a, &source, 1).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    for node in [&a, &b] {
        let events = node.engine.timeline(source.id, Sequence(1)).await.expect("events are answered");
        let arrived = events.last().expect("the message has a history");
        assert!(arrived.came_from().is_some() && arrived.queue == dead.id, "at {}: {events:?}", node.id);
    }
}

#[tokio::test(start_paused = true)]
async fn rule_of_another_shard_follows_a_queue_to_its_new_name() {
    let (_world, a, b) = two_nodes().await;
    let (source, dead) = linked(&a).await;
    let rename = UpdateQueue {
        queue: dead.id,
        if_version: None,
        policy: None,
        documents: Vec::new(),
        rename: Some(key("buried")),
    };
    b.engine.update_queue(rename).await.expect("the queue is renamed");
    for node in [&a, &b] {
        let shown = node.finds("source").expect("the queue is shown");
        assert_eq!(shown.policy, rule("buried"), "at {}", node.id);
    }
    b.send(&source, "late").await.expect("a send is acknowledged");
    fail_all(&b, &source, 1).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(take_all(&a, &dead, 1).await, BTreeMap::from([("late".to_owned(), 1)]));
}

#[tokio::test(start_paused = true)]
async fn what_is_owed_to_a_deleted_queue_goes_back() {
    let (world, a, b) = two_nodes().await;
    let (source, dead) = linked(&a).await;
    a.send(&source, "poison").await.expect("a send is acknowledged");
    fail_all(&a, &source, 1).await;
    // No node carries anything while the two do not hear each other, and the queue is deleted where it is.
    let owner = if a.fleet.keeps_shard(a.fleet.shard_of(dead.id)) { &a } else { &b };
    world.cut(&a, &b);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let delete = kew_core::command::DeleteQueue { queue: dead.id, if_version: None };
    owner.engine.delete_queue(delete).await.expect("the queue is deleted");
    world.mend();
    world.settled(&[&a, &b]).await;
    assert_eq!(take_all(&b, &source, 1).await, BTreeMap::from([("poison".to_owned(), 1)]));
}
