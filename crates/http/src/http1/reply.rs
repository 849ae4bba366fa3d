//! Writes replies: a head, and behind it in the same buffer as much of the body as one write should carry.

use bytes::Bytes;
use http::{StatusCode, Version};

use super::head::Fault;
use crate::encodings::today::Today;
use crate::headers::Headers;
use crate::reply::Reply;

/// So much of a body is copied behind its head; what is longer goes out from where it lies.
const COPIED_MAX: usize = 32 << 10;
/// Room for the lines of a head that are not the front-end's.
const USUAL_LINES: usize = 160;

/// What a reply depends on beside itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) version: Version,
    /// Asked for the head alone.
    pub(super) is_head: bool,
}

/// A reply ready to be written: these bytes, and then the rest of the body.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) first: Vec<u8>,
    pub(super) rest: Bytes,
}

/// Writes a reply, and whether the connection ends with it.
pub(super) fn write(mut reply: Reply, asked: Asked, closes: bool, today: &Today) -> Written {
    // What a front-end has no business to say. It would leave the client waiting for a reply.
    if reply.status.is_informational() {
        reply = Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "no reply");
    }
    let Reply { status, headers, mut body, .. } = reply;
    let may_have_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let length = (may_have_body && !(asked.is_head && body.is_empty())).then_some(body.len());
    if asked.is_head || !may_have_body {
        body = Bytes::new();
    }
    let copied = body.split_to(body.len().min(COPIED_MAX));
    let mut first = Vec::with_capacity(USUAL_LINES + headers.lines().len() + copied.len());
    write_status(&mut first, asked.version, status);
    first.extend_from_slice(headers.lines());
    match (asked.version, closes) {
        (Version::HTTP_10, false) => first.extend_from_slice(b"connection: keep-alive\r\n"),
        (Version::HTTP_10, true) | (_, false) => {}
        (_, true) => first.extend_from_slice(b"connection: close\r\n"),
    }
    if let Some(length) = length {
        first.extend_from_slice(b"content-length: ");
        write_number(&mut first, length);
        first.extend_from_slice(b"\r\n");
    }
    first.extend_from_slice(&today.line());
    first.extend_from_slice(b"\r\n");
    first.extend_from_slice(&copied);
    Written { first, rest: body }
}

/// What is said to bytes that are no request, before the connection ends.
pub(super) fn write_fault(fault: Fault, today: &Today) -> Vec<u8> {
    let status = match fault {
        Fault::Malformed => StatusCode::BAD_REQUEST,
        Fault::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Fault::TargetTooLong => StatusCode::URI_TOO_LONG,
    };
    let reply = Reply { status, headers: Headers::default(), body: Bytes::new(), operation: None };
    write(reply, Asked { version: Version::HTTP_11, is_head: false }, true, today).first
}

fn write_status(out: &mut Vec<u8>, version: Version, status: StatusCode) {
    if status == StatusCode::OK && version == Version::HTTP_11 {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(if version == Version::HTTP_10 { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("Other").as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_number(out: &mut Vec<u8>, number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        at -= 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const PLAIN: HeaderValue = HeaderValue::from_static("text/plain");

    fn text(status: StatusCode, body: &'static str, version: Version, is_head: bool, closes: bool) -> String {
        let written =
            write(Reply::new(status, PLAIN, body), Asked { version, is_head }, closes, &Today::default());
        assert!(written.rest.is_empty());
        let text = String::from_utf8(written.first).expect("a written reply is ASCII");
        let (before, date) = text.split_once("date: ").expect("a written reply has a date");
        let (date, after) = date.split_at("Sun, 06 Nov 1994 08:49:37 GMT\r\n".len());
        assert!(date.ends_with(" GMT\r\n"), "{date}");
        format!("{before}{after}").replace("\r\n", "\n")
    }

    #[test]
    fn a_reply_is_written_as_its_request_asks() {
        let (new, old) = (Version::HTTP_11, Version::HTTP_10);
        assert_eq!(
            text(StatusCode::OK, "abc", new, false, false),
            "HTTP/1.1 200 OK\ncontent-type: text/plain\ncontent-length: 3\n\nabc"
        );
        assert_eq!(
            text(StatusCode::NOT_FOUND, "", new, false, true),
            "HTTP/1.1 404 Not Found\ncontent-type: text/plain\nconnection: close\ncontent-length: 0\n\n"
        );
        assert_eq!(
            text(StatusCode::OK, "abc", new, true, false),
            "HTTP/1.1 200 OK\ncontent-type: text/plain\ncontent-length: 3\n\n",
            "a head tells the length of what it has not"
        );
        assert_eq!(
            text(StatusCode::OK, "", new, true, false),
            "HTTP/1.1 200 OK\ncontent-type: text/plain\n\n"
        );
        for none in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
            assert!(text(none, "abc", new, false, false).ends_with("\ncontent-type: text/plain\n\n"));
        }
        assert_eq!(
            text(StatusCode::OK, "a", old, false, true),
            "HTTP/1.0 200 OK\ncontent-type: text/plain\ncontent-length: 1\n\na"
        );
        assert_eq!(
            text(StatusCode::OK, "a", old, false, false),
            "HTTP/1.0 200 OK\ncontent-type: text/plain\nconnection: keep-alive\ncontent-length: 1\n\na"
        );
        assert!(text(StatusCode::CONTINUE, "a", new, false, false).starts_with("HTTP/1.1 500 "));
    }

    #[test]
    fn a_long_body_is_not_copied() {
        let body = Bytes::from(vec![b'x'; COPIED_MAX + 5]);
        let asked = Asked { version: Version::HTTP_11, is_head: false };
        let written = write(Reply::new(StatusCode::OK, PLAIN, body.clone()), asked, false, &Today::default());
        assert_eq!(written.rest, body.slice(COPIED_MAX..));
        assert_eq!(written.rest.as_ptr(), body.slice(COPIED_MAX..).as_ptr());
        assert!(written.first.ends_with(&body[..COPIED_MAX]));
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 4_096, usize::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
