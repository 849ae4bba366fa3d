//! Queues that are renamed to names that another shard has, or had.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kew_core::command::{DeleteQueue, UpdateQueue};
use kew_core::{
    Command, DeadLetterAction, DeadLetterRule, Policy, Queue, QueueId, QueueKey, RuleError, ShardId,
};
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

/// Queues `dead` and `source` in two shards; dead letters of the second go to the first.
async fn linked(node: &Node) -> (Arc<Queue>, Arc<Queue>) {
    let dead = node.make("dead").await.expect("the queue is made");
    let source = node.make("source").await.expect("the queue is made");
    assert_ne!(node.fleet.shard_of(dead.id), node.fleet.shard_of(source.id));
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: kew_core::Carries::History,
        written_by: "test".into(),
    };
    let policy = Some(Policy { dead_letters: Some(Box::new(rule)), ..Policy::standard() });
    let update =
        UpdateQueue { queue: source.id, if_version: None, policy, documents: Vec::new(), rename: None };
    (dead, node.engine.update_queue(update).await.expect("the rule is set"))
}

/// Where the dead letters of a queue go.
fn target(node: &Node, queue: &Queue) -> Option<QueueKey> {
    let shown = node.engine.queue_by_id(queue.id)?;
    match &shown.policy.dead_letters.as_deref()?.then {
        DeadLetterAction::MoveTo(key) => Some(key.clone()),
        DeadLetterAction::Drop => None,
    }
}

#[tokio::test(start_paused = true)]
async fn rename_that_was_carried_out_and_not_answered_frees_the_old_name_and_rules_follow_it() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (dead, source) = linked(&a).await;
    let shard = a.fleet.shard_of(dead.id);
    world.faults(shard).unsaid.store(true, Ordering::Release);
    let unsaid = renamed(&b, &dead, "buried").await;
    assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
    world.faults(shard).unsaid.store(false, Ordering::Release);
    let both = [&a, &b];
    world.until("the old name is free", || world.named("dead").is_none()).await;
    let follows = |node: &&Node| target(node, &source) == Some(key("buried"));
    world.until("the rule follows", || both.iter().all(follows)).await;
    assert_still(&world, &both, [&Queue { key: key("buried"), ..Queue::clone(&dead) }, &source]);
}

#[tokio::test(start_paused = true)]
async fn rules_follow_a_rename_that_was_not_answered_when_its_shard_has_another_owner() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (dead, source) = linked(&a).await;
    let shard = a.fleet.shard_of(dead.id);
    let (owner, other) = if a.fleet.keeps_shard(shard) { (&a, &b) } else { (&b, &a) };
    world.faults(shard).unsaid.store(true, Ordering::Release);
    let unsaid = renamed(owner, &dead, "buried").await;
    assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
    // Before its owner has looked whether it lasts.
    world.give(shard, other);
    world.until("the shard has another owner", || other.fleet.keeps_shard(shard)).await;
    world.until("the old name is free", || world.named("dead").is_none()).await;
    let follows = |node: &&Node| target(node, &source) == Some(key("buried"));
    world.until("the rule follows", || [&a, &b].iter().all(follows)).await;
}

#[tokio::test(start_paused = true)]
async fn rules_follow_a_rename_whose_owner_ended_before_they_did() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (dead, source) = linked(&a).await;
    let shard = a.fleet.shard_of(dead.id);
    let (owner, other) = if a.fleet.keeps_shard(shard) { (a, b) } else { (b, a) };
    let faults = world.faults(owner.fleet.shard_of(source.id));
    let cause = || StoreError::Unavailable { cause: "the database is away".to_owned() };
    *faults.refuses.lock() = Some(cause());
    let unsaid = renamed(&owner, &dead, "buried").await;
    assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
    owner.kill(&world);
    world.until("the shard has another owner", || other.fleet.keeps_shard(shard)).await;
    assert_eq!(target(&other, &source), Some(key("dead")));
    *faults.refuses.lock() = None;
    world.until("the rule follows", || target(&other, &source) == Some(key("buried"))).await;
    let shown = || other.engine.queue_by_id(dead.id).expect("the queue was renamed");
    world.until("the old name is forgotten", || shown().documents.is_empty()).await;
    // What names a queue of the old name from now on stays.
    let anew = other.make("dead").await.expect("the name is free");
    assert_ne!(anew.id, dead.id);
}

#[tokio::test(start_paused = true)]
async fn rename_leaves_nothing_behind_when_the_rules_have_followed() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let (dead, source) = linked(&a).await;
    for name in ["buried", "dead", "buried again"] {
        renamed(&a, &dead, name).await.expect("no queue has the name");
        assert_eq!(target(&a, &source), Some(key(name)));
        let shown = a.engine.queue_by_id(dead.id).expect("the queue was renamed");
        assert!(shown.documents.is_empty(), "{:?}", shown.documents);
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_that_was_carried_out_and_not_answered_frees_the_name() {
    let world = World::of(2);
    world.keep_publishing();
    let a = world.start("a").await;
    world.settled(&[&a]).await;
    let x = a.make("x").await.expect("the queue is made");
    let faults = world.faults(a.fleet.shard_of(x.id));
    faults.unsaid.store(true, Ordering::Release);
    let delete = DeleteQueue { queue: x.id, if_version: None };
    let unsaid = a.engine.delete_queue(delete).await;
    assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
    faults.unsaid.store(false, Ordering::Release);
    world.until("the name is free", || world.named("x").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn name_whose_claim_was_not_answered_and_carried_out_late_is_free_again() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    for (name, late) in [("at once", Duration::ZERO), ("late", Duration::from_secs(100))] {
        world.lose_claims(Some(late));
        let unsaid = renamed(&b, &y, name).await;
        assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
        world.lose_claims(None);
        tokio::time::sleep(late).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(world.named(name), Some(a.fleet.shard_of(y.id)), "{name}");
        let freed = async {
            while world.named(name).is_some() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), freed).await.expect("the name is released");
        let has_it = renamed(&a, &x, name).await.expect("no queue has the name");
        assert_eq!((has_it.id, world.named(name)), (x.id, Some(a.fleet.shard_of(x.id))));
    }
}

#[tokio::test(start_paused = true)]
async fn name_whose_claim_was_not_answered_stays_with_the_queue_that_has_it_since() {
    let world = World::of(2);
    world.keep_publishing();
    let (a, b) = (world.start("a").await, world.start("b").await);
    world.settled(&[&a, &b]).await;
    let (x, y) = pair(&a).await;
    world.lose_claims(Some(Duration::ZERO));
    let unsaid = renamed(&b, &y, "z").await;
    assert!(matches!(unsaid, Err(EngineError::Unavailable { .. })), "{unsaid:?}");
    world.lose_claims(None);
    let z = renamed(&b, &y, "z").await.expect("the shard has the name");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_still(&world, &[&a, &b], [&z, &x]);
}
