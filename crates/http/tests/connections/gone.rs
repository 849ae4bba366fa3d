//! Clients that go away while their request waits: it is dropped, so nothing is consumed for them.

use crate::house::{Event, House};
use kew_http::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const WAIT: &str = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
const NEXT: &str = "POST /next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";

#[tokio::test]
async fn a_request_is_dropped_when_its_client_closes() {
    let mut house = House::open(Limits::default()).await;
    let mut client = house.client().await;
    client.send(WAIT).await;
    assert_eq!(house.event().await, Event::Waits);
    drop(client);
    assert_eq!(house.event().await, Event::Dropped);
    house.is_left().await;
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_ends_its_side() {
    let mut house = House::open(Limits::default()).await;
    let mut client = house.client().await;
    client.send(WAIT).await;
    assert_eq!(house.event().await, Event::Waits);
    client.0.shutdown().await.expect("it can");
    assert_eq!(house.event().await, Event::Dropped);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_sent_more_and_closes() {
    for (with_it, later) in [(NEXT, ""), ("", NEXT), (NEXT, NEXT), ("GET /nex", "t"), ("", "G")] {
        let mut house = House::open(Limits::default()).await;
        let mut client = house.client().await;
        client.send(format!("{WAIT}{with_it}")).await;
        assert_eq!(house.event().await, Event::Waits);
        client.send(later).await;
        drop(client);
        assert_eq!(house.event().await, Event::Dropped, "{with_it} {later}");
        house.is_left().await;
        assert!(house.is_quiet());
    }
}

// What is unread when a socket is closed makes the system reset it, and what was written to it last never arrives.
#[tokio::test]
async fn the_last_reply_arrives_whole_whatever_was_sent_behind_its_request() {
    let house = House::open(Limits::default()).await;
    let last = "GET /some HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for behind in
        ["GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5_000), "no request ".repeat(20_000)]
    {
        // What the client does not take at once stays with the server's system.
        let socket = TcpSocket::new_v4().expect("there is one");
        socket.set_recv_buffer_size(4 << 10).expect("it can");
        let mut client = socket.connect(house.address).await.expect("it listens");
        client.write_all(format!("{last}{behind}").as_bytes()).await.expect("it is read");
        // Read when the server has written all, and is done with the connection if it is ever.
        client.readable().await.expect("it is answered");
        while house.shared.replies.held() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.expect("it is not reset");
        let body = reply.iter().rev().take_while(|byte| **byte == b'x').count();
        assert_eq!(body, 256 << 10);
    }
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_resets_the_connection() {
    let mut house = House::open(Limits::default()).await;
    let mut client = house.client().await;
    client.send(format!("{WAIT}{NEXT}")).await;
    assert_eq!(house.event().await, Event::Waits);
    let socket = client.0.into_std().expect("it is a socket");
    tokio::net::TcpStream::from_std(socket).expect("it is one").set_zero_linger().expect("it can");
    assert_eq!(house.event().await, Event::Dropped);
}

#[tokio::test]
async fn a_second_wait_on_the_same_connection_is_dropped_too() {
    let mut house = House::open(Limits::default()).await;
    let mut client = house.client().await;
    client.send(format!("{WAIT}{WAIT}{NEXT}")).await;
    assert_eq!(house.event().await, Event::Waits);
    house.release.notify_one();
    assert_eq!(house.event().await, Event::Answered);
    assert_eq!(client.answer().await.body, "waited");
    assert_eq!(house.event().await, Event::Waits);
    drop(client);
    assert_eq!(house.event().await, Event::Dropped);
}

#[tokio::test]
async fn when_the_server_ends_what_waits_is_still_answered() {
    let mut house = House::open(Limits::default()).await;
    let (mut client, mut idle) = (house.client().await, house.client().await);
    idle.get("/").await;
    client.send(WAIT).await;
    assert_eq!(house.event().await, Event::Waits);
    house.shared.drain.close();
    assert_eq!(idle.rest().await, "", "an idle connection ends at once");
    house.release.notify_one();
    assert_eq!(client.answer().await.body, "waited");
    assert_eq!(client.rest().await, "");
    house.shared.drain.closed().await;
}
