//! A webhook that says whatever bytes the test wants, in plain or over TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// The whole reply to a batch; without one nothing is ever said.
type Answer = dyn Fn(&Value) -> Option<Vec<u8>> + Send + Sync;

/// Where such a webhook listens; it ends with the test's process.
pub fn plain(answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static) -> String {
    listen(answer, |stream| Some(Box::new(stream)))
}

/// The same behind the certificate and the key that `kew cert` made in a directory.
pub fn encrypted(
    certificates: &Path,
    answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> String {
    let chain = CertificateDer::pem_file_iter(certificates.join("server.pem"))
        .expect("the file of certificates exists");
    let chain = chain.map(|certificate| certificate.expect("the certificate is PEM")).collect();
    let key = PrivateKeyDer::from_pem_file(certificates.join("server-key.pem"))
        .expect("the file holds a private key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the default versions of TLS are supported")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("the default versions of TLS are supported");
    let config = Arc::new(config);
    listen(answer, move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).ok()?;
        Some(Box::new(StreamOwned::new(connection, stream)))
    })
}

/// A reply with a body.
pub fn reply(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

fn listen(
    answer: impl Fn(&Value) -> Option<Vec<u8>> + Send + Sync + 'static,
    open: impl Fn(TcpStream) -> Option<Box<dyn Stream>> + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address").to_string();
    let answer: Arc<Answer> = Arc::new(answer);
    let open = Arc::new(std::sync::Mutex::new(open));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (answer, open) = (Arc::clone(&answer), Arc::clone(&open));
            std::thread::spawn(move || {
                let stream = open.lock().expect("no thread panics while it holds the lock")(stream)?;
                serve(stream, &*answer)
            });
        }
    });
    address
}

fn serve(stream: Box<dyn Stream>, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let batch = serde_json::from_slice(&body).expect("a batch is JSON");
        let Some(reply) = answer(&batch) else {
            std::thread::park_timeout(super::push::PATIENCE * 10);
            return None;
        };
        reader.get_mut().write_all(&reply).ok()?;
    }
}
