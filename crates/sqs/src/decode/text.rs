//! Texts that are borrowed where they can be.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_borrowed_unless_they_hold_escapes() {
        let plain: Text<'_> = serde_json::from_str("\"abc\"").expect("a JSON string is decoded into text");
        assert!(matches!(plain.0, Cow::Borrowed("abc")));
        let escaped: Text<'_> =
            serde_json::from_str(r#""a\nc""#).expect("a JSON string with an escape is decoded into text");
        assert!(matches!(&escaped.0, Cow::Owned(text) if text == "a\nc"));
        assert!(serde_json::from_str::<Text<'_>>("7").is_err());
    }
}
