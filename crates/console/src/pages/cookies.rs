//! Cookies of the console's own pages, none of which proves anything.

use kew_http::{FieldValue, HeaderName, HeaderValue, Reply, Request};

const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");

/// The value of the first cookie of this name.
pub(super) fn value<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let headers = request.headers.get_all("cookie").filter_map(FieldValue::text);
    let mut pairs =
        headers.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// A reply that sets a cookie for this number of seconds; 0 takes it away.
pub(super) fn set(reply: Reply, (name, value): (&str, &str), seconds: u32, is_secure: bool) -> Reply {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    match HeaderValue::from_str(&text) {
        Ok(cookie) => reply.with(SET_COOKIE, cookie),
        Err(_) => reply,
    }
}
