//! What the requests of one connection have in common, whichever HTTP it speaks.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Uri};

use crate::bounds::room::Room;
use crate::front::{Handler, Listener};
use crate::headers::Headers;
use crate::progress::pulse::Pulse;
use crate::progress::watch::Watched;
use crate::request::{Request, RequestId};

/// Where a connection comes from and how.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) secure: bool,
    pub(crate) speaks: Speaks,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaks {
    /// Not known before the first bytes are there.
    Unknown,
    Http1,
    Http2,
}

/// What a connection's requests have in common.
pub(crate) struct Link<H> {
    pub(crate) listener: Arc<Listener<H>>,
    pub(crate) watched: Watched,
    pub(crate) origin: Origin,
    pub(crate) room: Room,
}

impl<H: Handler> Link<H> {
    pub(crate) fn listener(&self) -> &Listener<H> {
        &self.listener
    }

    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        self.watched.pulse()
    }

    /// Where there is room for its replies.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Whether the server ends: what is asked is answered, and nothing after it.
    pub(crate) fn is_closing(&self) -> bool {
        self.listener.shared.drain.is_closing()
    }

    /// A request of which the head has just come: named, stamped, and without a body.
    pub(crate) fn request(&self, method: Method, uri: Uri, headers: Headers) -> Request {
        let shared = &self.listener.shared;
        Request {
            method,
            uri,
            headers,
            body: Bytes::new(),
            id: RequestId::from_chance(shared.entropy.wide_bits()),
            received_at: shared.clock.now(),
            peer: self.origin.peer,
            secure: self.origin.secure,
            room: self.room.clone(),
        }
    }
}
