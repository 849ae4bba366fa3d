//! Targets that crash, hang, lie or are not there.

use std::time::Duration;

use kew_push::verdict::Ending;
use kew_push::{Consumer, Notice, Target};
use tokio::net::TcpListener;

use crate::hook::{Hook, Reply};
use crate::house::{House, pushing, secs, texts, to, to_url, until};

/// What the hook does to the first batch; the second is acknowledged. The error that was noted.
async fn after(reply: Reply, expected: &str) {
    let (house, hook) = (House::open().await, Hook::open().await);
    hook.answer(move |batch| {
        let is_first = batch.messages().iter().all(|(_, attempts)| *attempts == 1);
        if is_first { reply.clone() } else { Reply::ok() }
    });
    let consumer = pushing(&to(&hook), |push| {
        if let Target::Webhook { timeout, .. } = &mut push.target {
            *timeout = secs(1);
        }
    });
    let queue = house.queue("a", Some(&consumer)).await;
    house.pause(queue, true).await;
    house.send(queue, texts(2)).await;
    house.pause(queue, false).await;
    house.until_holds(queue, (0, 0, 0)).await;
    assert_eq!(hook.messages().len(), 4, "both came twice: {expected}");
    let attempt = house.attempts.latest().pop().expect("it was noted");
    let error = attempt.error.clone().unwrap_or_default();
    assert!(error.contains(expected), "{error}");
    assert_eq!((attempt.ending, attempt.acked, attempt.messages), (Ending::Failed, 0, 2));
    assert!(house.told.lock().iter().any(|notice| matches!(notice, Notice::BatchFailed(_))));
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
async fn a_redirect_is_a_failed_batch_and_nobody_is_followed() {
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
    let (house, hook) = (House::open().await, Hook::open().await);
    hook.answer(|batch| Reply::Whole {
        status: 200,
        headers: "Content-Type: image/png\r\n".into(),
        body: serde_json::json!({ "acks": [batch.id_of("m1")], "retry_all": { "delay_seconds": 60 } })
            .to_string(),
    });
    let queue = house.queue("a", Some(&to(&hook))).await;
    house.pause(queue, true).await;
    house.send(queue, texts(2)).await;
    house.pause(queue, false).await;
    house.until_holds(queue, (0, 0, 1)).await;
    assert_eq!(house.attempts.count(Ending::Failed), 0);
}

// Refused connections for an hour, four times; the pauses between them are real, and short.
#[tokio::test]
async fn a_target_that_is_down_for_an_hour_gets_everything_when_it_is_back() {
    let house = House::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let consumer = Consumer {
        batch_size: 100,
        max_retries: 10,
        retry_delay: secs(900),
        ..to_url(&format!("http://{address}/"))
    };
    let consumer = pushing(&consumer, |push| push.max_wait = secs(60));
    let queue = house.queue("a", Some(&consumer)).await;
    house.send(queue, texts(100)).await;
    for failures in 1..=4 {
        until("the batch to be refused", || house.attempts.count(Ending::Failed) == failures).await;
        house.until_holds(queue, (0, 0, 100)).await;
        house.advance(secs(900)).await;
    }
    until("the batch to be refused", || house.attempts.count(Ending::Failed) == 5).await;
    house.until_holds(queue, (0, 0, 100)).await;
    assert!(house.attempts.latest().iter().all(|attempt| attempt.messages == 100 && attempt.acked == 0));
    // It is back where it was, an hour later.
    let hook = Hook::open_at(address).await;
    house.advance(secs(900)).await;
    hook.until(1).await;
    house.until_holds(queue, (0, 0, 0)).await;
    let found = hook.messages();
    assert_eq!(found.len(), 100, "nothing is lost, and nothing comes twice");
    assert!(found.iter().all(|(_, attempts)| *attempts == 6), "each refused batch was a delivery: {found:?}");
    assert_eq!(house.seconds(), 4_500);
}

#[tokio::test]
async fn a_server_error_is_a_failed_batch() {
    after(Reply::status(503, "<html>"), "the reply is 503").await;
}

#[tokio::test]
async fn a_target_that_is_not_there_is_left_alone_for_longer_and_longer() {
    let house = House::open().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let consumer = Consumer { max_retries: 100, ..to_url(&format!("http://{address}/")) };
    let queue = house.queue("a", Some(&consumer)).await;
    house.send(queue, texts(1)).await;
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let tries = house.attempts.count(Ending::Failed);
    // At 0, 0.1, 0.3 and 0.7 seconds.
    assert!((1..=5).contains(&tries), "{tries}");
    let error = house.attempts.latest().remove(0).error.clone().unwrap_or_default();
    assert!(error.contains("cannot connect to"), "{error}");
    let hook = Hook::open().await;
    house.consume(queue, Some(&Consumer { max_retries: 100, ..to(&hook) })).await;
    hook.until(1).await;
    house.until_holds(queue, (0, 0, 0)).await;
}

#[tokio::test]
async fn addresses_where_clouds_keep_credentials_are_not_reached() {
    let house = House::open().await;
    let consumer = Consumer { max_retries: 0, ..to_url("http://169.254.169.254/latest/meta-data") };
    let queue = house.queue("a", Some(&consumer)).await;
    house.send(queue, texts(1)).await;
    until("an attempt", || house.attempts.count(Ending::Failed) == 1).await;
    let error = house.attempts.latest().remove(0).error.clone().unwrap_or_default();
    assert!(error.contains("may not be reached"), "{error}");
}
