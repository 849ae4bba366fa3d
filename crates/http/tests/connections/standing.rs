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

use crate::http2::connect;
use crate::server::{Answer, ScriptedServer, TestClient};

const MIB: usize = 1 << 20;

/// The head of a request with a body of this length.
fn head(path: &str, bytes: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n")
}

/// A whole request whose body does not come at once.
async fn in_pieces(server: &ScriptedServer, path: &str, bytes: usize) -> Answer {
    let mut client = server.client().await;
    let before = server.shared.bodies.held();
    client.send(head(path, bytes)).await;
    client.send("x").await;
    until(|| server.shared.bodies.held() > before, 200).await;
    client.send("x".repeat(bytes - 1)).await;
    client.answer().await
}

/// Waits until something holds, or for this number of milliseconds.
async fn until(holds: impl Fn() -> bool, patience: u32) {
    for _ in 0..patience {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Clients that send this much of bodies that never end.
async fn crowd(
    server: &ScriptedServer,
    path: &str,
    clients: usize,
    bytes: usize,
) -> Vec<TestClient<TcpStream>> {
    let mut crowd = Vec::new();
    for _ in 0..clients {
        let mut client = server.client().await;
        client.send(head(path, bytes + 1)).await;
        client.send("x".repeat(bytes)).await;
        crowd.push(client);
    }
    crowd
}

#[tokio::test]
async fn a_body_of_an_unknown_sender_is_small() {
    let server = ScriptedServer::open(Limits::default()).await;
    assert_eq!(in_pieces(&server, "/unknown", 64 << 10).await.body, "POST /unknown 65536");
    let answer = in_pieces(&server, "/unknown", (64 << 10) + 1).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.body.contains("at most 65536 bytes"), "{answer:?}");
    let mut chunked = server.client().await;
    let text = "x".repeat(0x10001);
    chunked.send("POST /unknown HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    chunked.send(format!("10001\r\n{text}\r\n0\r\n\r\n")).await;
    assert_eq!(chunked.answer().await.status, 413);
    assert_eq!(in_pieces(&server, "/known", MIB).await.status, 200);
    assert_eq!(server.shared.bodies.held(), 0);
}

#[tokio::test]
async fn unknown_senders_share_a_sixteenth_and_leave_the_rest_to_others() {
    let server = ScriptedServer::open(Limits { bodies_bytes_max: 16 * MIB, ..Limits::default() }).await;
    // Sixteen times 64 KiB less a byte fit; the seventeenth would not.
    let mut crowd = crowd(&server, "/unknown", 16, (64 << 10) - 1).await;
    until(|| server.shared.bodies.held() == MIB - 16, 5_000).await;
    assert_eq!(server.shared.bodies.held(), MIB - 16);
    let refused = in_pieces(&server, "/unknown", 17).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(in_pieces(&server, "/unknown", 16).await.status, 200, "up to the last byte");
    assert_eq!(in_pieces(&server, "/claimed", MIB).await.status, 200);
    assert_eq!(in_pieces(&server, "/known", 8 * MIB).await.status, 200);
    crowd.clear();
    until(|| server.shared.bodies.held() == 0, 5_000).await;
    assert_eq!(in_pieces(&server, "/unknown", 64 << 10).await.status, 200, "there is room again");
}

#[tokio::test]
async fn who_names_a_known_key_shares_an_eighth_with_others_of_the_address() {
    let server = ScriptedServer::open(Limits { bodies_bytes_max: 32 * MIB, ..Limits::default() }).await;
    let _crowd = crowd(&server, "/claimed", 4, MIB).await;
    until(|| server.shared.bodies.held() == 4 * MIB, 5_000).await;
    assert_eq!(server.shared.bodies.held(), 4 * MIB);
    let refused = in_pieces(&server, "/claimed", MIB).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(in_pieces(&server, "/known", 8 * MIB).await.status, 200);
    assert_eq!(in_pieces(&server, "/unknown", 64 << 10).await.status, 200);
}

#[tokio::test]
async fn a_head_that_proves_its_request_wrong_is_answered_without_the_body() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(head("/unsigned", MIB)).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.body.trim()), (403, "answered by its head"));
    assert!(answer.header("connection") == Some("close"), "{answer:?}");
    let mut waits = server.client().await;
    waits
        .send(format!(
            "POST /unsigned HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {MIB}\r\n\r\n"
        ))
        .await;
    assert_eq!(waits.answer().await.status, 403, "it is not told to go on");
    assert_eq!(waits.rest().await, "");
    assert_eq!(server.shared.bodies.held(), 0);
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
    let server = ScriptedServer::open(Limits { bodies_bytes_max: 16 * MIB, ..Limits::default() }).await;
    let (mut sender, _driving) = connect(server.client().await.stream).await;
    for (path, bytes, status) in [
        ("/unsigned", MIB, 403),
        ("/unknown", 64 << 10, 200),
        ("/unknown", (64 << 10) + 1, 413),
        ("/claimed", MIB, 200),
        ("/known", MIB, 200),
    ] {
        let (pieces, body) = mpsc::unbounded_channel();
        let request = http::Request::post(format!("http://localhost{path}"));
        let request = request.body(Pieces(body).boxed()).expect("the request is well formed");
        let answering = sender.send_request(request);
        pieces.send(1).expect("the body is being read");
        pieces.send(bytes - 1).expect("the body is being read");
        drop(pieces);
        let answer = answering.await.expect("the server answers the request");
        assert_eq!(answer.status().as_u16(), status, "{path} {bytes}");
    }
}
