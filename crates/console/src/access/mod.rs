//! Who asks, and what they may do: the holder of the token, people with a session, or everybody where neither a token
//! nor users are set. Requests from web pages of other sites are refused whatever they bring.

mod attempts;
mod login;
mod sessions;
mod users;

use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode, foreign_page, secret};

use crate::Settings;
use crate::error::ApiError;

pub(crate) use login::{Login, begin_session, begin_token_session, end_session};
pub(crate) use sessions::Session;
pub use users::{Role, User, UserError, hash};

const WWW_AUTHENTICATE: HeaderName = HeaderName::from_static("www-authenticate");
/// Who has proved nothing, in the audit log.
pub(crate) const UNKNOWN: &str = "unknown";
/// The name of the holder of the token, in the audit log and in sessions.
const TOKEN_HOLDER: &str = "token";
const ALLOW: HeaderName = HeaderName::from_static("allow");
/// What changes bring beside a session's cookie.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("x-kew-csrf");

/// Below this, pages ask by themselves for as long as they are open: that does not keep a session in use.
pub(crate) const LIVE: &str = "/live/";
/// What marks a request to the API that such a page makes.
pub(crate) const UNATTENDED: HeaderName = HeaderName::from_static("x-kew-unattended");

/// The cookie that the script sets, for a moment and one path, before it loads a page again by itself.
pub(crate) const RELOADED: &str = "kew_reloaded";

/// Who asks.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The user's name; `token` for the holder of the token, `open` where no proof is asked for.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The session that the request belongs to.
    pub(crate) session: Option<Session>,
}

impl Caller {
    /// Somebody who has proved nothing yet and is about to.
    pub(crate) fn unknown() -> Self {
        Self { name: UNKNOWN.to_owned(), role: Role::ReadOnly, session: None }
    }

    /// Whether they have proved nothing.
    pub(crate) fn is_unknown(&self) -> bool {
        self.name == UNKNOWN && self.session.is_none()
    }
}

/// Refuses what may not reach anything but health and metrics: by its host's name, or because a web page of another
/// site sent it.
pub(crate) fn admit(request: &Request, settings: &Settings) -> Result<(), ApiError> {
    if foreign_page(request).is_some() {
        let message = "requests from web pages of other sites are refused here, whatever they bring";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "cross_site", message));
    }
    let admitted = settings.guard.admit(request);
    admitted.map_err(|refusal| ApiError::of_text(&Reply::text(refusal.status(), &refusal.to_string())))
}

/// Tells who asks, by the token or by a session.
pub(crate) fn identify(request: &Request, settings: &Settings, login: &Login) -> Result<Caller, ApiError> {
    let is_open = settings.token.is_none() && settings.users.is_empty();
    if is_open {
        return Ok(Caller { name: "open".to_owned(), role: Role::Operator, session: None });
    }
    if request.header("authorization").is_some() {
        return match settings.token.as_deref() {
            Some(token) if brings(request, token) => {
                Ok(Caller { name: TOKEN_HOLDER.to_owned(), role: Role::Operator, session: None })
            }
            Some(_) | None => Err(unauthorized(settings)),
        };
    }
    let session = login.session(request, settings.time.steady()).ok_or_else(|| unauthorized(settings))?;
    Ok(Caller { name: session.user.clone(), role: session.role, session: Some(session) })
}

fn unauthorized(settings: &Settings) -> ApiError {
    let message = match settings.token {
        Some(_) => {
            "this needs the admin token: send it as `Authorization: Bearer …` ([admin] token), \
             or begin a session with POST /api/v1/session"
        }
        None => "this needs a session: begin one with POST /api/v1/session",
    };
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// Whether a request is refused for what it brings as a proof: one that brings none proves nothing wrong.
pub(crate) fn brings_wrong_proof(request: &Request, refused: &ApiError) -> bool {
    refused.status() == StatusCode::UNAUTHORIZED && request.header("authorization").is_some()
}

/// The reply to a request that proves nothing: it also names the scheme that would.
pub(crate) fn challenge(error: &ApiError) -> Reply {
    let reply = error.reply();
    if reply.status != StatusCode::UNAUTHORIZED {
        return reply;
    }
    reply.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"kew\""))
}

/// Refuses a change that this caller may not make, or that a web page could have made them send.
pub(crate) fn check_change(request: &Request, caller: &Caller) -> Result<(), ApiError> {
    if caller.role < Role::Operator {
        let message = format!("{} may look but not change: the role is {}", caller.name, caller.role.name());
        return Err(ApiError::new(StatusCode::FORBIDDEN, "read_only", message));
    }
    check_csrf(request, caller)
}

/// Refuses a change of a session's that does not bring the session's second secret.
pub(crate) fn check_csrf(request: &Request, caller: &Caller) -> Result<(), ApiError> {
    let Some(session) = &caller.session else { return Ok(()) };
    if request.header(&CSRF).is_some_and(|brought| session.is_csrf(brought)) {
        return Ok(());
    }
    let message =
        "a change in a session needs the header X-Kew-CSRF with the value that POST /api/v1/session answered";
    Err(ApiError::new(StatusCode::FORBIDDEN, "csrf", message))
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

/// Refuses a change that is no JSON: a form on a web page cannot send that.
pub(crate) fn check_json(request: &Request) -> Result<(), ApiError> {
    let content_type = request.header("content-type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "changes need Content-Type: application/json";
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message))
}

/// The reply to a method that a path outside the API does not have.
pub(crate) fn not_allowed(method: &Method, allowed: &'static str) -> Reply {
    Reply::text(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} is not allowed here, only {allowed}"))
        .with(ALLOW, HeaderValue::from_static(allowed))
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
