//! Acknowledgements, retries, leases that end by themselves, and receipts that are no good.

use serde_json::{Value, json};

use super::server::{CloudflareAnswer, CloudflareServer, bodies, only, text};

fn lease(message: &Value) -> Value {
    json!({ "lease_id": message["lease_id"] })
}

#[tokio::test]
async fn an_acknowledged_message_never_comes_back() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    let pulled = only(server.pull(&queue, json!({})).await);
    let settled = server.settle(&queue, json!({ "acks": [lease(&pulled)] })).await;
    assert_eq!(settled, json!({ "ackCount": 1, "retryCount": 0, "warnings": {} }));
    server.advance(3_600).await;
    assert!(server.bodies(&queue).await.is_empty());
    assert_eq!(server.backlog(&queue).await, 0);
}

#[tokio::test]
async fn a_message_is_offered_again_the_instant_its_lease_ends() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    for (asked, seconds) in [
        (json!({}), 30),
        (json!({ "visibility_timeout_ms": 5_000 }), 5),
        // What the guide and the command line call it.
        (json!({ "visibility_timeout": 7_000 }), 7),
    ] {
        only(server.pull(&queue, asked).await);
        server.advance(seconds - 1).await;
        assert!(server.pull(&queue, json!({})).await.is_empty(), "{seconds}");
        server.advance(1).await;
    }
    assert_eq!(only(server.pull(&queue, json!({})).await)["attempts"], 4);
}

#[tokio::test]
async fn the_consumers_settings_are_what_a_pull_leaves_out() {
    let server = CloudflareServer::open().await;
    let settings = json!({ "batch_size": 2, "visibility_timeout_ms": 1_000 });
    let queue = server.pulled("orders", settings).await;
    for body in ["a", "b", "c"] {
        server.push(&queue, body, json!({})).await.result();
    }
    assert_eq!(bodies(&server.pull(&queue, json!({})).await), ["a", "b"]);
    server.advance(1).await;
    assert_eq!(server.bodies(&queue).await, ["a", "b", "c"]);
}

// [seed] A retry without a delay takes the consumer's retry delay, zero is a delay of its own, and a longer one is
// honoured.
#[tokio::test]
async fn a_retry_takes_its_own_delay_or_the_consumers() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({ "retry_delay": 60, "max_retries": 100 })).await;
    server.push(&queue, "m", json!({})).await.result();
    for (delay, seconds) in [(None, 60), (Some(0), 0), (Some(10), 10), (Some(90), 90)] {
        let pulled = only(server.pull(&queue, json!({})).await);
        let mut retry = lease(&pulled);
        if let Some(delay) = delay {
            retry["delay_seconds"] = json!(delay);
        }
        let settled = server.settle(&queue, json!({ "retries": [retry] })).await;
        assert_eq!(settled, json!({ "ackCount": 0, "retryCount": 1, "warnings": {} }));
        if seconds > 0 {
            server.advance(seconds - 1).await;
            assert!(server.pull(&queue, json!({})).await.is_empty(), "{delay:?}");
            server.advance(1).await;
        }
    }
    assert_eq!(only(server.pull(&queue, json!({})).await)["attempts"], 5);
}

// [seed] The retry delay covers implicit failures too, for consumers that pull as for those that are pushed to.
#[tokio::test]
async fn a_lease_that_ends_by_itself_is_followed_by_the_retry_delay() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({ "retry_delay": 60 })).await;
    server.push(&queue, "m", json!({})).await.result();
    only(server.pull(&queue, json!({ "visibility_timeout_ms": 10_000 })).await);
    server.advance(69).await;
    assert!(server.pull(&queue, json!({})).await.is_empty());
    server.advance(1).await;
    assert_eq!(only(server.pull(&queue, json!({})).await)["attempts"], 2);
}

#[tokio::test]
async fn a_retry_does_not_wait_for_the_delivery_delay() {
    let server = CloudflareServer::open().await;
    let queue = server.queue_with("orders", json!({ "delivery_delay": 60 })).await;
    server.consume(&queue, json!({ "type": "http_pull" })).await;
    server.push(&queue, "m", json!({ "delay_seconds": 0 })).await.result();
    let pulled = only(server.pull(&queue, json!({})).await);
    server.settle(&queue, json!({ "retries": [lease(&pulled)] })).await;
    assert_eq!(only(server.pull(&queue, json!({})).await)["attempts"], 2);
}

// [seed] Exponential backoff: what grows beyond the longest delay is taken to it, and is no failure.
#[tokio::test]
async fn a_backoff_beyond_the_longest_delay_is_the_longest_delay() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    let pulled = only(server.pull(&queue, json!({})).await);
    let retry = json!({ "lease_id": pulled["lease_id"], "delay_seconds": 810_000 });
    assert_eq!(server.settle(&queue, json!({ "retries": [retry] })).await["retryCount"], 1);
    server.advance(86_399).await;
    assert!(server.pull(&queue, json!({})).await.is_empty());
    server.advance(1).await;
    assert_eq!(server.bodies(&queue).await, ["m"]);
}

#[tokio::test]
async fn a_late_acknowledgement_counts_also_when_somebody_else_has_the_message() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for body in ["late", "shared"] {
        server.push(&queue, body, json!({})).await.result();
    }
    let first = server.pull(&queue, json!({ "visibility_timeout_ms": 1_000 })).await;
    server.advance(10).await;
    assert_eq!(server.settle(&queue, json!({ "acks": [lease(&first[0])] })).await["ackCount"], 1);
    let second = only(server.pull(&queue, json!({})).await);
    assert_eq!(server.settle(&queue, json!({ "acks": [lease(&first[1])] })).await["ackCount"], 1);
    let both = server.settle(&queue, json!({ "acks": [lease(&second)] })).await;
    assert_eq!(both["ackCount"], 0);
    assert!(both["warnings"][text(&second, "lease_id")].is_string(), "{both}");
}

#[tokio::test]
async fn a_late_retry_has_no_effect_on_the_present_lease() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    let first = only(server.pull(&queue, json!({ "visibility_timeout_ms": 1_000 })).await);
    server.advance(1).await;
    let ended = server.settle(&queue, json!({ "retries": [lease(&first)] })).await;
    assert_eq!(
        (&ended["retryCount"], ended["warnings"].as_object().map(serde_json::Map::len)),
        (&json!(0), Some(1))
    );
    only(server.pull(&queue, json!({})).await);
    let stale = server.settle(&queue, json!({ "retries": [lease(&first)] })).await;
    assert_eq!(stale["retryCount"], 0);
    assert!(server.pull(&queue, json!({})).await.is_empty(), "it is still leased");
}

/// Vendor: API schema, ack: `warnings`
#[tokio::test]
async fn leases_that_are_forged_repeated_or_of_another_queue_are_warnings() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let other = server.pulled("other", json!({})).await;
    server.push(&queue, "m", json!({})).await.result();
    server.push(&other, "m", json!({})).await.result();
    let pulled = only(server.pull(&queue, json!({})).await);
    let of_other = only(server.pull(&other, json!({})).await);
    let mut forged = text(&pulled, "lease_id").into_bytes();
    forged[30] = if forged[30] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("a forged lease id is ASCII");
    for kind in ["acks", "retries"] {
        let bad = [json!(forged), json!("nonsense"), json!(""), of_other["lease_id"].clone()];
        let entries: Vec<Value> = bad.iter().map(|id| json!({ "lease_id": id })).collect();
        let settled = server.settle(&queue, json!({ kind: entries })).await;
        assert_eq!((&settled["ackCount"], &settled["retryCount"]), (&json!(0), &json!(0)), "{settled}");
        for id in bad {
            assert!(settled["warnings"][id.as_str().expect("a lease id is text")].is_string(), "{settled}");
        }
    }
    let twice = server.settle(&queue, json!({ "acks": [lease(&pulled), lease(&pulled)] })).await;
    assert_eq!(twice["ackCount"], 1, "only what takes effect is counted");
    assert!(twice["warnings"][text(&pulled, "lease_id")].is_string());
    assert_eq!(server.backlog(&other).await, 1);
}

#[tokio::test]
async fn a_lease_that_is_mentioned_more_than_once_is_settled_once_and_first_of_all_acknowledged() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for body in ["both", "acked", "retried"] {
        server.push(&queue, body, json!({})).await.result();
    }
    let [both, acked, retried] = <[Value; 3]>::try_from(server.pull(&queue, json!({})).await).expect("three");
    let mut later = lease(&retried);
    later["delay_seconds"] = json!(60);
    let settled = server
        .settle(
            &queue,
            json!({
                "retries": [lease(&retried), lease(&both), later],
                "acks": [lease(&both), lease(&acked), lease(&acked)],
            }),
        )
        .await;
    assert_eq!((&settled["ackCount"], &settled["retryCount"]), (&json!(2), &json!(1)), "{settled}");
    for message in [&both, &acked, &retried] {
        let warning = &settled["warnings"][text(message, "lease_id")];
        assert!(warning.as_str().is_some_and(|text| text.contains("more than once")), "{settled}");
    }
    assert_eq!(server.bodies(&queue).await, ["retried"], "its first mention names no delay");
}

#[tokio::test]
async fn settling_nothing_is_fine_and_too_much_is_refused() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    let nothing = json!({ "ackCount": 0, "retryCount": 0, "warnings": {} });
    assert_eq!(server.settle(&queue, json!({})).await, nothing);
    assert_eq!(server.ask("POST", &format!("{queue}/messages/ack"), "").await.result(), nothing);
    let many = json!({ "acks": vec![json!({ "lease_id": "x" }); 1_001] });
    server.call("POST", &format!("{queue}/messages/ack"), many).await.is_error(413, 10_206);
    let odd = json!({ "acks": ["x"] });
    server.call("POST", &format!("{queue}/messages/ack"), odd).await.is_error(400, 10_207);
}
