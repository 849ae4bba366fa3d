//! New connections: a name's addresses, those that may be reached, and encryption where it is asked for.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::line::{Line, OnLine};
use super::pool::ServerAddress;
use super::{ClientError, Reach, Sender};
use crate::tls::{self, TlsError};

/// Makes connections.
pub(super) struct Connector {
    reach: Reach,
    within: Duration,
    /// Read from the machine at the first encrypted connection, unless it was given.
    trust: OnceLock<Result<Arc<ClientConfig>, String>>,
    /// Where all connections go, whatever their places are called.
    only: Option<SocketAddr>,
}

impl Connector {
    pub(super) fn new(reach: Reach, within: Duration) -> Self {
        Self { reach, within, trust: OnceLock::new(), only: None }
    }

    /// Believes the certificates in a file instead of the machine's.
    pub(super) fn trust_file(&mut self, path: &Path) -> Result<(), TlsError> {
        let found = tls::certificates(path)?;
        let mut roots = RootCertStore::empty();
        let (added, _unusable) = roots.add_parsable_certificates(found);
        if added == 0 {
            return Err(TlsError::NoCertificate { path: path.to_owned() });
        }
        self.trust = OnceLock::from(trusting(roots));
        Ok(())
    }

    /// Dials this address whatever is asked for.
    pub(super) fn dial_only(&mut self, address: SocketAddr) {
        self.only = Some(address);
    }

    pub(super) async fn connect(&self, server: &ServerAddress) -> Result<Sender, ClientError> {
        match tokio::time::timeout(self.within, self.connect_at_leisure(server)).await {
            Ok(connected) => connected,
            Err(_) => Err(refused(server, io::ErrorKind::TimedOut.into())),
        }
    }

    async fn connect_at_leisure(&self, server: &ServerAddress) -> Result<Sender, ClientError> {
        let stream = self.dial(server).await?;
        // A batch and its verdict are one packet each way, and neither waits for more.
        stream.set_nodelay(true).map_err(|cause| refused(server, cause))?;
        if !server.encrypted {
            return speak(stream).await;
        }
        let name = ServerName::try_from(server.host.clone()).map_err(|_| ClientError::BadAddress)?;
        let connector = TlsConnector::from(self.trust()?);
        speak(connector.connect(name, stream).await.map_err(|cause| refused(server, cause))?).await
    }

    /// A connection to the first of the host's addresses that takes one.
    async fn dial(&self, server: &ServerAddress) -> Result<TcpStream, ClientError> {
        let addresses: Vec<SocketAddr> = match self.only {
            Some(address) => vec![address],
            None => {
                let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
                found.map_err(|cause| ClientError::NotFound { host: server.host.clone(), cause })?.collect()
            }
        };
        let mut failure = None;
        for address in addresses {
            if !self.reach.allows(address.ip()) {
                failure.get_or_insert(ClientError::OutOfReach { address: address.ip() });
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(cause) => failure = Some(refused(server, cause)),
            }
        }
        Err(failure.unwrap_or_else(|| refused(server, io::ErrorKind::NotFound.into())))
    }

    fn trust(&self) -> Result<Arc<ClientConfig>, ClientError> {
        self.trust.get_or_init(machine_trust).clone().map_err(ClientError::Trust)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("reach", &self.reach).finish_non_exhaustive()
    }
}

async fn speak<S>(stream: S) -> Result<Sender, ClientError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let line = Arc::new(Line::default());
    let stream = OnLine::new(stream, Arc::clone(&line));
    let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(ClientError::Broken)?;
    // It ends with its sender; its errors reach the request under way.
    tokio::spawn(async move {
        let _broken = connection.await;
    });
    Ok(Sender { requests, line })
}

/// What the machine trusts.
fn machine_trust() -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unusable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!("the machine has none{}", errors.join("; ")));
    }
    trusting(roots)
}

fn trusting(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

pub(super) fn refused(server: &ServerAddress, cause: io::Error) -> ClientError {
    ClientError::Refused { place: server.to_string(), cause }
}
