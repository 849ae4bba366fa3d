//! How much may be asked at once.

use std::time::Duration;

use crate::server::{Event, ScriptedServer};
use kew_http::Limits;

#[tokio::test]
async fn connections_beyond_the_bound_are_refused_and_closed() {
    let server = ScriptedServer::open(Limits { connections_max: 2, ..Limits::default() }).await;
    let (mut one, mut other) = (server.client().await, server.client().await);
    one.get("/").await;
    other.get("/").await;
    let mut third = server.client().await;
    let answer = third.get("/").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.contains("as many connections as it may have"), "{answer:?}");
    drop(third);
    assert_eq!(one.get("/").await.status, 200, "the others are served on");
    drop(other);
    while server.shared.drain.places() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.client().await.get("/").await.status, 200, "there is room again");
}

#[tokio::test]
async fn bodies_beyond_the_bound_are_refused_however_they_come() {
    let server = ScriptedServer::open(Limits { body_bytes_max: 100_000, ..Limits::default() }).await;
    let mut client = server.client().await;
    let head = "POST /p HTTP/1.1\r\nHost: localhost\r\n";
    let fits = "x".repeat(100_000);
    client.send(format!("{head}Content-Length: 100000\r\n\r\n{fits}")).await;
    assert_eq!(client.answer().await.body, "POST /p 100000");
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n186a0\r\n{fits}\r\n0\r\n\r\n")).await;
    assert_eq!(client.answer().await.body, "POST /p 100000");
    client.send(format!("{head}Content-Length: 100001\r\n\r\n{fits}")).await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (413, "refused /p: a request body may have at most 100000 bytes\n")
    );
    let mut client = server.client().await;
    client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n186a1\r\n{fits}x\r\n")).await;
    assert_eq!(client.answer().await.status, 413);
    assert_eq!(server.shared.bodies.held(), 0);
}

#[tokio::test]
async fn all_bodies_together_are_bounded_while_they_are_read_and_answered() {
    let mut server = ScriptedServer::open(Limits { bodies_bytes_max: 300_000, ..Limits::default() }).await;
    let body = "x".repeat(200_000);
    let mut first = server.client().await;
    let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n";
    first.send(format!("POST /wait {head}{body}")).await;
    assert_eq!(server.event().await, Event::Waits);
    let mut second = server.client().await;
    second.send(format!("POST /p {head}{body}")).await;
    let answer = second.answer().await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.body.starts_with("refused /p: the server holds as many bytes"), "{answer:?}");
    let ended = tokio::time::timeout(Duration::from_secs(3), second.rest()).await;
    assert_eq!(ended.as_deref(), Ok(""), "nothing more is awaited of a body that is there");
    server.release.notify_one();
    assert_eq!(first.answer().await.body, "waited");
    first.send(format!("POST /p {head}{body}")).await;
    assert_eq!(first.answer().await.body, "POST /p 200000");
}

#[tokio::test]
async fn heads_are_bounded_in_bytes_and_headers() {
    let server = ScriptedServer::open(Limits { head_bytes_max: 16 << 10, ..Limits::default() }).await;
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(100));
    for request in [long, many] {
        let reply = server.all(request).await;
        assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    }
    let fits = format!("GET /f HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(99));
    let mut client = server.client().await;
    client.send(fits).await;
    assert_eq!(client.answer().await.body, "GET /f 0");
    let server = ScriptedServer::open(Limits { headers_max: 200, ..Limits::default() }).await;
    let mut client = server.client().await;
    client.send(format!("GET /m HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(199))).await;
    assert_eq!(client.answer().await.body, "GET /m 0");
}
