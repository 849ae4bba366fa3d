//! Replies that clients leave untaken: past their bound nothing is leased and no large reply is made.

use std::sync::Arc;
use std::time::Duration;

use kew_console::Console;
use kew_http::{Guard, Limits, Listener, Replies, Shared};
use kew_testing::{CountingEntropy, FixedClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::rig;

const BYTES_MAX: usize = 4_096;

/// A listener over the console whose clients may leave 4 KB of replies untaken.
fn listener(console: &Console) -> (Arc<Listener<Console>>, Replies) {
    let replies = Replies::new(BYTES_MAX);
    let (clock, entropy) = (Arc::new(FixedClock), Arc::new(CountingEntropy::default()));
    let shared = Shared { replies: replies.clone(), ..Shared::new(clock, entropy, Limits::default()) };
    (Listener::new(console.clone(), Guard::strict(), &shared), replies)
}

/// Sends a request on a connection of its own, whose pipe holds 1 KB.
async fn send(listener: &Arc<Listener<Console>>, method: &str, path: &str, body: &str) -> DuplexStream {
    let (mut client, server) = tokio::io::duplex(1_024);
    tokio::spawn(Arc::clone(listener).serve(server, ([127, 0, 0, 1], 1).into()));
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    client.write_all(head.as_bytes()).await.expect("the pipe is open");
    client
}

async fn read(mut client: DuplexStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("the reply is text");
    text
}

/// Leaves a reply untaken that is larger than the bound of all.
async fn fill(listener: &Arc<Listener<Console>>, replies: &Replies) -> DuplexStream {
    let untaken = send(listener, "GET", "/api/v1/openapi.json", "").await;
    while replies.held() < BYTES_MAX {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    untaken
}

#[tokio::test]
async fn an_operation_waits_for_room_while_health_and_sessions_answer() {
    let rig = rig::open().await;
    let (listener, replies) = listener(&rig.console);
    let untaken = fill(&listener, &replies).await;
    for path in ["/livez", "/api/v1/session"] {
        let reply = read(send(&listener, "GET", path, "").await).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{path}: {reply}");
    }
    let mut waiting = tokio::spawn(read(send(&listener, "GET", "/api/v1/config", "").await));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
    assert!(early.is_err(), "it was answered without room: {early:?}");
    read(untaken).await;
    let reply = waiting.await.expect("the client does not panic");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn a_receive_that_waits_leases_nothing_without_room_and_keeps_its_place() {
    let rig = rig::open().await;
    rig.done("POST", "/queues", r#"{"name":"orders"}"#).await;
    let (listener, replies) = listener(&rig.console);
    let receive = send(&listener, "POST", "/api/v1/queues/orders/receive", r#"{"wait_seconds":20}"#).await;
    while rig.engine.stats().waiting_receives.value() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let untaken = fill(&listener, &replies).await;
    rig.done("POST", "/queues/orders/messages", r#"{"body":"x"}"#).await;
    let mut receive = tokio::spawn(read(receive));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut receive).await;
    assert!(early.is_err(), "it was answered without room: {early:?}");
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 1);
    read(untaken).await;
    let reply = receive.await.expect("the client does not panic");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(rig.get("/queues/orders").await.body["visible"], 0);
}
