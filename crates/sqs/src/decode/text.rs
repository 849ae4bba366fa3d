//! Texts that are borrowed where they can be, and members that must be empty for now.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text of the request: a slice of its body, or a copy when it held escapes.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Texts)
    }
}

/// Whether a member that is not served yet holds something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NotYet(pub(crate) bool);

impl<'de> Deserialize<'de> for NotYet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Holdings;

        impl<'de> Visitor<'de> for Holdings {
            type Value = NotYet;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E: Error>(self) -> Result<NotYet, E> {
                Ok(NotYet(false))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<NotYet, E> {
                Ok(NotYet(true))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<NotYet, E> {
                Ok(NotYet(true))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<NotYet, E> {
                Ok(NotYet(true))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<NotYet, E> {
                Ok(NotYet(true))
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<NotYet, E> {
                Ok(NotYet(true))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<NotYet, A::Error> {
                let mut holds = false;
                while entries.next_element::<IgnoredAny>()?.is_some() {
                    holds = true;
                }
                Ok(NotYet(holds))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<NotYet, A::Error> {
                let mut holds = false;
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    holds = true;
                }
                Ok(NotYet(holds))
            }
        }

        deserializer.deserialize_any(Holdings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_borrowed_unless_they_hold_escapes() {
        let plain: Text<'_> = serde_json::from_str("\"abc\"").expect("it is JSON");
        assert!(matches!(plain.0, Cow::Borrowed("abc")));
        let escaped: Text<'_> = serde_json::from_str(r#""a\nc""#).expect("it is JSON");
        assert!(matches!(&escaped.0, Cow::Owned(text) if text == "a\nc"));
        assert!(serde_json::from_str::<Text<'_>>("7").is_err());
    }

    #[test]
    fn empty_and_null_hold_nothing() {
        for (json, holds) in [
            ("null", false),
            ("[]", false),
            ("{}", false),
            ("[0]", true),
            (r#"{"a":1}"#, true),
            ("\"\"", true),
            ("-1", true),
            ("1.5", true),
        ] {
            let found: NotYet = serde_json::from_str(json).expect("it is JSON");
            assert_eq!(found, NotYet(holds), "{json}");
        }
    }
}
