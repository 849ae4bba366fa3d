//! What people do with a queue for hours: heartbeats, crashes, retries, several senders at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kew_core::{Policy, QueueKind};
use serde_json::{Value, json};

use super::server::{SqsAnswer, SqsServer};

const SECOND: Duration = Duration::from_secs(1);

async fn with(policy: Policy) -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", policy).await;
    server
}

fn by_content() -> Policy {
    let fifo = Policy::fifo();
    let QueueKind::Fifo { scope, .. } = fifo.kind else { unreachable!("it is one") };
    Policy { kind: QueueKind::Fifo { scope, by_content: true }, ..fifo }
}

async fn is_hidden(server: &SqsServer) -> bool {
    server.receive("orders", json!({})).await.messages().is_empty()
}

fn count(message: &Value) -> &str {
    message["Attributes"]["ApproximateReceiveCount"]
        .as_str()
        .expect("a receive that asks for the receive count gets it")
}

// [seed] spec 13: a heartbeat every minute or two, until the 12-hour cap.
#[tokio::test]
async fn a_heartbeat_hides_a_message_for_twelve_hours_and_no_longer() {
    for policy in [Policy::standard(), by_content()] {
        let fifo = policy.kind.is_fifo();
        let server = with(policy).await;
        let group = if fifo { json!({"MessageGroupId": "g"}) } else { json!({}) };
        server.send_to("orders", "m", group).await.ok();
        let handle = server.receive("orders", json!({"VisibilityTimeout": 120})).await.handles().remove(0);
        let mut beats = 0;
        loop {
            server.advance(SECOND * 110).await;
            assert!(is_hidden(&server).await, "after {beats} beats");
            beats += 1;
            // 110 s each, and 120 s more than that is beyond 43200 s at the 392nd.
            let answer = server.change("orders", &handle, 120).await;
            if answer.status != 200 {
                answer.is_invalid(
                    "Value 120 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
                );
                break;
            }
        }
        assert_eq!(beats, (43_200 - 120) / 110 + 1);
        // What is left of the last beat that was heard.
        server.advance(SECOND * 10 - Duration::from_millis(1)).await;
        assert!(is_hidden(&server).await);
        server.advance(Duration::from_millis(1)).await;
        assert_eq!(server.receive("orders", json!({})).await.bodies(), ["m"]);
    }
}

// [seed] spec 13: if a consumer crashes the message reappears by itself; too long a timeout delays the retry.
#[tokio::test]
async fn the_message_of_a_consumer_that_crashed_reappears_by_itself() {
    for (policy, timeout) in [(Policy::standard(), 30), (Policy::standard(), 3_600), (by_content(), 30)] {
        let fifo = policy.kind.is_fifo();
        let server = with(policy).await;
        for body in ["m", "n"] {
            let group = if fifo { json!({"MessageGroupId": "g"}) } else { json!({}) };
            server.send_to("orders", body, group).await.ok();
        }
        let mut consumer = server.client().await;
        let body = format!(r#"{{"QueueUrl":"orders","VisibilityTimeout":{timeout}}}"#);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(consumer.ask(request.as_bytes()).await.bodies(), ["m"]);
        drop(consumer);
        server.advance(SECOND * timeout - Duration::from_millis(1)).await;
        let others = if fifo { vec![] } else { vec!["n".to_owned()] };
        let found =
            server.receive("orders", json!({"MaxNumberOfMessages": 10, "VisibilityTimeout": 1})).await;
        assert_eq!(found.bodies(), others);
        server.advance(SECOND).await;
        let names = json!({"MaxNumberOfMessages": 10, "AttributeNames": ["ApproximateReceiveCount"]});
        let found = server.receive("orders", names).await;
        assert_eq!(found.bodies(), ["m", "n"], "in its old place");
        assert_eq!(count(&found.messages()[0]), "2");
    }
}

// [seed] spec 8a: strict order per group, in the order the sends arrive, also from several hosts and threads.
#[tokio::test]
async fn several_senders_at_once_make_one_order_in_a_group() {
    const SENDERS: usize = 8;
    const EACH: usize = 25;
    /// A message as its sender saw it: its number, and what else had happened before and after the send.
    struct Sent {
        sequence: String,
        body: String,
        begun: usize,
        acknowledged: usize,
    }
    let server = with(by_content()).await;
    let clock = AtomicUsize::new(0);
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let send = async |sender: usize| {
        let mut client = server.client().await;
        let mut sent = Vec::new();
        for number in 0..EACH {
            let body = format!("{sender}-{number}");
            let json = json!({"QueueUrl": "orders", "MessageBody": body, "MessageGroupId": "g"}).to_string();
            let request = format!(
                "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Length: {}\r\n\r\n{json}",
                json.len()
            );
            let begun = tick();
            let answer = client.ask(request.as_bytes()).await;
            let sequence = answer.text("SequenceNumber");
            sent.push(Sent { sequence, body, begun, acknowledged: tick() });
        }
        sent
    };
    let (one, two, three, four) = tokio::join!(
        async { tokio::join!(send(0), send(1)) },
        async { tokio::join!(send(2), send(3)) },
        async { tokio::join!(send(4), send(5)) },
        async { tokio::join!(send(6), send(7)) },
    );
    let mut all: Vec<Sent> =
        [one, two, three, four].into_iter().flat_map(|(one, other)| one.into_iter().chain(other)).collect();
    assert_eq!(all.len(), SENDERS * EACH);
    let mut found = Vec::new();
    while found.len() < all.len() {
        let taken = server.receive("orders", json!({"MaxNumberOfMessages": 10})).await;
        for handle in taken.handles() {
            server.delete("orders", &handle).await.ok();
        }
        found.extend(taken.bodies());
    }
    all.sort_by(|one, other| one.sequence.cmp(&other.sequence));
    let ordered: Vec<&str> = all.iter().map(|sent| sent.body.as_str()).collect();
    assert_eq!(found, ordered, "in the order of their sequence numbers");
    let mut latest_begin = 0;
    for sent in &all {
        assert!(sent.acknowledged > latest_begin, "{} was acknowledged before another began", sent.body);
        latest_begin = latest_begin.max(sent.begun);
    }
}

// [rec] spec 8a: a queue-level delay works on a FIFO queue and keeps its order.
#[tokio::test]
async fn a_delay_of_the_queue_keeps_the_order_of_its_groups() {
    let server = with(Policy { delay: SECOND * 10, ..by_content() }).await;
    for body in ["g1-m1", "g2-m1", "g1-m2"] {
        server.send_to("orders", body, json!({"MessageGroupId": &body[..2]})).await.ok();
        server.advance(SECOND * 2).await;
    }
    let take = async || server.receive("orders", json!({"MaxNumberOfMessages": 10})).await.bodies();
    server.advance(SECOND * 4 - Duration::from_millis(1)).await;
    assert!(take().await.is_empty());
    server.advance(Duration::from_millis(1)).await;
    assert_eq!(take().await, ["g1-m1"], "ten seconds after its send");
    server.advance(SECOND * 4).await;
    assert_eq!(take().await, ["g2-m1"], "g1 is locked by its first message");
    server.advance(SECOND * 30).await;
    assert_eq!(take().await, ["g1-m1", "g1-m2", "g2-m1"]);
}

// [seed] spec 13: a retried SendMessage or ReceiveMessage with the same ids never changes the order.
#[tokio::test]
async fn retries_of_sends_and_receives_never_change_the_order() {
    let server = with(Policy::fifo()).await;
    let send = async |body: &str| {
        let ids = json!({"MessageGroupId": "g", "MessageDeduplicationId": body});
        server.send_to("orders", body, ids).await.text("SequenceNumber")
    };
    let first = send("1").await;
    let second = send("2").await;
    assert_eq!(send("1").await, first);
    send("3").await;
    assert_eq!((send("2").await, send("1").await), (second, first));
    let attempt = json!({"MaxNumberOfMessages": 2, "ReceiveRequestAttemptId": "a"});
    let taken = server.receive("orders", attempt.clone()).await;
    assert_eq!(taken.bodies(), ["1", "2"]);
    for _ in 0..3 {
        let again = server.receive("orders", attempt.clone()).await;
        assert_eq!((again.bodies(), again.handles()), (taken.bodies(), taken.handles()));
        assert!(is_hidden(&server).await);
    }
    for handle in taken.handles() {
        server.delete("orders", &handle).await.ok();
    }
    assert_eq!(server.receive("orders", json!({})).await.bodies(), ["3"]);
}
