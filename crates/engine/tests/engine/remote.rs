//! A store that answers from elsewhere: nothing is known of a step until its answer comes.

use std::sync::Arc;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{NewMessage, Policy, QueueId};
use kew_engine::{Engine, Options};

use crate::bench::{Answers, Bench, HandStore, bodies, key, rest, seconds};

/// Runs a command whose answer the test lets through.
async fn through<T: std::marker::Send + 'static>(
    store: &HandStore,
    command: impl Future<Output = T> + std::marker::Send + 'static,
) -> (T, Vec<QueueId>) {
    let task = tokio::spawn(command);
    rest().await;
    let freed = store.answer_late();
    (task.await.expect("the task ran to its end"), freed)
}

async fn bench() -> (Arc<HandStore>, Bench) {
    let store = HandStore::new(Answers::Late);
    let starting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { Bench::over(store, Options::default()).await }
    });
    rest().await;
    store.answer_late();
    (store, starting.await.expect("the engine's start ran to its end"))
}

async fn queue(store: &HandStore, engine: &Arc<Engine>) -> QueueId {
    let engine = Arc::clone(engine);
    let create = CreateQueue { key: key("q"), policy: Policy::standard(), documents: Vec::new() };
    through(store, async move { engine.create_queue(create).await }).await.0.expect("the queue is new").id
}

async fn send(store: &HandStore, engine: &Arc<Engine>, queue: QueueId, body: &'static str) {
    let task = Arc::clone(engine);
    let messages = vec![NewMessage::text(engine.message_id(), body)];
    let (sent, freed) =
        through(
            store,
            async move { task.send(Send { queue, messages, receipts: FirstReceipts::Told }).await },
        )
        .await;
    sent.expect("the send is valid");
    freed.into_iter().for_each(|queue| engine.wake(queue));
}

#[tokio::test]
async fn late_answers_serve_those_who_wait_in_order() {
    let (store, bench) = bench().await;
    let queue = queue(&store, &bench.engine).await;
    assert!(bench.engine.queue_by_id(queue).is_some());
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(20)).await;
    store.answer_late();
    rest().await;
    assert!(!first.is_finished() && !second.is_finished(), "both found nothing and stand in line");
    send(&store, &bench.engine, queue, "a").await;
    send(&store, &bench.engine, queue, "b").await;
    for _ in 0..4 {
        store.answer_late();
        rest().await;
    }
    assert_eq!(bodies(first).await, ["a"]);
    assert_eq!(bodies(second).await, ["b"]);
}

#[tokio::test]
async fn news_that_come_during_a_try_are_not_lost() {
    let (store, bench) = bench().await;
    let queue = queue(&store, &bench.engine).await;
    let waiting = bench.wait(queue, seconds(20)).await;
    let sending = tokio::spawn({
        let engine = Arc::clone(&bench.engine);
        let messages = vec![NewMessage::text(engine.message_id(), "a")];
        async move {
            engine.send(Send { queue, messages, receipts: FirstReceipts::Told }).await.map(|sent| sent.len())
        }
    });
    rest().await;
    // The try is answered empty, the message comes, and the news of it arrive before the receive has read its answer.
    store.answer_late().into_iter().for_each(|queue| bench.engine.wake(queue));
    assert_eq!(sending.await.expect("the task ran to its end"), Ok(1));
    for _ in 0..4 {
        rest().await;
        store.answer_late();
    }
    assert_eq!(bodies(waiting).await, ["a"]);
}

#[tokio::test]
async fn receive_that_goes_away_while_it_tries_does_not_stop_the_line() {
    let (store, bench) = bench().await;
    let queue = queue(&store, &bench.engine).await;
    let first = bench.wait(queue, seconds(20)).await;
    let second = bench.wait(queue, seconds(20)).await;
    store.answer_late();
    rest().await;
    send(&store, &bench.engine, queue, "a").await;
    first.abort();
    rest().await;
    send(&store, &bench.engine, queue, "b").await;
    for _ in 0..4 {
        store.answer_late();
        rest().await;
    }
    // The model leased the first message to the one that went away; a real store withdraws it with its answer.
    assert_eq!(bodies(second).await, ["b"]);
}
