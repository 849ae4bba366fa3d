//! JSON as it was written: members in their order, values in their own text.

use std::fmt;

use kew_http::json;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object, in order.
pub(super) struct Members(pub(super) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A value without the blanks between its parts.
pub(super) fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for char in text.chars() {
        if in_string || !char.is_ascii_whitespace() {
            out.push(char);
        }
        match char {
            '"' if !escaped => in_string = !in_string,
            '\\' if in_string && !escaped => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
    out
}

/// A text as a JSON string.
pub(super) fn string(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    json::push_string(&mut bytes, text);
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_go_between_parts_and_stay_in_strings() {
        let text = " { \"a b\" : [ 1 , \" \\\" \\\\\" , 1.0 ] }\n";
        assert_eq!(compact(text), "{\"a b\":[1,\" \\\" \\\\\",1.0]}");
    }
}
