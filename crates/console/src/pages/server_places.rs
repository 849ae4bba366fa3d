//! Where commands find the server, and what it asks them for.

use kew_http::Request;

use crate::Settings;

/// The addresses that commands name.
pub(super) struct Places {
    /// This console, as its browser sees it.
    pub(super) admin: String,
    /// The SQS listener, as it is set up; nothing where there is none.
    pub(super) sqs: Option<String>,
    pub(super) region: String,
    pub(super) proof: Proof,
}

/// What a program must bring to the admin API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Proof {
    None,
    Token,
    /// The server has users and no token: a program would have to sign in.
    Session,
}

impl Places {
    pub(super) fn of(settings: &Settings, request: &Request) -> Self {
        let proof = match (&settings.token, settings.users.is_empty()) {
            (Some(_), _) => Proof::Token,
            (None, true) => Proof::None,
            (None, false) => Proof::Session,
        };
        let host = host(request);
        let scheme = if request.secure { "https" } else { "http" };
        Self {
            admin: format!("{scheme}://{host}"),
            sqs: sqs(settings, host),
            region: settings.region.to_string(),
            proof,
        }
    }
}

fn host(request: &Request) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let host = request.header("host").unwrap_or_default();
    if !host.is_empty() && host.bytes().all(is_plain) { host } else { "127.0.0.1:9325" }
}

/// The SQS listener: over TLS where it has a certificate, and under the browser's name of the machine where it listens
/// on all addresses.
fn sqs(settings: &Settings, host: &str) -> Option<String> {
    let set = |section: &str, key: &str| {
        let found = settings.shown.iter().find(|one| one.section == section && one.key == key);
        found.and_then(|one| one.value.as_deref())
    };
    let address = set("server", "sqs").unwrap_or("127.0.0.1:9324");
    let (name, port) = address.rsplit_once(':')?;
    let name = if matches!(name, "0.0.0.0" | "[::]") { name_of(host) } else { name };
    // Which port 0 became, the settings do not say.
    let port = if port == "0" { "PORT" } else { port };
    let has_certificate = set("tls.sqs", "cert").or(set("tls", "cert")).is_some();
    Some(format!("{}://{name}:{port}", if has_certificate { "https" } else { "http" }))
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
