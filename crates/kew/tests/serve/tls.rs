//! Encrypted listeners, with certificates that `kew cert` made, and what only they may carry: bearer tokens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use super::program::{Kew, data_directory};

/// `kew cert`, and what it says.
fn certificates(directory: &Path, further: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    let out = directory.join("certs");
    let output = command
        .arg("cert")
        .arg("--out")
        .arg(&out)
        .args(further)
        .output()
        .expect("the program kew is built with its tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server whose dialects are encrypted, with further lines of configuration.
fn start(directory: &Path, further: &str) -> Kew {
    let certs = directory.join("certs");
    let tls =
        format!("[tls]\ncert = {:?}\nkey = {:?}\n", certs.join("server.pem"), certs.join("server-key.pem"));
    let config = directory.join("kew.toml");
    std::fs::write(&config, format!("{tls}{further}")).expect("the directory is ours");
    let data = directory.join("data");
    let flags = ["--config".into(), config.to_string_lossy(), "--store".into(), data.to_string_lossy()];
    let flags: Vec<&str> = flags.iter().map(AsRef::as_ref).collect();
    Kew::start_with(directory, &flags)
}

/// One request over TLS by a client that trusts the authority `kew cert` made; the whole reply.
fn ask(directory: &Path, address: &str, name: &str, request: &str) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(directory.join("certs/ca.pem"))
        .expect("the file of the authority exists")
    {
        roots.add(certificate.expect("the certificate is PEM")).expect("the certificate is an authority");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the default versions of TLS are supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("the name is a valid server name");
    let connection =
        ClientConnection::new(Arc::new(config), name).expect("the settings of the connection are valid");
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        // Not every side says goodbye before it closes.
        Err(error) if reply.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&reply).into_owned()),
    }
}

fn get(target: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

#[test]
fn what_kew_cert_makes_encrypts_every_dialect_and_is_trusted_by_its_authority_alone() {
    let directory = data_directory();
    let told = certificates(directory.path(), &["--host", "queues.test"]);
    assert!(told.contains("ca.pem") && told.contains("queues.test"), "{told}");
    let kew = start(directory.path(), "");
    let create = get("/?Action=CreateQueue&QueueName=orders", &[]);
    for name in ["localhost", "127.0.0.1", "queues.test"] {
        let reply = ask(directory.path(), &kew.sqs, name, &create).expect("the name is in the certificate");
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        assert!(reply.contains("<QueueUrl>https://localhost/000000000000/orders</QueueUrl>"), "{reply}");
    }
    assert!(ask(directory.path(), &kew.sqs, "other.test", &create).is_err(), "nobody said that name");
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let reply = ask(directory.path(), &azure, "localhost", &get("/devstoreaccount1?comp=list", &[]));
    assert!(reply.expect("the server answers").contains("<Name>orders</Name>"));
    assert_eq!(kew.admin("GET", "/readyz", &[], "").0, 200, "health checks stay plain");
    let mut plain = TcpStream::connect(&kew.sqs).expect("the server accepts connections");
    plain.write_all(create.as_bytes()).expect("the server reads the request");
    let mut reply = Vec::new();
    let _closed = plain.read_to_end(&mut reply);
    assert!(!reply.starts_with(b"HTTP/1.1 200"), "nothing is served in plain");

    // Made anew by the same authority, they are used without a restart.
    let server = directory.path().join("certs/server.pem");
    let before = std::fs::read(&server).expect("the file exists");
    certificates(directory.path(), &["--host", "queues.test"]);
    assert_eq!(std::fs::read(&server).expect("the file exists"), before, "run again it changes nothing");
    certificates(directory.path(), &["--host", "later.test"]);
    let begun = Instant::now();
    while ask(directory.path(), &kew.sqs, "later.test", &create).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", kew.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Somebody who issues tokens.
struct Issuer {
    id: &'static str,
    key: EncodingKey,
}

impl Issuer {
    fn new(id: &'static str) -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key pair is generated");
        Self { id, key: EncodingKey::from_ec_der(&pair.serialize_der()) }
    }

    fn key_set(&self) -> String {
        let mut jwk =
            Jwk::from_encoding_key(&self.key, Algorithm::ES256).expect("a signing key has a public half");
        jwk.common.key_id = Some(self.id.to_owned());
        json!({"keys": [jwk]}).to_string()
    }

    fn token(&self, audience: &str) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("the system clock shows a time after 1970")
            .as_secs();
        let claims = json!({
            "iss": "https://issuer.test/", "aud": audience, "nbf": now - 10, "iat": now - 10, "exp": now + 600,
        });
        let header = Header { kid: Some(self.id.to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&header, &claims, &self.key).expect("the token is signed")
    }
}

/// A refused token, as "Authorize with Microsoft Entra ID" shows it under "Bearer challenge": the vendor's clients
/// (`BearerTokenCredentialPolicy` of azure-core) ask for another token on 401 with a challenge, and on nothing else.
#[track_caller]
fn assert_asks_again(reply: &str, detail: &str) {
    let reply = reply.to_lowercase();
    assert!(reply.starts_with("http/1.1 401"), "{reply}");
    for part in [
        "x-ms-error-code: invalidauthenticationinfo\r\n",
        "www-authenticate: bearer authorization_uri=https://issuer.test/ resource_id=https://storage.azure.com\r\n",
        "server failed to authenticate the request. please refer to the information in the www-authenticate header.",
        &format!("<authenticationerrordetail>{}</authenticationerrordetail>", detail.to_lowercase()),
    ] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
}

/// "Authorize with Microsoft Entra ID" and the change log of azure-storage-queue 12.14: from service version 2025-07-05
/// on tokens open Get and Set Queue ACL.
#[test]
fn stored_policies_are_open_to_tokens_of_newer_clients() {
    let directory = data_directory();
    certificates(directory.path(), &[]);
    let issuer = Issuer::new("only");
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, issuer.key_set()).expect("the directory is ours");
    let kew = start(directory.path(), &strict_bearer(&keys));
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let bearer = format!("Bearer {}", issuer.token("https://storage.azure.com/"));
    let ask = |method: &str, path: &str, version: &str| {
        let request =
            get(path, &[("Authorization", &bearer), ("x-ms-version", version), ("Content-Length", "0")]);
        let request = request.replacen("GET", method, 1);
        ask(directory.path(), &azure, "localhost", &request).expect("the server answers")
    };
    let queue = "/devstoreaccount1/orders";
    assert!(ask("PUT", queue, "2019-12-12").starts_with("HTTP/1.1 201"));
    for (method, version, expected) in [
        ("GET", "2025-05-05", "403"),
        ("PUT", "2025-05-05", "403"),
        ("GET", "2025-07-05", "200"),
        ("PUT", "2025-07-05", "204"),
        ("GET", "2026-10-06", "200"),
    ] {
        let reply = ask(method, &format!("{queue}?comp=acl"), version);
        assert!(reply.starts_with(&format!("HTTP/1.1 {expected}")), "{method} {version}: {reply}");
        assert_eq!(reply.contains("AuthenticationFailed"), expected == "403", "{method} {version}: {reply}");
    }
}

/// The lines of configuration that have tokens verified by these keys.
fn strict_bearer(keys: &Path) -> String {
    format!(
        "[server]\nauth = \"strict\"\n[admin]\ntoken = \"hush\"\n[azure]\nbearer = \"strict\"\n\
         bearer_keys = {keys:?}\nbearer_issuers = [\"https://issuer.test/\"]\n"
    )
}

#[test]
fn bearer_tokens_are_verified_against_a_key_set_that_may_change() {
    let directory = data_directory();
    certificates(directory.path(), &[]);
    let (first, second) = (Issuer::new("first"), Issuer::new("second"));
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, first.key_set()).expect("the directory is ours");
    let kew = start(directory.path(), &strict_bearer(&keys));
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let version = ("x-ms-version", "2026-10-06");
    let list = |headers: &[(&str, &str)]| {
        ask(directory.path(), &azure, "localhost", &get("/devstoreaccount1?comp=list", headers))
            .expect("the server answers")
    };
    let with = |token: &str| list(&[version, ("Authorization", &format!("Bearer {token}"))]);
    let storage = "https://storage.azure.com/";
    let served = with(&first.token(storage));
    assert!(served.starts_with("HTTP/1.1 200"), "{served}");
    let elsewhere = with(&first.token("https://vault.azure.net"));
    assert_asks_again(&elsewhere, "Invalid token audience.");
    let forged = with(&second.token(storage));
    assert_asks_again(&forged, "Signature validation failed.");
    assert!(with("no token").starts_with("HTTP/1.1 401"), "what cannot be read is asked for again too");
    let asked = list(&[version]).to_lowercase();
    assert!(asked.starts_with("http/1.1 401"), "{asked}");
    assert!(asked.contains("x-ms-error-code: noauthenticationinformation"), "{asked}");
    let challenge = "www-authenticate: bearer authorization_uri=https://issuer.test/ resource_id=https://storage.azure.com\r\n";
    assert!(asked.contains(challenge), "{asked}");
    assert!(list(&[("x-ms-version", "2019-07-07")]).starts_with("HTTP/1.1 403"), "too old to understand it");

    std::fs::write(&keys, second.key_set()).expect("the directory is ours");
    let begun = Instant::now();
    while !with(&second.token(storage)).starts_with("HTTP/1.1 200") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", kew.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(with(&first.token(storage)).starts_with("HTTP/1.1 401"), "its key was taken away");
    std::fs::write(&keys, "{").expect("the directory is ours");
    while !kew.errors().contains("cannot be had") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", kew.errors());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(with(&second.token(storage)).starts_with("HTTP/1.1 200"), "a broken file changes nothing");
}

/// Answers every request with what `body` holds, until it is dropped with the test.
fn serve_keys(body: Arc<std::sync::Mutex<String>>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("a bound socket has an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let body = body.lock().expect("no thread panics while it holds the lock").clone();
            let length = body.len();
            let _sent = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn keys_behind_a_url_are_asked_for_again_when_one_is_missing() {
    let directory = data_directory();
    certificates(directory.path(), &[]);
    let (first, second) = (Issuer::new("first"), Issuer::new("second"));
    let keys = Arc::new(std::sync::Mutex::new("not yet".to_owned()));
    let address = serve_keys(Arc::clone(&keys));
    let kew = start(
        directory.path(),
        &format!(
            "[server]\nauth = \"strict\"\n[admin]\ntoken = \"hush\"\n[azure]\nbearer = \"strict\"\n\
             bearer_keys = \"http://{address}/keys?v=2\"\nbearer_issuers = [\"https://issuer.test/\"]\n"
        ),
    );
    let azure = kew.ports["azure"].as_str().expect("the listener is on").to_owned();
    let is_served = |issuer: &Issuer| {
        let bearer = format!("Bearer {}", issuer.token("https://storage.azure.com/"));
        let request = get("/devstoreaccount1?comp=list", &[("Authorization", &bearer)]);
        let reply = ask(directory.path(), &azure, "localhost", &request).expect("the server answers");
        reply.starts_with("HTTP/1.1 200")
    };
    assert!(!is_served(&first), "there are no keys yet");
    for (issuer, others) in [(&first, &second), (&second, &first)] {
        *keys.lock().expect("no thread panics while it holds the lock") = issuer.key_set();
        // A token of a key that is missing has it asked for, ten seconds after the last time at the earliest.
        let begun = Instant::now();
        while !is_served(issuer) {
            assert!(begun.elapsed() < Duration::from_secs(25), "{}", kew.errors());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!is_served(others));
    }
}

#[test]
fn strict_bearer_needs_keys_that_can_be_used_and_issuers() {
    let directory = data_directory();
    let config = directory.path().join("kew.toml");
    let head = "[server]\nauth = \"strict\"\n[admin]\ntoken = \"hush\"\n[azure]\nbearer = \"strict\"\n";
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#).expect("the directory is ours");
    let issuers = "bearer_issuers = [\"https://issuer.test/\"]\n";
    for (lines, code, told) in [
        (String::new(), 2, "needs [azure] bearer_keys beside it"),
        (format!("bearer_keys = {keys:?}\n"), 2, "needs [azure] bearer_issuers beside it"),
        (format!("bearer_keys = {keys:?}\n{issuers}"), 1, "it holds no key that verifies signatures"),
        (format!("bearer_keys = \"nowhere.json\"\n{issuers}"), 1, "nowhere.json"),
        (format!("bearer_keys = \"http://login.test/keys\"\n{issuers}"), 2, "an https:// URL"),
    ] {
        std::fs::write(&config, format!("{head}{lines}")).expect("the directory is ours");
        let data = directory.path().join("data");
        let (config, data) = (config.to_string_lossy(), data.to_string_lossy());
        let (found, errors) = super::program::fail(&["--config", &config, "--store", &data]);
        assert_eq!(found, Some(code), "{errors}");
        assert!(errors.contains(told), "{errors}");
    }
}

#[test]
fn kew_health_asks_over_tls_and_believes_the_authority_it_is_given() {
    let directory = data_directory();
    certificates(directory.path(), &["--host", "queues.test"]);
    let certs = directory.path().join("certs");
    let (cert, key, ca) = (certs.join("server.pem"), certs.join("server-key.pem"), certs.join("ca.pem"));
    let kew = start(directory.path(), &format!("[tls.admin]\ncert = {cert:?}\nkey = {key:?}\n"));
    let port = kew.admin.rsplit_once(':').expect("an address has a port").1;
    let health = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
        command.env_remove("SSL_CERT_FILE").args(["health", "--timeout", "20"]).args(arguments);
        let output = command
            .envs(variables.iter().copied())
            .output()
            .expect("the program kew is built with its tests");
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    let ca = ca.to_str().expect("the path of a temporary directory is UTF-8");
    let (https, by_name) = (format!("https://{}", kew.admin), format!("https://localhost:{port}/"));
    for admin in [kew.admin.as_str(), &https, &by_name] {
        let (code, told) = health(&["--admin", admin, "--ca", ca], &[]);
        assert_eq!((code, told.starts_with("ready")), (Some(0), true), "{admin}: {told}");
    }
    assert_eq!(health(&["--admin", &kew.admin, "--ca", ca, "--name", "queues.test"], &[]).0, Some(0));
    let of_container = [("KEW_ADMIN", kew.admin.as_str()), ("KEW_HEALTH_CA", ca)];
    assert_eq!(health(&[], &of_container).0, Some(0));
    // A server without a trusted certificate gets no request, and it says why.
    let (code, told) = health(&["--admin", &https], &[]);
    assert!(code == Some(1) && told.contains("ertificate"), "{code:?} {told}");
    let (code, told) = health(&["--admin", &kew.admin, "--ca", ca, "--name", "other.test"], &[]);
    assert!(code == Some(1) && told.contains("other.test"), "{code:?} {told}");
    let (code, told) = health(&["--admin", &kew.admin], &[]);
    assert!(code == Some(1) && told.contains("--ca"), "plain at an encrypted address: {code:?} {told}");
    let (code, told) = health(&["--admin", &kew.admin, "--ca", "/nowhere/ca.pem"], &[]);
    assert!(code == Some(2) && told.contains("/nowhere/ca.pem"), "{code:?} {told}");
    let list = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
        let output = command.args(["queue", "ls"]).args(arguments).output();
        let output = output.expect("the program kew is built with its tests");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for admin in [kew.admin.as_str(), port, &https] {
        assert_eq!(list(&["--admin", admin, "--ca", ca]), (Some(0), String::new()), "{admin}");
    }
    let (code, errors) = list(&["--admin", &kew.admin]);
    assert!(code == Some(1) && errors.contains("over TLS it is asked with --ca"), "{code:?} {errors}");
}
