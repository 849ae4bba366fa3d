//! Which webhooks are reached: certificates that verify and those that do not, and the private addresses of a server
//! that many use.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answers::{encrypted, plain, reply};
use super::program::{self, Kew, data_directory};
use super::push::PATIENCE;

/// A client of the Cloudflare API and of the admin API, with what each asks for.
struct Desk<'a> {
    kew: &'a Kew,
    account: &'a str,
    token: &'a str,
}

impl Desk<'_> {
    fn call(&self, path: &str, body: &Value) -> Value {
        let token = format!("Bearer {}", self.token);
        let path = format!("/client/v4/accounts/{}/queues{path}", self.account);
        let address = self.kew.ports["cloudflare"].as_str().expect("the listener is on");
        let (status, reply) =
            program::http(address, "POST", &path, &[("Authorization", &token)], &body.to_string());
        assert_eq!(status, 200, "{path}: {reply}");
        serde_json::from_str::<Value>(&reply).expect("the reply is JSON")["result"].take()
    }

    /// What came of one message for a webhook: outcome and error.
    fn outcome(&self, name: &str, url: &str) -> (String, String) {
        let made = self.call("", &json!({ "queue_name": name }));
        let id = made["queue_id"].as_str().expect("a queue has an id");
        let settings = json!({ "max_wait_time_ms": 0, "retry_delay": 3_600 });
        let consumer = json!({ "type": "http_push", "url": url, "settings": settings });
        self.call(&format!("/{id}/consumers"), &consumer);
        self.call(&format!("/{id}/messages"), &json!({ "body": "a", "content_type": "text" }));
        let begun = Instant::now();
        loop {
            let path = format!("/api/v1/push/attempts?queue={name}");
            let (status, body) = self.kew.admin("GET", &path, &[("Authorization", "Bearer hush")], "");
            assert_eq!(status, 200, "{body}");
            let found: Value = serde_json::from_str(&body).expect("the reply is JSON");
            if let Some(outcome) = found["attempts"][0]["outcome"].as_str() {
                let error = found["attempts"][0]["error"].as_str().unwrap_or_default();
                return (outcome.to_owned(), error.to_owned());
            }
            assert!(begun.elapsed() < PATIENCE, "nothing came of it: {}", self.kew.errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn certificates(directory: &Path) -> PathBuf {
    let out = directory.join("certs");
    let made = Command::new(env!("CARGO_BIN_EXE_kew")).arg("cert").arg("--out").arg(&out).output();
    assert!(made.expect("the program kew is built with its tests").status.success());
    out
}

#[test]
fn an_encrypted_webhook_is_reached_when_its_certificate_verifies_and_not_otherwise() {
    let (directory, elsewhere) = (data_directory(), data_directory());
    let certs = certificates(directory.path());
    let (known, unknown) = (
        encrypted(&certs, |_| Some(reply(200, ""))),
        encrypted(&certificates(elsewhere.path()), |_| Some(reply(200, ""))),
    );
    let mut command = program::command();
    command.env("SSL_CERT_FILE", certs.join("ca.pem")).env_remove("SSL_CERT_DIR");
    let kew = Kew::start_by(command, directory.path(), &["--store", "memory"]);
    let desk = Desk { kew: &kew, account: "0", token: "any" };
    let port = |address: &str| address.rsplit(':').next().expect("an address has a port").to_owned();
    let url = |address: &str| format!("https://localhost:{}/", port(address));
    assert_eq!(desk.outcome("known", &url(&known)), ("ok".to_owned(), String::new()));
    let (outcome, error) = desk.outcome("unknown", &url(&unknown));
    assert_eq!(outcome, "unreached");
    assert!(error.contains("certificate"), "{error}");
    let spoken = plain(|_| Some(reply(200, "")));
    let (outcome, error) = desk.outcome("plain", &url(&spoken));
    assert!(outcome == "unreached" && error.contains("cannot connect to"), "{error}");
}

#[test]
fn a_strict_server_reaches_private_addresses_only_where_configured() {
    let account = "0123456789abcdef0123456789abcdef";
    let config = format!(
        "[server]\nauth = \"strict\"\n[admin]\ntoken = \"hush\"\n[[accounts]]\naws = {{ id = \"123456789012\", access_keys = [{{ id = \"A\", secret = \"B\" }}] }}\ncloudflare = {{ id = \"{account}\", tokens = [{{ token = \"letmein\", permissions = [\"queues_read\", \"queues_write\"] }}] }}\n"
    );
    let hook = plain(|_| Some(reply(200, "")));
    for (further, expected) in [("", "unreached"), ("[push]\nprivate_addresses = true\n", "ok")] {
        let directory = data_directory();
        let file = directory.path().join("kew.toml");
        std::fs::write(&file, format!("{config}{further}")).expect("the directory is ours");
        let flags = ["--store", "memory", "--config", &file.to_string_lossy()];
        let kew = Kew::start_with(directory.path(), &flags);
        let desk = Desk { kew: &kew, account, token: "letmein" };
        for (name, url) in [
            ("by-number", format!("http://{hook}/")),
            ("by-name", format!("http://localhost:{}/", hook.rsplit(':').next().unwrap_or_default())),
        ] {
            let (outcome, error) = desk.outcome(name, &url);
            assert_eq!(outcome, expected, "{error}");
            assert_eq!(error.contains("may not be reached from here"), expected == "unreached", "{error}");
        }
        let (outcome, error) = desk.outcome("metadata", "http://169.254.169.254/latest/meta-data");
        assert!(outcome == "unreached" && error.contains("may not be reached"), "{error}");
    }
}
