//! Maps of texts, in the order they were written.
//!
//! The order matters: of several faults in one request the first is told. Of a name that comes twice the last value
//! counts, which is what applying pairs one after the other comes to.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::Text;

/// Names and values. A `null` value counts as absent.
#[derive(Debug, Default)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

impl Pairs<'_> {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value that counts under a name.
    pub(crate) fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(each, _)| **each == *name).map(|(_, value)| &**value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Maps;

        impl<'de> Visitor<'de> for Maps {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<Text<'de>, Option<Text<'de>>>()? {
                    pairs.extend(value.map(|value| (name, value)));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Maps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_their_order_and_leave_out_nulls() {
        let pairs: Pairs<'_> =
            serde_json::from_str(r#"{"b":"1","a":"2","c":null,"b":"3"}"#).expect("it is a map");
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!((pairs.last("b"), pairs.last("c")), (Some("3"), None));
    }

    #[test]
    fn other_values_than_texts_are_refused() {
        for json in [r#"{"a":1}"#, r#"["a"]"#, r#"{"a":{}}"#] {
            assert!(serde_json::from_str::<Pairs<'_>>(json).is_err(), "{json}");
        }
    }
}
