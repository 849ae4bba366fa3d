//! TLS: both versions, HTTP/2 by agreement, certificates that change, and files that cannot be used.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kew_http::{Limits, Tls, TlsError, TlsFiles};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http2;
use crate::server::{Event, LONG, SHORT, ScriptedServer, TestClient};

/// A certificate and its key in files.
struct Papers {
    folder: TempDir,
    files: TlsFiles,
}

impl Papers {
    fn new() -> (Self, CertificateDer<'static>) {
        let folder = TempDir::new().expect("the machine has a temporary directory");
        let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        let papers = Self { folder, files };
        let shown = papers.renew(&KeyPair::generate().expect("a key pair is generated"));
        (papers, shown)
    }

    /// Writes a new certificate for this key, and the key.
    fn renew(&self, key: &KeyPair) -> CertificateDer<'static> {
        let cert = certificate(key);
        write(&self.files.cert, &pem("CERTIFICATE", &cert));
        write(&self.files.key, &key.serialize_pem());
        cert
    }

    fn load(&self) -> Result<Tls, TlsError> {
        Tls::load(self.files.clone())
    }

    /// What loading says when a file holds this instead.
    fn fault(&self, path: &Path, text: &str) -> String {
        let before = std::fs::read(path).expect("the file of the certificate or key exists");
        write(path, text);
        let fault = self.load().expect_err("it cannot be used").to_string();
        std::fs::write(path, before).expect("the file is written back");
        assert!(fault.contains(&path.display().to_string()), "{fault}");
        fault
    }
}

fn certificate(key: &KeyPair) -> CertificateDer<'static> {
    let params = CertificateParams::new(["localhost".to_owned()]).expect("`localhost` is a valid name");
    params.self_signed(key).expect("a certificate can sign itself").der().clone()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the file is written");
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

async fn connect(
    server: &ScriptedServer,
    trusted: &CertificateDer<'static>,
    version: &'static rustls::SupportedProtocolVersion,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate of the test can be trusted");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("the version of TLS is supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("`localhost` is a valid name");
    TlsConnector::from(Arc::new(config)).connect(name, server.client().await.stream).await
}

#[tokio::test]
async fn requests_come_over_both_versions_and_are_marked_secure() {
    let (papers, cert) = Papers::new();
    let server =
        ScriptedServer::with(Limits::default(), Some(papers.load().expect("certificate and key are a pair")))
            .await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocols in [&["http/1.1"][..], &[]] {
            let mut client = TestClient::over(
                connect(&server, &cert, version, protocols).await.expect("the client trusts the certificate"),
            );
            assert_eq!(client.get("/from").await.body, "127.0.0.1 true");
            client.send("POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc").await;
            assert_eq!(client.answer().await.body, "POST /p 3");
        }
    }
}

#[tokio::test]
async fn tls_close_notify_is_sent_before_the_connection_closes() {
    let (papers, cert) = Papers::new();
    let server =
        ScriptedServer::with(Limits::default(), Some(papers.load().expect("certificate and key are a pair")))
            .await;
    for last in ["GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "no request\r\n\r\n"] {
        let mut stream = connect(&server, &cert, &rustls::version::TLS13, &[])
            .await
            .expect("the client trusts the certificate");
        tokio::io::AsyncWriteExt::write_all(&mut stream, last.as_bytes())
            .await
            .expect("the server reads the request");
        let mut all = Vec::new();
        // Otherwise what came could have been cut off by anybody.
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut all)
            .await
            .expect("the connection ends with close_notify");
        assert!(all.starts_with(b"HTTP/1.1 "), "{last}");
    }
}

#[tokio::test]
async fn http2_is_spoken_by_agreement_and_without() {
    let (papers, cert) = Papers::new();
    let server =
        ScriptedServer::with(Limits::default(), Some(papers.load().expect("certificate and key are a pair")))
            .await;
    for protocols in [&["h2", "http/1.1"][..], &[]] {
        let stream = connect(&server, &cert, &rustls::version::TLS13, protocols)
            .await
            .expect("the client trusts the certificate");
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed, protocols.first().map(|first| first.as_bytes().to_vec()));
        let (mut sender, _driving) = http2::connect(stream).await;
        let answer = http2::text(&mut sender, http2::get("https://localhost/from")).await;
        assert_eq!(answer, (200, "127.0.0.1 true".to_owned()));
    }
}

#[tokio::test]
async fn a_request_is_dropped_when_its_client_goes() {
    let (papers, cert) = Papers::new();
    let mut server =
        ScriptedServer::with(Limits::default(), Some(papers.load().expect("certificate and key are a pair")))
            .await;
    for behind in ["", "GET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let stream = connect(&server, &cert, &rustls::version::TLS13, &[])
            .await
            .expect("the client trusts the certificate");
        let mut client = TestClient::over(stream);
        client.send(format!("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n{behind}")).await;
        assert_eq!(server.event().await, Event::Waits);
        drop(client);
        assert_eq!(server.event().await, Event::Dropped, "{behind}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let (papers, _) = Papers::new();
    let limits = Limits { handshake_within: SHORT, head_within: LONG, ..Limits::default() };
    let server =
        ScriptedServer::with(limits, Some(papers.load().expect("certificate and key are a pair"))).await;
    assert_eq!(server.all("\x16\x03\x01").await, "");
    server.all("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    server.is_left().await;
}

#[tokio::test]
async fn an_unread_reply_ends_the_connection() {
    let (papers, cert) = Papers::new();
    let limits = Limits { reply_stall: SHORT, ..Limits::default() };
    let server =
        ScriptedServer::with(limits, Some(papers.load().expect("certificate and key are a pair"))).await;
    let stream = connect(&server, &cert, &rustls::version::TLS13, &[])
        .await
        .expect("the client trusts the certificate");
    let mut client = TestClient::over(stream);
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    tokio::io::AsyncReadExt::read_u8(&mut client.stream).await.expect("the reply begins");
    server.is_left().await;
}

#[tokio::test]
async fn files_that_change_are_used_for_new_connections() {
    let (papers, old) = Papers::new();
    let tls = papers.load().expect("certificate and key are a pair");
    let server = ScriptedServer::with(Limits::default(), Some(tls.clone())).await;
    let before = connect(&server, &old, &rustls::version::TLS13, &[])
        .await
        .expect("the client trusts the old certificate");
    assert!(!tls.reload_if_changed().expect("nothing is wrong"), "nothing has changed");

    let new = papers.renew(
        &KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key pair for P-384 is generated"),
    );
    assert!(tls.reload_if_changed().expect("the new certificate and key are a pair"), "they have changed");
    assert!(connect(&server, &old, &rustls::version::TLS13, &[]).await.is_err());
    assert!(connect(&server, &new, &rustls::version::TLS13, &[]).await.is_ok());
    assert_eq!(TestClient::over(before).get("/still").await.status, 200, "open connections go on");

    write(&papers.files.cert, "rubbish");
    let fault = tls.reload_if_changed().expect_err("it cannot be used").to_string();
    assert!(fault.contains("cert.pem holds no certificate"), "{fault}");
    assert!(!tls.reload_if_changed().expect("an unchanged certificate is no error"), "it is told once");
    assert!(connect(&server, &new, &rustls::version::TLS13, &[]).await.is_ok(), "the last good one stays");
    std::fs::remove_file(&papers.files.key).expect("the file of the key exists");
    assert!(matches!(
        tls.reload_if_changed(),
        Err(TlsError::NoCertificate { .. } | TlsError::Unreadable { .. })
    ));
    assert!(connect(&server, &new, &rustls::version::TLS13, &[]).await.is_ok());
}

#[tokio::test]
async fn keys_come_in_three_forms_and_chains_may_be_long() {
    let (papers, _) = Papers::new();
    let ec = KeyPair::generate().expect("a key pair for P-256 is generated");
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
        .expect("a key pair for RSA is generated");
    for (key, old_label) in [(ec, "EC PRIVATE KEY"), (rsa, "RSA PRIVATE KEY")] {
        let cert = papers.renew(&key);
        let old_form = inner(&key.serialize_der());
        for text in [key.serialize_pem(), pem(old_label, &old_form)] {
            write(&papers.files.key, &text);
            let chain = format!("a remark\n{}{}", pem("CERTIFICATE", &cert), pem("CERTIFICATE", &cert));
            write(&papers.files.cert, &chain);
            let server = ScriptedServer::with(Limits::default(), Some(papers.load().expect(old_label))).await;
            assert!(connect(&server, &cert, &rustls::version::TLS12, &[]).await.is_ok(), "{old_label}");
        }
    }
}

/// The bytes of the header and of the content of the element that DER begins with.
fn element(der: &[u8]) -> (usize, usize) {
    match der[1] {
        short @ 0..=0x7f => (2, short.into()),
        0x81 => (3, der[2].into()),
        _ => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
    }
}

/// The elements inside of an element.
fn elements(der: &[u8]) -> Vec<&[u8]> {
    let mut rest = &der[element(der).0..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (head, length) = element(rest);
        let (first, behind) = rest.split_at(head + length);
        found.push(first);
        rest = behind;
    }
    found
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    let inside = parts.concat();
    let length = u16::try_from(inside.len()).expect("certificates are short").to_be_bytes();
    [&[0x30, 0x82], &length[..], &inside].concat()
}

/// The key inside a PKCS#8 wrapping: what follows the algorithm, without the header of its octet string.
fn inner(wrapped: &[u8]) -> Vec<u8> {
    let octets = elements(wrapped)[2];
    octets[element(octets).0..].to_vec()
}

/// A certificate as the first version of X.509 had it: without the number of its version and without extensions.
#[test]
fn a_certificate_of_the_first_version_is_refused_with_what_to_do() {
    let (papers, cert) = Papers::new();
    let whole = elements(&cert);
    let signed = elements(whole[0]);
    let first = sequence(&[&sequence(&signed[1..signed.len() - 1]), whole[1], whole[2]]);
    let fault = papers.fault(&papers.files.cert, &pem("CERTIFICATE", &first));
    assert!(fault.contains("X.509 version 1") && fault.contains("`kew cert`"), "{fault}");
    let third = sequence(&[&sequence(&signed), whole[1], whole[2]]);
    write(&papers.files.cert, &pem("CERTIFICATE", &third));
    papers.load().expect("the same with its version and extensions can be used");
}

#[test]
fn faults_name_the_file_and_what_is_wrong_with_it() {
    let (papers, cert) = Papers::new();
    let TlsFiles { cert: cert_path, key: key_path } = papers.files.clone();
    let good_cert = pem("CERTIFICATE", &cert);
    let good_key = KeyPair::generate().expect("a key pair is generated").serialize_pem();
    for (path, text, expected) in [
        (&cert_path, "", "holds no certificate"),
        (&cert_path, good_key.as_str(), "holds no certificate"),
        (&cert_path, "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", "is not valid PEM"),
        (&cert_path, "-----BEGIN CERTIFICATE-----\nAAAA\n", "is not valid PEM"),
        (
            &cert_path,
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "cannot be used with the key",
        ),
        (&key_path, "", "holds no private key"),
        (&key_path, good_cert.as_str(), "holds no private key"),
        (
            &key_path,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "not encrypted",
        ),
        (&key_path, good_key.as_str(), "cannot be used with the key"),
    ] {
        let fault = papers.fault(path, text);
        assert!(fault.contains(expected), "{fault}");
    }
    let missing = papers.folder.path().join("none.pem");
    let fault = Tls::load(TlsFiles { cert: missing.clone(), key: key_path }).expect_err("it is not there");
    assert!(matches!(&fault, TlsError::Unreadable { path, .. } if *path == missing), "{fault}");
}
