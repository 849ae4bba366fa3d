//! Where a webhook is: an absolute `http` or `https` address, checked when it is written.

use std::fmt;

use http::Uri;
use http::uri::Authority;
use thiserror::Error;

/// The most characters of a webhook's address.
const URL_CHARACTERS_MAX: usize = 2_048;

/// A webhook's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebhookUrl {
    /// Absolute, `http` or `https`, with a host and without a user.
    uri: Uri,
    /// As it was written.
    text: Box<str>,
}

/// An address that no webhook can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum UrlError {
    /// It is too long.
    #[error("the address of a webhook has at most {URL_CHARACTERS_MAX} characters")]
    TooLong,
    /// It is no address.
    #[error("the address of a webhook looks like https://host/path")]
    Malformed,
    /// Its scheme is another one.
    #[error("the address of a webhook begins with http:// or https://")]
    Scheme,
    /// It holds a user or a password.
    #[error("the address of a webhook holds no user and no password")]
    UserInfo,
}

impl WebhookUrl {
    /// The address in `text`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_CHARACTERS_MAX {
            return Err(UrlError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        if text.contains('#') {
            return Err(UrlError::Malformed);
        }
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(_) => return Err(UrlError::Scheme),
            None => return Err(UrlError::Malformed),
        }
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::UserInfo);
        }
        if authority.host().is_empty() || !has_sound_port(authority) {
            return Err(UrlError::Malformed);
        }
        Ok(Self { uri, text: text.into() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its parts.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Whether it is encrypted.
    pub fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

/// The parser takes any digits for a port.
fn has_sound_port(authority: &Authority) -> bool {
    let behind_host = authority.as_str().get(authority.host().len()..).unwrap_or_default();
    match behind_host.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok_and(|port| port != 0),
        None => behind_host.is_empty(),
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_http_are_webhooks() {
        for text in [
            "http://127.0.0.1:8080/hook",
            "https://example.com",
            "https://example.com/a?b=c",
            "http://[::1]:9/x",
            "http://localhost",
            "HTTP://example.com/",
        ] {
            assert_eq!(WebhookUrl::parse(text).expect(text).as_str(), text);
        }
    }

    #[test]
    fn what_is_no_address_of_http_is_refused() {
        let long = format!("http://a/{}", "x".repeat(URL_CHARACTERS_MAX));
        for (text, error) in [
            ("", UrlError::Malformed),
            ("/hook", UrlError::Malformed),
            ("example.com:80", UrlError::Malformed),
            ("http://", UrlError::Malformed),
            ("http://a b/", UrlError::Malformed),
            ("http://a:0/", UrlError::Malformed),
            ("http://a:99999/", UrlError::Malformed),
            ("http://a/#part", UrlError::Malformed),
            ("ftp://a/", UrlError::Scheme),
            ("http://user:word@a/", UrlError::UserInfo),
            (long.as_str(), UrlError::TooLong),
        ] {
            assert_eq!(WebhookUrl::parse(text).expect_err(text), error, "{text}");
        }
    }
}
