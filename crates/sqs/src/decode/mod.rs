//! Bodies into requests: every member read, none interpreted.
//!
//! Texts are borrowed from the body where they hold no escapes. Unknown members are ignored, `null` counts as absent.
//! A form of the Query protocol becomes such a body first ([`query`]).

mod blob;
mod bounded;
mod names;
mod pairs;
pub(crate) mod query;
mod text;

use bytes::Bytes;
use serde::Deserialize;

use crate::error::{Code, WireError};

pub(crate) use blob::Blob;
pub(crate) use bounded::Bounded;
pub(crate) use names::{Names, within};
pub(crate) use pairs::Pairs;
pub(crate) use text::Text;

/// Reads a request's body; an empty one is an empty object.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, WireError> {
    let json: &[u8] = if body.is_empty() { b"{}" } else { body };
    if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(WireError::new(Code::Serialization).saying("The request body is not a JSON object."));
    }
    // Once for the whole body, so that none of its texts is checked again.
    let json = std::str::from_utf8(json).map_err(|error| unreadable(&error))?;
    serde_json::from_str(json).map_err(|error| unreadable(&error))
}

/// The same body without halves of surrogate pairs, if it has any. Such a half is no fault of the JSON: in its place
/// stands a character that no text of a request may hold either, so that only what holds it is refused.
pub(crate) fn without_halves(body: &Bytes) -> Option<Bytes> {
    let json = std::str::from_utf8(body).ok()?;
    let whole = without_lone_surrogates(json);
    (whole != json).then(|| whole.into())
}

/// A JSON text in which the escape of U+FFFF stands for each half of a surrogate pair that has no other half.
fn without_lone_surrogates(json: &str) -> String {
    let (mut whole, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let (kept, length) = match (half(escape), escape.get(6..).and_then(half)) {
            (Some(Half::Leading), Some(Half::Trailing)) => (escape.get(..12), 12),
            (Some(_), _) => (Some("\\uffff"), 6),
            // With what it escapes, which may be a backslash.
            (None, _) => (escape.get(..2), 2),
        };
        whole.push_str(kept.unwrap_or(escape));
        rest = escape.get(length..).unwrap_or_default();
    }
    whole.push_str(rest);
    whole
}

#[derive(PartialEq, Eq)]
enum Half {
    Leading,
    Trailing,
}

/// Which half of a surrogate pair a text begins with, if it is one.
fn half(text: &str) -> Option<Half> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::Leading),
        0xdc00..=0xdfff => Some(Half::Trailing),
        _ => None,
    }
}

fn unreadable(error: &dyn std::error::Error) -> WireError {
    WireError::new(Code::Serialization).saying(format!("The request body cannot be read: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_alone_are_replaced() {
        for (json, expected) in [
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ud83d\ude00"}"#),
            (r#"{"a":"x\uD800y"}"#, r#"{"a":"x\uffffy"}"#),
            (r#"{"a":"\udc00\n"}"#, r#"{"a":"\uffff\n"}"#),
            (r#"{"a":"\ud800\ud83d\ude00"}"#, r#"{"a":"\uffff\ud83d\ude00"}"#),
            (r#"{"a":"\\\ud800"}"#, r#"{"a":"\\\uffff"}"#),
            (r#"{"a":"\\ud800"}"#, r#"{"a":"\\ud800"}"#),
            (r#"{"\udfff":"é\u0041"}"#, r#"{"\uffff":"é\u0041"}"#),
            (r#"{"a":"\ud80"#, r#"{"a":"\ud80"#),
            ("\\", "\\"),
        ] {
            assert_eq!(without_lone_surrogates(json), expected);
        }
    }
}
