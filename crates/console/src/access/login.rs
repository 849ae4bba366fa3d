//! `POST /session`: a password or the token for a session. `DELETE /session` ends it.

use std::sync::OnceLock;
use std::time::Duration;

use kew_http::{FieldValue, HeaderName, HeaderValue, Method, Reply, Request, StatusCode, secret};
use parking_lot::Mutex;
use serde_json::json;

use super::attempts::Attempts;
use super::sessions::{COOKIE, LASTS, Session, Sessions};
use super::users::{Checked, PASSWORD_BYTES_MAX, Passwords};
use super::{LIVE, RELOADED, Role, TOKEN_HOLDER, UNATTENDED};
use crate::Settings;
use crate::error::{ApiError, answer};

const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");

/// Who has given a password, and who has tried.
pub(crate) struct Login {
    passwords: Passwords,
    sessions: Sessions,
    /// Guards the counts; held for look-ups only.
    attempts: Mutex<Attempts>,
}

impl Login {
    pub(crate) fn new(settings: &Settings) -> Self {
        let passwords = Passwords::new(settings.users.clone());
        Self { passwords, sessions: Sessions::default(), attempts: Mutex::default() }
    }

    /// The session that a request's cookie names.
    pub(crate) fn session(&self, request: &Request, now: Duration) -> Option<Session> {
        let cookie = cookie(request)?;
        if is_unattended(request) {
            self.sessions.seen(&cookie, now)
        } else {
            self.sessions.used(&cookie, now)
        }
    }

    /// Begins a session in place of those that the browser had: an old cookie gives nothing of the new one.
    fn begin(&self, who: (&str, Role), settings: &Settings, request: &Request, now: Duration) -> Reply {
        cookies(request, COOKIE).for_each(|old| self.sessions.end(old));
        begun_session(self.sessions.begin(who, &*settings.entropy, now), request)
    }
}

/// Begins a session for the right password, and answers the cookie and the second secret. Sets `tried` to the user once
/// a password has been checked.
pub(crate) async fn begin_session(
    login: &Login,
    settings: &Settings,
    request: &Request,
    (user, password): (&str, &str),
    tried: &OnceLock<String>,
) -> Result<Reply, ApiError> {
    let now = settings.time.steady();
    let wrong = || ApiError::new(StatusCode::UNAUTHORIZED, "wrong_password", "user or password is wrong");
    if !login.passwords.has_users() || password.len() > PASSWORD_BYTES_MAX {
        return Err(wrong());
    }
    let address = request.peer.ip();
    if let Some(wait) = login.attempts.lock().wait(address, now) {
        return Err(too_many_attempts(wait));
    }
    // Counted before it is checked, so that many at once gain nothing.
    login.attempts.lock().begin(address, now);
    match login.passwords.check(user, password).await {
        Checked::Wrong => {
            // What was typed may be a password, and anybody may type anything.
            let named = if login.passwords.knows(user) { user } else { "(unknown user)" };
            tried.get_or_init(|| named.to_owned());
            Err(wrong())
        }
        Checked::Busy => {
            login.attempts.lock().right(address);
            Err(ApiError::unavailable("too many passwords are being checked: try again").retry_after(1))
        }
        Checked::Right(found) => {
            tried.get_or_init(|| user.to_owned());
            login.attempts.lock().right(address);
            Ok(login.begin((found.name(), found.role()), settings, request, now))
        }
    }
}

/// Begins a session of the token's holder. Wrong tokens count as wrong passwords do.
pub(crate) fn begin_token_session(
    login: &Login,
    settings: &Settings,
    request: &Request,
    token: &str,
    tried: &OnceLock<String>,
) -> Result<Reply, ApiError> {
    let (now, address) = (settings.time.steady(), request.peer.ip());
    if let Some(wait) = login.attempts.lock().wait(address, now) {
        return Err(too_many_attempts(wait));
    }
    tried.get_or_init(|| TOKEN_HOLDER.to_owned());
    if !settings.token.as_deref().is_some_and(|known| secret::is_same_text(token, known)) {
        login.attempts.lock().begin(address, now);
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is wrong"));
    }
    Ok(login.begin((TOKEN_HOLDER, Role::Operator), settings, request, now))
}

fn too_many_attempts(wait: Duration) -> ApiError {
    let seconds = wait.as_secs().max(1);
    let message = format!("too many wrong passwords: try again in {seconds} s");
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message).retry_after(seconds)
}

fn begun_session((cookie, session): (String, Session), request: &Request) -> Reply {
    let body = json!({ "user": session.user, "role": session.role.name(), "csrf": session.csrf });
    answer(StatusCode::OK, &body).with(SET_COOKIE, set_cookie(&cookie, LASTS, request.secure))
}

/// Ends the session of a request.
pub(crate) fn end_session(login: &Login, request: &Request) -> Reply {
    if let Some(cookie) = cookie(request) {
        login.sessions.end(&cookie);
    }
    let value = set_cookie("", Duration::ZERO, request.secure);
    answer(StatusCode::OK, &json!({ "ended": true })).with(SET_COOKIE, value)
}

fn set_cookie(value: &str, lasts: Duration, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let seconds = lasts.as_secs();
    let text = format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::try_from(text).expect("a cookie of hex digits is a header's value")
}

/// The value of our cookie. Where there are several of its name none counts: one may be a neighbour's.
fn cookie(request: &Request) -> Option<String> {
    let mut ours = cookies(request, COOKIE);
    let first = ours.next()?.to_owned();
    ours.next().is_none().then_some(first)
}

/// The values of all cookies of a name.
fn cookies<'r>(request: &'r Request, wanted: &'static str) -> impl Iterator<Item = &'r str> {
    let headers = request.headers.get_all("cookie").filter_map(FieldValue::text);
    let pairs = headers.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Whether a page asks by itself, and no person. Pages reload themselves, and send no forms.
fn is_unattended(request: &Request) -> bool {
    let is_reloaded = || request.method == Method::GET && cookies(request, RELOADED).next().is_some();
    request.uri.path().starts_with(LIVE) || request.header(UNATTENDED.as_str()).is_some() || is_reloaded()
}
