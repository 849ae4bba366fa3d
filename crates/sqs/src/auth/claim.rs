//! What a request says of its own signature, in a header or in its URL; nothing of it is believed yet.

use std::borrow::Cow;

use kew_core::Timestamp;
use kew_http::date::{parse_http_date, parse_iso_basic};
use kew_http::form::{self, Pair};
use kew_http::header::AUTHORIZATION;
use kew_http::{Headers, Request};

use crate::error::{Code, WireError};
use crate::limits::PAIRS_MAX;

pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A signature and what it claims to cover.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) credential: &'a str,
    /// The names of the signed headers, with semicolons between them.
    pub(super) signed_headers: &'a str,
    pub(super) signature: &'a str,
    /// When it was signed, to the second.
    pub(super) date: Timestamp,
    /// How many seconds a signed URL is good for; none is a signed header.
    pub(super) expires: Option<u64>,
}

impl<'a> Claim<'a> {
    /// The claim a request makes, if it makes one and only one. `query` are the pairs of its query string.
    pub(super) fn of(request: &'a Request, query: &'a [Pair<'a>]) -> Result<Self, WireError> {
        let mut headers = request.headers.get_all("authorization");
        match (headers.next(), has(query, "X-Amz-Algorithm") || has(query, "X-Amz-Signature")) {
            (Some(_), true) => Err(incomplete(
                "Only one of an Authorization header and query-string authentication parameters may be given.",
            )),
            (Some(_), false) if headers.next().is_some() => {
                Err(incomplete("More than one Authorization header was given."))
            }
            (Some(header), false) => {
                let header =
                    header.text().ok_or_else(|| incomplete("The Authorization header is not text."))?;
                Self::of_header(header, &request.headers)
            }
            (None, true) => Self::of_query(query),
            (None, false) if has(query, "AWSAccessKeyId") => {
                let text = "Only requests signed with AWS4-HMAC-SHA256 can be checked.";
                Err(WireError::new(Code::InvalidSecurity).saying(text))
            }
            (None, false) => Err(Code::MissingAuthenticationToken.into()),
        }
    }

    fn of_header(header: &'a str, headers: &Headers) -> Result<Self, WireError> {
        let (scheme, rest) = header.trim().split_once([' ', '\t']).unwrap_or((header.trim(), ""));
        if scheme != ALGORITHM {
            return Err(incomplete(format!("The Authorization header must begin with '{ALGORITHM}'.")));
        }
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                incomplete("The Authorization header has a part that is not a key=value pair.")
            })?;
            let place = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(incomplete(format!("The Authorization header names {name} twice.")));
            }
        }
        let need = |name: &str| incomplete(format!("Authorization header requires '{name}' parameter."));
        Ok(Self {
            credential: credential.ok_or_else(|| need("Credential"))?,
            signed_headers: signed_headers.ok_or_else(|| need("SignedHeaders"))?,
            signature: signature.ok_or_else(|| need("Signature"))?,
            date: header_date(headers)?,
            expires: None,
        })
    }

    fn of_query(query: &'a [Pair<'a>]) -> Result<Self, WireError> {
        if one(query, "X-Amz-Algorithm")? != ALGORITHM {
            return Err(incomplete(format!("X-Amz-Algorithm must be '{ALGORITHM}'.")));
        }
        let date = one(query, "X-Amz-Date")?;
        let expires = one(query, "X-Amz-Expires")?;
        let is_number = expires.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = expires.parse().ok().filter(|seconds| is_number && (1..=604_800).contains(seconds));
        Ok(Self {
            credential: one(query, "X-Amz-Credential")?,
            signed_headers: one(query, "X-Amz-SignedHeaders")?,
            signature: one(query, "X-Amz-Signature")?,
            date: parse_iso_basic(date).ok_or_else(|| no_date(date))?,
            expires: Some(
                seconds.ok_or_else(|| {
                    incomplete("X-Amz-Expires must be a number of seconds from 1 to 604800.")
                })?,
            ),
        })
    }
}

/// `X-Amz-Date`, else `Date`.
fn header_date(headers: &Headers) -> Result<Timestamp, WireError> {
    let mut given = headers.get_all("x-amz-date");
    if let Some(date) = given.next() {
        let text = date.text().unwrap_or_default();
        let once = given.next().is_none();
        return parse_iso_basic(text.trim()).filter(|_| once).ok_or_else(|| no_date(text));
    }
    let Some(date) = headers.get("date") else {
        return Err(incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.",
        ));
    };
    let text = date.text().unwrap_or_default().trim();
    parse_iso_basic(text).or_else(|| parse_http_date(text)).ok_or_else(|| no_date(text))
}

fn no_date(text: &str) -> WireError {
    let legible: String = text.chars().take(64).collect();
    incomplete(format!("Date must be in ISO-8601 'basic format'. Got '{legible}'."))
}

pub(super) fn incomplete(text: impl Into<Cow<'static, str>>) -> WireError {
    WireError::new(Code::IncompleteSignature).saying(text)
}

fn has(query: &[Pair<'_>], name: &str) -> bool {
    form::first(query, name).is_some()
}

/// The one value of a parameter.
fn one<'a>(query: &'a [Pair<'a>], name: &'static str) -> Result<&'a str, WireError> {
    let mut values = query.iter().filter(|pair| pair.0 == name).map(|pair| &*pair.1);
    let value = values.next().ok_or_else(|| {
        incomplete(format!(
            "AWS query-string parameters must include '{name}'. Re-examine the query-string parameters."
        ))
    })?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(incomplete(format!("AWS query-string parameters name '{name}' twice."))),
    }
}

/// The credential a request names, in whatever shape the rest of it is.
pub(super) fn credential(request: &Request) -> Option<Cow<'_, str>> {
    if let Some(header) = request.headers.get(AUTHORIZATION) {
        return credential_of(header.as_bytes()).map(Cow::Borrowed);
    }
    let query = form::pairs(request.uri.query()?.as_bytes(), PAIRS_MAX).ok()?;
    query.into_iter().find(|pair| pair.0 == "X-Amz-Credential").map(|pair| pair.1)
}

/// The credential in an `Authorization` header. By bytes: every request has one, and the most of it is signature.
fn credential_of(header: &[u8]) -> Option<&str> {
    let usual = header.strip_prefix(ALGORITHM.as_bytes()).and_then(|rest| rest.strip_prefix(b" Credential="));
    let rest = match usual {
        Some(rest) => rest,
        None => std::str::from_utf8(header).ok()?.split_once("Credential=")?.1.as_bytes(),
    };
    let end = memchr::memchr2(b',', b' ', rest).unwrap_or(rest.len());
    std::str::from_utf8(&rest[..end]).ok()
}
