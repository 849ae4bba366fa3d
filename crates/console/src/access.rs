//! Who may use the admin API: clients with the token, where one is set; and changes come as JSON, which a form on a
//! web page cannot send.

use crate::Settings;
use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode, secret};

const WWW_AUTHENTICATE: HeaderName = HeaderName::from_static("www-authenticate");
const ALLOW: HeaderName = HeaderName::from_static("allow");

/// Refuses a request that does not bring the token.
pub(crate) fn check_token(request: &Request, token: Option<&str>) -> Result<(), Box<Reply>> {
    let Some(token) = token else { return Ok(()) };
    if brings(request, token) {
        return Ok(());
    }
    Err(ask("this needs the admin token: send it as `Authorization: Bearer …` ([admin] token)"))
}

/// Refuses to show metrics to a request that brings neither their token nor the one for everything, where they are
/// closed.
pub(crate) fn check_metrics(request: &Request, settings: &Settings) -> Result<(), Box<Reply>> {
    let Some(token) = settings.metrics_token.as_deref() else { return Ok(()) };
    if brings(request, token) || settings.token.as_deref().is_some_and(|token| brings(request, token)) {
        return Ok(());
    }
    Err(ask("metrics need their token: send it as `Authorization: Bearer …` ([admin] metrics_token)"))
}

fn brings(request: &Request, token: &str) -> bool {
    let brought = request.header("authorization").and_then(bearer).unwrap_or_default();
    secret::is_same_text(brought, token)
}

fn ask(line: &str) -> Box<Reply> {
    let challenge = HeaderValue::from_static("Bearer realm=\"kew\"");
    Box::new(Reply::text(StatusCode::UNAUTHORIZED, line).with(WWW_AUTHENTICATE, challenge))
}

/// Refuses a change that is no JSON.
pub(crate) fn check_json(request: &Request) -> Result<(), Box<Reply>> {
    let content_type = request.header("content-type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let line = "changes are made by POST with Content-Type: application/json";
    Err(Box::new(Reply::text(StatusCode::UNSUPPORTED_MEDIA_TYPE, line)))
}

/// The reply to a method that a path does not have.
pub(crate) fn not_allowed(method: &Method, allowed: &'static str) -> Reply {
    Reply::text(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not allowed here, only {allowed}"))
        .with(ALLOW, HeaderValue::from_static(allowed))
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
