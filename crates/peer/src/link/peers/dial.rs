//! How a stream to another node comes about.

use std::fmt;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::super::handshake::Binding;

/// Where a node listens for other nodes, as `host:port`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address(pub String);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stream of bytes in both directions: TCP, TLS over it, or one in memory.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream that is open, and what the handshake over it rests on.
pub struct Opened {
    /// The stream.
    pub stream: Box<dyn Stream>,
    /// What both ends of an encrypted stream know, and nothing between them.
    pub binding: Option<Binding>,
}

impl Opened {
    /// A stream that is not encrypted.
    pub fn plain(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), binding: None }
    }
}

/// A stream that is being opened.
pub type Dialing = Pin<Box<dyn Future<Output = io::Result<Opened>> + Send>>;

/// Opens streams to nodes.
pub trait Dial: Send + Sync {
    /// Begins to open one. It is given up after [`DIAL_TIME_MAX`](super::super::limits::DIAL_TIME_MAX).
    fn dial(&self, address: &Address) -> Dialing;
}

/// Opens plain TCP connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpDial;

impl Dial for TcpDial {
    fn dial(&self, address: &Address) -> Dialing {
        let address = address.0.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Opened::plain(stream))
        })
    }
}
