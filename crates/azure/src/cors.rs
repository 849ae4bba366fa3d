//! Which web pages may use an account: preflight requests, and the headers that tell a browser.
//!
//! A page of another origin reaches an open server only where one of these rules lets it.

use kew_engine::Engine;
use kew_http::{HeaderName, HeaderValue, Reply, Request, StatusCode, foreign_page};

use crate::documents::{self, CorsRule};
use crate::error::{Code, WireError};
use crate::operation::Operation;
use crate::{Account, Context, Trust, encode};

const ORIGIN: &str = "origin";
const ASKED_METHOD: &str = "access-control-request-method";
const ASKED_HEADERS: &str = "access-control-request-headers";
const ALLOW_ORIGIN: HeaderName = HeaderName::from_static("access-control-allow-origin");
const ALLOW_METHODS: HeaderName = HeaderName::from_static("access-control-allow-methods");
const ALLOW_HEADERS: HeaderName = HeaderName::from_static("access-control-allow-headers");
const ALLOW_CREDENTIALS: HeaderName = HeaderName::from_static("access-control-allow-credentials");
const EXPOSE_HEADERS: HeaderName = HeaderName::from_static("access-control-expose-headers");
const MAX_AGE: HeaderName = HeaderName::from_static("access-control-max-age");
/// Headers that the server puts on every reply when it is sent.
const SENT_WITH_ALL: [&str; 2] = ["content-length", "date"];
const VARY: HeaderName = HeaderName::from_static("vary");

/// The origin of the page that sent a request.
pub(crate) fn origin(request: &Request) -> Option<&str> {
    request.header(ORIGIN)
}

/// Refuses pages of other origins that no rule lets in, where anybody else is let in.
pub(crate) async fn admit(cx: &Context<'_>) -> Result<(), WireError> {
    if cx.operation == Operation::Preflight || cx.settings.trust == Trust::Strict {
        return Ok(());
    }
    let Some(refusal) = foreign_page(cx.request) else { return Ok(()) };
    let properties = documents::service_properties(cx.engine, cx.account).await?;
    let origin = origin(cx.request).unwrap_or_default();
    let method = cx.request.method.as_str();
    if properties.cors.iter().any(|rule| rule.lets(origin, method)) {
        return Ok(());
    }
    Err((&refusal).into())
}

/// Answers what a browser asks before it lets a page ask.
pub(crate) async fn preflight(cx: &Context<'_>) -> Result<Reply, WireError> {
    let (origin, method) = (cx.request.header(ORIGIN), cx.request.header(ASKED_METHOD));
    let Some((origin, method)) =
        origin.zip(method).filter(|(origin, method)| !origin.is_empty() && !method.is_empty())
    else {
        return Err(WireError::new(Code::InvalidHeaderValue).saying("A required CORS header is not present."));
    };
    let asked = cx.request.header(ASKED_HEADERS).unwrap_or_default();
    let properties = documents::service_properties(cx.engine, cx.account).await?;
    let rule = properties.cors.iter().find(|rule| {
        rule.lets(origin, method) && words(asked).all(|header| is_listed(&rule.headers, header))
    });
    let Some(rule) = rule else {
        let detail = if properties.cors.is_empty() {
            "CORS not enabled for this account."
        } else {
            "No CORS rules matches this request"
        };
        return Err(WireError::new(Code::CorsPreflightFailure).with("MessageDetails", detail));
    };
    let mut reply = encode::empty(StatusCode::OK)
        .with(ALLOW_CREDENTIALS, HeaderValue::from_static("true"))
        .with(MAX_AGE, HeaderValue::from(rule.max_age_seconds));
    put(&mut reply, ALLOW_ORIGIN, origin);
    put(&mut reply, ALLOW_METHODS, method);
    if !asked.is_empty() {
        put(&mut reply, ALLOW_HEADERS, asked);
    }
    Ok(reply)
}

/// Tells a browser what the page may see of this reply.
pub(crate) async fn decorate(
    engine: &Engine,
    account: &Account,
    request: &Request,
    origin: &str,
    mut reply: Reply,
) -> Reply {
    let Ok(properties) = documents::service_properties(engine, account).await else { return reply };
    let Some(rule) = properties.cors.iter().find(|rule| rule.lets(origin, request.method.as_str())) else {
        if !properties.cors.is_empty() {
            put(&mut reply, VARY, "Origin");
        }
        return reply;
    };
    let exposed = rule.exposed_in(&reply);
    if words(&rule.origins).any(|listed| listed == "*") {
        put(&mut reply, ALLOW_ORIGIN, "*");
    } else {
        put(&mut reply, ALLOW_ORIGIN, origin);
        put(&mut reply, ALLOW_CREDENTIALS, "true");
        put(&mut reply, VARY, "Origin");
    }
    if !exposed.is_empty() {
        put(&mut reply, EXPOSE_HEADERS, &exposed);
    }
    reply
}

impl CorsRule {
    fn lets(&self, origin: &str, method: &str) -> bool {
        let is_origin = |listed: &str| listed == "*" || listed.eq_ignore_ascii_case(origin);
        words(&self.origins).any(is_origin)
            && words(&self.methods).any(|listed| listed.eq_ignore_ascii_case(method))
    }

    /// Headers the page may see: those named, and those the reply has of every prefix named.
    fn exposed_in(&self, reply: &Reply) -> String {
        let mut names: Vec<String> = Vec::new();
        for listed in words(&self.exposed) {
            match listed.strip_suffix('*') {
                Some(prefix) => {
                    let prefix = prefix.to_ascii_lowercase();
                    names.extend(reply.headers.names_from(&prefix).map(str::to_owned));
                    let later = SENT_WITH_ALL.iter().filter(|name| name.starts_with(&prefix));
                    names.extend(later.map(|name| (*name).to_owned()));
                }
                None => names.push(listed.to_owned()),
            }
        }
        names.dedup();
        names.join(",")
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// Whether a header is in a list, or begins as an entry with a star does.
fn is_listed(list: &str, header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    words(list).any(|listed| {
        let listed = listed.to_ascii_lowercase();
        listed.strip_suffix('*').map_or(listed == header, |prefix| header.starts_with(prefix))
    })
}

/// What cannot stand in a header is left out: the browser then refuses, which is what it should do.
fn put(reply: &mut Reply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_origins_and_methods_in_lists() {
        let rule = CorsRule {
            origins: "http://a.example, http://b.example".into(),
            methods: "GET,PUT".into(),
            ..CorsRule::default()
        };
        assert!(rule.lets("HTTP://B.example", "PUT"));
        assert!(!rule.lets("http://c.example", "PUT"));
        assert!(!rule.lets("http://a.example", "DELETE"));
        assert!(CorsRule { origins: "*".into(), ..rule }.lets("null", "GET"));
    }

    #[test]
    fn headers_match_whole_or_by_prefix() {
        assert!(is_listed("x-ms-meta-*, content-type", "X-Ms-Meta-Colour"));
        assert!(is_listed("x-ms-meta-*, content-type", "Content-Type"));
        assert!(!is_listed("x-ms-meta-*", "x-ms-date"));
        assert!(is_listed("*", "anything"));
    }
}
