//! What a server was asked, and what it answered.

use http::{Method, StatusCode, Uri};

pub const CONTENT_TYPE: &str = "text/plain";
pub const REFUSED: &str = "refused";

/// What both answer to a path.
pub fn reply_to(path: &str) -> (StatusCode, &'static str) {
    match path {
        "/204" => (StatusCode::NO_CONTENT, ""),
        "/304" => (StatusCode::NOT_MODIFIED, ""),
        "/404" => (StatusCode::NOT_FOUND, "not found"),
        "/empty" => (StatusCode::OK, ""),
        _ => (StatusCode::OK, "here you are"),
    }
}

/// A request as a front-end sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    method: String,
    target: String,
    /// By name; those of one name in the order in which they came.
    headers: Vec<(String, String)>,
    body: String,
}

impl Asked {
    pub fn new<'a>(
        method: &Method,
        uri: &Uri,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: &[u8],
    ) -> Self {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (name.to_ascii_lowercase(), text(value))).collect();
        headers.sort_by(|one, other| one.0.cmp(&other.0));
        Self { method: method.to_string(), target: uri.to_string(), headers, body: text(body) }
    }
}

/// A reply, without its date and without leave to go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replied {
    /// The first line, then the headers in the order of their names.
    pub lines: Vec<String>,
    pub body: String,
}

/// All requests and replies of one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    pub asked: Vec<Asked>,
    pub replied: Vec<Replied>,
    /// The number of `100 Continue` replies is not compared: ours says it only to those who may still wait for it.
    pub garbage: String,
}

impl Exchange {
    pub fn new(asked: Vec<Asked>, bytes: &[u8]) -> Self {
        let mut rest = bytes;
        let mut replied = Vec::new();
        while let Some((reply, behind)) = read(rest) {
            replied.extend(reply);
            rest = behind;
        }
        Self { asked, replied, garbage: rest.escape_ascii().to_string() }
    }
}

/// The next reply (none if it gives leave to go on), and what is behind it.
fn read(bytes: &[u8]) -> Option<(Option<Replied>, &[u8])> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let behind = &bytes[end + 4..];
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    if first == "HTTP/1.1 100 Continue" {
        return Some((None, behind));
    }
    let mut headers: Vec<_> =
        headers.lines().filter(|line| !line.starts_with("date: ")).map(str::to_owned).collect();
    headers.sort();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(Some(0), |length| length.parse().ok())?;
    // A reply to HEAD has a length and no body, which then looks like the next reply.
    let has_body = behind.get(..length).is_some_and(|body| !body.starts_with(b"HTTP/1."));
    let (body, behind) = behind.split_at(if has_body { length } else { 0 });
    let body = body.escape_ascii().to_string();
    let mut lines: Vec<_> = [first.to_owned()].into_iter().chain(headers).collect();
    // Whether a refusal ends a connection of the old version shows in what follows, and hyper may say both.
    if lines[0].starts_with("HTTP/1.0 4") {
        lines.retain(|line| !line.starts_with("connection: "));
    }
    // To what is no request hyper speaks in the version of the request before.
    if lines[0].starts_with("HTTP/1.0 4") && lines[1..] == ["content-length: 0"] {
        lines[0].replace_range(..8, "HTTP/1.1");
        lines.insert(1, "connection: close".to_owned());
    }
    Some((Some(Replied { lines, body }), behind))
}
