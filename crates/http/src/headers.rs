//! Headers as the wire has them: lines of text, and where in it each name and value stands.
//!
//! A message has a dozen headers and is asked for a few of them, so nothing is hashed and nothing is copied out: a name
//! is found by its length and its letters, whatever their case. Names keep the case they were sent in.

use std::borrow::Borrow;
use std::fmt;

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers of a request or a reply, in order.
#[derive(Clone, Default)]
pub struct Headers {
    /// Every header as a line, `name: value` and its end.
    lines: BytesMut,
    spans: Vec<Span>,
}

/// Where a header stands in the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) name_at: u32,
    pub(crate) name_bytes: u32,
    pub(crate) value_at: u32,
    pub(crate) value_bytes: u32,
}

/// A header's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldValue<'a>(&'a [u8]);

/// What may be written as a header's value: nothing that could end its line.
pub trait AsValue {
    /// Its bytes.
    fn value(&self) -> &[u8];
}

impl Headers {
    /// None yet, and room for a few lines.
    pub fn with_room() -> Self {
        const LINES: usize = 6;
        const BYTES: usize = 224;
        Self { lines: BytesMut::with_capacity(BYTES), spans: Vec::with_capacity(LINES) }
    }

    /// Headers that were read: their lines, and what was found in them.
    pub(crate) fn of_lines(lines: BytesMut, spans: Vec<Span>) -> Self {
        Self { lines, spans }
    }

    /// The first value of this name.
    pub fn get(&self, name: impl AsRef<str>) -> Option<FieldValue<'_>> {
        let name = name.as_ref().as_bytes();
        self.spans.iter().find(|span| self.is_of(span, name)).map(|span| self.value_of(span))
    }

    /// All values of this name, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = FieldValue<'a>> {
        let is_it = move |span: &&Span| self.is_of(span, name.as_bytes());
        self.spans.iter().filter(is_it).map(|span| self.value_of(span))
    }

    /// Whether there is one of this name.
    pub fn contains(&self, name: impl AsRef<str>) -> bool {
        self.get(name).is_some()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, FieldValue<'_>)> {
        self.spans.iter().map(|span| (text(self.name_of(span)), self.value_of(span)))
    }

    /// The same by bytes.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], FieldValue<'_>)> {
        self.spans.iter().map(|span| (self.name_of(span), self.value_of(span)))
    }

    /// The names that begin like this, each once and as it was first sent.
    pub fn names_from(&self, beginning: &str) -> impl Iterator<Item = &str> {
        let begins = |name: &[u8]| {
            name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning.as_bytes()))
        };
        self.spans.iter().enumerate().filter_map(move |(place, span)| {
            let name = self.name_of(span);
            let is_first = || !self.spans[..place].iter().any(|other| self.is_of(other, name));
            (begins(name) && is_first()).then(|| text(name))
        })
    }

    /// Writes a header in place of all of its name.
    pub fn insert(&mut self, name: impl Borrow<HeaderName>, value: impl AsValue) {
        let name = name.borrow();
        if self.contains(name) {
            self.remove(name);
        }
        self.append(name, value);
    }

    /// Writes one more header.
    pub fn append(&mut self, name: impl Borrow<HeaderName>, value: impl AsValue) {
        self.append_line(name.borrow().as_str().as_bytes(), value.value());
    }

    /// Writes one more header whose name keeps its case; what is no name is not written. HTTP/2 knows lower case only.
    pub fn append_as_written(&mut self, name: &str, value: impl AsValue) {
        if HeaderName::from_bytes(name.as_bytes()).is_ok() {
            self.append_line(name.as_bytes(), value.value());
        }
    }

    fn append_line(&mut self, name: &[u8], value: &[u8]) {
        let name_at = self.lines.len();
        let value_at = name_at + name.len() + 2;
        self.lines.reserve(name.len() + value.len() + 4);
        self.lines.put_slice(name);
        self.lines.put_slice(b": ");
        self.lines.put_slice(value);
        self.lines.put_slice(b"\r\n");
        self.spans.push(Span::of(name_at, name.len(), value_at, value.len()));
    }

    /// Removes all of this name.
    pub fn remove(&mut self, name: &HeaderName) {
        let mut left = Self::default();
        for span in &self.spans {
            if !self.is_of(span, name.as_str().as_bytes()) {
                left.copy(self.name_of(span), self.value_of(span));
            }
        }
        *self = left;
    }

    /// Every header as a line with its end: what is sent.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The same for a library that has a map of its own.
    pub(crate) fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.spans.len());
        for (name, value) in self.iter() {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.0)) {
                map.append(name, value);
            }
        }
        map
    }

    fn copy(&mut self, name: &[u8], value: FieldValue<'_>) {
        let name_at = self.lines.len();
        for part in [name, b": ", value.0, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        self.spans.push(Span::of(name_at, name.len(), name_at + name.len() + 2, value.len()));
    }

    /// Whether a header has this name. Most have another length, and are not looked at.
    #[inline(always)]
    fn is_of(&self, span: &Span, name: &[u8]) -> bool {
        span.name_bytes as usize == name.len() && self.is_alike(span, name)
    }

    /// Whether a header has this name, which is as long. Most begin with another letter.
    fn is_alike(&self, span: &Span, name: &[u8]) -> bool {
        let written = self.name_of(span);
        let begin_alike = match (written.first(), name.first()) {
            (Some(one), Some(other)) => (one ^ other) & !0x20 == 0,
            _ => true,
        };
        begin_alike && (written == name || written.eq_ignore_ascii_case(name))
    }

    fn name_of(&self, span: &Span) -> &[u8] {
        slice(&self.lines, span.name_at, span.name_bytes)
    }

    fn value_of(&self, span: &Span) -> FieldValue<'_> {
        FieldValue(slice(&self.lines, span.value_at, span.value_bytes))
    }
}

impl Span {
    /// Heads are bounded far below 4 GiB; what is not is found empty.
    pub(crate) fn of(name_at: usize, name_bytes: usize, value_at: usize, value_bytes: usize) -> Self {
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            name_at: short(name_at),
            name_bytes: short(name_bytes),
            value_at: short(value_at),
            value_bytes: short(value_bytes),
        }
    }
}

impl<'a> FieldValue<'a> {
    /// Its bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Its text, if it holds nothing but visible ASCII, blanks and tabs.
    pub fn text(self) -> Option<&'a str> {
        let is_plain = self.0.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
        if is_plain { std::str::from_utf8(self.0).ok() } else { None }
    }

    /// How many bytes it has.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl AsValue for HeaderValue {
    fn value(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsValue for &HeaderValue {
    fn value(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsValue for FieldValue<'_> {
    fn value(&self) -> &[u8] {
        self.0
    }
}

impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Self {
        map.iter().collect()
    }
}

impl<N: Borrow<HeaderName>, V: AsValue> FromIterator<(N, V)> for Headers {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(pairs: T) -> Self {
        let mut headers = Self::default();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(name, value)| (name, String::from_utf8_lossy(value.0)));
        f.debug_map().entries(shown).finish()
    }
}

fn slice(lines: &[u8], at: u32, bytes: u32) -> &[u8] {
    let (at, bytes) = (at as usize, bytes as usize);
    lines.get(at..at.saturating_add(bytes)).unwrap_or_default()
}

/// Names are ASCII, or they would not have been read.
fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{ACCEPT, HOST, SERVER};

    fn sent() -> Headers {
        let lines = "Host: kew\r\nX-Ms-Meta-Colour: red\r\nx-ms-meta-colour:blue\r\nEmpty:\r\n";
        let mut spans = Vec::new();
        let mut at = 0;
        for line in lines.split_inclusive("\r\n") {
            let (name, value) = line.trim_end().split_once(':').expect("each has one");
            let value_at = at + line.len() - 2 - value.trim().len();
            spans.push(Span::of(at, name.len(), value_at, value.trim().len()));
            at += line.len();
        }
        Headers::of_lines(BytesMut::from(lines), spans)
    }

    #[test]
    fn names_are_written_in_their_case_and_never_end_a_line() {
        let mut headers = Headers::default();
        headers.append_as_written("x-ms-meta-ShoeSize", HeaderValue::from_static("44"));
        headers.append_as_written("x: y\r\nz", HeaderValue::from_static("1"));
        headers.append_as_written("", HeaderValue::from_static("1"));
        assert_eq!(headers.lines(), b"x-ms-meta-ShoeSize: 44\r\n");
        assert!(headers.to_map().contains_key("x-ms-meta-shoesize"), "HTTP/2 has lower case");
    }

    #[test]
    fn names_are_found_in_any_case_and_kept_in_theirs() {
        let headers = sent();
        assert_eq!(headers.get("hOST").and_then(FieldValue::text), Some("kew"));
        assert_eq!(headers.get(HOST), headers.get("Host"));
        assert_eq!(headers.get("hos"), None);
        assert!(headers.get("empty").is_some_and(FieldValue::is_empty));
        let all: Vec<_> = headers.get_all("X-MS-META-COLOUR").filter_map(FieldValue::text).collect();
        assert_eq!(all, ["red", "blue"]);
        assert_eq!(headers.names_from("x-ms-").collect::<Vec<_>>(), ["X-Ms-Meta-Colour"], "each once");
        assert_eq!(headers.names_from("x-ms-meta-colours").count(), 0);
        assert_eq!(headers.names_from("").count(), 3);
    }

    #[test]
    fn what_is_written_is_what_is_sent() {
        let mut headers = Headers::with_room();
        headers.append(HOST, HeaderValue::from_static("a"));
        headers.append(ACCEPT, HeaderValue::from_static("x"));
        headers.append(HOST, HeaderValue::from_static("b"));
        assert_eq!(headers.lines(), b"host: a\r\naccept: x\r\nhost: b\r\n");
        headers.insert(HOST, HeaderValue::from_static("c"));
        headers.insert(SERVER, HeaderValue::from_static("d"));
        assert_eq!(headers.lines(), b"accept: x\r\nhost: c\r\nserver: d\r\n");
        headers.remove(&ACCEPT);
        assert_eq!(headers.lines(), b"host: c\r\nserver: d\r\n");
        assert_eq!(Headers::from(&headers.to_map()).lines(), headers.lines());
    }

    #[test]
    fn what_was_read_is_written_like_any_other() {
        let mut headers = sent();
        headers.insert(HOST, HeaderValue::from_static("other"));
        assert_eq!(
            headers.lines(),
            b"X-Ms-Meta-Colour: red\r\nx-ms-meta-colour: blue\r\nEmpty: \r\nhost: other\r\n"
        );
    }

    #[test]
    fn text_is_visible_ascii() {
        for (bytes, is_text) in
            [(&b"a b\tc~"[..], true), (b"", true), (b"\x7f", false), (b"\xc3\xa9", false), (b"a\0", false)]
        {
            assert_eq!(FieldValue(bytes).text().is_some(), is_text, "{bytes:?}");
        }
    }

    #[test]
    fn a_place_that_is_not_there_is_empty() {
        let headers = Headers::of_lines(BytesMut::from("a: b\r\n"), vec![Span::of(usize::MAX, 1, 9, 9)]);
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("", FieldValue(b""))]);
    }
}
