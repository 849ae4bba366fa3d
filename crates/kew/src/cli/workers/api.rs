//! Calls of the Cloudflare API of a running Kew.

use std::time::Duration;

use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::Value;

const AUTHORIZATION: HeaderName = HeaderName::from_static("authorization");
const CONTENT_TYPE: HeaderName = HeaderName::from_static("content-type");
/// Starting a Worker takes a moment.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Separates the parts of an upload; bundles do not hold it.
const BOUNDARY: &str = "kew-workers-dev-5f1c0a7e9b3d4c62";

/// Where calls go.
pub(super) struct Api {
    client: Client,
    base: String,
    token: HeaderValue,
}

/// One file of an upload.
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) content_type: &'a str,
    pub(super) content: &'a [u8],
}

impl Api {
    pub(super) fn new(server: &str, account: &str, token: &str) -> Result<Self, String> {
        let server = server.trim_end_matches('/').trim_end_matches("/client/v4");
        let token = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| "the token has characters that no header can hold".to_owned())?;
        let base = format!("{server}/client/v4/accounts/{account}");
        let _checked: Uri = base.parse().map_err(|_| format!("{server} is no address"))?;
        Ok(Self { client: Client::new(ClientSettings::default()), base, token })
    }

    /// A call with a JSON body, or with none; its result.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let body = body.map(|body| ("application/json", body.to_string().into_bytes()));
        self.ask(method, path, body).await
    }

    /// A call with a form of several parts; its result.
    pub(super) async fn upload(&self, path: &str, parts: &[Part<'_>]) -> Result<Value, String> {
        let mut form = Vec::new();
        for Part { name, content_type, content } in parts {
            let head = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\nContent-Type: {content_type}\r\n\r\n"
            );
            form.extend_from_slice(head.as_bytes());
            form.extend_from_slice(content);
            form.extend_from_slice(b"\r\n");
        }
        form.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
        self.ask(Method::PUT, path, Some((&content_type, form))).await
    }

    async fn ask(&self, method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> Result<Value, String> {
        let uri: Uri = format!("{}{path}", self.base).parse().map_err(|_| format!("{path} is no path"))?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.token.clone());
        let (content_type, body) = body.unwrap_or_default();
        if let Ok(content_type) = HeaderValue::from_str(content_type) {
            headers.insert(CONTENT_TYPE, content_type);
        }
        let what = format!("{method} {path}");
        let outgoing = Outgoing { method, uri, headers, body: body.into() };
        let answer =
            self.client.exchange(outgoing, ANSWER_WITHIN).await.map_err(|error| error.to_string())?;
        let reply: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| format!("{what}: {} without an envelope; is this a Kew?", answer.status))?;
        if answer.status.is_success() && reply["success"] == true {
            return Ok(reply["result"].clone());
        }
        let errors = reply["errors"].as_array().cloned().unwrap_or_default();
        let told: Vec<String> = errors
            .iter()
            .map(|error| format!("{} ({})", error["message"].as_str().unwrap_or_default(), error["code"]))
            .collect();
        Err(if told.is_empty() { format!("{what}: {}", answer.status) } else { told.join("; ") })
    }
}
