//! Where people sign in, and out.

use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode};
use maud::html;
use serde_json::json;

use super::forms::Form;
use super::layout::{Frame, Head, see};
use super::{PageReply, Visit, text};
use crate::Console;

const SET_COOKIE: HeaderName = HeaderName::from_static("set-cookie");
const WWW_AUTHENTICATE: HeaderName = HeaderName::from_static("www-authenticate");
/// Bytes of an address that a form comes back to.
const ADDRESS_MAX: usize = 4_096;
const FORM_LOST: &str = "Your session has ended: what you sent was not done. Sign in and send it again.";

/// The address of the page that a request asks for: forms come back to it. That of what is no page is the first page.
pub(super) fn here(request: &Request) -> String {
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let is_page = matches!(request.method, Method::GET | Method::HEAD) && request.uri.path() != "/sign-in";
    if is_page { own_address(target) } else { "/".to_owned() }
}

/// The page that a form was sent from, as its browser says. That of another server is the first page.
pub(super) fn came_from(request: &Request) -> String {
    let text = |name: &str| request.header(name).filter(|text| !text.is_empty());
    let referer = text("referer").and_then(|referer| Some(referer.split_once("://")?.1));
    let below = referer.zip(text("host")).and_then(|(referer, host)| referer.strip_prefix(host));
    match below.map(own_address) {
        Some(address) if !address.starts_with("/sign-in") => address,
        _ => "/".to_owned(),
    }
}

/// An address below this server, or that of the first page: a form never leads elsewhere.
pub(super) fn own_address(text: &str) -> String {
    let mut bytes = text.bytes();
    let begins = bytes.next() == Some(b'/') && !matches!(bytes.next(), Some(b'/' | b'\\'));
    let is_plain = text.len() <= ADDRESS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    if begins && is_plain { text.to_owned() } else { "/".to_owned() }
}

/// `GET /sign-in`.
pub(super) fn show(visit: &Visit<'_>) -> Reply {
    let next = own_address(visit.asked("next").unwrap_or("/"));
    page(visit.console, &visit.frame, StatusCode::OK, None, &next)
}

/// The page where something else was asked for by a visitor who has not signed in. A form that was sent is lost, which
/// is said; signing in leads to the page that it was on.
pub(super) fn ask(console: &Console, frame: &Frame, request: &Request) -> Reply {
    let is_form = request.method == Method::POST && request.uri.path() != "/sign-out";
    let (lost, next) = if is_form { (Some(FORM_LOST), came_from(request)) } else { (None, here(request)) };
    page(console, frame, StatusCode::UNAUTHORIZED, lost, &next)
}

/// The page, after a failed attempt or a form that was not followed with the reason.
pub(super) fn page(
    console: &Console,
    frame: &Frame,
    status: StatusCode,
    failed: Option<&str>,
    next: &str,
) -> Reply {
    let (has_users, has_token) = (!console.settings.users.is_empty(), console.settings.token.is_some());
    let content = html! {
        div.narrow {
            h1 { "Sign in" }
            @if let Some(why) = failed {
                p.trouble role="alert" { (text::visible(&text::sentence(why))) }
            }
            @if has_users {
                form.stack method="post" action="/sign-in" {
                    (frame.proof())
                    input type="hidden" name="next" value=(next);
                    label { "User" input name="user" autocomplete="username" maxlength="64" required; }
                    label {
                        "Password"
                        input name="password" type="password" autocomplete="current-password" maxlength="1024"
                            required;
                    }
                    button.main { "Sign in" }
                }
            }
            @if has_token {
                form.stack method="post" action="/sign-in" {
                    (frame.proof())
                    input type="hidden" name="next" value=(next);
                    label {
                        "Admin token"
                        input name="token" type="password" autocomplete="off" maxlength="4096" required;
                    }
                    button.main[!has_users] { "Sign in with the token" }
                }
                p.quiet { "The token is " code { "[admin] token" } " of the server's settings. Its holder is an operator." }
            }
            @if !has_users && !has_token {
                p { "No sign-in is needed on this server. " a href="/" { "All queues" } }
            }
        }
    };
    let reply = frame.page(status, &Head::of("Sign in"), &content);
    if status != StatusCode::UNAUTHORIZED {
        return reply;
    }
    reply.with(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"kew\""))
}

/// `POST /sign-in`.
pub(super) async fn take(visit: &Visit<'_>) -> PageReply {
    let form = Form::read(visit)?;
    let next = own_address(form.text("next"));
    let body = match form.given("token") {
        Some(token) => json!({ "token": token }),
        None => json!({ "user": form.text("user"), "password": form.text("password") }),
    };
    let asked = visit.exchange(Method::POST, "/session", &[], body.to_string().into()).await;
    match asked {
        Ok(begun) => {
            let cookie = begun.headers.get(SET_COOKIE).map(|value| HeaderValue::from_bytes(value.as_bytes()));
            let reply = see(&next);
            Ok(match cookie {
                Some(Ok(cookie)) => reply.with(SET_COOKIE, cookie),
                _ => reply,
            })
        }
        Err(trouble) if trouble.status == StatusCode::UNAUTHORIZED => {
            Ok(page(visit.console, &visit.frame, trouble.status, Some(&trouble.message), &next))
        }
        Err(trouble) => Err(trouble),
    }
}

/// `POST /sign-out`.
pub(super) async fn end(visit: &Visit<'_>) -> PageReply {
    Form::read(visit)?;
    let ended = visit.exchange(Method::DELETE, "/session", &[], "{}".into()).await?;
    let reply = see("/sign-in");
    let cookie = ended.headers.get(SET_COOKIE).map(|value| HeaderValue::from_bytes(value.as_bytes()));
    Ok(match cookie {
        Some(Ok(cookie)) => reply.with(SET_COOKIE, cookie),
        _ => reply,
    })
}

#[cfg(test)]
mod tests {
    use kew_core::Timestamp;
    use kew_http::{Headers, RequestId};

    use super::*;

    #[test]
    fn the_page_of_a_form_is_one_of_this_server() {
        for (referer, expected) in [
            ("http://kew:9325/queues/a/send?template=x", "/queues/a/send?template=x"),
            ("https://kew:9325/queues/a", "/queues/a"),
            ("http://kew:9325", "/"),
            ("http://kew:9325/sign-in?next=%2F", "/"),
            ("http://kew:93250/queues/a", "/"),
            ("http://kew:9325.evil.example/queues/a", "/"),
            ("http://kew:9325@evil.example/queues/a", "/"),
            ("http://kew:9325//evil.example", "/"),
            ("http://evil.example/queues/a", "/"),
            ("/queues/a", "/"),
            ("", "/"),
        ] {
            let mut headers = Headers::default();
            for (name, value) in [("host", "kew:9325"), ("referer", referer)] {
                let value = HeaderValue::from_str(value).expect("the test writes values of headers");
                headers.append(HeaderName::from_static(name), value);
            }
            let request = Request {
                method: Method::POST,
                uri: "/queues/a/send".parse().expect("the test writes a path"),
                headers,
                body: Default::default(),
                id: RequestId::from_chance(0),
                received_at: Timestamp::ZERO,
                peer: ([127, 0, 0, 1], 1).into(),
                secure: false,
                room: Default::default(),
            };
            assert_eq!(came_from(&request), expected, "{referer}");
        }
    }

    #[test]
    fn forms_come_back_to_this_server_only() {
        for (text, expected) in [
            ("/queues/a?state=any", "/queues/a?state=any"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("", "/"),
            ("/a b", "/"),
            ("/\nLocation: x", "/"),
        ] {
            assert_eq!(own_address(text), expected, "{text}");
        }
    }
}
