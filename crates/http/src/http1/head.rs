//! From bytes to a request's head, and what it says of the body and of the connection.
//!
//! Two readers of one stream must never disagree about where a request ends. So what frames a body is read strictly:
//! a length is digits and nothing else, a transfer coding is `chunked` and nothing else, and whatever could be read in
//! two ways is no request at all.

use std::mem::MaybeUninit;

use bytes::{Buf, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Method, Uri, Version};
use httparse::Status;

use crate::bounds::limits::{HEADERS_USUAL, Limits};
use crate::headers::{Headers, Span};

/// A longer target has no room in [`Uri`].
const TARGET_BYTES_MAX: usize = u16::MAX as usize - 1;

/// What comes before a body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) version: Version,
    pub(super) headers: Headers,
    pub(super) framing: Framing,
    /// The client may ask again on this connection.
    pub(super) keeps_alive: bool,
    /// The client may wait for leave to send the body.
    pub(super) awaits_leave: bool,
}

/// How the end of a body is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// A length in bytes. Without a length it is zero.
    Length(u64),
    Chunked,
}

/// Why bytes are no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Malformed,
    TooLarge,
    TargetTooLong,
}

/// Looks for one head in bytes that may come in any pieces. Each byte is looked at twice at most, and parsed twice.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Empty lines before the head, in bytes.
    skipped: usize,
    /// Number of bytes that were searched for the head's end without finding it.
    seen: usize,
    has_waited: bool,
}

impl Search {
    /// Whether what comes next is awaited for the first time.
    pub(super) fn waits_first(&mut self) -> bool {
        !std::mem::replace(&mut self.has_waited, true)
    }

    /// Takes a head off the front of `ahead`, as soon as it is there.
    pub(super) fn take(&mut self, ahead: &mut BytesMut, limits: &Limits) -> Result<Option<Head>, Fault> {
        self.skip_empty_lines(ahead);
        let bytes_max = limits.head_bytes_max.saturating_sub(self.skipped);
        if ahead.is_empty() || (self.seen > 0 && !has_empty_line(ahead, self.seen)) {
            self.seen = ahead.len();
            return if self.seen < bytes_max { Ok(None) } else { Err(Fault::TooLarge) };
        }
        match parse(ahead, bytes_max, limits.headers_max)? {
            Some(head) => Ok(Some(head)),
            None => {
                self.seen = ahead.len();
                if self.seen < bytes_max { Ok(None) } else { Err(Fault::TooLarge) }
            }
        }
    }

    /// Some clients send an empty line behind a body. Whatever begins with one has not been looked at further.
    fn skip_empty_lines(&mut self, ahead: &mut BytesMut) {
        loop {
            let bytes = match ahead.as_ref() {
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] => 1,
                _ => return,
            };
            ahead.advance(bytes);
            self.skipped = self.skipped.saturating_add(bytes);
            self.seen = 0;
        }
    }
}

/// Whether a head may end behind the first `seen` bytes, in which it does not.
fn has_empty_line(bytes: &[u8], seen: usize) -> bool {
    let from = seen.saturating_sub(2);
    let unseen = bytes.get(from..).unwrap_or_default();
    unseen.iter().enumerate().any(|(at, byte)| {
        *byte == b'\n' && matches!(unseen.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..]))
    })
}

fn parse(ahead: &mut BytesMut, bytes_max: usize, headers_max: usize) -> Result<Option<Head>, Fault> {
    let mut few = [const { MaybeUninit::uninit() }; HEADERS_USUAL];
    let mut many = Vec::new();
    let space = match few.get_mut(..headers_max) {
        Some(few) => few,
        None => {
            many.resize_with(headers_max, MaybeUninit::uninit);
            &mut many[..]
        }
    };
    let mut request = httparse::Request::new(&mut []);
    let bytes = match request.parse_with_uninit_headers(ahead, space)? {
        Status::Partial => return Ok(None),
        Status::Complete(bytes) if bytes > bytes_max => return Err(Fault::TooLarge),
        Status::Complete(bytes) => bytes,
    };
    let target = request.path.unwrap_or_default();
    if target.len() > TARGET_BYTES_MAX {
        return Err(Fault::TargetTooLong);
    }
    let method =
        Method::from_bytes(request.method.unwrap_or_default().as_bytes()).map_err(|_| Fault::Malformed)?;
    // The usual target costs nothing.
    let uri = if target == "/" { Ok(Uri::default()) } else { Uri::try_from(target) };
    let uri = uri.map_err(|_| Fault::Malformed)?;
    let version = if request.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let mut saying = Saying::of(version);
    let begin = ahead.as_ptr() as usize;
    let place_of = |text: &[u8]| (text.as_ptr() as usize).saturating_sub(begin);
    let mut spans = Vec::with_capacity(request.headers.len());
    for httparse::Header { name, value } in &*request.headers {
        if saying.hear(name.as_bytes(), value)? {
            spans.push(Span::of(place_of(name.as_bytes()), name.len(), place_of(value), value.len()));
        }
    }
    let text = if bytes == ahead.len() { std::mem::take(ahead) } else { ahead.split_to(bytes) };
    let mut headers = Headers::of_lines(text, spans);
    if saying.hides_length() {
        headers.remove(&CONTENT_LENGTH);
    }
    Ok(Some(Head {
        method,
        uri,
        version,
        headers,
        framing: saying.framing(),
        keeps_alive: saying.keeps_alive(),
        awaits_leave: saying.expects_leave && version == Version::HTTP_11,
    }))
}

impl From<httparse::Error> for Fault {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooLarge,
            _ => Self::Malformed,
        }
    }
}

/// What the headers say of the body and of the connection.
#[derive(Debug)]
struct Saying {
    version: Version,
    length: Option<u64>,
    is_chunked: bool,
    expects_leave: bool,
    says_close: bool,
    says_keep_alive: bool,
}

impl Saying {
    fn of(version: Version) -> Self {
        Self {
            version,
            length: None,
            is_chunked: false,
            expects_leave: false,
            says_close: false,
            says_keep_alive: false,
        }
    }

    /// Hears one header. Tells whether it is to be shown: a length that is said twice is shown once.
    fn hear(&mut self, name: &[u8], value: &[u8]) -> Result<bool, Fault> {
        // Names of these lengths are few, so that most headers cost one look.
        match name.len() {
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expects_leave |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.says_close |= has_token(value, b"close");
                self.says_keep_alive |= has_token(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = digits(value).ok_or(Fault::Malformed)?;
                return match self.length.replace(length) {
                    None => Ok(true),
                    Some(before) if before == length => Ok(false),
                    Some(_) => Err(Fault::Malformed),
                };
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let is_known = !self.is_chunked && value.eq_ignore_ascii_case(b"chunked");
                if !is_known || self.version == Version::HTTP_10 {
                    return Err(Fault::Malformed);
                }
                self.is_chunked = true;
            }
            _ => {}
        }
        Ok(true)
    }

    fn framing(&self) -> Framing {
        if self.is_chunked { Framing::Chunked } else { Framing::Length(self.length.unwrap_or(0)) }
    }

    /// Chunks count more than a length beside them, which is hidden from handlers.
    fn hides_length(&self) -> bool {
        self.is_chunked && self.length.is_some()
    }

    /// Who says a length beside chunks may mean to deceive somebody: nothing more is read of it.
    fn keeps_alive(&self) -> bool {
        let is_usual = self.version == Version::HTTP_11 || self.says_keep_alive;
        is_usual && !self.says_close && !self.hides_length()
    }
}

/// A number of digits and nothing else.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Whether a list of words has this one, in any case. What is no text is no list.
fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.is_ascii()
        && list.split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::FieldValue;

    fn take(bytes: &[u8], limits: &Limits) -> Result<Option<Head>, Fault> {
        Search::default().take(&mut BytesMut::from(bytes), limits)
    }

    fn head(lines: &str) -> Result<Head, Fault> {
        let text = format!("{}\r\n\r\n", lines.replace('\n', "\r\n"));
        take(text.as_bytes(), &Limits::default()).map(|head| head.expect("the head is whole"))
    }

    fn framing(headers: &str) -> Result<Framing, Fault> {
        head(&format!("POST / HTTP/1.1\n{headers}")).map(|head| head.framing)
    }

    #[test]
    fn a_head_is_read_wherever_it_is_cut_and_what_follows_is_left() {
        let text = b"\r\n\nPOST /a?b HTTP/1.1\r\nHost: a\r\nX-Y:  z \nContent-Length: 3\r\n\r\nabcGET";
        for cut in 0..text.len() {
            let mut search = Search::default();
            let mut ahead = BytesMut::new();
            let mut found = None;
            for piece in [&text[..cut], &text[cut..]] {
                ahead.extend_from_slice(piece);
                if found.is_none() {
                    found =
                        search.take(&mut ahead, &Limits::default()).expect("the head is well formed so far");
                }
            }
            let head = found.expect("the head ends with the last piece");
            assert_eq!((head.method.as_str(), head.uri.to_string().as_str()), ("POST", "/a?b"));
            assert_eq!(head.headers.get("x-y").and_then(FieldValue::text), Some("z"));
            assert_eq!((head.headers.iter().count(), head.framing), (3, Framing::Length(3)));
            assert_eq!(&ahead[..], b"abcGET", "cut at {cut}");
        }
    }

    #[test]
    fn a_head_that_drips_is_looked_at_and_not_parsed_again_and_again() {
        let text = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(60_000));
        let (mut search, mut ahead) = (Search::default(), BytesMut::new());
        for (at, byte) in text.bytes().enumerate() {
            ahead.extend_from_slice(&[byte]);
            let found = search.take(&mut ahead, &Limits::default()).expect("the head is well formed");
            assert_eq!(found.is_some(), at + 1 == text.len());
        }
    }

    #[test]
    fn empty_lines_that_drip_are_not_looked_at_again() {
        let (mut search, mut ahead) = (Search::default(), BytesMut::new());
        for byte in b"\r\n".repeat(20_000) {
            ahead.extend_from_slice(&[byte]);
            assert!(search.take(&mut ahead, &Limits::default()).expect("half a head is no fault").is_none());
            assert!(ahead.len() < 2);
        }
        ahead.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n");
        assert!(search.take(&mut ahead, &Limits::default()).expect("the head is well formed").is_some());
    }

    #[test]
    fn the_body_is_framed_by_one_length_or_by_chunks() {
        for (headers, expected) in [
            ("A: b", Framing::Length(0)),
            ("Content-Length: 0", Framing::Length(0)),
            ("content-LENGTH: 18446744073709551615", Framing::Length(u64::MAX)),
            ("Content-Length: 007", Framing::Length(7)),
            ("Content-Length: 7\nContent-Length: 07", Framing::Length(7)),
            ("Transfer-Encoding: Chunked", Framing::Chunked),
            ("Transfer-Encoding: chunked\nContent-Length: 9", Framing::Chunked),
            ("Content-Length: 9\nTransfer-Encoding: chunked", Framing::Chunked),
        ] {
            assert_eq!(framing(headers), Ok(expected), "{headers}");
        }
        for headers in [
            "Content-Length:",
            "Content-Length: +1",
            "Content-Length: -1",
            "Content-Length: 1 ",
            "Content-Length: 1 1",
            "Content-Length: 1,1",
            "Content-Length: 0x1",
            "Content-Length: 18446744073709551616",
            "Content-Length: 1\nContent-Length: 2",
            "Transfer-Encoding: chunked\nContent-Length: x",
            "Transfer-Encoding:",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\nTransfer-Encoding: chunked",
            "Transfer-Encoding: \u{b}chunked",
            "Transfer-Encoding : chunked",
            "A: b\n folded: c",
            "A\0: b",
            "A: \u{7f}",
        ] {
            let expected =
                if headers.ends_with("1 ") { Ok(Framing::Length(1)) } else { Err(Fault::Malformed) };
            assert_eq!(framing(headers), expected, "{headers}");
        }
        let old = head("POST / HTTP/1.0\nTransfer-Encoding: chunked");
        assert_eq!(old.map(|head| head.framing), Err(Fault::Malformed));
    }

    #[test]
    fn a_length_is_shown_once_and_beside_chunks_not_at_all() {
        let shown = |headers: &str| {
            let head = head(&format!("POST / HTTP/1.1\n{headers}")).expect("the head is well formed");
            (head.headers.get_all("content-length").count(), head.keeps_alive)
        };
        assert_eq!(shown("Content-Length: 1\nContent-Length: 1"), (1, true));
        assert_eq!(shown("Content-Length: 1\nTransfer-Encoding: chunked"), (0, false));
        assert_eq!(shown("Transfer-Encoding: chunked\nContent-Length: 1"), (0, false));
    }

    #[test]
    fn a_connection_is_kept_as_its_client_says() {
        for (version, connection, expected) in [
            ("1.1", "X: y", true),
            ("1.1", "Connection: close", false),
            ("1.1", "Connection: keep-alive\nconnection: te , CLOSE", false),
            ("1.1", "Connection: closed", true),
            ("1.0", "X: y", false),
            ("1.0", "Connection: Keep-Alive", true),
            ("1.0", "Connection: keep-alive, close", false),
        ] {
            let head = head(&format!("GET / HTTP/{version}\n{connection}")).expect("the head is well formed");
            assert_eq!(head.keeps_alive, expected, "{version} {connection}");
        }
    }

    #[test]
    fn leave_is_awaited_only_by_those_who_know_it() {
        for (version, expect, expected) in
            [("1.1", "100-Continue", true), ("1.1", "200-ok", false), ("1.0", "100-continue", false)]
        {
            let head =
                head(&format!("POST / HTTP/{version}\nExpect: {expect}")).expect("the head is well formed");
            assert_eq!(head.awaits_leave, expected, "{version} {expect}");
        }
    }

    #[test]
    fn targets_are_of_all_four_forms() {
        for target in ["/", "/a?b=%20", "http://h:1/x", "*", "h:443"] {
            let head = head(&format!("OPTIONS {target} HTTP/1.1")).expect("the head is well formed");
            assert_eq!(head.uri.to_string(), target);
        }
        for line in [
            "GET  / HTTP/1.1",
            "GET /\tHTTP/1.1",
            "GET / HTTP/1.2",
            "GET / HTTP/2.0",
            "G(T / HTTP/1.1",
            "GET /",
        ] {
            assert_eq!(head(line).map(|head| head.method), Err(Fault::Malformed), "{line}");
        }
    }

    #[test]
    fn bounds_are_kept_to_the_byte_and_the_header() {
        let exact = "GET / HTTP/1.1\r\nX: y\r\n\r\n";
        let bound = |head_bytes_max, headers_max| Limits { head_bytes_max, headers_max, ..Limits::default() };
        let judged = |text: &str, limits| take(text.as_bytes(), &limits).map(|head| head.is_some());
        assert_eq!(judged(exact, bound(exact.len(), 1)), Ok(true));
        assert_eq!(judged(exact, bound(exact.len() - 1, 1)), Err(Fault::TooLarge));
        assert_eq!(judged(exact, bound(exact.len(), 0)), Err(Fault::TooLarge));
        assert_eq!(judged(&format!("\r\n{exact}"), bound(exact.len(), 1)), Err(Fault::TooLarge));
        assert_eq!(judged(&exact[..20], bound(20, 1)), Err(Fault::TooLarge), "it has no end within it");
        assert_eq!(judged(&exact[..20], bound(21, 1)), Ok(false));
        assert_eq!(judged(&"\r\n".repeat(10), bound(20, 1)), Err(Fault::TooLarge));
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(TARGET_BYTES_MAX));
        assert_eq!(judged(&long, bound(1 << 20, 100)), Err(Fault::TargetTooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(200));
        assert_eq!(judged(&many, bound(1 << 20, 200)), Ok(true));
        assert_eq!(judged(&many, bound(1 << 20, 199)), Err(Fault::TooLarge));
    }

    #[test]
    fn names_are_kept_as_they_were_sent() {
        let head = head("PUT / HTTP/1.1\nX-Ms-Meta-Colour: red\nHost: a").expect("the head is well formed");
        assert_eq!(
            head.headers.iter().map(|header| header.0).collect::<Vec<_>>(),
            ["X-Ms-Meta-Colour", "Host"]
        );
    }
}
