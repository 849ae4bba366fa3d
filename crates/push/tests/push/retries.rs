//! Verdicts, retries, their delays, and what becomes of messages that failed too often.

use std::time::Duration;

use kew_core::MoveReason;
use kew_core::command::{Peek, Purge, View};
use kew_push::Consumer;
use kew_push::verdict::Ending;
use serde_json::json;

use crate::dispatcher::{TestDispatcher, pushing, secs, texts, to};
use crate::hook::{Arrived, Hook, Reply};

/// Ten to a batch, five minutes before a retry.
fn ten(hook: &Hook) -> Consumer {
    let consumer = Consumer { batch_size: 10, retry_delay: secs(300), ..to(hook) };
    pushing(&consumer, |push| push.max_wait = secs(60))
}

fn attempts_of(batch: &Arrived) -> Vec<u64> {
    batch.messages().into_iter().map(|(_, attempts)| attempts).collect()
}

// [seed] The eighth of ten fails, so all ten are delivered again.
#[tokio::test]
async fn when_the_eighth_of_ten_fails_all_ten_come_again() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "eighth")).await);
    let queue = dispatcher.queue("a", Some(&ten(&hook))).await;
    dispatcher.send(queue, texts(10)).await;
    dispatcher.until_holds(queue, (0, 0, 10)).await;
    hook.answer(|_| Reply::ok());
    dispatcher.advance(secs(299)).await;
    assert_eq!(hook.sizes(), [10]);
    dispatcher.advance(secs(1)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    let batches = hook.batches();
    assert_eq!(batches.iter().map(attempts_of).collect::<Vec<_>>(), [[1; 10], [2; 10]]);
}

// [seed] Explicitly acknowledged messages do not come again, even though the handler failed afterwards.
#[tokio::test]
async fn when_the_eighth_of_ten_fails_the_seven_acknowledged_before_do_not_come_again() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|batch| {
        let acks: Vec<String> = (1..=7).map(|number| batch.id_of(&format!("m{number}"))).collect();
        Reply::json(&json!({ "acks": acks, "outcome": "exception" }))
    });
    let queue = dispatcher.queue("a", Some(&ten(&hook))).await;
    dispatcher.send(queue, texts(10)).await;
    dispatcher.until_holds(queue, (0, 0, 3)).await;
    hook.answer(|_| Reply::ok());
    dispatcher.advance(secs(360)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    let again = hook.batches().pop().expect("the hook got two batches").messages();
    assert_eq!(again, [("m8".to_owned(), 2), ("m9".to_owned(), 2), ("m10".to_owned(), 2)]);
}

#[tokio::test]
async fn an_ack_in_a_reply_that_failed_holds() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|batch| Reply::status(500, json!({ "acks": [batch.id_of("m1")] }).to_string()));
    let queue = dispatcher.queue("a", Some(&ten(&hook))).await;
    dispatcher.send(queue, texts(10)).await;
    dispatcher.until_holds(queue, (0, 0, 9)).await;
}

// [seed] A retry of one message (3600 s), of the batch (600 s), and the consumer's retry delay (300 s) otherwise.
#[tokio::test]
async fn retry_delays_of_message_batch_and_consumer_each_hold_where_they_apply() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|batch| {
        if batch.messages().len() < 4 {
            return Reply::ok();
        }
        let retries = json!([
            { "id": batch.id_of("m1"), "delay_seconds": 3600 },
            { "id": batch.id_of("m2") },
            { "id": batch.id_of("m3"), "delay_seconds": 0 },
        ]);
        Reply::json(&json!({ "retries": retries, "retry_all": { "delay_seconds": 600 } }))
    });
    let consumer = pushing(&Consumer { batch_size: 4, ..ten(&hook) }, |push| push.max_wait = secs(0));
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, texts(4)).await;
    dispatcher.pause(queue, false).await;
    // A delay of 0 overrides the consumer's: it comes with the next batch.
    hook.until(2).await;
    dispatcher.until_holds(queue, (0, 0, 3)).await;
    let mut seen = Vec::new();
    for step in [299, 1, 299, 1, 2_999, 1] {
        dispatcher.advance(secs(step)).await;
        dispatcher.calm().await;
        let last = hook.messages().pop().map(|(text, _)| text);
        seen.push((dispatcher.seconds(), last.unwrap_or_default()));
    }
    let expected = [(299, "m3"), (300, "m2"), (599, "m2"), (600, "m4"), (3_599, "m4"), (3_600, "m1")];
    assert_eq!(seen, expected.map(|(at, text)| (at, text.to_owned())));
}

// [seed] delaySeconds: base ** attempts; beyond the longest delay it is the longest.
#[tokio::test]
async fn exponential_back_off_follows_the_attempts_and_is_clamped() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|batch| {
        let attempts = attempts_of(batch).remove(0);
        let delay = 30_u64.pow(u32::try_from(attempts).expect("the number of attempts fits into 32 bits"));
        Reply::json(&json!({ "retries": [{ "id": batch.id_of("m1"), "delay_seconds": delay }] }))
    });
    let queue = dispatcher.queue("a", Some(&Consumer { max_retries: 100, ..to(&hook) })).await;
    dispatcher.send(queue, texts(1)).await;
    let mut arrived_at = Vec::new();
    for (batches, delay) in [(1, 0), (2, 30), (3, 900), (4, 27_000), (5, 86_400)] {
        if delay > 0 {
            dispatcher.until_holds(queue, (0, 0, 1)).await;
            dispatcher.advance(secs(delay - 1)).await;
            assert_eq!(hook.sizes().len(), batches - 1, "nothing comes early");
            dispatcher.advance(secs(1)).await;
        }
        hook.until(batches).await;
        arrived_at.push(dispatcher.seconds());
    }
    assert_eq!(arrived_at, [0, 30, 930, 27_930, 114_330]);
    assert_eq!(dispatcher.attempts.count(Ending::Failed), 0, "a retry that was asked for is no failure");
}

// [seed] Three retries by default: four deliveries, then the dead-letter queue.
#[tokio::test]
async fn the_fourth_failure_moves_a_message_to_its_dead_letter_queue() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "")).await);
    let dead = dispatcher.queue("dead", None).await;
    let consumer = Consumer { dead_letter_queue: Some("dead".into()), ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    dispatcher.until_holds(dead, (1, 0, 0)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    let attempts: Vec<u64> = hook.messages().into_iter().map(|(_, attempts)| attempts).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    let peek = Peek { queue: dead, view: View::Ready, skip: 0, max: 1, body_bytes_max: 1 << 20 };
    let (message, _) = dispatcher.engine.peek(peek).await.expect("the queue `dead` exists").remove(0);
    assert_eq!((message.attempts, &message.content.body[..]), (0, b"m1".as_slice()));
    assert_eq!(message.origin.map(|origin| origin.reason), Some(MoveReason::AttemptsExhausted));
}

// [seed] Without a dead-letter queue it is deleted.
#[tokio::test]
async fn without_a_dead_letter_queue_the_last_failure_deletes() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "")).await);
    let queue = dispatcher.queue("a", Some(&Consumer { max_retries: 1, ..to(&hook) })).await;
    dispatcher.send(queue, texts(1)).await;
    hook.until(2).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages(), [("m1".to_owned(), 1), ("m1".to_owned(), 2)]);
}

#[tokio::test]
async fn no_retries_are_one_delivery_and_retries_that_were_asked_for_count_too() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|_| Reply::json(&json!({ "retry_all": { "delay_seconds": 5 } })));
    let dead = dispatcher.queue("dead", None).await;
    let consumer = Consumer { max_retries: 0, dead_letter_queue: Some("dead".into()), ..to(&hook) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    // It leaves before its delay.
    dispatcher.until_holds(dead, (1, 0, 0)).await;
    assert_eq!((hook.messages().len(), dispatcher.seconds()), (1, 0));
}

#[tokio::test]
async fn retry_after_holds_the_next_batch_and_delays_the_messages() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|_| Reply::Whole {
        status: 429,
        headers: "Retry-After: 120\r\n".into(),
        body: String::new(),
    });
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(2)).await;
    dispatcher.until_holds(queue, (0, 0, 2)).await;
    hook.answer(|_| Reply::ok());
    dispatcher.send(queue, ["new".to_owned()]).await;
    dispatcher.calm().await;
    dispatcher.advance(Duration::from_millis(119_999)).await;
    dispatcher.calm().await;
    assert_eq!(hook.sizes().len(), 1);
    dispatcher.advance(Duration::from_millis(1)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!((hook.messages().len(), dispatcher.seconds()), (5, 120));
}

#[tokio::test]
async fn what_the_old_webhook_answers_after_a_change_holds_nothing_of_the_new_one() {
    let (dispatcher, old, new) = (TestDispatcher::open().await, Hook::gated().await, Hook::open().await);
    old.answer(|_| Reply::Whole {
        status: 503,
        headers: "Retry-After: 3600\r\n".into(),
        body: String::new(),
    });
    let queue = dispatcher.queue("a", Some(&to(&old))).await;
    dispatcher.send(queue, ["first".to_owned()]).await;
    old.until(1).await;
    // All consumers of these tests have the same id, as the one that a PUT changes keeps its own.
    dispatcher.consume(queue, Some(&to(&new))).await;
    dispatcher.calm().await;
    old.let_through(1);
    dispatcher.until_holds(queue, (0, 0, 1)).await;
    dispatcher.calm().await;
    dispatcher.send(queue, ["second".to_owned()]).await;
    new.until(1).await;
    assert_eq!(new.messages(), [("second".to_owned(), 1)]);
    // The message itself waits as the old webhook asked.
    dispatcher.until_holds(queue, (0, 0, 1)).await;
}

#[tokio::test]
async fn messages_purged_while_under_way_are_gone() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::gated().await);
    hook.answer(|_| Reply::status(500, ""));
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(2)).await;
    hook.until(1).await;
    dispatcher.engine.purge(Purge { queue }).await.expect("the queue that is purged exists");
    hook.let_through(9);
    dispatcher.calm().await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.sizes(), [2]);
}
