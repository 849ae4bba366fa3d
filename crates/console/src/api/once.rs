//! JSON whose objects name each member once. Of two members of one name a reader would have to guess which was meant.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Characters of a name that are said.
const SAID_MAX: usize = 64;

/// A value whose objects, at any depth, name each member once.
#[derive(Debug)]
pub struct MembersOnce(pub Value);

impl<'de> Deserialize<'de> for MembersOnce {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(flag.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(MembersOnce(value)) = from.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if members.contains_key(&name) {
                let said: String = name.chars().take(SAID_MAX).collect();
                return Err(A::Error::custom(format!("{said:?} is given twice")));
            }
            let MembersOnce(value) = from.next_value()?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_ever() {
        for text in [
            "null",
            "true",
            "-7",
            "18446744073709551615",
            "1.5",
            "\"\\u00e9\"",
            "[1,[],{}]",
            r#"{"a":{"a":[{"b":null}]}}"#,
        ] {
            let MembersOnce(read) = serde_json::from_str(text).expect("the text is JSON");
            assert_eq!(read, serde_json::from_str::<Value>(text).expect("the text is JSON"));
        }
    }

    #[test]
    fn a_member_that_is_there_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"b":{"a":1,"\u0061":2}}"#, r#"[{"a":1,"b":2,"a":null}]"#] {
            let refused = serde_json::from_str::<MembersOnce>(text).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|why| why.starts_with("\"a\" is given twice")), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(serde_json::from_str::<MembersOnce>(&deep).is_err(), "depth is bounded");
    }
}
