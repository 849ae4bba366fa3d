//! Where an account's queues are, and what lets a client in.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;
use kew_http::client::Outgoing;
use kew_http::{
    CONSUMER_HEADER, FAILED_HEADER, HeaderMap, HeaderName, HeaderValue, PUT_ASIDE_HEADER, Uri, date, percent,
};

use super::Call;
use crate::limits::WAIT_HEADER;
use crate::sign::sign;

/// The version that is spoken: old enough for every server there is, new enough for every operation used.
const VERSION: &str = "2021-12-02";

/// Says that the whole wait went by and nothing came.
pub const WAITED_HEADER: &str = "x-kew-waited";

/// What lets a client in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A key of the account, decoded.
    Key(Vec<u8>),
    /// A shared access signature: the parameters to append, encoded.
    Signature(String),
    /// A bearer token, handed in with each request.
    Token,
}

/// What each request has of its own.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// The machine's time, which the request is dated by.
    pub now: Timestamp,
    /// The client's name for the request.
    pub id: &'a str,
    /// The bearer token, for [`Credential::Token`].
    pub token: Option<&'a str>,
}

/// An account's queues, as a client reaches them.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Scheme, host and, where the account stands in the path, the account. Without a slash at the end.
    base: String,
    account: String,
    credential: Credential,
}

impl Endpoint {
    /// The endpoint at `base`, an `http://` or `https://` address; `None` when it is none.
    pub fn new(base: &str, account: &str, credential: Credential) -> Option<Self> {
        let base = base.trim_end_matches('/');
        let uri: Uri = base.parse().ok()?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_plain = uri.query().is_none() && uri.authority().is_some();
        (is_http && is_plain).then(|| Self { base: base.to_owned(), account: account.to_owned(), credential })
    }

    /// Its address, with the account where that stands in the path.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether requests are encrypted.
    pub fn is_secure(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// Whether each request needs a bearer token.
    pub fn needs_token(&self) -> bool {
        self.credential == Credential::Token
    }

    /// The request that asks for `call`, signed; `None` when a part of it cannot stand in a request.
    pub fn request(&self, call: &Call, stamp: Stamp<'_>) -> Option<Outgoing> {
        let uri = self.uri(call)?;
        let mut headers = HeaderMap::with_capacity(8);
        let own = [
            ("x-ms-client-request-id", stamp.id.to_owned()),
            ("x-ms-date", date::http_date(stamp.now)),
            ("x-ms-version", VERSION.to_owned()),
        ];
        for (name, value) in &own {
            insert(&mut headers, name, value)?;
        }
        insert(&mut headers, "user-agent", concat!("Kew-Functions/", env!("CARGO_PKG_VERSION")))?;
        insert(&mut headers, "accept", "application/xml")?;
        if !call.body.is_empty() {
            insert(&mut headers, "content-type", XML)?;
        }
        insert(&mut headers, CONSUMER_HEADER, "functions host")?;
        if let Some(why) = &call.failed {
            insert(&mut headers, FAILED_HEADER, why)?;
        }
        if let Some(queue) = &call.put_aside {
            insert(&mut headers, PUT_ASIDE_HEADER, queue)?;
        }
        if let Some(wait) = call.wait {
            insert(&mut headers, WAIT_HEADER, &wait.as_secs().to_string())?;
        }
        match &self.credential {
            Credential::Key(key) => {
                let text = self.text(call, uri.path(), &own);
                let signature = STANDARD.encode(sign(key, &text));
                insert(&mut headers, "authorization", &format!("SharedKey {}:{signature}", self.account))?;
            }
            Credential::Token => {
                insert(&mut headers, "authorization", &format!("Bearer {}", stamp.token?))?;
            }
            Credential::Signature(_) => {}
        }
        Some(Outgoing { method: call.method.clone(), uri, headers, body: call.body.clone() })
    }

    /// The call's path and query below the account, with the shared access signature where there is one.
    fn uri(&self, call: &Call) -> Option<Uri> {
        let mut url = self.base.clone();
        for part in &call.path {
            url.push('/');
            percent::push_encoded(&mut url, part.as_bytes());
        }
        let mut separator = '?';
        for (name, value) in &call.query {
            url.push(separator);
            url.push_str(name);
            url.push('=');
            percent::push_encoded(&mut url, value.as_bytes());
            separator = '&';
        }
        if let Credential::Signature(signature) = &self.credential {
            url.push(separator);
            url.push_str(signature);
        }
        url.parse().ok()
    }

    /// What is signed: of the headers that may stand before the service's own only length and type are ever there.
    fn text(&self, call: &Call, path: &str, own: &[(&str, String)]) -> String {
        let (length, kind) =
            if call.body.is_empty() { (String::new(), "") } else { (call.body.len().to_string(), XML) };
        let mut text = format!("{}\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n", call.method);
        // They are listed by name.
        for (name, value) in own {
            text.push_str(&format!("{name}:{value}\n"));
        }
        text.push_str(&format!("/{}{path}", self.account));
        let mut query: Vec<&(&str, String)> = call.query.iter().collect();
        query.sort_unstable();
        for (name, value) in query {
            text.push_str(&format!("\n{name}:{value}"));
        }
        text
    }
}

const XML: &str = "application/xml";

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) -> Option<()> {
    headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).ok()?);
    Some(())
}

/// Keys and signatures are never shown.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("base", &self.base)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}
