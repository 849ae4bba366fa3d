//! What every reply has in common: headers, XML documents, errors, dates.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::{Content, Timestamp};
use kew_http::xml::{self, Writer};
use kew_http::{HeaderName, HeaderValue, Headers, Method, Reply, Request, StatusCode, date};

use crate::error::WireError;
use crate::version;

const XML: HeaderValue = HeaderValue::from_static("application/xml");
const PROLOG: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;
const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const WWW_AUTHENTICATE: HeaderName = HeaderName::from_static("www-authenticate");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
const SERVER: HeaderName = HeaderName::from_static("server");
/// Bytes of a client's own name for a request.
const CLIENT_REQUEST_ID_BYTES: usize = 1_024;
/// The last second of the last year that dates can name: what never ends, ends then.
const END_OF_TIME: &str = "Fri, 31 Dec 9999 23:59:59 GMT";
const END_OF_TIME_MILLIS: u64 = 253_402_300_799_000;

/// A document, begun.
pub(crate) fn document() -> Writer {
    Writer::new(PROLOG)
}

/// A reply that is a document.
pub(crate) fn xml(status: StatusCode, document: Writer, request: &Request) -> Reply {
    let body = if request.method == Method::HEAD { Vec::new() } else { document.finish() };
    Reply::new(status, XML, body)
}

/// A reply without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Reply::new(status, XML, Vec::new());
    reply.headers = Headers::with_room();
    reply
}

/// An error's reply.
pub(crate) fn error(error: &WireError, request: &Request) -> Reply {
    let mut out = document();
    out.open("Error");
    out.element("Code", error.code().name());
    let time = seven_decimals(request.received_at);
    out.element("Message", &format!("{}\nRequestId:{}\nTime:{time}", error.message(), request.id));
    for (name, value) in error.details() {
        out.element(name, value);
    }
    out.close("Error");
    let code = HeaderValue::from_static(error.code().name());
    let reply = xml(error.status(), out, request).with(ERROR_CODE, code);
    match error.challenge().and_then(|challenge| HeaderValue::from_str(challenge).ok()) {
        Some(challenge) => reply.with(WWW_AUTHENTICATE, challenge),
        None => reply,
    }
}

/// The code in an error's reply.
pub(crate) fn error_code(reply: &Reply) -> Option<&str> {
    reply.headers.get(&ERROR_CODE)?.text()
}

/// The headers every reply has.
pub(crate) fn with_common_headers(mut reply: Reply, request: &Request) -> Reply {
    reply.headers.insert(SERVER, HeaderValue::from_static(concat!("Kew-Queue/", env!("CARGO_PKG_VERSION"))));
    reply.headers.insert(REQUEST_ID, request.id);
    match version::named(request) {
        Some(version) => reply.headers.insert(VERSION, version),
        None => reply.headers.insert(VERSION, version::NEWEST),
    }
    if let Some(id) = request.headers.get(CLIENT_REQUEST_ID).filter(|id| id.len() <= CLIENT_REQUEST_ID_BYTES)
    {
        reply.headers.insert(CLIENT_REQUEST_ID, id);
    }
    reply
}

/// An instant as replies show it.
pub(crate) fn http_date(at: Timestamp) -> Cow<'static, str> {
    if at.0 >= END_OF_TIME_MILLIS { Cow::Borrowed(END_OF_TIME) } else { Cow::Owned(date::http_date(at)) }
}

/// The end of a message, which may be never.
pub(crate) fn expiry(at: Option<Timestamp>) -> Cow<'static, str> {
    at.map_or(Cow::Borrowed(END_OF_TIME), http_date)
}

/// An instant to seven decimals of a second.
pub(crate) fn seven_decimals(at: Timestamp) -> String {
    date::rfc3339(at).replace('Z', "0000Z")
}

/// A body as a message's text: as it is if XML can hold it, else in Base64.
pub(crate) fn message_text(content: &Content) -> Cow<'_, str> {
    match content.text().filter(|text| xml::can_hold(text)) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(STANDARD.encode(&content.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kew_core::message::ContentType;

    #[test]
    fn what_never_ends_ends_with_the_calendar() {
        assert_eq!(expiry(None), END_OF_TIME);
        assert_eq!(http_date(Timestamp::NEVER), END_OF_TIME);
        assert_eq!(http_date(Timestamp(END_OF_TIME_MILLIS + 1)), END_OF_TIME);
        assert_eq!(http_date(Timestamp(784_111_777_999)), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn bodies_of_other_dialects_are_shown_as_text_or_in_base64() {
        let shown = |content_type, body: &'static [u8]| {
            let content = Content { content_type, body: Bytes::from_static(body), ..Content::default() };
            message_text(&content).into_owned()
        };
        assert_eq!(shown(ContentType::Json, b"{\"a\":1}"), "{\"a\":1}");
        assert_eq!(shown(ContentType::Text, b"a\x01"), "YQE=");
        assert_eq!(shown(ContentType::Bytes, b"abc"), "YWJj");
    }
}
