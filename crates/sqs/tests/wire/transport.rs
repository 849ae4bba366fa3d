//! What holds for every request, whatever it asks.

use super::server::{SqsAnswer, SqsServer};

const ASK: &str = "POST / HTTP/1.1\r\nHost: h\r\nX-Amz-Target: AmazonSQS.CreateQueue\r\n";

#[tokio::test]
async fn one_connection_serves_request_after_request_also_pipelined() {
    let server = SqsServer::open().await;
    let mut client = server.client().await;
    let body = r#"{"QueueName":"orders"}"#;
    let request = format!("{ASK}Content-Length: {}\r\n\r\n{body}", body.len());
    let first = client.ask(request.as_bytes()).await;
    let second = client.ask(request.as_bytes()).await;
    assert_eq!(first.ok(), second.ok());
    assert_ne!(first.header("x-amzn-requestid"), second.header("x-amzn-requestid"));
}

#[tokio::test]
async fn bodies_may_come_in_chunks_and_after_a_continue() {
    let server = SqsServer::open().await;
    let chunked = format!(
        "{ASK}Transfer-Encoding: chunked\r\n\r\n7\r\n{{\"Queue\r\nf\r\nName\":\"orders\"}}\r\n0\r\n\r\n"
    );
    server.send(chunked.as_bytes()).await.ok();
    let mut client = server.client().await;
    client.send(format!("{ASK}Expect: 100-continue\r\nContent-Length: 22\r\n\r\n").as_bytes()).await;
    assert_eq!(
        client
            .next_answer()
            .await
            .expect("the server answers `100 Continue` before it reads the body")
            .status,
        100
    );
    client.ask(br#"{"QueueName":"orders"}"#).await.ok();
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused_unread() {
    let server = SqsServer::open().await;
    let announced = server.send(format!("{ASK}Content-Length: 2097153\r\n\r\n").as_bytes()).await;
    assert_eq!((announced.status, announced.header("connection")), (413, Some("close")));
    let mut chunked = format!("{ASK}Transfer-Encoding: chunked\r\n\r\n");
    for _ in 0..33 {
        chunked.push_str("10000\r\n");
        chunked.push_str(&"x".repeat(65_536));
        chunked.push_str("\r\n");
    }
    assert_eq!(server.send(chunked.as_bytes()).await.status, 413);
}

#[tokio::test]
async fn a_head_beyond_the_bound_and_broken_requests_are_refused() {
    let server = SqsServer::open().await;
    let large = format!("{ASK}X-Large: {}\r\n\r\n", "x".repeat(70_000));
    let many = format!("{ASK}{}\r\n", "X-Many: 1\r\n".repeat(200));
    for head in [large, many] {
        let status = server.send(head.as_bytes()).await.status;
        assert!(matches!(status, 400 | 431), "{status}");
    }
    for broken in ["NONSENSE\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"] {
        assert_eq!(server.send(broken.as_bytes()).await.status, 400, "{broken}");
    }
}

#[tokio::test]
async fn closing_ends_idle_connections_and_lets_a_request_finish() {
    let server = SqsServer::open().await;
    let (mut idle, mut busy) = (server.client().await, server.client().await);
    idle.ask(format!("{ASK}Content-Length: 0\r\n\r\n").as_bytes()).await;
    busy.send(format!("{ASK}Content-Length: 22\r\n\r\n{{\"Queue").as_bytes()).await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    server.shared.drain.close();
    assert!(idle.next_answer().await.is_none());
    busy.ask(br#"Name":"orders"}"#).await.ok();
    assert!(busy.next_answer().await.is_none());
    server.shared.drain.closed().await;
}
