//! Who a request is meant for: the host and port of a `Host` header or a target, parsed strictly.
//!
//! What does not parse is not guessed at: two readers that guess differently are how requests get past a guard.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A host and, if it was said, a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authority<'a> {
    /// The host.
    pub host: Host<'a>,
    /// The port, if one was given.
    pub port: Option<u16>,
}

/// A host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host<'a> {
    /// An address.
    Address(IpAddr),
    /// A name of letters, digits, `-`, `_` and dots, in the case it was sent; without the dot that may end it.
    Name(&'a str),
}

impl<'a> Authority<'a> {
    /// Reads `host`, `host:port`, `1.2.3.4:port` or `[::1]:port`; user names and anything else are refused.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        if let Some(rest) = text.strip_prefix(b"[") {
            let end = rest.iter().position(|byte| *byte == b']')?;
            let (literal, rest) = rest.split_at(end);
            let address: Ipv6Addr = std::str::from_utf8(literal).ok()?.parse().ok()?;
            return Some(Self { host: Host::Address(IpAddr::V6(address)), port: port(rest.get(1..)?)? });
        }
        let colon = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
        let (host, rest) = text.split_at(colon);
        Some(Self { host: Host::parse(host)?, port: port(rest)? })
    }

    /// The port, or the scheme's own.
    pub fn port_or_default(&self, secure: bool) -> u16 {
        self.port.unwrap_or(if secure { 443 } else { 80 })
    }
}

impl<'a> Host<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let is_name =
            text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        let text = std::str::from_utf8(text).ok().filter(|_| is_name)?;
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.starts_with(|first: char| first.is_ascii_digit())
            && let Ok(address) = text.parse::<Ipv4Addr>()
        {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        Some(Self::Name(text))
    }

    /// Whether it means this machine by itself: a loopback address, `localhost` or a name below it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(IpAddr::V4(address)) => address.is_loopback(),
            Self::Address(IpAddr::V6(address)) => address.is_loopback(),
            Self::Name(name) => name.eq_ignore_ascii_case("localhost") || is_below(name, "localhost"),
        }
    }

    /// Whether it is the same host in another spelling.
    pub fn is_same(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Self::Address(one), Host::Address(other)) => one == other,
            (Self::Name(one), Host::Name(other)) => one.eq_ignore_ascii_case(other),
            (Self::Address(_), Host::Name(_)) | (Self::Name(_), Host::Address(_)) => false,
        }
    }
}

/// Whether `name` is `something.parent`, in any case.
pub fn is_below(name: &str, parent: &str) -> bool {
    let Some(dot) = name.len().checked_sub(parent.len() + 1) else { return false };
    let (label, rest) = name.as_bytes().split_at(dot);
    !label.is_empty()
        && rest.first() == Some(&b'.')
        && rest.get(1..).is_some_and(|rest| rest.eq_ignore_ascii_case(parent.as_bytes()))
}

/// What follows a host: nothing, or a colon and a port, which may be empty.
fn port(text: &[u8]) -> Option<Option<u16>> {
    let Some(digits) = text.strip_prefix(b":") else { return text.is_empty().then_some(None) };
    if digits.is_empty() {
        return Some(None);
    }
    if digits.len() > 5 {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u32, |port, digit| digit.is_ascii_digit().then(|| port * 10 + u32::from(digit - b'0')))
        .and_then(|port| u16::try_from(port).ok())
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<(String, Option<u16>)> {
        Authority::parse(text.as_bytes()).map(|authority| {
            let host = match authority.host {
                Host::Address(address) => format!("={address}"),
                Host::Name(name) => name.to_owned(),
            };
            (host, authority.port)
        })
    }

    #[test]
    fn hosts_and_ports_are_distinguished() {
        for (text, host, port) in [
            ("localhost", "localhost", None),
            ("LocalHost:9324", "LocalHost", Some(9324)),
            ("localhost.:1", "localhost", Some(1)),
            ("queue_1", "queue_1", None),
            ("", "", None),
            ("host:", "host", None),
            ("127.0.0.1:65535", "=127.0.0.1", Some(65_535)),
            ("127.0.0.1.", "=127.0.0.1", None),
            ("127.1", "127.1", None),
            ("1.2.3.4.example", "1.2.3.4.example", None),
            ("[::1]", "=::1", None),
            ("[::1]:80", "=::1", Some(80)),
            ("[2001:DB8::1]:0", "=2001:db8::1", Some(0)),
        ] {
            assert_eq!(read(text), Some((host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "user@host",
            "host:65536",
            "host:+1",
            "host:1:2",
            "host:99999999999999999999",
            "::1",
            "[::1",
            "[::1]x",
            "[127.0.0.1]",
            "[fe80::1%eth0]",
            "a b",
            "a/b",
            "a\\b",
            "h\u{f6}st",
            "a%2eb",
            "a,b",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(Authority::parse(b"\xff"), None);
    }

    #[test]
    fn loopback_has_many_names() {
        for text in ["localhost", "LOCALHOST:1", "a.localhost", "127.9.9.9", "[::1]:7", "localhost."] {
            assert!(
                Authority::parse(text.as_bytes()).is_some_and(|found| found.host.is_loopback()),
                "{text}"
            );
        }
        for text in ["localhost.example", "notlocalhost", ".localhost", "10.0.0.1", "[::2]", ""] {
            assert!(
                !Authority::parse(text.as_bytes()).is_some_and(|found| found.host.is_loopback()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_read_says_the_same_when_it_is_written(text in "[a-zA-Z0-9:.\\[\\]@_-]{0,20}|\\PC{0,20}") {
            if let Some(Authority { host: Host::Name(name), port }) = Authority::parse(text.as_bytes()) {
                let written = port.map_or(name.to_owned(), |port| format!("{name}:{port}"));
                let again = Authority::parse(written.as_bytes());
                // A second dot at the end is part of the name.
                let is_same = again == Some(Authority { host: Host::Name(name), port });
                prop_assert!(is_same || name.ends_with('.'), "{}", text);
            }
        }
    }
}
