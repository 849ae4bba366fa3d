//! Requests to the admin API of a running server.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use kew_http::client::{Client, ClientError, ClientSettings, Outgoing};
use kew_http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, percent};
use serde_json::Value;

use super::Failure;
use crate::cli::causes::{NOT_PLAIN, with_causes};

const AUTHORIZATION: HeaderName = HeaderName::from_static("authorization");
const CONTENT_TYPE: HeaderName = HeaderName::from_static("content-type");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const QUEUE_NOT_FOUND: &str = "queue_not_found";
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Which server is asked, and how its answers are shown.
#[derive(Args, Debug)]
pub(in crate::cli) struct Target {
    /// The admin API of the server: a URL, an address, or a port of this machine; with --ca the last two are asked
    /// over TLS
    #[arg(long, env = "KEW_ADMIN_URL", value_name = "URL", default_value = "127.0.0.1:9325")]
    admin: String,

    /// The admin token, where the server asks for one
    #[arg(long, env = "KEW_ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Believe the certificates in this PEM file (such as ca.pem of `kew cert`) instead of the machine's
    #[arg(long, env = "KEW_ADMIN_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Print JSON: one object, or one a line
    #[arg(long)]
    pub(super) json: bool,
}

/// A server that is asked.
pub(super) struct Api {
    client: Client,
    base: String,
    token: Option<HeaderValue>,
}

impl Api {
    pub(super) fn new(target: &Target) -> Result<Self, Failure> {
        let base = base(&target.admin, target.ca.is_some()).ok_or_else(|| {
            let allowed = "a URL such as http://127.0.0.1:9325, an address, or a port";
            Failure::Usage(format!("--admin {} is not allowed; it must be {allowed}", target.admin))
        })?;
        let settings = ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, ..ClientSettings::default() };
        let client = Client::new(settings);
        let client = match &target.ca {
            Some(file) => client.trusting(file).map_err(|error| Failure::Usage(format!("--ca: {error}")))?,
            None => client,
        };
        let bearer = |token: &String| HeaderValue::from_str(&format!("Bearer {token}"));
        let token = target.token.as_ref().map(bearer).transpose();
        let token =
            token.map_err(|_| Failure::Usage("--token has characters that no header can hold".to_owned()))?;
        Ok(Self { client, base, token })
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(Method::GET, path, None, ANSWER_WITHIN).await
    }

    pub(super) async fn change(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(method, path, Some(body), ANSWER_WITHIN).await
    }

    /// A request below `/api/v1` that may take so long; what is answered.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Value, Failure> {
        Ok(self.answer(method, path, body, within).await??)
    }

    /// The same for a change of which the caller tells a refusal from a server that does not answer.
    pub(super) async fn try_change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Result<Value, Refusal>, Failure> {
        self.answer(method, path, Some(body), ANSWER_WITHIN).await
    }

    /// A queue, if there is one of this name.
    pub(super) async fn find_queue(&self, queue: &str) -> Result<Option<Value>, Failure> {
        match self.answer(Method::GET, &of_queue(queue, ""), None, ANSWER_WITHIN).await? {
            Ok(found) => Ok(Some(found)),
            Err(refusal) if refusal.code == QUEUE_NOT_FOUND => Ok(None),
            Err(refusal) => Err(refusal.into()),
        }
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        within: Duration,
    ) -> Result<Result<Value, Refusal>, Failure> {
        let uri: Result<Uri, _> = format!("{}{path}", self.base).parse();
        let uri = uri.map_err(|_| Failure::Usage(format!("{path} is no path")))?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        headers.insert(CONTENT_TYPE, JSON);
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let outgoing = Outgoing { method, uri, headers, body };
        let answer = self.client.exchange(outgoing, within).await.map_err(|error| {
            let hint = match &error {
                ClientError::Broken(broken) if broken.is_parse() && self.base.starts_with("http://") => {
                    NOT_PLAIN
                }
                _ => "is the server running? --admin says where",
            };
            Failure::Failed(format!("no answer from {}: {} ({hint})", self.base, with_causes(&error)))
        })?;
        let read = serde_json::from_slice::<Value>(&answer.body);
        match (answer.status.is_success(), read) {
            (true, Ok(value)) => Ok(Ok(value)),
            (false, Ok(value)) if value["error"]["message"].is_string() => {
                Ok(Err(Refusal::new(answer.status, &value["error"])))
            }
            _ => Err(Failure::Failed(format!(
                "{}: {} without JSON; is this Kew's admin API?",
                self.base, answer.status
            ))),
        }
    }
}

/// What the API says that it does not do.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: String,
    /// Why, for people.
    pub(super) message: String,
}

impl Refusal {
    fn new(status: StatusCode, error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        Self { status, code: text("code"), message: text("message") }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let hint = match refusal.code.as_str() {
            QUEUE_NOT_FOUND => "; `kew queue create NAME` makes one, `kew queue ls` lists all",
            "unauthorized" => {
                "; commands bring the server's [admin] token, as --token or KEW_ADMIN_TOKEN: without one there, only \
                 people of [[admin.users]] get in, through the console"
            }
            _ => "",
        };
        let line = format!("{}{hint}", refusal.message);
        if refusal.status == StatusCode::BAD_REQUEST { Self::Usage(line) } else { Self::Failed(line) }
    }
}

/// Where the API is, from what a person wrote. Without a scheme it is asked over TLS by those who trust a certificate.
fn base(admin: &str, trusts: bool) -> Option<String> {
    let (scheme, rest) = match admin.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return None,
        None if trusts => ("https", admin),
        None => ("http", admin),
    };
    let rest = rest.trim_end_matches('/').trim_end_matches("/api/v1");
    let is_port = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let authority = match is_port {
        true => format!("127.0.0.1:{}", rest.parse::<u16>().ok()?),
        false => rest.to_owned(),
    };
    let base = format!("{scheme}://{authority}/api/v1");
    let uri: Uri = base.parse().ok()?;
    (uri.path() == "/api/v1" && uri.host().is_some_and(|host| !host.is_empty())).then_some(base)
}

/// The path of a queue, or of what is below it.
pub(super) fn of_queue(queue: &str, below: &str) -> String {
    format!("/queues/{}{below}", percent::encode(queue.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_url_address_or_port() {
        for (text, expected) in [
            ("http://127.0.0.1:9325", "http://127.0.0.1:9325/api/v1"),
            ("https://kew.example:1/", "https://kew.example:1/api/v1"),
            ("http://[::1]:9325/api/v1", "http://[::1]:9325/api/v1"),
            ("kew.example:9325", "http://kew.example:9325/api/v1"),
            ("9325", "http://127.0.0.1:9325/api/v1"),
        ] {
            assert_eq!(base(text, false).as_deref(), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("9325", "https://127.0.0.1:9325/api/v1"),
            ("kew.example:9325", "https://kew.example:9325/api/v1"),
            ("https://kew.example", "https://kew.example/api/v1"),
            ("http://kew.example:1", "http://kew.example:1/api/v1"),
        ] {
            assert_eq!(base(text, true).as_deref(), Some(expected), "{text}");
        }
        for wrong in ["", "ftp://h", "99999999", "http://", "http://a b", "http://h/other"] {
            assert_eq!(base(wrong, false), None, "{wrong}");
        }
    }

    #[test]
    fn names_of_queues_are_encoded() {
        assert_eq!(of_queue("000000000000:r:a/b", "/purge"), "/queues/000000000000%3Ar%3Aa%2Fb/purge");
    }
}
