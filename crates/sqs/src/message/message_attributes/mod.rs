//! The attributes people put on messages: as a request gives them, checked, and brought into their one form.
//!
//! [`rules`] says what a name, a type and a value may be, [`encoded`] is the form they are hashed and stored in,
//! [`filter`] which of them a receive wants back.

mod encoded;
mod filter;
mod number;
mod rules;

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::decode::{Blob, Text};
use crate::error::{Code, WireError};
use crate::message::hash::Hash;

pub(crate) use encoded::{Attribute, Attributes, Encoded, Value};
pub(crate) use filter::Filter;
pub(crate) use rules::TRACE_HEADER_BYTES;

/// Attributes of one message.
pub(crate) const COUNT_MAX: usize = 10;

/// Attributes as they come: in any order, unchecked. The first ten names are kept, further ones are counted.
#[derive(Debug, Default)]
pub(crate) struct Given<'a> {
    kept: Vec<(Text<'a>, GivenValue<'a>)>,
    beyond: usize,
}

/// A value as it comes.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "PascalCase")]
struct GivenValue<'a> {
    #[serde(borrow)]
    data_type: Option<Text<'a>>,
    #[serde(borrow)]
    string_value: Option<Text<'a>>,
    binary_value: Option<Blob>,
}

impl Given<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Bytes of names, types and values: what counts towards a message's size.
    pub(crate) fn size(&self) -> usize {
        let of_one = |(name, value): &(Text<'_>, GivenValue<'_>)| {
            let text = |text: &Option<Text<'_>>| text.as_ref().map_or(0, |text| text.len());
            let bytes = value.binary_value.as_ref().map_or(0, |blob| blob.0.len());
            name.len() + text(&value.data_type) + text(&value.string_value) + bytes
        };
        self.kept.iter().map(of_one).sum()
    }

    /// Checks them all and brings them into their one form, sorted by name.
    pub(crate) fn encode(&self) -> Result<Encoded, WireError> {
        if self.beyond > 0 {
            let count = self.kept.len() + self.beyond;
            let text =
                format!("Number of message attributes [{count}] exceeds the allowed maximum [{COUNT_MAX}].");
            return Err(WireError::new(Code::InvalidParameterValue).saying(text));
        }
        let mut sorted: Vec<&(Text<'_>, GivenValue<'_>)> = self.kept.iter().collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        let mut encoded = Encoded::with_capacity(self.size() + 13 * sorted.len());
        for (name, value) in sorted {
            rules::check_name(name)?;
            let (data_type, checked) = value.check(name)?;
            encoded.push(name, data_type, checked);
        }
        Ok(encoded)
    }

    /// The one system attribute there is, a trace header.
    pub(crate) fn trace_header(&self) -> Result<Option<&str>, WireError> {
        let mut trace = None;
        for (name, value) in &self.kept {
            trace = Some(rules::trace_header(
                name,
                value.data_type.as_deref(),
                value.string_value.as_deref(),
                value.binary_value.is_some(),
            )?);
        }
        Ok(trace)
    }
}

/// Checks one attribute; what is empty counts as not given.
pub(crate) fn check_attribute<'a>(
    name: &str,
    data_type: &str,
    text: Option<&'a str>,
    binary: Option<&'a [u8]>,
) -> Result<Value<'a>, WireError> {
    rules::check_name(name)?;
    let text = text.filter(|text| !text.is_empty());
    rules::check_value(name, data_type, text, binary.filter(|bytes| !bytes.is_empty()))
}

/// The hash of a trace header: made as if it were the one attribute.
pub(crate) fn trace_hash(trace: &str) -> Hash {
    let mut encoded = Encoded::default();
    encoded.push(rules::TRACE_HEADER, "String", Value::Text(trace));
    encoded.hash()
}

impl GivenValue<'_> {
    fn check(&self, name: &str) -> Result<(&str, Value<'_>), WireError> {
        let data_type = self.data_type.as_deref().unwrap_or_default();
        let text = self.string_value.as_deref().filter(|text| !text.is_empty());
        let bytes =
            self.binary_value.as_ref().map(|blob| blob.0.as_slice()).filter(|bytes| !bytes.is_empty());
        Ok((data_type, rules::check_value(name, data_type, text, bytes)?))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Given<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Maps;

        impl<'de> Visitor<'de> for Maps {
            type Value = Given<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Given<'de>, A::Error> {
                let mut given = Given::default();
                while let Some(name) = entries.next_key::<Text<'de>>()? {
                    // Of a name that comes twice the last value counts, as in any JSON object.
                    let known = given.kept.iter().position(|(known, _)| **known == *name);
                    if known.is_none() && given.kept.len() == COUNT_MAX {
                        let _ignored = entries.next_value::<IgnoredAny>()?;
                        given.beyond += 1;
                        continue;
                    }
                    if let Some(place) = known {
                        given.kept.remove(place);
                    }
                    if let Some(value) = entries.next_value::<Option<GivenValue<'de>>>()? {
                        given.kept.push((name, value));
                    }
                }
                Ok(given)
            }
        }

        deserializer.deserialize_map(Maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(json: &str) -> Given<'_> {
        serde_json::from_str(json).expect("a JSON object of attributes is decoded")
    }

    #[test]
    fn attributes_are_sorted_by_name_and_hashed() {
        // [rec] spec 7a: the check values of MD5OfMessageAttributes.
        for (json, hash) in [
            (
                r#"{"timestamp":{"DataType":"Number","StringValue":"1493147359900"}}"#,
                "235c5c510d26fb653d073faed50ae77c",
            ),
            (r#"{"k":{"DataType":"String","StringValue":"x"}}"#, "a45daa70926828a2f0a1db3418e6feb4"),
        ] {
            let encoded = given(json).encode().expect("the attributes of this table are allowed");
            assert_eq!(kew_http::hex::hash(&encoded.hash()), hash.as_bytes(), "{json}");
        }
        let one =
            r#"{"b":{"DataType":"Binary","BinaryValue":"/w=="},"a":{"DataType":"String","StringValue":"x"}}"#;
        let other =
            r#"{"a":{"DataType":"String","StringValue":"x"},"b":{"DataType":"Binary","BinaryValue":"/w=="}}"#;
        let hash = |json: &str| {
            given(json).encode().expect("attributes with legal names and types are encoded").hash()
        };
        assert_eq!(hash(one), hash(other));
        assert_eq!(given(one).size(), 2 + 6 + 1 + 6 + 1);
    }

    #[test]
    fn eleven_attributes_are_one_too_many_and_null_is_none() {
        let map = |names: usize| {
            let one = |number| format!(r#""a{number}":{{"DataType":"String","StringValue":"x"}}"#);
            format!("{{{}}}", (0..names).map(one).collect::<Vec<_>>().join(","))
        };
        assert!(given(&map(10)).encode().is_ok());
        let refused = given(&map(11)).encode().expect_err("they are too many");
        assert_eq!(refused.message(), "Number of message attributes [11] exceeds the allowed maximum [10].");
        assert!(given(r#"{"a":null}"#).is_empty());
    }

    #[test]
    fn of_a_name_that_comes_twice_the_last_value_counts() {
        let json =
            r#"{"a":{"DataType":"String","StringValue":"x"},"a":{"DataType":"String","StringValue":"yz"}}"#;
        assert_eq!(given(json).size(), 1 + 6 + 2);
    }
}
