//! The other nodes of the fleet: one link to each, made again when it ends.
//!
//! The book of nodes is handed in whenever it changes. Each node in it is connected to; a request for one without a
//! link waits a bounded time. The tasks of all links belong to [`Peers`], which ends them with [`Peers::close`].

mod book;
mod dial;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use self::book::{Book, Found};
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::error::{LinkError, Why};
use super::handle::Link;
use super::handshake::HandshakeError;
use super::limits::{CONNECT_WAIT_MAX, DIAL_COURTESY, DIAL_TIME_MAX};
use super::node::NodeId;

pub use self::dial::{Address, Dial, Dialing, Opened, Stream, TcpDial};

/// Links that a request tries, when one after the other ends before the request is sent.
const TRIES: usize = 3;

/// The links to all other nodes. A clone is the same.
#[derive(Clone)]
pub struct Peers {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    dial: Arc<dyn Dial>,
    book: Mutex<Book>,
    /// Tasks of links and of attempts to connect: some for each node and each handshake.
    tasks: Mutex<JoinSet<()>>,
    /// Counts links that were made or ended.
    changes: watch::Sender<u64>,
    refused: Mutex<Refused>,
}

/// Connections that came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// How many there were.
    pub count: u64,
    /// What became of the last.
    pub last: Option<HandshakeError>,
    /// How many of them came to nothing for a reason that this node knows.
    pub explained: u64,
    /// The reason of the last of those. The other end of it often sees no more than a closed connection.
    pub reason: Option<HandshakeError>,
}

impl Refused {
    /// Counts one more.
    pub fn note(&mut self, error: HandshakeError) {
        self.count = self.count.saturating_add(1);
        if error.is_reason() {
            self.explained = self.explained.saturating_add(1);
            self.reason = Some(error.clone());
        }
        self.last = Some(error);
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peers of {:?}", self.shared.endpoint)
    }
}

impl Peers {
    /// Knows no other node yet.
    pub fn new(endpoint: Endpoint, dial: Arc<dyn Dial>) -> Self {
        let book = Mutex::new(Book::new(endpoint.id().clone()));
        let shared = Shared {
            endpoint,
            dial,
            book,
            tasks: Mutex::default(),
            changes: watch::Sender::new(0),
            refused: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Replaces the book of nodes. This node may be in it; it is passed over.
    pub fn set_nodes(&self, nodes: impl IntoIterator<Item = (NodeId, Address)>) {
        let to_dial = self.shared.book.lock().replace(nodes);
        for id in to_dial {
            self.shared.spawn_dialing(id);
        }
        self.shared.note_change();
    }

    /// Asks a node. The request is sent again on a new link only if the last one surely did not carry it.
    pub async fn ask(&self, id: &NodeId, request: Bytes) -> Result<Bytes, LinkError> {
        let mut last = Why::NotConnected;
        for _ in 0..TRIES {
            let link = self.link_to(id).await.map_err(LinkError::NotSent)?;
            match link.ask(request.clone()).await {
                Err(LinkError::NotSent(why)) if why.is_of_the_link() => last = why,
                result => return result,
            }
        }
        Err(LinkError::NotSent(last))
    }

    /// A link to a node. Waits until there is one, [`CONNECT_WAIT_MAX`] at most.
    pub async fn link_to(&self, id: &NodeId) -> Result<Link, Why> {
        let mut changes = match self.shared.book.lock().find(id)? {
            Found::Link(link) => return Ok(link),
            Found::Wait(changes) => changes,
        };
        let _waiting = Waiting { shared: &self.shared, id };
        // The link may have ended a moment ago, before its task has said so.
        self.shared.dial_if_needed(id);
        let until = Instant::now() + CONNECT_WAIT_MAX;
        loop {
            if let Some(link) = self.shared.book.lock().look(id)? {
                return Ok(link);
            }
            match timeout_at(until, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Why::NoSuchNode),
                Err(_) => return Err(Why::NotConnected),
            }
        }
    }

    /// The open links, one to each node that has one.
    pub fn links(&self) -> Vec<Link> {
        self.shared.book.lock().links()
    }

    /// Changes whenever a link is made or ends, and when the book is replaced.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Takes a stream that another node opens from an address. Its handshake goes on in the background; beyond
    /// [`GREETINGS_MAX`](super::limits::GREETINGS_MAX) of them, or
    /// [`GREETINGS_OF_ADDRESS_MAX`](super::limits::GREETINGS_OF_ADDRESS_MAX) from that address, the stream is closed at
    /// once.
    pub fn accept(&self, from: IpAddr, opening: Dialing) {
        let (weak, endpoint) = (Arc::downgrade(&self.shared), self.shared.endpoint.clone());
        self.shared.spawn(async move {
            let result = endpoint.accept_from(from, opening).await;
            drop(endpoint);
            if let Some(shared) = weak.upgrade() {
                shared.hold(result);
            }
        });
    }

    /// Connections that came to nothing, in either direction.
    pub fn refused(&self) -> Refused {
        self.shared.refused.lock().clone()
    }

    /// Ends all links and all tasks, and waits for these.
    pub async fn close(&self) {
        self.shared.book.lock().close();
        let mut tasks = std::mem::take(&mut *self.shared.tasks.lock());
        tasks.shutdown().await;
        self.shared.note_change();
    }
}

/// A request that waits for a link.
struct Waiting<'a> {
    shared: &'a Shared,
    id: &'a NodeId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.book.lock().wait_no_more(self.id);
    }
}

impl Shared {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        // Those that have ended are let go here; a panic was printed where it happened.
        while tasks.try_join_next().is_some() {}
        if !self.book.lock().is_closed {
            tasks.spawn(task);
        }
    }

    fn spawn_dialing(self: &Arc<Self>, id: NodeId) {
        self.spawn(keep_dialing(Arc::downgrade(self), id));
    }

    fn dial_if_needed(self: &Arc<Self>, id: &NodeId) {
        if self.book.lock().begin_dialing(id) {
            self.spawn_dialing(id.clone());
        }
    }

    fn note_change(&self) {
        self.changes.send_modify(|change| *change = change.wrapping_add(1));
    }

    fn note_refused(&self, error: HandshakeError) {
        self.refused.lock().note(error);
    }
}

impl Shared {
    /// Takes a link in, if its handshake succeeded. The task that this begins lasts as long as the link.
    fn hold(self: &Arc<Self>, result: Result<(Link, Connection<Box<dyn Stream>>), HandshakeError>) {
        match result {
            Ok((link, connection)) => {
                if self.book.lock().adopt(&link) {
                    self.note_change();
                    self.spawn(poll_to_its_end(Arc::downgrade(self), link, connection));
                }
            }
            Err(error) => self.note_refused(error),
        }
    }
}

/// Polls a connection as long as its link lasts, and then sees to a new one.
async fn poll_to_its_end(weak: Weak<Shared>, link: Link, connection: Connection<Box<dyn Stream>>) {
    let held = Held { weak, link };
    connection.await;
    if let Some(shared) = held.let_go() {
        shared.dial_if_needed(&held.link.peer().id);
    }
}

/// A link in the book. It is taken out also when serving a request panics.
struct Held {
    weak: Weak<Shared>,
    link: Link,
}

impl Held {
    fn let_go(&self) -> Option<Arc<Shared>> {
        let shared = self.weak.upgrade()?;
        shared.book.lock().end(&self.link, Instant::now());
        shared.note_change();
        Some(shared)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

/// Connects to a node until there is a link to it, or it is forgotten.
async fn keep_dialing(weak: Weak<Shared>, id: NodeId) {
    if !give_way(&weak, &id).await {
        return;
    }
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let Some(next) = shared.book.lock().next_dial(&id) else { return };
        if let Some(not_before) = next.not_before.filter(|not_before| Instant::now() < *not_before) {
            drop(shared);
            sleep_until(not_before).await;
            continue;
        }
        let (dialing, endpoint) = (shared.dial.dial(&next.address), shared.endpoint.clone());
        drop(shared);
        let result = dial_once(&endpoint, dialing, &id).await;
        drop(endpoint);
        let Some(shared) = weak.upgrade() else { return };
        if result.is_err() {
            shared.book.lock().note_failed_dial(&id, Instant::now());
        }
        shared.hold(result);
    }
}

async fn dial_once(
    endpoint: &Endpoint,
    dialing: Dialing,
    id: &NodeId,
) -> Result<(Link, Connection<Box<dyn Stream>>), HandshakeError> {
    let opened = timeout(DIAL_TIME_MAX, dialing).await.map_err(|_| HandshakeError::TooSlow)??;
    endpoint.dial_opened(opened, id).await
}

/// The node with the higher id lets the other connect first, unless a request waits: two connections at once cost
/// more than one a little later. Says whether a connection is still needed.
async fn give_way(weak: &Weak<Shared>, id: &NodeId) -> bool {
    let until = Instant::now() + DIAL_COURTESY;
    loop {
        let Some(shared) = weak.upgrade() else { return false };
        let changes = shared.book.lock().changes_of(id);
        let next = shared.book.lock().next_dial(id);
        let (Some(mut changes), Some(next)) = (changes, next) else { return false };
        if next.is_needed || shared.endpoint.id() < id {
            return true;
        }
        drop(shared);
        if timeout_at(until, changes.changed()).await.is_err() {
            return true;
        }
    }
}
