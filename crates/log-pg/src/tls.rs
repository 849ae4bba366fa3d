//! TLS to the database, as the URL's `sslmode` and `sslrootcert` ask for it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{Connect, TlsConnector};

use crate::PgError;

/// What `sslrootcert` calls the certificates that the machine trusts.
const OF_THE_MACHINE: &str = "system";
const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// How far the server's certificate is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verify {
    /// Not at all: the connection is encrypted, to any server that answers.
    Nothing,
    /// An authority that is trusted has signed it.
    Authority,
    /// And it is for the host of the URL.
    Host,
}

/// What the URL asks of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub mode: SslMode,
    connector: TlsConnector,
}

impl Tls {
    /// Takes the parameters of TLS out of a URL; answers the URL without them.
    pub fn of(url: &str) -> Result<(String, Self), PgError> {
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        let mut others = Vec::new();
        let (mut mode, mut roots) = (None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => roots = Some(value.replace("%2F", "/")),
                _ => others.push(parameter),
            }
        }
        let roots = roots.as_deref();
        let (mode, verify) = match mode {
            // As PostgreSQL's own clients: named authorities are asked for with `require` too.
            None | Some("prefer") => (SslMode::Prefer, Verify::Nothing),
            Some("disable") => (SslMode::Disable, Verify::Nothing),
            Some("require") if roots.is_none() => (SslMode::Require, Verify::Nothing),
            Some("require" | "verify-ca") => (SslMode::Require, Verify::Authority),
            Some("verify-full") => (SslMode::Require, Verify::Host),
            Some(other) => return Err(PgError::Url(format!("sslmode={other} is not {MODES}"))),
        };
        let config = client_config(verify, roots)?;
        let url = if others.is_empty() { place.to_owned() } else { format!("{place}?{}", others.join("&")) };
        Ok((url, Self { mode, connector: TlsConnector::from(Arc::new(config)) }))
    }
}

fn client_config(verify: Verify, roots: Option<&str>) -> Result<ClientConfig, PgError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of TLS 1.2 and 1.3");
    let inner = match verify {
        Verify::Nothing => None,
        Verify::Authority | Verify::Host => {
            let roots = Arc::new(trusted(roots)?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
            Some(verifier.map_err(|error| PgError::Url(format!("sslrootcert: {error}")))?)
        }
    };
    let verifier = Arc::new(Verifier { verify, inner, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The authorities that are trusted.
fn trusted(roots: Option<&str>) -> Result<RootCertStore, PgError> {
    let wrong =
        |what: String| PgError::Url(format!("sslrootcert={}: {what}", roots.unwrap_or(OF_THE_MACHINE)));
    let certificates = match roots.filter(|path| *path != OF_THE_MACHINE) {
        None => rustls_native_certs::load_native_certs().certs,
        Some(path) => CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(error.to_string()))?,
    };
    let mut store = RootCertStore::empty();
    let (added, _unusable) = store.add_parsable_certificates(certificates);
    if added == 0 { Err(wrong("no certificate of an authority was found".to_owned())) } else { Ok(store) }
}

#[derive(Debug)]
struct Verifier {
    verify: Verify,
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(certificate, chain, name, stapled, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verify == Verify::Authority => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Handshake { connector: self.connector.clone(), name })
    }
}

/// A handshake to be.
pub(crate) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Handshaking<S>;

    fn connect(self, stream: S) -> Handshaking<S> {
        Handshaking(self.connector.connect(self.name, stream))
    }
}

/// A handshake under way.
pub(crate) struct Handshaking<S>(Connect<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Handshaking<S> {
    type Output = io::Result<Encrypted<S>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_ok(|stream| Encrypted(Box::new(stream)))
    }
}

/// An encrypted connection.
pub(crate) struct Encrypted<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
