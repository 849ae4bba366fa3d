//! JSON as it was sent, compared without rounding: numbers of any size, texts with lone surrogates, any depth.
//!
//! Bodies are taken as JSON by their grammar alone, so a filter must judge all that the grammar allows. Values are read
//! one level at a time; what lies beside the path is passed over.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// Levels of a value that is asked for.
const DEPTH_MAX: usize = 32;

/// One step into a JSON value.
#[derive(PartialEq, Debug)]
pub(super) enum Step {
    Member(String),
    Index(usize),
}

/// A value that is asked for.
#[derive(PartialEq, Debug)]
pub(super) enum Asked {
    Null,
    Flag(bool),
    Number(Decimal),
    Text(Vec<u8>),
    List(Vec<Asked>),
    Object(Vec<(Vec<u8>, Asked)>),
}

impl Asked {
    /// A JSON value, or, where it is none, the text itself. `None` for one of too many levels.
    pub(super) fn read(text: &str) -> Option<Self> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Self::of(raw, DEPTH_MAX),
            Err(_) => Some(Self::Text(text.as_bytes().to_vec())),
        }
    }

    fn of(raw: &RawValue, depth: usize) -> Option<Self> {
        let text = raw.get();
        Some(match text.as_bytes().first()? {
            b'n' => Self::Null,
            b't' => Self::Flag(true),
            b'f' => Self::Flag(false),
            b'"' => Self::Text(bytes_of(raw)?),
            b'[' => {
                let below = depth.checked_sub(1)?;
                let list: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::List(list.into_iter().map(|raw| Self::of(raw, below)).collect::<Option<_>>()?)
            }
            b'{' => {
                let below = depth.checked_sub(1)?;
                let members = members(raw)?.into_iter();
                let asked = members.map(|(name, raw)| Some((name, Self::of(raw, below)?)));
                Self::Object(asked.collect::<Option<_>>()?)
            }
            _ => Self::Number(Decimal::read(text)),
        })
    }

    /// Whether a value is this one; 17 and 17.0 are one number, and members have no order.
    fn is(&self, raw: &RawValue) -> bool {
        let (text, first) = (raw.get(), raw.get().as_bytes().first());
        match self {
            Self::Null => text == "null",
            Self::Flag(flag) => text == if *flag { "true" } else { "false" },
            Self::Number(number) => {
                first.is_some_and(|byte| matches!(byte, b'-' | b'0'..=b'9')) && Decimal::read(text) == *number
            }
            Self::Text(asked) => first == Some(&b'"') && bytes_of(raw).is_some_and(|found| found == *asked),
            Self::List(asked) => serde_json::from_str::<Vec<&RawValue>>(text).is_ok_and(|found| {
                found.len() == asked.len() && asked.iter().zip(found).all(|(asked, found)| asked.is(found))
            }),
            Self::Object(asked) => members(raw).is_some_and(|found| {
                found.len() == asked.len()
                    && asked.iter().all(|(name, asked)| found.get(name).is_some_and(|found| asked.is(found)))
            }),
        }
    }
}

/// Whether a body has a value at the end of a path. What is no JSON has none.
pub(super) fn has(body: &[u8], path: &[Step], asked: &Asked) -> bool {
    let Ok(mut value) = serde_json::from_slice::<&RawValue>(body) else { return false };
    for step in path {
        let inner = match step {
            Step::Member(name) => members(value).and_then(|members| members.get(name.as_bytes()).copied()),
            Step::Index(index) => serde_json::from_str::<Vec<&RawValue>>(value.get())
                .ok()
                .and_then(|list| list.get(*index).copied()),
        };
        let Some(inner) = inner else { return false };
        value = inner;
    }
    asked.is(value)
}

/// The members of an object; of those with one name the last.
fn members(raw: &RawValue) -> Option<HashMap<Vec<u8>, &RawValue>> {
    let members: HashMap<Bytes, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    Some(members.into_iter().map(|(name, value)| (name.0, value)).collect())
}

fn bytes_of(raw: &RawValue) -> Option<Vec<u8>> {
    serde_json::from_str::<Bytes>(raw.get()).ok().map(|text| text.0)
}

/// A text of JSON, whose escapes may be half a character: then it is no UTF-8.
#[derive(PartialEq, Eq, Hash)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Taken;

        impl Visitor<'_> for Taken {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Ok(Bytes(text.as_bytes().to_vec()))
            }
        }

        from.deserialize_bytes(Taken)
    }
}

/// A number as written: its digits without those that say nothing, and the power of ten of the last one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: String,
    /// `None` where it does not fit: such numbers are compared by their digits alone.
    power: Option<i64>,
}

impl Decimal {
    /// A number in the grammar of JSON.
    fn read(text: &str) -> Self {
        let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        if digits.is_empty() {
            return Self { is_negative: false, digits: String::new(), power: Some(0) };
        }
        let dropped = all.len() - all.trim_end_matches('0').len();
        let shift = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        let power = power.parse::<i64>().ok();
        let power = power
            .and_then(|power| power.checked_sub(shift(fraction.len())))
            .and_then(|power| power.checked_add(shift(dropped)));
        Self { is_negative, digits: digits.to_owned(), power }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(body: &str, asked: &str) -> bool {
        has(body.as_bytes(), &[], &Asked::read(asked).expect("the value has few levels"))
    }

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        for (body, asked, expected) in [
            ("17", "17.0", true),
            ("1700", "17e2", true),
            ("0.5", "5E-1", true),
            ("-0.0", "0", true),
            ("-1", "1", false),
            ("10", "1", false),
            ("1e400", "1e400", true),
            ("10e399", "1e+400", true),
            ("1e400", "1e401", false),
            ("18446744073709551616", "18446744073709551616", true),
            ("18446744073709551616", "18446744073709551617", false),
            ("1e99999999999999999999", "1e400", false),
            ("\"17\"", "17", false),
            ("17", "\"17\"", false),
        ] {
            assert_eq!(is(body, asked), expected, "{body} {asked}");
        }
    }

    #[test]
    fn what_lies_beside_the_path_harms_nothing() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for beside in ["1e400", &deep, r#""\ud800""#, r#"{"\udc00":1}"#] {
            let body = format!(r#"{{"beside":{beside},"id":17}}"#);
            let path = [Step::Member("id".to_owned())];
            let fits =
                |asked| has(body.as_bytes(), &path, &Asked::read(asked).expect("the asked value is JSON"));
            assert!(fits("17") && !fits("18"), "{beside}");
        }
        let path = [Step::Member("a".to_owned()), Step::Index(1)];
        assert!(has(
            br#"{"a":[1e999,"\ud800\u0041",2],"\ud800":1}"#,
            &path,
            &Asked::Text(b"\xed\xa0\x80A".to_vec())
        ));
    }

    #[test]
    fn lists_and_objects_are_compared_whole() {
        for (body, asked, expected) in [
            (r#"{"b":[1,{"c":null}],"a":1.0}"#, r#"{"a":1,"b":[1,{"c":null}]}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1,2]", "[1]", false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, true),
            ("[]", "{}", false),
            ("null", "null", true),
            ("\"null\"", "null", false),
            ("no json", "no json", false),
            ("\"é\"", "é", true),
            (r#""\u00e9""#, "\"é\"", true),
        ] {
            assert_eq!(is(body, asked), expected, "{body} {asked}");
        }
        assert_eq!(Asked::read(&format!("{}{}", "[".repeat(33), "]".repeat(33))), None);
    }
}
