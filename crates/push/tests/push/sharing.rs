//! How many batches are under way: of one consumer, and of all of them.

use kew_push::Consumer;

use crate::dispatcher::{TestDispatcher, engine, pushing, secs, texts, to};
use crate::hook::{Hook, Reply};

#[tokio::test]
async fn a_concurrency_of_one_is_strictly_one_at_a_time() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let consumer = pushing(&Consumer { batch_size: 1, ..to(&hook) }, |push| push.max_concurrency = Some(1));
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(50)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!((hook.sizes().len(), hook.most_at_once()), (50, 1));
    let arrived: Vec<String> = hook.messages().into_iter().map(|(text, _)| text).collect();
    assert_eq!(arrived, texts(50).collect::<Vec<_>>(), "one at a time, they come in order");
}

#[tokio::test]
async fn concurrency_grows_with_the_backlog_up_to_its_bound() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let consumer = pushing(&Consumer { batch_size: 1, ..to(&hook) }, |push| push.max_concurrency = Some(4));
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(100)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!((hook.sizes().len(), hook.most_at_once()), (100, 4));
}

#[tokio::test]
async fn what_keeps_failing_is_tried_one_at_a_time() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "")).await);
    let consumer = Consumer { batch_size: 1, retry_delay: secs(600), ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(60)).await;
    dispatcher.until_holds(queue, (0, 0, 60)).await;
    assert!(hook.most_at_once() <= 2, "{}", hook.most_at_once());
}

#[tokio::test]
async fn queues_with_a_backlog_take_turns() {
    let dispatcher = TestDispatcher::over(engine().await, 1);
    let hook = Hook::open().await;
    let consumer = Consumer { batch_size: 1, ..to(&hook) };
    let mut queues = Vec::new();
    for name in ["a", "b", "c"] {
        let queue = dispatcher.queue(name, Some(&consumer)).await;
        dispatcher.pause(queue, true).await;
        dispatcher.send(queue, texts(20).map(|text| format!("{name}{text}"))).await;
        queues.push(queue);
    }
    for queue in &queues {
        dispatcher.pause(*queue, false).await;
    }
    for queue in queues {
        dispatcher.until_holds(queue, (0, 0, 0)).await;
    }
    assert_eq!((hook.sizes().len(), hook.most_at_once()), (60, 1));
    let names: Vec<char> = hook.messages().iter().filter_map(|(text, _)| text.chars().next()).collect();
    // The first few come before all three are there.
    let of_b_among_the_first = names.iter().take(24).filter(|name| **name == 'b').count();
    assert!(of_b_among_the_first >= 5, "{names:?}");
}

#[tokio::test]
async fn a_queue_that_is_sent_to_while_it_waits_for_a_place_keeps_its_turn() {
    let dispatcher = TestDispatcher::over(engine().await, 1);
    let hook = Hook::gated().await;
    let consumer = Consumer { batch_size: 1, ..to(&hook) };
    let (first, fed, quiet) = (
        dispatcher.queue("first", Some(&consumer)).await,
        dispatcher.queue("fed", Some(&consumer)).await,
        dispatcher.queue("quiet", Some(&consumer)).await,
    );
    dispatcher.send(first, ["first".to_owned()]).await;
    hook.until(1).await;
    dispatcher.send(fed, ["fed".to_owned()]).await;
    dispatcher.calm().await;
    dispatcher.send(quiet, ["quiet".to_owned()]).await;
    dispatcher.calm().await;
    for _ in 0..3 {
        dispatcher.send(fed, ["more".to_owned()]).await;
        dispatcher.calm().await;
    }
    hook.let_through(1);
    hook.until(2).await;
    let texts: Vec<String> = hook.messages().into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["first", "fed"], "it waited before the quiet one did");
    hook.let_through(9);
    for queue in [first, fed, quiet] {
        dispatcher.until_holds(queue, (0, 0, 0)).await;
    }
}
