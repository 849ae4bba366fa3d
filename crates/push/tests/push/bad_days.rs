//! Targets that crash, hang, lie or are not there.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::Lease;
use kew_engine::{EngineError, Options};
use kew_push::verdict::Ending;
use kew_push::{Consumer, Notice, Target};
use kew_testing::{CountingEntropy, LentStore, TestStore, start_engine};
use tokio::net::TcpListener;

use crate::dispatcher::{TestDispatcher, pushing, secs, texts, to, to_url, unreached, until};
use crate::hook::{Down, Hook, Reply};

/// What the hook does to the first batch; the second is acknowledged. The error that was noted.
async fn after(reply: Reply, expected: &str) {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    // Only a reply that never comes is waited for this long.
    let limit = if matches!(reply, Reply::Silence) { secs(1) } else { secs(30) };
    hook.answer(move |batch| {
        let is_first = batch.messages().iter().all(|(_, attempts)| *attempts == 1);
        if is_first { reply.clone() } else { Reply::ok() }
    });
    let consumer = pushing(&to(&hook), |push| {
        if let Target::Webhook { timeout, .. } = &mut push.target {
            *timeout = limit;
        }
    });
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, texts(2)).await;
    dispatcher.pause(queue, false).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages().len(), 4, "both came twice: {expected}");
    let attempt = dispatcher.attempts.latest().pop().expect("the attempt was noted");
    let error = attempt.error.clone().unwrap_or_default();
    assert!(error.contains(expected), "{error}");
    assert_eq!((attempt.ending, attempt.acked, attempt.messages), (Ending::Failed, 0, 2));
    assert!(dispatcher.notices.lock().iter().any(|notice| matches!(notice, Notice::BatchFailed(_))));
}

#[tokio::test]
async fn a_reply_that_never_comes_is_a_failed_batch() {
    after(Reply::Silence, "no whole reply within 1s").await;
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failed_batch() {
    after(Reply::Hangup, "the connection broke").await;
}

#[tokio::test]
async fn half_a_reply_is_a_failed_batch() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"acks\":".to_vec();
    after(Reply::Raw(half), "the connection broke").await;
}

#[tokio::test]
async fn a_reply_that_is_no_http_is_a_failed_batch() {
    after(Reply::Raw(b"hello there\r\n\r\n".to_vec()), "the connection broke").await;
}

#[tokio::test]
async fn ten_megabytes_are_not_read() {
    let body = format!("{{\"outcome\":\"{}\"}}", "x".repeat(10 << 20));
    after(Reply::status(200, body), "the reply has more than 1048576 bytes").await;
}

#[tokio::test]
async fn nonsense_with_a_good_status_is_a_failed_batch() {
    after(Reply::status(200, "done!"), "the reply cannot be understood").await;
}

#[tokio::test]
async fn a_redirect_is_a_failed_batch_and_is_not_followed() {
    let reply = Reply::Whole {
        status: 307,
        headers: "Location: http://127.0.0.1:1/\r\n".into(),
        body: String::new(),
    };
    after(reply, "redirect").await;
}

#[tokio::test]
async fn a_page_with_a_good_status_is_a_failed_batch() {
    let reply = Reply::Whole {
        status: 200,
        headers: "Content-Type: text/html\r\n".into(),
        body: "<html>all is well</html>".into(),
    };
    after(reply, "the reply cannot be understood").await;
}

#[tokio::test]
async fn a_verdict_is_read_by_what_it_says_and_not_by_its_content_type() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    hook.answer(|batch| Reply::Whole {
        status: 200,
        headers: "Content-Type: image/png\r\n".into(),
        body: serde_json::json!({ "acks": [batch.id_of("m1")], "retry_all": { "delay_seconds": 60 } })
            .to_string(),
    });
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.pause(queue, true).await;
    dispatcher.send(queue, texts(2)).await;
    dispatcher.pause(queue, false).await;
    dispatcher.until_holds(queue, (0, 0, 1)).await;
    assert_eq!(dispatcher.attempts.count(Ending::Failed), 0);
}

#[tokio::test]
async fn a_verdict_on_messages_that_are_not_of_its_batch_is_reported() {
    let (dispatcher, hook) = (TestDispatcher::open().await, Hook::open().await);
    let other = "0b".repeat(16);
    let named = other.clone();
    hook.answer(move |batch| {
        let retries = [serde_json::json!({ "id": "x".repeat(10_000) })];
        Reply::json(&serde_json::json!({ "acks": [batch.id_of("m1"), named], "retries": retries }))
    });
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(1)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    until("a notice", || !dispatcher.notices.lock().is_empty()).await;
    let (notices, attempt) = (dispatcher.notices.lock(), dispatcher.attempts.latest().remove(0));
    let [Notice::StrangeIds { queue, batch, ids }] = notices.as_slice() else { panic!("{notices:?}") };
    assert_eq!((&*queue.name, batch, ids.count, &ids.example), ("a", &attempt.batch, 2, &other));
    assert_eq!((attempt.ending, attempt.acked), (Ending::Returned, 1));
}

/// A consumer with all defaults: three retries at once, and no dead-letter queue.
fn with_defaults(url: &str) -> Consumer {
    let consumer = to_url(url);
    assert_eq!((consumer.max_retries, consumer.retry_delay), (3, Duration::ZERO));
    consumer
}

// The pauses between the tries are real, and short.
#[tokio::test]
async fn a_target_that_is_down_for_a_while_costs_no_attempt_and_no_message() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let consumer = Consumer { batch_size: 10, ..with_defaults(&down.url()) };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(25)).await;
    until("more tries than deliveries are allowed", || unreached(&dispatcher) >= 5).await;
    dispatcher.until_holds(queue, (25, 0, 0)).await;
    dispatcher.advance(secs(3_600)).await;
    let hook = Hook::open_at(down);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    let found = hook.messages();
    assert_eq!(found.len(), 25, "nothing is lost, and nothing comes twice");
    assert!(found.iter().all(|(_, attempts)| *attempts == 1), "they are as if never leased: {found:?}");
    assert_eq!(dispatcher.attempts.count(Ending::Failed), 0);
}

#[tokio::test]
async fn a_circuit_is_shown_while_it_is_open_and_reported_when_it_opens_and_closes() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let consumer = with_defaults(&down.url());
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    until("three tries", || dispatcher.circuits.open().first().is_some_and(|open| open.tries >= 3)).await;
    let open = dispatcher.circuits.open().remove(0);
    assert_eq!((&*open.queue.name, open.consumer), ("a", consumer.id));
    assert!(open.error.contains("cannot connect to"), "{open:?}");
    assert!((Duration::from_millis(300)..=secs(10)).contains(&open.pause), "{open:?}");
    let hook = Hook::open_at(down);
    hook.until(1).await;
    until("the circuit to close", || dispatcher.circuits.count() == 0).await;
    let told = dispatcher.notices.lock();
    assert!(matches!(told.as_slice(), [Notice::Unreached(_), Notice::ReachedAgain(_)]), "{told:?}");
}

#[tokio::test]
async fn the_end_of_the_dispatcher_says_nothing_of_a_target_that_is_still_down() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let queue = dispatcher.queue("a", Some(&with_defaults(&down.url()))).await;
    dispatcher.send(queue, texts(1)).await;
    until("the circuit to open", || dispatcher.circuits.count() == 1).await;
    let notices = Arc::clone(&dispatcher.notices);
    dispatcher.close().await;
    let heard = notices.lock();
    assert!(matches!(heard.as_slice(), [Notice::Unreached(_)]), "{heard:?}");
}

#[tokio::test]
async fn a_target_that_is_given_up_unreached_is_not_said_to_be_reached_again() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let queue = dispatcher.queue("a", Some(&with_defaults(&down.url()))).await;
    dispatcher.send(queue, texts(1)).await;
    until("the circuit to open", || dispatcher.circuits.count() == 1).await;
    dispatcher.consume(queue, None).await;
    until("the circuit to go", || dispatcher.circuits.count() == 0).await;
    until("a notice", || dispatcher.notices.lock().len() >= 2).await;
    let heard = dispatcher.notices.lock();
    assert!(matches!(heard.as_slice(), [Notice::Unreached(_), Notice::GoneUnreached(_)]), "{heard:?}");
}

#[tokio::test]
async fn a_name_that_leads_nowhere_costs_nothing() {
    let dispatcher = TestDispatcher::open().await;
    let consumer = Consumer { max_retries: 0, ..with_defaults("http://nowhere.invalid/") };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    until("a try", || unreached(&dispatcher) >= 1).await;
    dispatcher.until_holds(queue, (1, 0, 0)).await;
}

// The kernel takes the connection, and nothing answers on it: encryption is not agreed on within the time limit.
#[tokio::test]
async fn a_connection_that_is_not_there_in_time_costs_nothing() {
    let dispatcher = TestDispatcher::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address");
    let consumer = pushing(&to_url(&format!("https://{address}/")), |push| {
        if let Target::Webhook { timeout, .. } = &mut push.target {
            *timeout = secs(1);
        }
    });
    let queue = dispatcher.queue("a", Some(&Consumer { max_retries: 0, ..consumer })).await;
    dispatcher.send(queue, texts(1)).await;
    until("a try", || unreached(&dispatcher) >= 1).await;
    dispatcher.until_holds(queue, (1, 0, 0)).await;
}

#[tokio::test]
async fn a_pause_ends_with_the_server_and_leaves_the_messages_as_they_were() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let queue = dispatcher.queue("a", Some(&with_defaults(&down.url()))).await;
    dispatcher.send(queue, texts(3)).await;
    until("a pause", || dispatcher.circuits.count() == 1).await;
    let engine = Arc::clone(&dispatcher.engine);
    dispatcher.close().await;
    let leased =
        engine.lease(Lease::of(queue, 10, engine.now())).await.expect("the queue that is leased from exists");
    assert_eq!(leased.iter().map(|leased| leased.message.attempts).collect::<Vec<_>>(), [1, 1, 1]);
}

#[tokio::test]
async fn consumers_that_are_down_leave_the_others_alone() {
    let dispatcher = TestDispatcher::over(crate::dispatcher::engine().await, 2);
    let (hook, mut downs) = (Hook::open().await, Vec::new());
    for number in 0..20 {
        let down = Down::new();
        let queue = dispatcher.queue(&format!("down{number}"), Some(&with_defaults(&down.url()))).await;
        dispatcher.send(queue, texts(1)).await;
        downs.push((queue, down));
    }
    until("all to be open", || dispatcher.circuits.count() == 20).await;
    let queue = dispatcher.queue("up", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(20)).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    for (queue, _down) in &downs {
        dispatcher.until_holds(*queue, (1, 0, 0)).await;
    }
}

#[tokio::test]
async fn a_message_that_is_given_up_is_reported_with_its_id_and_its_destination() {
    let (dispatcher, hook) =
        (TestDispatcher::open().await, Hook::answering(|_| Reply::status(500, "")).await);
    let dead = dispatcher.queue("dead", None).await;
    for (name, target) in [("dropping", None), ("moving", Some("dead"))] {
        let consumer = Consumer { max_retries: 1, dead_letter_queue: target.map(Into::into), ..to(&hook) };
        let queue = dispatcher.queue(name, Some(&consumer)).await;
        dispatcher.send(queue, texts(1)).await;
        dispatcher.until_holds(queue, (0, 0, 0)).await;
    }
    dispatcher.until_holds(dead, (1, 0, 0)).await;
    let told = || dispatcher.notices.lock().iter().filter_map(given_up).collect::<Vec<_>>();
    until("both to be told of", || told().len() == 2).await;
    let id = |batch: usize| hook.batches()[batch].ids()[0].clone();
    assert_eq!(
        told(),
        [("dropping".to_owned(), id(1), 2, None), ("moving".to_owned(), id(3), 2, Some("dead".to_owned()))]
    );
}

/// The queue, the message, its attempts and where it went.
fn given_up(notice: &Notice) -> Option<(String, String, u32, Option<String>)> {
    let Notice::GivenUp { queue, message, attempts, to } = notice else { return None };
    let message = message.to_string().replace('-', "");
    Some((queue.name.to_string(), message, *attempts, to.as_ref().map(|to| to.name.to_string())))
}

#[tokio::test]
async fn a_server_error_is_a_failed_batch() {
    after(Reply::status(503, "<html>"), "the reply is 503").await;
}

#[tokio::test]
async fn another_target_is_tried_at_once() {
    let (dispatcher, down) = (TestDispatcher::open().await, Down::new());
    let queue = dispatcher.queue("a", Some(&with_defaults(&down.url()))).await;
    dispatcher.send(queue, texts(1)).await;
    // The pause is up to three seconds by now.
    until("five tries", || unreached(&dispatcher) >= 5).await;
    let hook = Hook::open().await;
    dispatcher.consume(queue, Some(&to(&hook))).await;
    hook.until(1).await;
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(dispatcher.circuits.count(), 0);
}

#[tokio::test]
async fn addresses_where_clouds_keep_credentials_are_not_reached() {
    let dispatcher = TestDispatcher::open().await;
    let consumer = Consumer { max_retries: 0, ..to_url("http://169.254.169.254/latest/meta-data") };
    let queue = dispatcher.queue("a", Some(&consumer)).await;
    dispatcher.send(queue, texts(1)).await;
    until("a try", || unreached(&dispatcher) >= 1).await;
    let error = dispatcher.attempts.latest().remove(0).error.clone().unwrap_or_default();
    assert!(error.contains("may not be reached"), "{error}");
    dispatcher.until_holds(queue, (1, 0, 0)).await;
}

#[tokio::test]
async fn a_batch_does_not_leave_a_node_that_may_not_answer_for_its_store() {
    let store = LentStore::new();
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    let (dispatcher, hook) = (TestDispatcher::over(engine, 256), Hook::open().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    // Its tenure ends while it leases them: another node may lease them by now.
    store.set_away(true);
    dispatcher.send(queue, texts(2)).await;
    let is_unsent =
        |notice: &Notice| matches!(notice, Notice::LeaseFailed(_, EngineError::Unavailable { .. }));
    until("a batch that is not sent", || dispatcher.notices.lock().iter().any(is_unsent)).await;
    assert!(hook.messages().is_empty(), "{:?}", hook.messages());
    store.set_away(false);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert!(hook.messages().iter().all(|(_, attempts)| *attempts == 1), "{:?}", hook.messages());
    assert_eq!(unreached(&dispatcher), 0, "the target was not asked");
}

#[tokio::test]
async fn lane_of_a_queue_whose_shard_leaves_this_node_ends() {
    let store = LentStore::new();
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    let dispatcher = TestDispatcher::over(Arc::clone(&engine), 256);
    // Nothing listens there: its circuit is open, for as long as there is a lane.
    let queue = dispatcher.queue("a", Some(&to_url("http://127.0.0.1:1/"))).await;
    dispatcher.send(queue, texts(1)).await;
    until("an open circuit", || dispatcher.circuits.count() == 1).await;
    store.set_elsewhere();
    engine.shard_left(|_| true);
    until("the lane's end", || dispatcher.circuits.count() == 0).await;
}

#[tokio::test]
async fn what_was_leased_while_the_store_took_no_writes_is_brought_when_it_takes_them_again() {
    let store = LentStore::new();
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    let (dispatcher, hook) = (TestDispatcher::over(engine, 256), Hook::open().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    store.suspend(true);
    dispatcher.send(queue, texts(2)).await;
    let is_refused =
        |notice: &Notice| matches!(notice, Notice::LeaseFailed(_, EngineError::Unavailable { .. }));
    until("a lease whose answer is refused", || dispatcher.notices.lock().iter().any(is_refused)).await;
    dispatcher.until_holds(queue, (0, 2, 0)).await;
    assert!(hook.messages().is_empty(), "{:?}", hook.messages());
    store.suspend(false);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert!(hook.messages().iter().all(|(_, attempts)| *attempts == 1), "{:?}", hook.messages());
}

#[tokio::test]
async fn batch_that_the_store_cannot_settle_for_long_is_settled_in_the_end() {
    let store = LentStore::new();
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    let (dispatcher, hook) = (TestDispatcher::over(engine, 256), Hook::gated().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(1)).await;
    hook.until(1).await;
    store.suspend(true);
    hook.let_through(1);
    let is_told = |notice: &Notice| matches!(notice, Notice::SettleFailed(..));
    until("a verdict that is late", || dispatcher.notices.lock().iter().any(is_told)).await;
    store.suspend(false);
    dispatcher.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages().len(), 1, "it was acknowledged");
}

#[tokio::test]
async fn batch_that_is_not_settled_by_the_end_is_noticed_once() {
    let store = LentStore::new();
    let entropy = Arc::new(CountingEntropy::default());
    let engine = start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await;
    let (dispatcher, hook) = (TestDispatcher::over(engine, 256), Hook::gated().await);
    let queue = dispatcher.queue("a", Some(&to(&hook))).await;
    dispatcher.send(queue, texts(2)).await;
    hook.until(1).await;
    store.suspend(true);
    hook.let_through(1);
    let notices = Arc::clone(&dispatcher.notices);
    let count = || notices.lock().iter().filter(|notice| matches!(notice, Notice::SettleFailed(..))).count();
    until("a verdict that is late", || count() > 0).await;
    dispatcher.close().await;
    assert_eq!(count(), 1);
}
