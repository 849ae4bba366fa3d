//! Replies that clients do not take: counted, bounded, and given up in time.

use std::time::Duration;

use http_body_util::BodyExt;
use kew_http::Limits;

use crate::house::{House, LONG, SHORT};
use crate::http2::{connect, get, text};

fn long() -> Limits {
    Limits { reply_stall: LONG, reply_within: LONG, idle_within: LONG, ..Limits::default() }
}

/// Waits until so many bytes of replies are held.
async fn holds(house: &House, is_so: impl Fn(usize) -> bool) {
    let holding = async {
        while !is_so(house.shared.replies.held()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), holding).await.expect("it happens in time");
}

#[tokio::test]
async fn a_reply_counts_until_its_client_has_it_or_has_gone() {
    let house = House::open(long()).await;
    let mut client = house.client().await;
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    holds(&house, |held| held > 64 << 20).await;
    drop(client);
    holds(&house, |held| held == 0).await;
    let (mut sender, _driving) = connect(house.client().await.0).await;
    let response = sender.send_request(get("http://localhost/big")).await.expect("it is answered");
    assert_eq!(house.shared.replies.held(), 64 << 20);
    let whole = response.into_body().collect().await.expect("it is whole").to_bytes();
    assert_eq!(whole.len(), 64 << 20);
    holds(&house, |held| held == 0).await;
    let unread = sender.send_request(get("http://localhost/big")).await.expect("it is answered");
    holds(&house, |held| held > 0).await;
    drop(unread);
    holds(&house, |held| held == 0).await;
}

#[tokio::test]
async fn a_stream_that_is_not_taken_is_broken_off_and_its_connection_goes_on() {
    for limits in [Limits { reply_stall: SHORT, ..long() }, Limits { reply_within: SHORT, ..long() }] {
        let house = House::open(limits).await;
        let (mut sender, _driving) = connect(house.client().await.0).await;
        let unread = sender.send_request(get("http://localhost/big")).await.expect("it is answered");
        // It is not the client that gives it up.
        holds(&house, |held| held == 0).await;
        assert!(unread.into_body().collect().await.is_err(), "it is broken off");
        assert_eq!(text(&mut sender, get("http://localhost/p")).await.0, 200);
    }
}

#[tokio::test]
async fn one_connection_has_an_eighth_of_all_replies_and_others_are_answered() {
    let house = House::open(Limits { replies_bytes_max: 32 << 20, ..long() }).await;
    let (sender, _driving) = connect(house.client().await.0).await;
    let mut unread = Vec::new();
    for _ in 0..50 {
        let mut sender = sender.clone();
        unread.push(tokio::spawn(async move { sender.send_request(get("http://localhost/room")).await }));
    }
    holds(&house, |held| held >= 4 << 20).await;
    let (mut good, _driving) = connect(house.client().await.0).await;
    for _ in 0..20 {
        assert_eq!(text(&mut good, get("http://localhost/room")).await.1.len(), 1 << 20);
        assert!(house.shared.replies.held() <= 6 << 20, "{}", house.shared.replies.held());
    }
    unread.iter().for_each(tokio::task::JoinHandle::abort);
    drop((sender, unread));
    holds(&house, |held| held == 0).await;
}

#[tokio::test]
async fn those_who_take_nothing_make_room_for_those_who_do() {
    // Nothing is overdue for long, but while there is no room it is.
    let house = House::open(Limits { replies_bytes_max: 8 << 20, ..long() }).await;
    let mut unread = Vec::new();
    for _ in 0..40 {
        let mut client = house.client().await;
        client.send("GET /room HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        unread.push(client);
    }
    let mut streams = Vec::new();
    for _ in 0..4 {
        let (sender, driving) = connect(house.client().await.0).await;
        for _ in 0..4 {
            let mut sender = sender.clone();
            let asked = async move { sender.send_request(get("http://localhost/room")).await };
            streams.push(tokio::spawn(asked));
        }
        streams.push(tokio::spawn(async move {
            driving.await.expect("it ends");
            std::future::pending().await
        }));
    }
    let mut good = house.client().await;
    good.send("GET /room HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(house.shared.replies.held() <= 9 << 20, "{}", house.shared.replies.held());
    let answer = good.answer().await;
    assert_eq!((answer.status, answer.body.len()), (200, 1 << 20));
    drop(unread);
}
