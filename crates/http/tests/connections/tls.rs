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

use crate::house::{Client, Event, House, LONG, SHORT};
use crate::http2;

/// A certificate and its key in files.
struct Papers {
    folder: TempDir,
    files: TlsFiles,
}

impl Papers {
    fn new() -> (Self, CertificateDer<'static>) {
        let folder = TempDir::new().expect("there is room");
        let files = TlsFiles { cert: folder.path().join("cert.pem"), key: folder.path().join("key.pem") };
        let papers = Self { folder, files };
        let shown = papers.renew(&KeyPair::generate().expect("there is chance"));
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
        let before = std::fs::read(path).expect("it is there");
        write(path, text);
        let fault = self.load().expect_err("it cannot be used").to_string();
        std::fs::write(path, before).expect("there is room");
        assert!(fault.contains(&path.display().to_string()), "{fault}");
        fault
    }
}

fn certificate(key: &KeyPair) -> CertificateDer<'static> {
    let params = CertificateParams::new(["localhost".to_owned()]).expect("it is a name");
    params.self_signed(key).expect("it can be signed").der().clone()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("there is room");
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

async fn connect(
    house: &House,
    trusted: &CertificateDer<'static>,
    version: &'static rustls::SupportedProtocolVersion,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("it is a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("it is known")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("it is a name");
    TlsConnector::from(Arc::new(config)).connect(name, house.client().await.0).await
}

#[tokio::test]
async fn requests_come_over_both_versions_and_are_told_to_be_safe() {
    let (papers, cert) = Papers::new();
    let house = House::with(Limits::default(), Some(papers.load().expect("it can be used"))).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocols in [&["http/1.1"][..], &[]] {
            let mut client = Client(connect(&house, &cert, version, protocols).await.expect("it is trusted"));
            assert_eq!(client.get("/from").await.body, "127.0.0.1 true");
            client.send("POST /p HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc").await;
            assert_eq!(client.answer().await.body, "POST /p 3");
        }
    }
}

#[tokio::test]
async fn the_end_is_told_before_the_connection_closes() {
    let (papers, cert) = Papers::new();
    let house = House::with(Limits::default(), Some(papers.load().expect("it can be used"))).await;
    for last in ["GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "no request\r\n\r\n"] {
        let mut stream = connect(&house, &cert, &rustls::version::TLS13, &[]).await.expect("it is trusted");
        tokio::io::AsyncWriteExt::write_all(&mut stream, last.as_bytes()).await.expect("it is taken");
        let mut all = Vec::new();
        // Otherwise what came could have been cut off by anybody.
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut all).await.expect("it ends as it should");
        assert!(all.starts_with(b"HTTP/1.1 "), "{last}");
    }
}

#[tokio::test]
async fn http2_is_spoken_by_agreement_and_without() {
    let (papers, cert) = Papers::new();
    let house = House::with(Limits::default(), Some(papers.load().expect("it can be used"))).await;
    for protocols in [&["h2", "http/1.1"][..], &[]] {
        let stream = connect(&house, &cert, &rustls::version::TLS13, protocols).await.expect("it is trusted");
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
    let mut house = House::with(Limits::default(), Some(papers.load().expect("it can be used"))).await;
    for behind in ["", "GET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
        let stream = connect(&house, &cert, &rustls::version::TLS13, &[]).await.expect("it is trusted");
        let mut client = Client(stream);
        client.send(format!("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n{behind}")).await;
        assert_eq!(house.event().await, Event::Waits);
        drop(client);
        assert_eq!(house.event().await, Event::Dropped, "{behind}");
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let (papers, _) = Papers::new();
    let limits = Limits { handshake_within: SHORT, head_within: LONG, ..Limits::default() };
    let house = House::with(limits, Some(papers.load().expect("it can be used"))).await;
    assert_eq!(house.all("\x16\x03\x01").await, "");
    house.all("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    house.is_left().await;
}

#[tokio::test]
async fn an_unread_reply_ends_the_connection() {
    let (papers, cert) = Papers::new();
    let limits = Limits { reply_stall: SHORT, ..Limits::default() };
    let house = House::with(limits, Some(papers.load().expect("it can be used"))).await;
    let stream = connect(&house, &cert, &rustls::version::TLS13, &[]).await.expect("it is trusted");
    let mut client = Client(stream);
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    tokio::io::AsyncReadExt::read_u8(&mut client.0).await.expect("it begins");
    house.is_left().await;
}

#[tokio::test]
async fn files_that_change_are_used_for_new_connections() {
    let (papers, old) = Papers::new();
    let tls = papers.load().expect("it can be used");
    let house = House::with(Limits::default(), Some(tls.clone())).await;
    let before = connect(&house, &old, &rustls::version::TLS13, &[]).await.expect("it is trusted");
    assert!(!tls.reload_if_changed().expect("nothing is wrong"), "nothing has changed");

    let new = papers.renew(&KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("there is chance"));
    assert!(tls.reload_if_changed().expect("they can be used"), "they have changed");
    assert!(connect(&house, &old, &rustls::version::TLS13, &[]).await.is_err());
    assert!(connect(&house, &new, &rustls::version::TLS13, &[]).await.is_ok());
    assert_eq!(Client(before).get("/still").await.status, 200, "open connections go on");

    write(&papers.files.cert, "rubbish");
    let fault = tls.reload_if_changed().expect_err("it cannot be used").to_string();
    assert!(fault.contains("cert.pem holds no certificate"), "{fault}");
    assert!(!tls.reload_if_changed().expect("it was told"), "it is told once");
    assert!(connect(&house, &new, &rustls::version::TLS13, &[]).await.is_ok(), "the last good one stays");
    std::fs::remove_file(&papers.files.key).expect("it is there");
    assert!(matches!(
        tls.reload_if_changed(),
        Err(TlsError::NoCertificate { .. } | TlsError::Unreadable { .. })
    ));
    assert!(connect(&house, &new, &rustls::version::TLS13, &[]).await.is_ok());
}

#[tokio::test]
async fn keys_come_in_three_forms_and_chains_may_be_long() {
    let (papers, _) = Papers::new();
    let ec = KeyPair::generate().expect("there is chance");
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
        .expect("there is chance");
    for (key, old_label) in [(ec, "EC PRIVATE KEY"), (rsa, "RSA PRIVATE KEY")] {
        let cert = papers.renew(&key);
        let old_form = inner(&key.serialize_der());
        for text in [key.serialize_pem(), pem(old_label, &old_form)] {
            write(&papers.files.key, &text);
            let chain = format!("a remark\n{}{}", pem("CERTIFICATE", &cert), pem("CERTIFICATE", &cert));
            write(&papers.files.cert, &chain);
            let house = House::with(Limits::default(), Some(papers.load().expect(old_label))).await;
            assert!(connect(&house, &cert, &rustls::version::TLS12, &[]).await.is_ok(), "{old_label}");
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
    let good_key = KeyPair::generate().expect("there is chance").serialize_pem();
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
