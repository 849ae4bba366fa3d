//! Maps of texts, in the order they were written.
//!
//! The order matters: the error names the first of several faults. Of a name that comes twice the last value
//! counts, as in any JSON object. More names than any map of an action may have are not kept: enough are, that such a
//! map is refused.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Text;

/// Names that are kept: more than a queue has attributes, and more than it may have tags.
const NAMES_MAX: usize = 64;

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

    /// The value under a name.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(each, _)| **each == *name).map(|(_, value)| &**value)
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
                let mut pairs: Vec<(Text<'de>, Text<'de>)> = Vec::new();
                while let Some(name) = map.next_key::<Text<'de>>()? {
                    let known = pairs.iter().position(|(known, _)| **known == *name);
                    if known.is_none() && pairs.len() == NAMES_MAX {
                        let _ignored = map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let Some(value) = map.next_value::<Option<Text<'de>>>()? else { continue };
                    match known.and_then(|place| pairs.get_mut(place)) {
                        Some(pair) => pair.1 = value,
                        None => pairs.push((name, value)),
                    }
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
        let pairs: Pairs<'_> = serde_json::from_str(r#"{"b":"1","a":"2","c":null,"b":"3"}"#)
            .expect("a JSON object of texts is decoded into pairs");
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("b", "3"), ("a", "2")]);
        assert_eq!((pairs.value("b"), pairs.value("c")), (Some("3"), None));
    }

    #[test]
    fn of_a_map_without_end_no_more_is_kept_than_it_takes_to_refuse_it() {
        let repeated = format!("{{{}}}", vec![r#""a":"1""#; 100_000].join(","));
        let distinct: Vec<String> = (0..100_000).map(|n| format!(r#""k{n}":"v""#)).collect();
        let distinct = format!("{{{}}}", distinct.join(","));
        for (json, kept) in [(repeated, 1), (distinct, NAMES_MAX)] {
            let pairs: Pairs<'_> =
                serde_json::from_str(&json).expect("a JSON object of texts is decoded into pairs");
            assert_eq!(pairs.0.len(), kept);
        }
    }

    #[test]
    fn other_values_than_texts_are_refused() {
        for json in [r#"{"a":1}"#, r#"["a"]"#, r#"{"a":{}}"#] {
            assert!(serde_json::from_str::<Pairs<'_>>(json).is_err(), "{json}");
        }
    }
}
