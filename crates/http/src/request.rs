//! A request as front-ends see it: whole, bounded, named and stamped.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Uri};
use kew_core::Timestamp;
use kew_core::event::Tag;

use crate::authority::Authority;
use crate::bounds::room::Room;
use crate::encodings::hex;
use crate::headers::{AsValue, FieldValue, Headers};

/// What a client calls itself, for people who ask who holds a message.
pub const CONSUMER_HEADER: &str = "x-kew-consumer";
/// Why a client gives a message back: its handler failed, and how.
pub const FAILED_HEADER: &str = "x-kew-failed";
/// The queue that a client put a message into that failed too often, before it deletes it here.
pub const PUT_ASIDE_HEADER: &str = "x-kew-put-aside";

/// One request, its body read to the end.
#[derive(Debug)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub uri: Uri,
    /// Its headers; on HTTP/1 their names are in the case in which they were sent.
    pub headers: Headers,
    /// Its body; a slice of the connection's read buffer, so what outlives the request is copied.
    pub body: Bytes,
    /// Its name in replies and logs.
    pub id: RequestId,
    /// When its head had arrived, in engine time.
    pub received_at: Timestamp,
    /// Where it came from.
    pub peer: SocketAddr,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Where there must be room for a large reply, before it is made.
    pub room: Room,
}

impl Request {
    /// A header's text, if it is there and is text.
    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name).and_then(FieldValue::text)
    }

    /// Who takes the leases that it asks for: what its client calls itself, or its address.
    pub fn consumer(&self) -> Tag {
        let name = self.header(CONSUMER_HEADER).map(Tag::new).filter(|name| !name.is_empty());
        name.unwrap_or_else(|| Tag::of_address(self.peer.ip()))
    }

    /// The host and port it was sent to, as its client sees them.
    pub fn authority(&self) -> Option<Authority<'_>> {
        self.headers.get(HOST).and_then(|value| Authority::parse(value.as_bytes()))
    }
}

/// A request of nothing, for tests to complete.
#[cfg(test)]
pub(crate) fn sample() -> Request {
    Request {
        method: Method::GET,
        uri: Uri::from_static("/"),
        headers: Headers::default(),
        body: Bytes::new(),
        id: RequestId::from_chance(0),
        received_at: Timestamp::ZERO,
        peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        secure: false,
        room: Room::default(),
    }
}

/// A random name for one request, shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId {
    text: [u8; 36],
}

impl RequestId {
    /// The id made of these bits of chance.
    pub fn from_chance(bits: u128) -> Self {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self { text: hex::uuid(bytes) }
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }
}

impl AsValue for RequestId {
    fn value(&self) -> &[u8] {
        &self.text
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_reads_as_a_version_four_uuid() {
        assert_eq!(RequestId::from_chance(0).as_str(), "00000000-0000-4000-8000-000000000000");
        assert_eq!(RequestId::from_chance(u128::MAX).to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
