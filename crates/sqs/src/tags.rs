//! Tags: what may be one, and how many a queue may have.

use crate::decode::{Pairs, Text};
use crate::documents::Tags;
use crate::error::{Code, WireError};

/// Tags of one queue.
const TAGS_MAX: usize = 50;
/// Characters of a key; at least one.
const KEY_LENGTH: usize = 128;
/// Characters of a value; maybe none.
const VALUE_LENGTH: usize = 256;
/// Keys that begin like this, in any case, are the service's own.
const RESERVED: &str = "aws:";

/// Puts tags on a queue of this name; of a key that is there the value becomes another.
pub(crate) fn add(tags: &mut Tags, more: &Pairs<'_>, queue: &str) -> Result<(), WireError> {
    for (key, value) in more.iter() {
        check_key(key)?;
        check_value(value)?;
        if tags.len() >= TAGS_MAX && !tags.contains_key(key) {
            return Err(invalid(format!("Too many tags added for queue {queue}.")));
        }
        tags.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

/// Takes tags off; one that is not there is fine.
pub(crate) fn remove(tags: &mut Tags, keys: &[Text<'_>]) -> Result<(), WireError> {
    if keys.is_empty() {
        return Err(key_length());
    }
    for key in keys {
        check_length(key)?;
        tags.remove(&**key);
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), WireError> {
    check_length(key)?;
    let is_reserved = key.get(..RESERVED.len()).is_some_and(|start| start.eq_ignore_ascii_case(RESERVED));
    if is_reserved {
        return Err(invalid("Tag keys cannot start with 'aws:': this prefix is reserved."));
    }
    check_characters(key)
}

fn check_length(key: &str) -> Result<(), WireError> {
    if (1..=KEY_LENGTH).contains(&key.chars().take(KEY_LENGTH + 1).count()) {
        Ok(())
    } else {
        Err(key_length())
    }
}

fn check_value(value: &str) -> Result<(), WireError> {
    if value.chars().take(VALUE_LENGTH + 1).count() > VALUE_LENGTH {
        return Err(invalid("Tag values must be between 0 and 256 characters in length."));
    }
    check_characters(value)
}

/// A reply in XML could not carry these.
fn check_characters(text: &str) -> Result<(), WireError> {
    if text.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(invalid("Tag keys and values cannot contain control characters."));
    }
    Ok(())
}

fn key_length() -> WireError {
    invalid("Tag keys must be between 1 and 128 characters in length.")
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> WireError {
    WireError::new(Code::InvalidParameterValue).saying(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn pairs<'a>(pairs: &[(&'a str, &'a str)]) -> Pairs<'a> {
        let text = |text: &'a str| Text(Cow::Borrowed(text));
        Pairs(pairs.iter().map(|(key, value)| (text(key), text(value))).collect())
    }

    fn added(key: &str, value: &str) -> Result<Tags, WireError> {
        let mut tags = Tags::new();
        add(&mut tags, &pairs(&[(key, value)]), "q").map(|()| tags)
    }

    // Spec 10: key 1-128, value 0-256, the empty value allowed, aws: reserved, case-sensitive.
    #[test]
    fn keys_and_values_hold_at_their_edges() {
        assert!(added(&"ä".repeat(128), &"ä".repeat(256)).is_ok());
        assert!(added("k", "").is_ok() && added("aws", "").is_ok() && added("xaws:", "").is_ok());
        for (key, value) in [
            ("", ""),
            (&"k".repeat(129), ""),
            ("k", &"v".repeat(257)),
            ("aws:x", ""),
            ("AWS:x", ""),
            ("\n", ""),
        ] {
            assert!(added(key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn a_queue_has_at_most_fifty() {
        let mut tags: Tags = (0..50).map(|number| (format!("k{number}"), String::new())).collect();
        assert_eq!(add(&mut tags, &pairs(&[("k7", "new"), ("k8", "new")]), "orders"), Ok(()));
        let error = add(&mut tags, &pairs(&[("k50", "")]), "orders").expect_err("it is the fifty-first");
        assert_eq!(error.message(), "Too many tags added for queue orders.");
        assert_eq!(tags.get("k7").map(String::as_str), Some("new"));
    }
}
