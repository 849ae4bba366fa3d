//! Clients that take their time: bounded, one way or another, while requests that wait are let be.

use std::time::Duration;

use crate::server::{Event, LONG, SHORT, ScriptedServer};
use kew_http::Limits;
use tokio::io::AsyncReadExt;

/// Bounds that no test reaches, to shorten the one a test is about.
fn long() -> Limits {
    Limits {
        head_within: LONG,
        body_within: LONG,
        body_pace_over: LONG,
        reply_stall: LONG,
        reply_within: LONG,
        idle_within: LONG,
        ..Limits::default()
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let server = ScriptedServer::open(Limits { head_within: SHORT, ..long() }).await;
    for begun in ["", "G", "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "] {
        assert_eq!(server.all(begun).await, "", "{begun}");
    }
    let mut client = server.client().await;
    client.get("/").await;
    client.send("GET / HT").await;
    assert_eq!(client.rest().await, "", "also the second head");
    server.is_left().await;
}

#[tokio::test]
async fn a_head_that_drips_ends_the_connection() {
    let server = ScriptedServer::open(Limits { head_within: SHORT, ..long() }).await;
    let (mut reading, mut writing) = server.client().await.stream.into_split();
    let dripping = tokio::spawn(async move {
        let mut drip = tokio::time::interval(Duration::from_millis(10));
        while tokio::io::AsyncWriteExt::write_all(&mut writing, b"x").await.is_ok() {
            drip.tick().await;
        }
    });
    let mut reply = Vec::new();
    // The end may be a reset, too.
    let _end = reading.read_to_end(&mut reply).await;
    assert!(reply.is_empty());
    dripping.await.expect("the slow sender does not panic");
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_that_waits_does_not() {
    let mut server = ScriptedServer::open(Limits { idle_within: SHORT, head_within: SHORT, ..long() }).await;
    let mut waiting = server.client().await;
    waiting.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(server.event().await, Event::Waits);
    for _ in 0..3 {
        let mut idle = server.client().await;
        idle.get("/").await;
        assert_eq!(idle.rest().await, "");
    }
    assert!(server.is_quiet(), "the other one still waits");
    server.release.notify_one();
    assert_eq!(waiting.answer().await.body, "waited");
    assert_eq!(waiting.rest().await, "", "then it is idle too");
}

#[tokio::test]
async fn a_body_that_stops_is_refused_in_the_front_ends_words() {
    for limits in [Limits { body_pace_over: SHORT, ..long() }, Limits { body_within: SHORT, ..long() }] {
        let server = ScriptedServer::open(limits).await;
        for sent in ["", "abc"] {
            let mut client = server.client().await;
            client
                .send(format!("POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{sent}"))
                .await;
            let answer = client.answer().await;
            assert_eq!(
                (answer.status, answer.body.as_str()),
                (408, "refused /p: the request body came too slowly\n")
            );
            assert_eq!(client.rest().await, "", "the connection ends");
        }
        server.is_left().await;
    }
}

#[tokio::test]
async fn a_body_that_drips_is_refused() {
    let server = ScriptedServer::open(Limits { body_pace_over: SHORT, ..long() }).await;
    let mut client = server.client().await;
    client.send("POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n").await;
    let (mut reading, mut writing) = client.stream.into_split();
    let dripping = tokio::spawn(async move {
        let mut drip = tokio::time::interval(Duration::from_millis(10));
        while tokio::io::AsyncWriteExt::write_all(&mut writing, b"x").await.is_ok() {
            drip.tick().await;
        }
    });
    let mut status = [0; 12];
    reading.read_exact(&mut status).await.expect("the status line arrives");
    assert_eq!(&status, b"HTTP/1.1 408");
    dripping.abort();
}

#[tokio::test]
async fn a_reply_that_the_client_does_not_read_ends_the_connection() {
    for limits in [Limits { reply_stall: SHORT, ..long() }, Limits { reply_within: SHORT, ..long() }] {
        let server = ScriptedServer::open(limits).await;
        let mut client = server.client().await;
        client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        client.stream.read_u8().await.expect("the reply begins");
        server.is_left().await;
    }
}

#[tokio::test]
async fn a_reply_that_is_read_steadily_is_read_whole() {
    let server = ScriptedServer::open(Limits { reply_stall: SHORT, idle_within: SHORT, ..long() }).await;
    let mut client = server.client().await;
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut bytes = 0;
    let mut space = vec![0; 1 << 20];
    loop {
        match client.stream.read(&mut space).await.expect("a client that reads slowly is not cut off") {
            0 => break,
            read => bytes += read,
        }
    }
    assert!(bytes > 64 << 20, "{bytes}");
}

#[tokio::test]
async fn a_head_that_began_behind_another_request_has_no_longer_than_any_other() {
    let server =
        ScriptedServer::open(Limits { head_within: SHORT, idle_within: LONG, ..Limits::default() }).await;
    let mut client = server.client().await;
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HT").await;
    assert_eq!(client.answer().await.body, "GET /a 0");
    let ended = tokio::time::timeout(Duration::from_secs(20), client.rest()).await;
    assert_eq!(ended.as_deref(), Ok(""));
}
