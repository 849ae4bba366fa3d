//! TLS: a certificate and its key from files, read again when they change.
//!
//! Connections that are open keep what they began with; each handshake takes what is newest. Files that cannot be used
//! never take the place of ones that could.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Where certificate and key are, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and an authority that clients know.
    pub cert: PathBuf,
    /// Its private key: PKCS#8, PKCS#1 (RSA) or SEC1 (EC).
    pub key: PathBuf,
}

/// Why files cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A file is no PEM, or not all of it is.
    #[error("{} is not valid PEM: {fault}", path.display())]
    NotPem {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// There is no certificate in the file of certificates.
    #[error("{} holds no certificate (a PEM block CERTIFICATE)", path.display())]
    NoCertificate {
        /// Which file.
        path: PathBuf,
    },
    /// A certificate is of the first version, which TLS has no use for.
    #[error(
        "{} holds a certificate of X.509 version 1, which no TLS client takes any more: make one of version 3 with `kew cert`, \
         or with `openssl req -x509 -newkey rsa:2048 -nodes -addext subjectAltName=DNS:localhost,IP:127.0.0.1`",
        path.display()
    )]
    FirstVersion {
        /// Which file.
        path: PathBuf,
    },
    /// There is no key in the file of the key, or it is encrypted.
    #[error("{} holds no private key (a PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY, not encrypted)", path.display())]
    NoKey {
        /// Which file.
        path: PathBuf,
    },
    /// The two do not go together, or one is of a kind that is not supported.
    #[error("the certificate in {} cannot be used with the key in {}: {cause}", cert.display(), key.display())]
    Unusable {
        /// The file of certificates.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why not.
        cause: rustls::Error,
    },
}

/// What became of files that changed.
#[derive(Debug)]
pub enum TlsNotice<'a> {
    /// New handshakes use them.
    Reloaded(&'a TlsFiles),
    /// They cannot be used; what was loaded before stays in use.
    Kept(&'a TlsFiles, &'a TlsError),
}

/// A certificate in use, shared by the listeners that show it.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<State>,
}

struct State {
    files: TlsFiles,
    /// Guards what handshakes use.
    current: Mutex<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// What the files looked like when they were last read, whether they could be used or not.
    looked: Look,
}

/// How files look from outside: sizes and times of change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look([Option<(u64, SystemTime)>; 2]);

impl Look {
    fn at(files: &TlsFiles) -> Self {
        let look = |path: &Path| {
            let facts = std::fs::metadata(path).ok()?;
            Some((facts.len(), facts.modified().ok()?))
        };
        Self([look(&files.cert), look(&files.key)])
    }
}

impl Tls {
    /// Loads certificate and key.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let looked = Look::at(&files);
        let config = config(&files)?;
        Ok(Self { shared: Arc::new(State { files, current: Mutex::new(Current { config, looked }) }) })
    }

    /// The files it was loaded from.
    pub fn files(&self) -> &TlsFiles {
        &self.shared.files
    }

    /// Loads the files again, whether they have changed or not. What cannot be used changes nothing.
    pub fn reload(&self) -> Result<(), TlsError> {
        let looked = Look::at(&self.shared.files);
        self.shared.current.lock().looked = looked;
        let config = config(&self.shared.files)?;
        self.shared.current.lock().config = config;
        Ok(())
    }

    /// Loads the files again if they look different than the last time; tells whether they did.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let is_same = Look::at(&self.shared.files) == self.shared.current.lock().looked;
        if is_same { Ok(false) } else { self.reload().map(|()| true) }
    }

    /// Looks at the files every few seconds for as long as it is polled, and tells what becomes of changes. It reads
    /// small files, so it belongs on an event loop that may wait for a disk.
    pub async fn follow(self, tell: impl Fn(TlsNotice<'_>) + Send) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.reload_if_changed() {
                Ok(false) => {}
                Ok(true) => tell(TlsNotice::Reloaded(self.files())),
                Err(error) => tell(TlsNotice::Kept(self.files(), &error)),
            }
        }
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.shared.current.lock().config);
        TlsAcceptor::from(config).accept(stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", self.files()).finish_non_exhaustive()
    }
}

fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = (certificates(&files.cert)?, key(&files.key)?);
    let unusable = |cause| TlsError::Unusable { cert: files.cert.clone(), key: files.key.clone(), cause };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificates in a file, of which there is at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|fault| TlsError::NotPem { path: path.to_owned(), fault: fault.to_string() })?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    if chain.iter().any(|certificate| is_of_first_version(certificate)) {
        return Err(TlsError::FirstVersion { path: path.to_owned() });
    }
    Ok(chain)
}

/// Whether what is signed begins with the serial number and not with a version: then it is of the first. Certificates
/// that were made for the vendor's emulator often are: `openssl x509 -req` makes them where no extensions are named.
fn is_of_first_version(certificate: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const SERIAL_NUMBER: u8 = 0x02;
    let inside = |der: &[u8]| -> Option<usize> {
        let length = *der.get(1).filter(|_| der.first() == Some(&SEQUENCE))?;
        // A length below 128 is one byte; else it is the number of bytes that hold it.
        Some(2 + if length < 0x80 { 0 } else { usize::from(length & 0x7f) })
    };
    let signed = inside(certificate).and_then(|at| certificate.get(at..));
    let first = signed.and_then(|signed| signed.get(inside(signed)?));
    first == Some(&SERIAL_NUMBER)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    use rustls::pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|fault| match fault {
        Error::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        fault => TlsError::NotPem { path: path.to_owned(), fault: fault.to_string() },
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|cause| TlsError::Unreadable { path: path.to_owned(), cause })
}
