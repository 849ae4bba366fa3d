//! HTTP/2 without TLS: known beforehand, by the first bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::BoxBody};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kew_http::Limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::server::{Event, LONG, SHORT, ScriptedServer};

pub type Sender = SendRequest<BoxBody<Bytes, std::convert::Infallible>>;

/// A client's side of a connection, and the task that drives it.
pub async fn connect(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> (Sender, JoinHandle<()>) {
    let (sender, connection) =
        handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("the server speaks HTTP/2");
    // However it ends, it ends.
    let driving = tokio::spawn(async move { drop(connection.await) });
    (sender, driving)
}

pub fn get(uri: &str) -> http::Request<BoxBody<Bytes, std::convert::Infallible>> {
    http::Request::get(uri).body(Empty::new().boxed()).expect("the request is well formed")
}

fn post(uri: &str, body: impl Into<Bytes>) -> http::Request<BoxBody<Bytes, std::convert::Infallible>> {
    http::Request::post(uri).body(Full::new(body.into()).boxed()).expect("the request is well formed")
}

pub async fn text(
    sender: &mut Sender,
    request: http::Request<BoxBody<Bytes, std::convert::Infallible>>,
) -> (u16, String) {
    let response = sender.send_request(request).await.expect("the server answers the request");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("the body arrives whole").to_bytes();
    (status, String::from_utf8(body.into()).expect("the body is UTF-8"))
}

#[tokio::test]
async fn requests_are_answered_side_by_side() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let (sender, _driving) = connect(server.client().await.stream).await;
    let mut waiting = sender.clone();
    let waiting = tokio::spawn(async move { text(&mut waiting, get("http://localhost/wait")).await });
    assert_eq!(server.event().await, Event::Waits);
    let mut sender = sender;
    for _ in 0..3 {
        let body = "x".repeat(100_000);
        let answer = text(&mut sender, post("http://localhost/p", body)).await;
        assert_eq!(answer, (200, "POST /p 100000".to_owned()));
    }
    assert_eq!(text(&mut sender, get("http://localhost/from")).await.1, "127.0.0.1 false");
    assert_eq!(text(&mut sender, get("http://localhost:7/host")).await.1, "Some(\"localhost:7\") None");
    server.release.notify_one();
    assert_eq!(waiting.await.expect("the waiting request's task does not panic"), (200, "waited".to_owned()));
    assert_eq!(server.shared.bodies.held(), 0);
}

#[tokio::test]
async fn the_same_is_refused_as_on_http1() {
    let server = ScriptedServer::open(Limits { body_bytes_max: 10, ..Limits::default() }).await;
    let (mut sender, _driving) = connect(server.client().await.stream).await;
    let (status, words) = text(&mut sender, get("http://evil.example/x")).await;
    assert_eq!(status, 421);
    assert!(words.starts_with("refused /x: "), "{words}");
    let mut foreign = get("http://localhost/");
    foreign.headers_mut().insert("origin", http::HeaderValue::from_static("null"));
    assert_eq!(text(&mut sender, foreign).await.0, 403);
    let mut other_host = get("http://localhost/");
    other_host.headers_mut().insert("host", http::HeaderValue::from_static("evil.example"));
    assert_eq!(text(&mut sender, other_host).await.0, 400);
    assert_eq!(text(&mut sender, post("http://localhost/", "0123456789a")).await.0, 413);
    assert_eq!(text(&mut sender, post("http://localhost/", "0123456789")).await.0, 200);
}

#[tokio::test]
async fn a_request_is_dropped_when_it_is_reset_or_its_connection_goes() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(PREFACE).await;
    client.send(frame(SETTINGS, 0, 0, &[])).await;
    let wait = b"\x82\x86\x44\x05/wait\x41\x09localhost";
    for stream in [1, 3] {
        client.send(frame(HEADERS, END, stream, wait)).await;
        assert_eq!(server.event().await, Event::Waits);
    }
    client.send(frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).await;
    assert_eq!(server.event().await, Event::Dropped);
    assert!(server.is_quiet(), "the other one still waits");
    drop(client);
    assert_eq!(server.event().await, Event::Dropped);
    server.is_left().await;
}

#[tokio::test]
async fn when_the_server_ends_what_waits_is_still_answered() {
    let mut server = ScriptedServer::open(Limits::default()).await;
    let (sender, driving) = connect(server.client().await.stream).await;
    let mut waiting = sender.clone();
    let waiting = tokio::spawn(async move { text(&mut waiting, get("http://localhost/wait")).await });
    assert_eq!(server.event().await, Event::Waits);
    server.shared.drain.close();
    server.release.notify_one();
    assert_eq!(waiting.await.expect("the waiting request's task does not panic").1, "waited");
    driving.await.expect("the connection ends without an error");
    server.shared.drain.closed().await;
}

#[tokio::test]
async fn an_idle_connection_ends_but_not_one_that_waits() {
    let limits = Limits { idle_within: SHORT, head_within: LONG, ..Limits::default() };
    let mut server = ScriptedServer::open(limits).await;
    let (sender, driving) = connect(server.client().await.stream).await;
    let mut waiting = sender.clone();
    let waiting = tokio::spawn(async move { text(&mut waiting, get("http://localhost/wait")).await });
    assert_eq!(server.event().await, Event::Waits);
    let (mut idle, idle_driving) = connect(server.client().await.stream).await;
    assert_eq!(text(&mut idle, get("http://localhost/")).await.0, 200);
    idle_driving.await.expect("the idle connection ends without an error");
    assert!(!waiting.is_finished() && server.is_quiet());
    server.release.notify_one();
    assert_eq!(waiting.await.expect("the waiting request's task does not panic").1, "waited");
    driving.await.expect("the connection ends after its last request");
}

#[tokio::test]
async fn a_body_that_stops_is_refused_and_others_go_on() {
    let limits = Limits { body_pace_over: SHORT, ..Limits::default() };
    let server = ScriptedServer::open(limits).await;
    let (mut sender, _driving) = connect(server.client().await.stream).await;
    let (never_ends, body) = stuck();
    let request = http::Request::post("http://localhost/p").body(body).expect("the request is well formed");
    let answer = text(&mut sender, request).await;
    assert_eq!(answer, (408, "refused /p: the request body came too slowly\n".to_owned()));
    assert_eq!(text(&mut sender, get("http://localhost/next")).await.1, "GET /next 0");
    drop(never_ends);
}

/// A body that begins and does not go on, until what comes with it is dropped.
fn stuck() -> (tokio::sync::mpsc::Sender<()>, BoxBody<Bytes, std::convert::Infallible>) {
    struct Stuck(tokio::sync::mpsc::Receiver<()>, bool);
    impl hyper::body::Body for Stuck {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            if !std::mem::replace(&mut self.1, true) {
                return std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(Bytes::from_static(
                    b"abc",
                )))));
            }
            self.0.poll_recv(cx).map(|_| None)
        }
    }
    let (keep, kept) = tokio::sync::mpsc::channel(1);
    (keep, Stuck(kept, false).boxed())
}

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload is shorter than 4 GiB").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// GET http://localhost/, in the shortest form there is.
const GET: &[u8] = b"\x82\x86\x84\x41\x09localhost";
const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END: u8 = 1 | 4;

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send(PREFACE).await;
    client.send(frame(SETTINGS, 0, 0, &[])).await;
    let flood = (0..20_000_u32).flat_map(|number| {
        let stream = 2 * number + 1;
        [frame(HEADERS, END, stream, GET), frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    // It may be cut off in the middle of it.
    let _sent = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &flood.collect::<Vec<_>>()).await;
    tokio::time::timeout(Duration::from_secs(20), server.is_left())
        .await
        .expect("the server closes the connection in time");
    assert_eq!(server.client().await.get("/").await.status, 200, "the server serves on");
}

#[tokio::test]
async fn streams_and_heads_are_bounded() {
    let server =
        ScriptedServer::open(Limits { streams_max: 4, head_bytes_max: 16 << 10, ..Limits::default() }).await;
    let (mut sender, _driving) = connect(server.client().await.stream).await;
    let mut long = get("http://localhost/");
    long.headers_mut().insert(
        "x-long",
        http::HeaderValue::from_str(&"x".repeat(20_000)).expect("the long header is visible ASCII"),
    );
    let refused = sender.send_request(long).await;
    assert!(refused.is_err() || refused.is_ok_and(|reply| reply.status().as_u16() == 431));
    let mut client = server.client().await;
    client.send(PREFACE).await;
    client.send(frame(SETTINGS, 0, 0, &[])).await;
    // Header blocks without an end.
    client.send(frame(HEADERS, 1, 1, GET)).await;
    let endless = frame(9, 0, 1, &[0x40; 16_000]).repeat(100);
    let _sent = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &endless).await;
    let mut sink = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut sink);
    let _end = tokio::time::timeout(Duration::from_secs(20), ended)
        .await
        .expect("the server closes the connection in time");
}
