//! Makes links of streams.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use kew_core::Entropy;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::connection::{Connection, Serve};
use super::handle::Link;
use super::handshake::{self, Binding, Greeted, HandshakeError, Identity};
use super::limits::{GREETING_TIME_MAX, GREETINGS_MAX, GREETINGS_OF_ADDRESS_MAX};
use super::node::NodeId;
use super::peers::{Dialing, Opened, Stream};

/// What a node needs for links. A clone counts the same handshakes.
#[derive(Clone)]
pub struct Endpoint {
    me: Arc<Identity>,
    entropy: Arc<dyn Entropy>,
    serve: Arc<dyn Serve>,
    greetings: Arc<Greetings>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint of {}", self.me.node)
    }
}

impl Endpoint {
    /// A node of this identity, which answers with `serve`.
    pub fn new(me: Identity, entropy: Arc<dyn Entropy>, serve: Arc<dyn Serve>) -> Self {
        Self { me: Arc::new(me), entropy, serve, greetings: Arc::default() }
    }

    /// This node's id.
    pub fn id(&self) -> &NodeId {
        &self.me.node.id
    }

    /// Makes a link of a stream that this node opened to the node `wanted`. The connection is to be polled.
    pub async fn dial<S>(&self, stream: S, wanted: &NodeId) -> Result<(Link, Connection<S>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.dial_bound((stream, None), wanted).await
    }

    /// The same of one that may be encrypted.
    pub async fn dial_opened(
        &self,
        opened: Opened,
        wanted: &NodeId,
    ) -> Result<(Link, Connection<Box<dyn Stream>>), HandshakeError> {
        self.dial_bound((opened.stream, opened.binding), wanted).await
    }

    async fn dial_bound<S>(
        &self,
        (mut stream, binding): (S, Option<Binding>),
        wanted: &NodeId,
    ) -> Result<(Link, Connection<S>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let greeting = handshake::dial(&mut stream, (&self.me, binding), wanted, &*self.entropy);
        let greeted = timeout(GREETING_TIME_MAX, greeting).await.map_err(|_| HandshakeError::TooSlow)??;
        Ok(self.open(stream, greeted))
    }

    /// Makes a link of a stream that another node opened. The connection is to be polled.
    pub async fn accept<S>(&self, mut stream: S) -> Result<(Link, Connection<S>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let _one = self.greetings.begin(None)?;
        let greeting = handshake::accept(&mut stream, (&self.me, None), &*self.entropy);
        let greeted = timeout(GREETING_TIME_MAX, greeting).await.map_err(|_| HandshakeError::TooSlow)??;
        Ok(self.open(stream, greeted))
    }

    /// The same of one that is being opened from an address, which may be encrypted.
    pub async fn accept_from(
        &self,
        from: IpAddr,
        opening: Dialing,
    ) -> Result<(Link, Connection<Box<dyn Stream>>), HandshakeError> {
        let _one = self.greetings.begin(Some(from))?;
        let greeting = async {
            let Opened { mut stream, binding } = opening.await?;
            let greeted = handshake::accept(&mut stream, (&self.me, binding), &*self.entropy).await?;
            Ok::<_, HandshakeError>((stream, greeted))
        };
        let greeted = timeout(GREETING_TIME_MAX, greeting).await.map_err(|_| HandshakeError::TooSlow)?;
        greeted.map(|(stream, greeted)| self.open(stream, greeted))
    }

    fn open<S>(&self, stream: S, greeted: Greeted) -> (Link, Connection<S>) {
        let link = Link::new(greeted);
        (link.clone(), Connection::new(stream, link, Arc::clone(&self.serve)))
    }
}

/// Incoming handshakes that are not finished.
#[derive(Default)]
struct Greetings {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    all: usize,
    from: HashMap<IpAddr, usize>,
}

/// One of them, while this lives.
struct Greeting<'a>(&'a Greetings, Option<IpAddr>);

impl Greetings {
    fn begin(&self, from: Option<IpAddr>) -> Result<Greeting<'_>, HandshakeError> {
        let mut under_way = self.under_way.lock();
        let of_address = from.and_then(|from| under_way.from.get(&from).copied()).unwrap_or_default();
        if under_way.all >= GREETINGS_MAX || of_address >= GREETINGS_OF_ADDRESS_MAX {
            return Err(HandshakeError::TooMany);
        }
        under_way.all += 1;
        if let Some(from) = from {
            under_way.from.insert(from, of_address + 1);
        }
        Ok(Greeting(self, from))
    }
}

impl Drop for Greeting<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way.lock();
        under_way.all -= 1;
        if let Some(from) = self.1
            && let Some(count) = under_way.from.get_mut(&from)
        {
            *count -= 1;
            if *count == 0 {
                under_way.from.remove(&from);
            }
        }
    }
}
