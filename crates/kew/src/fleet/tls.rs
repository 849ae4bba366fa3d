//! TLS between nodes, without certificates to hand out: each node makes one when it starts, and no node trusts it.
//!
//! What nodes trust is the secret in the database. Their handshake proves it over keying material that TLS exports,
//! which only the two ends of one connection share: one who stands between two nodes has two connections, and so the
//! proof of one is worth nothing on the other.

use std::io;
use std::sync::Arc;

use kew_peer::link::{Address, Binding, Dial, Dialing, Opened};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What the certificates of nodes are for.
const NAME: &str = "kew-node";
/// What the exported keying material is for.
const LABEL: &[u8] = b"EXPORTER-kew-peer";

/// Makes encrypted streams of both kinds.
#[derive(Clone)]
pub(super) struct PeerTls {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

impl PeerTls {
    /// With a certificate that is made now.
    pub fn new() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = &[&rustls::version::TLS13];
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into())
            });
        let client =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions);
        let trusts = Arc::new(AnyCertificate(provider));
        let client = client.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(trusts);
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server.map_err(io::Error::other)?)),
            connector: TlsConnector::from(Arc::new(client.with_no_client_auth())),
        })
    }

    /// A stream that another node opened.
    pub fn accept(&self, stream: TcpStream) -> Dialing {
        let accepting = self.acceptor.accept(stream);
        Box::pin(async move {
            let stream = accepting.await?;
            let exported = stream.get_ref().1.export_keying_material([0; 32], LABEL, None);
            let binding = Some(Binding(exported.map_err(io::Error::other)?));
            Ok(Opened { stream: Box::new(stream), binding })
        })
    }
}

impl Dial for PeerTls {
    fn dial(&self, address: &Address) -> Dialing {
        let (address, connector) = (address.0.clone(), self.connector.clone());
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
            let stream = connector.connect(name, stream).await?;
            let exported = stream.get_ref().1.export_keying_material([0; 32], LABEL, None);
            let binding = Some(Binding(exported.map_err(io::Error::other)?));
            Ok(Opened { stream: Box::new(stream), binding })
        })
    }
}

/// Takes any certificate whose key the other side has. Who that is, the handshake over it says.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("nodes speak TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use kew_peer::link::HandshakeError;

    use super::*;

    async fn ends(one: &PeerTls, other: &PeerTls) -> (Opened, Opened) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address(listener.local_addr().unwrap().to_string());
        let accepting = async { other.accept(listener.accept().await.unwrap().0).await.unwrap() };
        tokio::join!(async { one.dial(&address).await.unwrap() }, accepting)
    }

    #[tokio::test]
    async fn both_ends_of_a_connection_share_what_no_other_connection_has() {
        let (one, other) = (PeerTls::new().unwrap(), PeerTls::new().unwrap());
        let (mut dialed, mut accepted) = ends(&one, &other).await;
        dialed.stream.write_all(b"over the wire").await.unwrap();
        dialed.stream.flush().await.unwrap();
        let mut read = [0; 13];
        accepted.stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"over the wire");
        let key = |opened: &Opened| opened.binding.unwrap().0;
        assert_eq!(key(&dialed), key(&accepted));
        let (again, _) = ends(&one, &other).await;
        assert_ne!(key(&again), key(&dialed));
    }

    #[tokio::test]
    async fn node_without_tls_is_not_understood() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = PeerTls::new().unwrap();
        let (opened, ()) =
            tokio::join!(async { tls.accept(listener.accept().await.unwrap().0).await }, async {
                let mut plain = TcpStream::connect(address).await.unwrap();
                plain.write_all(b"\x60\0\0\0KEWPEER\n and more").await.unwrap();
                drop(plain);
            });
        assert_eq!(opened.err().map(HandshakeError::from), Some(HandshakeError::NotAlike));
    }
}
