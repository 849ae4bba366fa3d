//! Bodies that come in pieces, from senders of whom more or less is known.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use kew_http::Limits;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::house::{Answer, Client, House};
use crate::http2::connect;

const MIB: usize = 1 << 20;

/// The head of a request with a body of this length.
fn head(path: &str, bytes: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n")
}

/// A whole request whose body does not come at once.
async fn in_pieces(house: &House, path: &str, bytes: usize) -> Answer {
    let mut client = house.client().await;
    let before = house.shared.bodies.held();
    client.send(head(path, bytes)).await;
    client.send("x").await;
    until(|| house.shared.bodies.held() > before, 200).await;
    client.send("x".repeat(bytes - 1)).await;
    client.answer().await
}

/// Waits until something holds, or for so many milliseconds.
async fn until(holds: impl Fn() -> bool, patience: u32) {
    for _ in 0..patience {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Clients that send this much of bodies that never end.
async fn crowd(house: &House, path: &str, clients: usize, bytes: usize) -> Vec<Client<TcpStream>> {
    let mut crowd = Vec::new();
    for _ in 0..clients {
        let mut client = house.client().await;
        client.send(head(path, bytes + 1)).await;
        client.send("x".repeat(bytes)).await;
        crowd.push(client);
    }
    crowd
}

#[tokio::test]
async fn a_body_of_an_unknown_sender_is_small() {
    let house = House::open(Limits::default()).await;
    assert_eq!(in_pieces(&house, "/unknown", 64 << 10).await.body, "POST /unknown 65536");
    let answer = in_pieces(&house, "/unknown", (64 << 10) + 1).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.body.contains("at most 65536 bytes"), "{answer:?}");
    let mut chunked = house.client().await;
    let text = "x".repeat(0x10001);
    chunked.send("POST /unknown HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    chunked.send(format!("10001\r\n{text}\r\n0\r\n\r\n")).await;
    assert_eq!(chunked.answer().await.status, 413);
    assert_eq!(in_pieces(&house, "/known", MIB).await.status, 200);
    assert_eq!(house.shared.bodies.held(), 0);
}

#[tokio::test]
async fn unknown_senders_share_a_sixteenth_and_leave_the_rest_to_others() {
    let house = House::open(Limits { bodies_bytes_max: 16 * MIB, ..Limits::default() }).await;
    // Sixteen times 64 KiB less a byte fit; the seventeenth would not.
    let mut crowd = crowd(&house, "/unknown", 16, (64 << 10) - 1).await;
    until(|| house.shared.bodies.held() == MIB - 16, 5_000).await;
    assert_eq!(house.shared.bodies.held(), MIB - 16);
    let refused = in_pieces(&house, "/unknown", 17).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(in_pieces(&house, "/unknown", 16).await.status, 200, "up to the last byte");
    assert_eq!(in_pieces(&house, "/claimed", MIB).await.status, 200);
    assert_eq!(in_pieces(&house, "/known", 8 * MIB).await.status, 200);
    crowd.clear();
    until(|| house.shared.bodies.held() == 0, 5_000).await;
    assert_eq!(in_pieces(&house, "/unknown", 64 << 10).await.status, 200, "there is room again");
}

#[tokio::test]
async fn who_names_a_known_key_shares_an_eighth_with_others_of_the_address() {
    let house = House::open(Limits { bodies_bytes_max: 32 * MIB, ..Limits::default() }).await;
    let _crowd = crowd(&house, "/claimed", 4, MIB).await;
    until(|| house.shared.bodies.held() == 4 * MIB, 5_000).await;
    assert_eq!(house.shared.bodies.held(), 4 * MIB);
    let refused = in_pieces(&house, "/claimed", MIB).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(in_pieces(&house, "/known", 8 * MIB).await.status, 200);
    assert_eq!(in_pieces(&house, "/unknown", 64 << 10).await.status, 200);
}

#[tokio::test]
async fn a_head_that_proves_its_request_wrong_is_answered_without_the_body() {
    let house = House::open(Limits::default()).await;
    let mut client = house.client().await;
    client.send(head("/unsigned", MIB)).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.body.trim()), (403, "answered by its head"));
    assert!(answer.head.contains("connection: close"), "{answer:?}");
    let mut waits = house.client().await;
    waits
        .send(format!(
            "POST /unsigned HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {MIB}\r\n\r\n"
        ))
        .await;
    assert_eq!(waits.answer().await.status, 403, "it is not told to go on");
    assert_eq!(waits.rest().await, "");
    assert_eq!(house.shared.bodies.held(), 0);
}

/// A body of an unknown length, in pieces of these lengths.
struct Pieces(mpsc::UnboundedReceiver<usize>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(vec![b'x'; bytes].into()))))
    }
}

#[tokio::test]
async fn streams_of_http2_are_judged_alike() {
    let house = House::open(Limits { bodies_bytes_max: 16 * MIB, ..Limits::default() }).await;
    let (mut sender, _driving) = connect(house.client().await.0).await;
    for (path, bytes, status) in [
        ("/unsigned", MIB, 403),
        ("/unknown", 64 << 10, 200),
        ("/unknown", (64 << 10) + 1, 413),
        ("/claimed", MIB, 200),
        ("/known", MIB, 200),
    ] {
        let (pieces, body) = mpsc::unbounded_channel();
        let request = http::Request::post(format!("http://localhost{path}"));
        let request = request.body(Pieces(body).boxed()).expect("it is a request");
        let answering = sender.send_request(request);
        pieces.send(1).expect("it is awaited");
        pieces.send(bytes - 1).expect("it is awaited");
        drop(pieces);
        let answer = answering.await.expect("it is answered");
        assert_eq!(answer.status().as_u16(), status, "{path} {bytes}");
    }
}
