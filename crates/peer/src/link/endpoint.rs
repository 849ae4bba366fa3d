//! Makes links of streams.

use std::fmt;
use std::sync::Arc;

use kew_core::Entropy;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection::{Connection, Serve};
use super::handle::Link;
use super::handshake::{self, Greeted, HandshakeError, Identity};
use super::limits::{GREETING_TIME_MAX, GREETINGS_MAX};
use super::node::NodeId;

/// What a node needs for links. A clone counts the same handshakes.
#[derive(Clone)]
pub struct Endpoint {
    me: Arc<Identity>,
    entropy: Arc<dyn Entropy>,
    serve: Arc<dyn Serve>,
    /// Incoming handshakes that may begin now.
    greetings: Arc<Semaphore>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint of {}", self.me.node)
    }
}

impl Endpoint {
    /// A node of this identity, which answers with `serve`.
    pub fn new(me: Identity, entropy: Arc<dyn Entropy>, serve: Arc<dyn Serve>) -> Self {
        Self { me: Arc::new(me), entropy, serve, greetings: Arc::new(Semaphore::new(GREETINGS_MAX)) }
    }

    /// This node's id.
    pub fn id(&self) -> &NodeId {
        &self.me.node.id
    }

    /// Makes a link of a stream that this node opened to the node `wanted`. The connection is to be polled.
    pub async fn dial<S>(
        &self,
        mut stream: S,
        wanted: &NodeId,
    ) -> Result<(Link, Connection<S>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let greeting = handshake::dial(&mut stream, &self.me, wanted, &*self.entropy);
        let greeted = timeout(GREETING_TIME_MAX, greeting).await.map_err(|_| HandshakeError::TooSlow)??;
        Ok(self.open(stream, greeted))
    }

    /// Makes a link of a stream that another node opened. The connection is to be polled.
    pub async fn accept<S>(&self, mut stream: S) -> Result<(Link, Connection<S>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let _one = self.greetings.try_acquire().map_err(|_| HandshakeError::TooMany)?;
        let greeting = handshake::accept(&mut stream, &self.me, &*self.entropy);
        let greeted = timeout(GREETING_TIME_MAX, greeting).await.map_err(|_| HandshakeError::TooSlow)??;
        Ok(self.open(stream, greeted))
    }

    fn open<S>(&self, stream: S, greeted: Greeted) -> (Link, Connection<S>) {
        let link = Link::new(greeted);
        (link.clone(), Connection::new(stream, link, Arc::clone(&self.serve)))
    }
}
