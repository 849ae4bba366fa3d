//! Clients that go away while their request waits: it is dropped, so nothing is consumed for them.

use crate::server::{Event, ScriptedServer};
use kew_http::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const WAIT: &str = "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n";
const NEXT: &str = "POST /next HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";

#[tokio::test]
async fn a_request_is_dropped_when_its_client_closes() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(WAIT).await;
    assert_eq!(server.event().await, Event::Waits);
    drop(client);
    assert_eq!(server.event().await, Event::Dropped);
    server.is_left().await;
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_ends_its_side() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(WAIT).await;
    assert_eq!(server.event().await, Event::Waits);
    client.stream.shutdown().await.expect("the client can close its half");
    assert_eq!(server.event().await, Event::Dropped);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_sent_more_and_closes() {
    for (with_it, later) in [(NEXT, ""), ("", NEXT), (NEXT, NEXT), ("GET /nex", "t"), ("", "G")] {
        let mut server = ScriptedServer::open(Limits::default()).await;
        let mut client = server.client().await;
        client.send(format!("{WAIT}{with_it}")).await;
        assert_eq!(server.event().await, Event::Waits);
        client.send(later).await;
        drop(client);
        assert_eq!(server.event().await, Event::Dropped, "{with_it} {later}");
        server.is_left().await;
        assert!(server.is_quiet());
    }
}

// What is unread when a socket is closed makes the system reset it, and what was written to it last never arrives.
#[tokio::test]
async fn the_last_reply_arrives_whole_whatever_was_sent_behind_its_request() {
    let server = ScriptedServer::open(Limits::default()).await;
    let last = "GET /some HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for behind in
        ["GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(5_000), "no request ".repeat(20_000)]
    {
        // What the client does not take at once stays with the server's system.
        let socket = TcpSocket::new_v4().expect("the system gives a socket");
        socket.set_recv_buffer_size(4 << 10).expect("the receive buffer can be set");
        let mut client = socket.connect(server.address).await.expect("the server accepts connections");
        client.write_all(format!("{last}{behind}").as_bytes()).await.expect("the server reads the requests");
        // Read when the server has written all, and is done with the connection if it is ever.
        client.readable().await.expect("the first reply arrives");
        while server.shared.replies.held() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.expect("the connection ends without a reset");
        let body = reply.iter().rev().take_while(|byte| **byte == b'x').count();
        assert_eq!(body, 256 << 10);
    }
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_resets_the_connection() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(format!("{WAIT}{NEXT}")).await;
    assert_eq!(server.event().await, Event::Waits);
    let socket = client.stream.into_std().expect("a tokio stream is a socket of the system");
    tokio::net::TcpStream::from_std(socket)
        .expect("a socket of the system is a tokio stream")
        .set_zero_linger()
        .expect("the socket can be set to reset");
    assert_eq!(server.event().await, Event::Dropped);
}

#[tokio::test]
async fn a_second_wait_on_the_same_connection_is_dropped_too() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(format!("{WAIT}{WAIT}{NEXT}")).await;
    assert_eq!(server.event().await, Event::Waits);
    server.release.notify_one();
    assert_eq!(server.event().await, Event::Answered);
    assert_eq!(client.answer().await.body, "waited");
    assert_eq!(server.event().await, Event::Waits);
    drop(client);
    assert_eq!(server.event().await, Event::Dropped);
}

#[tokio::test]
async fn when_the_server_ends_what_waits_is_still_answered() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let (mut client, mut idle) = (server.client().await, server.client().await);
    idle.get("/").await;
    client.send(WAIT).await;
    assert_eq!(server.event().await, Event::Waits);
    server.shared.drain.close();
    assert_eq!(idle.rest().await, "", "an idle connection ends at once");
    server.release.notify_one();
    assert_eq!(client.answer().await.body, "waited");
    assert_eq!(client.rest().await, "");
    server.shared.drain.closed().await;
}
