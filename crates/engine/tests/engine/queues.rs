//! What the snapshots show as queues come, change and go.

use std::sync::Arc;

use kew_core::command::{CreateQueue, DeleteQueue, UpdateQueue};
use kew_core::{AccountId, Carries, DeadLetterAction, DeadLetterRule, Policy, QueueKey, RuleError};
use kew_engine::{EngineError, Listing, Options};

use crate::bench::{Bench, key, name, seconds};

fn change(queue: kew_core::QueueId) -> UpdateQueue {
    UpdateQueue { queue, if_version: None, policy: None, documents: Vec::new(), rename: None }
}

#[tokio::test]
async fn queues_show_what_was_last_written_without_a_store_call() {
    let bench = Bench::new().await;
    let made = bench.queue_with("q", Policy::standard()).await;
    let policy = Policy { delay: seconds(3), ..Policy::standard() };
    let changed = UpdateQueue { policy: Some(policy), ..change(made.id) };
    bench.engine.update_queue(changed).await.expect("the queue exists");
    let before = bench.store.step_count();
    let shown = bench.engine.queue(name("q")).expect("the snapshot holds the queue");
    assert_eq!((shown.version, shown.policy.delay), (2, seconds(3)));
    assert_eq!(bench.engine.queue_by_id(made.id), Some(shown));
    assert_eq!(bench.engine.queue(&key("q")), bench.engine.queue(name("q")));
    assert_eq!(bench.engine.queue(name("other")), None);
    assert_eq!(bench.store.step_count(), before);
    bench
        .engine
        .delete_queue(DeleteQueue { queue: made.id, if_version: None })
        .await
        .expect("the queue exists");
    assert_eq!(bench.engine.queue(name("q")), None);
    assert_eq!(bench.engine.queue_by_id(made.id), None);
    assert_eq!(bench.engine.queue_count(), 0);
}

#[tokio::test]
async fn queue_whose_name_is_taken_is_refused_with_the_one_that_has_it() {
    let bench = Bench::new().await;
    let made = bench.queue_with("q", Policy::standard()).await;
    let create = CreateQueue { key: key("q"), policy: Policy::standard(), documents: Vec::new() };
    assert_eq!(
        bench.engine.create_queue(create).await,
        Err(EngineError::Rule(RuleError::QueueExists(made.clone())))
    );
    let stale = UpdateQueue { if_version: Some(7), ..change(made.id) };
    assert_eq!(bench.engine.update_queue(stale).await, Err(EngineError::Rule(RuleError::VersionChanged)));
}

#[tokio::test]
async fn of_queues_that_are_made_at_once_in_any_region_none_gets_past_what_an_account_may_have() {
    let bench = Bench::with(Options { queues_max: 3, ..Options::default() }).await;
    let make = |account, region: &str, name: &str| {
        let key = QueueKey::new(AccountId(account), region, name);
        bench.engine.create_queue(CreateQueue { key, policy: Policy::standard(), documents: Vec::new() })
    };
    let made = tokio::join!(make(0, "r", "a"), make(0, "s", "a"), make(0, "t", "a"), make(0, "u", "a"));
    let made = [made.0, made.1, made.2, made.3];
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3);
    assert_eq!(made[3], Err(EngineError::TooManyQueues { max: 3 }));
    let first = made[0].clone().expect("the first of three queues was made");
    assert_eq!(
        make(0, "r", "a").await,
        Err(EngineError::Rule(RuleError::QueueExists(first.clone()))),
        "it is no new one"
    );
    make(1, "r", "a").await.expect("another account has its own bound");
    bench
        .engine
        .delete_queue(DeleteQueue { queue: first.id, if_version: None })
        .await
        .expect("the queue exists");
    make(0, "u", "a").await.expect("a deleted queue no longer counts");
}

#[tokio::test]
async fn rules_of_other_queues_follow_a_rename() {
    let bench = Bench::new().await;
    let dead = bench.queue("dead").await;
    let rule = DeadLetterRule {
        attempts_max: 1,
        then: DeadLetterAction::MoveTo(key("dead")),
        carries: Carries::History,
        written_by: "test".into(),
    };
    let source =
        bench.queue_with("q", Policy { dead_letters: Some(rule.into()), ..Policy::standard() }).await;
    let renamed = UpdateQueue { rename: Some(key("buried")), ..change(dead) };
    bench.engine.update_queue(renamed).await.expect("the name is free");
    assert_eq!(bench.engine.queue(name("dead")), None);
    assert_eq!(bench.engine.queue(name("buried")).map(|queue| queue.id), Some(dead));
    let shown = bench.engine.queue_by_id(source.id).expect("the snapshot holds the queue");
    assert_eq!(
        shown.policy.dead_letters.as_deref().map(|rule| &rule.then),
        Some(&DeadLetterAction::MoveTo(key("buried")))
    );
    assert_eq!(shown.version, 2);
}

#[tokio::test]
async fn queues_of_the_store_are_shown_from_the_start() {
    let bench = Bench::new().await;
    for name in ["b", "a", "c"] {
        bench.queue(name).await;
    }
    let reopened = Bench::over(Arc::clone(&bench.store), Options::default()).await;
    let listing = Listing { account: AccountId(0), region: "here", prefix: "", after: None, max: 2 };
    let names = |queues: Vec<Arc<kew_core::Queue>>| {
        queues.iter().map(|queue| queue.key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(reopened.engine.queues(listing)), ["a", "b"]);
    assert_eq!(names(reopened.engine.queues(Listing { after: Some("b"), ..listing })), ["c"]);
    assert_eq!(names(reopened.engine.all_queues()), ["a", "b", "c"]);
}
