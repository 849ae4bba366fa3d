//! What a front-end is asked on a hot path, and how passes of requests are run.

use std::net::SocketAddr;

use kew_engine::Engine;
use kew_http::{Handler, HeaderName, HeaderValue, Headers, Method, Reply, Request, RequestId, Uri};

use super::{NOW, counted_pass, plain_pass};
use crate::answers::Answers;

/// A part of a message's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Send,
    Receive,
    Delete,
    /// All three.
    All,
}

/// One front-end's words for the way of a message.
pub trait Road {
    type FrontEnd: Handler;
    fn front_end(&self) -> &Self::FrontEnd;
    fn send(&self, number: u64) -> Request;
    fn receive(&self) -> Request;
    /// Deletes what a reply to a receive holds.
    fn delete(&self, reply: &Reply) -> Request;
}

/// The replies to these requests, which share a commit; each is a success.
pub fn pass<H: Handler>(engine: &Engine, front_end: &H, requests: Vec<Request>, counted: bool) -> Vec<Reply> {
    let mut answers = Answers::new();
    let mut replies = Vec::with_capacity(requests.len());
    let futures: Vec<_> = requests.iter().map(|request| front_end.answer(request)).collect();
    if counted {
        counted_pass(engine, futures, &mut answers, &mut replies);
    } else {
        plain_pass(engine, futures, &mut answers, &mut replies);
    }
    for reply in &replies {
        assert!(reply.status.is_success(), "{}: {}", reply.status, text(reply));
    }
    replies
}

/// A reply's body.
pub fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).expect("replies are text")
}

/// What stands between two texts, each time it does.
pub fn between<'a>(text: &'a str, before: &str, after: char) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

/// A request as the wire plumbing would hand it over.
pub fn request(method: Method, target: &str, headers: &[(&'static str, &str)], body: Vec<u8>) -> Request {
    let mut map = Headers::with_room();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).expect("the value may stand in a header");
        map.insert(HeaderName::from_static(name), value);
    }
    whole(method, target.parse().expect("the path is a request target"), map, body.into())
}

/// The same of parts that are ready.
pub fn whole(method: Method, uri: Uri, headers: Headers, body: bytes::Bytes) -> Request {
    Request {
        method,
        uri,
        headers,
        body,
        id: RequestId::from_chance(7),
        received_at: NOW,
        peer: SocketAddr::from(([127, 0, 0, 1], 40_000)),
        secure: false,
        room: kew_http::Room::default(),
    }
}

/// A body of 256 bytes.
pub fn message() -> String {
    "m".repeat(256)
}
