//! SharedKey and SharedKeyLite: a request signed with a key of its account.
//!
//! Clients differ in three places: whether the Date line is signed beside `x-ms-date`, how header names with `-` and
//! `_` are sorted, and how a secondary endpoint is named. The common reading is tried first, the others only when it
//! fails.

use std::cmp::Ordering;

use kew_http::{FieldValue, Headers};

use super::is_signed;
use crate::Context;
use crate::error::WireError;
use crate::target::Style;
use crate::version;

/// The first version in which the length of an empty body is not signed.
const WITHOUT_ZERO: &str = "2015-02-21";

/// How much of a request is signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// SharedKey.
    Full,
    /// SharedKeyLite.
    Lite,
}

/// One reading of what is signed.
#[derive(Clone, Copy)]
struct Reading {
    date_beside: bool,
    by_collation: bool,
    as_primary: bool,
}

/// Refuses a signature that none of the account's keys made.
pub(super) fn check(cx: &Context<'_>, kind: Kind, signature: &str) -> Result<(), WireError> {
    let common = Reading { date_beside: false, by_collation: false, as_primary: false };
    let signs = |reading| is_signed(cx.account, [text(cx, kind, reading)], signature);
    if signs(common) {
        return Ok(());
    }
    let others = (1..8_u8).map(|bits| Reading {
        date_beside: bits & 1 != 0,
        by_collation: bits & 2 != 0,
        as_primary: bits & 4 != 0,
    });
    let makes_sense = |reading: &Reading| {
        (!reading.as_primary || cx.target.is_secondary)
            && (!reading.date_beside || cx.request.headers.contains("date"))
    };
    if others.filter(makes_sense).any(signs) {
        return Ok(());
    }
    let signed = text(cx, kind, common).replace('\n', "\\n");
    let detail = format!(
        "The MAC signature found in the HTTP request is not the same as any computed signature. Server used following string to sign: '{signed}'."
    );
    Err(WireError::not_authentic(detail))
}

fn text(cx: &Context<'_>, kind: Kind, reading: Reading) -> String {
    let headers = &cx.request.headers;
    let header = |name: &str| joined(headers, name);
    let date =
        if headers.contains("x-ms-date") && !reading.date_beside { String::new() } else { header("date") };
    let mut text = String::with_capacity(512);
    text.push_str(cx.request.method.as_str());
    text.push('\n');
    let signs_zero = version::text(cx.request) < WITHOUT_ZERO;
    let lines: &[&str] = match kind {
        Kind::Full => &[
            "content-encoding",
            "content-language",
            "content-length",
            "content-md5",
            "content-type",
            "date",
            "if-modified-since",
            "if-match",
            "if-none-match",
            "if-unmodified-since",
            "range",
        ],
        Kind::Lite => &["content-md5", "content-type", "date"],
    };
    for name in lines {
        match *name {
            "date" => text.push_str(&date),
            "content-length" => {
                let length = header("content-length");
                text.push_str(if length == "0" && !signs_zero { "" } else { &length });
            }
            name => text.push_str(&header(name)),
        }
        text.push('\n');
    }
    push_headers(&mut text, headers, reading);
    push_resource(&mut text, cx, kind, reading);
    text
}

/// A header's value or values; absent is empty.
fn joined(headers: &Headers, name: &str) -> String {
    let values: Vec<&str> = headers.get_all(name).filter_map(FieldValue::text).collect();
    values.join(",")
}

/// Every header of the service's own, by name; blanks around a value go, blanks over a line's end become one.
fn push_headers(text: &mut String, headers: &Headers, reading: Reading) {
    let mut names: Vec<String> = headers.names_from("x-ms-").map(str::to_ascii_lowercase).collect();
    if reading.by_collation {
        names.sort_unstable_by(|one, other| collate(one, other));
    } else {
        names.sort_unstable();
    }
    for name in names {
        text.push_str(&name);
        text.push(':');
        text.push_str(joined(headers, &name).trim());
        text.push('\n');
    }
}

/// Letters and digits first; hyphens and underscores only between names that are equal without them.
fn collate(one: &str, other: &str) -> Ordering {
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    letters(one).cmp(&letters(other)).then_with(|| one.cmp(other))
}

/// The path as it was sent, and the parameters.
fn push_resource(text: &mut String, cx: &Context<'_>, kind: Kind, reading: Reading) {
    let path = cx.request.uri.path();
    let secondary = format!("/{}-secondary", cx.account.name);
    text.push('/');
    text.push_str(&cx.account.name);
    match path.strip_prefix(&secondary) {
        Some(rest) if reading.as_primary && cx.target.style == Style::Path => {
            text.push('/');
            text.push_str(&cx.account.name);
            text.push_str(rest);
        }
        _ => text.push_str(path),
    }
    if kind == Kind::Lite {
        if let Some(comp) = cx.params.text("comp") {
            text.push_str("?comp=");
            text.push_str(comp);
        }
        return;
    }
    let mut last = None;
    for (name, value) in cx.params.sorted() {
        if last == Some(name) {
            text.push(',');
        } else {
            text.push('\n');
            text.push_str(name);
            text.push(':');
        }
        text.push_str(value);
        last = Some(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyphens_weigh_less_than_letters_in_the_other_order() {
        assert_eq!(collate("x-ms-meta-a_b", "x-ms-meta-aa"), Ordering::Greater);
        assert_eq!(collate("x-ms-meta-a-b", "x-ms-meta-a_b"), Ordering::Less);
        assert_eq!("x-ms-meta-a_b".cmp("x-ms-meta-aa"), Ordering::Less);
    }
}
