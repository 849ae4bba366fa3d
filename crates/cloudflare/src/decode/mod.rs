//! Bodies: JSON whatever the Content-Type says, read into checked requests.
//!
//! Members are kept as slices of the body until it is known what they should be, so that each has its own error and
//! no small body becomes large in memory. A member that is `null` is one that was left out.

mod bounded;
pub(crate) mod consumer;
pub(crate) mod message;
pub(crate) mod queue;
pub(crate) mod settle;

use kew_push::Limit;
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

pub(crate) use bounded::Bounded;

use crate::error::{Code, WireError};

/// The object in a body or a part of one.
pub(crate) fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, WireError> {
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        // A list would be read as the members of an object in their order.
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        let not_an_object = "Request body does not match the schema: an object was expected";
        return Err(if is_json {
            WireError::new(Code::Schema).saying(not_an_object)
        } else {
            Code::NotJson.into()
        });
    }
    serde_json::from_slice(json).map_err(|error| {
        if error.is_data() {
            let text = format!("Request body does not match the schema: {}", mismatch(&error));
            WireError::new(Code::Schema).saying(text)
        } else {
            WireError::new(Code::NotJson).saying(format!("Request body is not valid JSON: {error}"))
        }
    })
}

/// What is wrong with the form of a body, without its values: they may be secrets.
pub(crate) fn mismatch(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None if text.starts_with("missing field") || text.starts_with("duplicate field") => text,
        None => format!("at line {} column {}", error.line(), error.column()),
    }
}

/// The same where no body is an empty object.
pub(crate) fn object_if_any<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, WireError> {
    let is_empty = json.iter().all(u8::is_ascii_whitespace);
    object(if is_empty { b"{}" } else { json })
}

/// A member's text.
pub(crate) fn text(json: &RawValue) -> Option<String> {
    serde_json::from_str(json.get()).ok()
}

/// A member that says true or false.
pub(crate) fn truth(json: &RawValue) -> Option<bool> {
    serde_json::from_str(json.get()).ok()
}

/// A member's whole number; `5.0` is one.
pub(crate) fn whole(json: &RawValue) -> Option<i64> {
    let number: Number = serde_json::from_str(json.get()).ok()?;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    // Beyond this, not every whole number has a float of its own.
    (float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0).then_some(float as i64)
}

/// A setting within its bounds, if it is given.
pub(crate) fn setting(limit: Limit, given: Option<&RawValue>, code: Code) -> Result<Option<u32>, WireError> {
    let Some(given) = given else { return Ok(None) };
    let number = whole(given).and_then(|number| limit.check(Some(number)).ok());
    let refusal = || {
        let Limit { name, min, max, .. } = limit;
        WireError::new(code).saying(format!("{name} must be a whole number from {min} to {max}"))
    };
    number.map(Some).ok_or_else(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, Debug)]
    struct Sample<'a> {
        #[serde(borrow)]
        a: Option<&'a RawValue>,
    }

    fn sample(json: &[u8]) -> Result<Option<&str>, Code> {
        let sample: Sample<'_> = object(json).map_err(|error| error.code())?;
        Ok(sample.a.map(RawValue::get))
    }

    #[test]
    fn only_objects_are_read() {
        assert_eq!(sample(br#" {"a": [1, 2] , "b": 3}"#), Ok(Some("[1, 2]")));
        assert_eq!(sample(br#"{"a":null}"#), Ok(None));
        assert_eq!(sample(b"{}"), Ok(None));
        for json in [&b"[]"[..], b"[1]", b"null", b"7", b"\"{}\"", br#"{"a":1,"a":2}"#] {
            assert_eq!(sample(json), Err(Code::Schema), "{}", String::from_utf8_lossy(json));
        }
        for json in [&b""[..], b"{", b"a=1", b"{\"a\":}", b"{} x", b"{\"a\":\"\xff\"}"] {
            assert_eq!(sample(json), Err(Code::NotJson), "{}", String::from_utf8_lossy(json));
        }
        assert!(object_if_any::<Sample<'_>>(b" \n").is_ok());
    }

    #[test]
    fn a_mismatch_is_reported_without_its_value() {
        #[derive(Deserialize, Debug)]
        #[expect(dead_code, reason = "what is read is of no interest")]
        struct Secret {
            text: String,
            count: u8,
        }
        let told = |json: &str| object::<Secret>(json.as_bytes()).expect_err(json).message().to_owned();
        for (json, expected) in [
            (r#"{"text":["s3cret"],"count":1}"#, "expected a string at line 1 column"),
            (r#"{"text":"a","count":"s3cret, expected s3cret"}"#, "expected u8 at line 1 column"),
            (r#"{"count":1}"#, "missing field `text`"),
            (r#"{"text":"s3cret","text":"s3cret"}"#, "duplicate field `text`"),
            (r#"{"text":"s3cret","count":s3cret}"#, "not valid JSON"),
        ] {
            let told = told(json);
            assert!(told.contains(expected) && !told.contains("s3cret"), "{json}: {told}");
        }
    }

    #[test]
    fn whole_numbers_are_whole() {
        let number = |text: &str| {
            let json = RawValue::from_string(text.to_owned()).expect("the text is JSON");
            whole(&json)
        };
        assert_eq!(
            (number("5"), number("-1"), number("5.0"), number("1e2")),
            (Some(5), Some(-1), Some(5), Some(100))
        );
        for text in ["1.5", "\"5\"", "true", "1e300", "[]"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
