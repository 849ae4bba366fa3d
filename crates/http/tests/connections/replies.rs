//! Replies that clients do not take: counted, bounded, and given up in time.

use std::time::Duration;

use http_body_util::BodyExt;
use kew_http::Limits;

use crate::http2::{connect, get, text};
use crate::server::{LONG, SHORT, ScriptedServer};

fn long() -> Limits {
    Limits { reply_stall: LONG, reply_within: LONG, idle_within: LONG, ..Limits::default() }
}

/// Waits until the bytes of replies that are held satisfy a condition.
async fn holds(server: &ScriptedServer, is_so: impl Fn(usize) -> bool) {
    let holding = async {
        while !is_so(server.shared.replies.held()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), holding).await.expect("the condition holds within 30 s");
}

#[tokio::test]
async fn a_reply_counts_until_its_client_has_it_or_has_gone() {
    let server = ScriptedServer::open(long()).await;
    let mut client = server.client().await;
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    holds(&server, |held| held > 64 << 20).await;
    drop(client);
    holds(&server, |held| held == 0).await;
    let (mut sender, _driving) = connect(server.client().await.stream).await;
    let response =
        sender.send_request(get("http://localhost/big")).await.expect("the server answers the request");
    assert_eq!(server.shared.replies.held(), 64 << 20);
    let whole = response.into_body().collect().await.expect("the body arrives whole").to_bytes();
    assert_eq!(whole.len(), 64 << 20);
    holds(&server, |held| held == 0).await;
    let unread =
        sender.send_request(get("http://localhost/big")).await.expect("the server answers with a head");
    holds(&server, |held| held > 0).await;
    drop(unread);
    holds(&server, |held| held == 0).await;
}

#[tokio::test]
async fn a_stream_that_is_not_taken_is_broken_off_and_its_connection_goes_on() {
    for limits in [Limits { reply_stall: SHORT, ..long() }, Limits { reply_within: SHORT, ..long() }] {
        let server = ScriptedServer::open(limits).await;
        let (mut sender, _driving) = connect(server.client().await.stream).await;
        let unread =
            sender.send_request(get("http://localhost/big")).await.expect("the server answers with a head");
        // It is not the client that gives it up.
        holds(&server, |held| held == 0).await;
        assert!(unread.into_body().collect().await.is_err(), "it is broken off");
        assert_eq!(text(&mut sender, get("http://localhost/p")).await.0, 200);
    }
}

#[tokio::test]
async fn one_connection_has_an_eighth_of_all_replies_and_others_are_answered() {
    let server = ScriptedServer::open(Limits { replies_bytes_max: 32 << 20, ..long() }).await;
    let (sender, _driving) = connect(server.client().await.stream).await;
    let mut unread = Vec::new();
    for _ in 0..50 {
        let mut sender = sender.clone();
        unread.push(tokio::spawn(async move { sender.send_request(get("http://localhost/room")).await }));
    }
    holds(&server, |held| held >= 4 << 20).await;
    let (mut good, _driving) = connect(server.client().await.stream).await;
    for _ in 0..20 {
        assert_eq!(text(&mut good, get("http://localhost/room")).await.1.len(), 1 << 20);
        assert!(server.shared.replies.held() <= 6 << 20, "{}", server.shared.replies.held());
    }
    unread.iter().for_each(tokio::task::JoinHandle::abort);
    drop((sender, unread));
    holds(&server, |held| held == 0).await;
}

#[tokio::test]
async fn those_who_take_nothing_make_room_for_those_who_do() {
    // Nothing is overdue for long, but while there is no room it is.
    let server = ScriptedServer::open(Limits { replies_bytes_max: 8 << 20, ..long() }).await;
    let mut unread = Vec::new();
    for _ in 0..40 {
        let mut client = server.client().await;
        client.send("GET /room HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        unread.push(client);
    }
    let mut streams = Vec::new();
    for _ in 0..4 {
        let (sender, driving) = connect(server.client().await.stream).await;
        for _ in 0..4 {
            let mut sender = sender.clone();
            let asked = async move { sender.send_request(get("http://localhost/room")).await };
            streams.push(tokio::spawn(asked));
        }
        streams.push(tokio::spawn(async move {
            driving.await.expect("the connection ends without an error");
            std::future::pending().await
        }));
    }
    let mut good = server.client().await;
    good.send("GET /room HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(server.shared.replies.held() <= 9 << 20, "{}", server.shared.replies.held());
    let answer = good.answer().await;
    assert_eq!((answer.status, answer.body.len()), (200, 1 << 20));
    drop(unread);
}
