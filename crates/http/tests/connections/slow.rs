//! Clients that take their time: bounded, one way or another, while requests that wait are let be.

use std::time::Duration;

use crate::house::{Event, House, LONG, SHORT};
use kew_http::Limits;
use tokio::io::AsyncReadExt;

/// Bounds that nobody reaches, to shorten the one a test is about.
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
    let house = House::open(Limits { head_within: SHORT, ..long() }).await;
    for begun in ["", "G", "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "] {
        assert_eq!(house.all(begun).await, "", "{begun}");
    }
    let mut client = house.client().await;
    client.get("/").await;
    client.send("GET / HT").await;
    assert_eq!(client.rest().await, "", "also the second head");
    house.is_left().await;
}

#[tokio::test]
async fn a_head_that_drips_ends_the_connection() {
    let house = House::open(Limits { head_within: SHORT, ..long() }).await;
    let (mut reading, mut writing) = house.client().await.0.into_split();
    let dripping = tokio::spawn(async move {
        let mut drip = tokio::time::interval(Duration::from_millis(10));
        while tokio::io::AsyncWriteExt::write_all(&mut writing, b"x").await.is_ok() {
            drip.tick().await;
        }
    });
    let mut reply = Vec::new();
    // It may be told by a reset, too.
    let _end = reading.read_to_end(&mut reply).await;
    assert!(reply.is_empty());
    dripping.await.expect("it ends");
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_that_waits_does_not() {
    let mut house = House::open(Limits { idle_within: SHORT, head_within: SHORT, ..long() }).await;
    let mut waiting = house.client().await;
    waiting.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(house.event().await, Event::Waits);
    for _ in 0..3 {
        let mut idle = house.client().await;
        idle.get("/").await;
        assert_eq!(idle.rest().await, "");
    }
    assert!(house.is_quiet(), "the other one still waits");
    house.release.notify_one();
    assert_eq!(waiting.answer().await.body, "waited");
    assert_eq!(waiting.rest().await, "", "then it is idle too");
}

#[tokio::test]
async fn a_body_that_stops_is_refused_in_the_front_ends_words() {
    for limits in [Limits { body_pace_over: SHORT, ..long() }, Limits { body_within: SHORT, ..long() }] {
        let house = House::open(limits).await;
        for sent in ["", "abc"] {
            let mut client = house.client().await;
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
        house.is_left().await;
    }
}

#[tokio::test]
async fn a_body_that_drips_is_refused() {
    let house = House::open(Limits { body_pace_over: SHORT, ..long() }).await;
    let mut client = house.client().await;
    client.send("POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n").await;
    let (mut reading, mut writing) = client.0.into_split();
    let dripping = tokio::spawn(async move {
        let mut drip = tokio::time::interval(Duration::from_millis(10));
        while tokio::io::AsyncWriteExt::write_all(&mut writing, b"x").await.is_ok() {
            drip.tick().await;
        }
    });
    let mut status = [0; 12];
    reading.read_exact(&mut status).await.expect("it is answered");
    assert_eq!(&status, b"HTTP/1.1 408");
    dripping.abort();
}

#[tokio::test]
async fn a_reply_that_nobody_reads_ends_the_connection() {
    for limits in [Limits { reply_stall: SHORT, ..long() }, Limits { reply_within: SHORT, ..long() }] {
        let house = House::open(limits).await;
        let mut client = house.client().await;
        client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        client.0.read_u8().await.expect("it begins");
        house.is_left().await;
    }
}

#[tokio::test]
async fn a_reply_that_is_read_steadily_is_read_whole() {
    let house = House::open(Limits { reply_stall: SHORT, idle_within: SHORT, ..long() }).await;
    let mut client = house.client().await;
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut bytes = 0;
    let mut space = vec![0; 1 << 20];
    loop {
        match client.0.read(&mut space).await.expect("it is not cut off") {
            0 => break,
            read => bytes += read,
        }
    }
    assert!(bytes > 64 << 20, "{bytes}");
}

#[tokio::test]
async fn a_head_that_began_behind_another_request_has_no_longer_than_any_other() {
    let house = House::open(Limits { head_within: SHORT, idle_within: LONG, ..Limits::default() }).await;
    let mut client = house.client().await;
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HT").await;
    assert_eq!(client.answer().await.body, "GET /a 0");
    let ended = tokio::time::timeout(Duration::from_secs(20), client.rest()).await;
    assert_eq!(ended.as_deref(), Ok(""));
}
