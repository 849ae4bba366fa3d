//! Web apps of listed origins (`[sqs] cors_origins`): what a browser asks before it lets a page ask, and what it lets
//! the page see. Nothing here is reached while no origin is listed.

use bytes::Bytes;
use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode, listed_origin};

use crate::Settings;

const ASKED_METHOD: &str = "access-control-request-method";
const ASKED_HEADERS: &str = "access-control-request-headers";
const ALLOW_ORIGIN: HeaderName = HeaderName::from_static("access-control-allow-origin");
const ALLOW_METHODS: HeaderName = HeaderName::from_static("access-control-allow-methods");
const ALLOW_HEADERS: HeaderName = HeaderName::from_static("access-control-allow-headers");
const EXPOSE_HEADERS: HeaderName = HeaderName::from_static("access-control-expose-headers");
const MAX_AGE: HeaderName = HeaderName::from_static("access-control-max-age");
const VARY: HeaderName = HeaderName::from_static("vary");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

/// What an SDK reads of a reply beside its body.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("x-amzn-requestid, x-amzn-errortype, x-amzn-query-error, date");
/// Beside these, SDKs send headers whose names begin so.
const HEADERS: [&str; 4] = ["authorization", "content-type", "cache-control", "range"];
const HEADER_BEGINNINGS: [&str; 3] = ["x-amz-", "x-amzn-", "amz-sdk-"];
/// Seconds a browser need not ask again.
const ASKED_AGAIN_AFTER: HeaderValue = HeaderValue::from_static("600");

/// The answer to a browser that asks whether a page of a listed origin may ask.
pub(crate) fn preflight(settings: &Settings, request: &Request) -> Option<Reply> {
    if request.method != Method::OPTIONS || !request.headers.contains(ASKED_METHOD) {
        return None;
    }
    listed_origin(request, &settings.cors_origins)?;
    let asked = request.header(ASKED_HEADERS).unwrap_or_default();
    let allowed: Vec<&str> = asked.split(',').map(str::trim).filter(|name| is_allowed(name)).collect();
    let mut reply = Reply::new(StatusCode::OK, PLAIN, Bytes::new())
        .with(ALLOW_METHODS, HeaderValue::from_static("GET, POST"))
        .with(MAX_AGE, ASKED_AGAIN_AFTER);
    if let Ok(allowed) = HeaderValue::try_from(allowed.join(", "))
        && !allowed.is_empty()
    {
        reply = reply.with(ALLOW_HEADERS, allowed);
    }
    Some(shown(settings, request, reply))
}

/// The reply as a page of a listed origin may see it.
#[inline(always)]
pub(crate) fn shown(settings: &Settings, request: &Request, reply: Reply) -> Reply {
    if settings.cors_origins.is_empty() { reply } else { shown_to_listed(settings, request, reply) }
}

#[cold]
fn shown_to_listed(settings: &Settings, request: &Request, reply: Reply) -> Reply {
    let reply = reply.with(VARY, HeaderValue::from_static("Origin"));
    let origin = listed_origin(request, &settings.cors_origins);
    // What cannot stand in a header is left out: the browser then shows the page nothing.
    match origin.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        Some(origin) => reply.with(ALLOW_ORIGIN, origin).with(EXPOSE_HEADERS, EXPOSED),
        None => reply,
    }
}

fn is_allowed(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HEADERS.contains(&&*name) || HEADER_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}
