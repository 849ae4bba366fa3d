//! Names and values of a query string or a URL-encoded form.
//!
//! Strict where guessing would be dangerous: a broken escape or bytes that are no UTF-8 are errors, not replacement
//! characters, and the number of pairs is bounded.

use std::borrow::Cow;

use crate::encodings::percent::{self, EncodingError};

/// Why pairs are not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormError {
    /// There are more pairs than the bound.
    #[error("there are more than {pairs_max} parameters")]
    TooMany {
        /// The bound.
        pairs_max: usize,
    },
    /// A name or value is not well formed.
    #[error(transparent)]
    Encoding(#[from] EncodingError),
}

/// What a plus sign stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plus {
    /// A space, as in HTML forms.
    Space,
    /// Itself, as in RFC 3986.
    Plus,
}

/// A name and its value, decoded.
pub type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Names and values in the order they were sent, repeated ones too; a plus sign is a space. A name alone has an empty
/// value, nothing between two `&` is no pair.
pub fn pairs(text: &[u8], pairs_max: usize) -> Result<Vec<Pair<'_>>, FormError> {
    pairs_with(text, Plus::Space, pairs_max)
}

/// The same, with the meaning of a plus sign chosen.
pub fn pairs_with(text: &[u8], plus: Plus, pairs_max: usize) -> Result<Vec<Pair<'_>>, FormError> {
    let mut pairs = Vec::new();
    for part in text.split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
        if pairs.len() == pairs_max {
            return Err(FormError::TooMany { pairs_max });
        }
        let end = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
        let (name, value) = part.split_at(end);
        pairs.push((decode(name, plus)?, decode(value.get(1..).unwrap_or_default(), plus)?));
    }
    Ok(pairs)
}

/// The value of the first pair of this name.
pub fn first<'a>(pairs: &'a [Pair<'_>], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_ref())
}

fn decode(text: &[u8], plus: Plus) -> Result<Cow<'_, str>, EncodingError> {
    if plus == Plus::Plus || !text.contains(&b'+') {
        return percent::decode(text);
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent::decode(&spaced).map(|text| Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, FormError> {
        pairs(text.as_bytes(), 4).map(|pairs| {
            pairs.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
        })
    }

    fn owned(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, FormError> {
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn pairs_keep_their_order_and_may_repeat() {
        assert_eq!(read("b=1&a=2&b=3"), owned(&[("b", "1"), ("a", "2"), ("b", "3")]));
        assert_eq!(read("&&a&=b&c=&"), owned(&[("a", ""), ("", "b"), ("c", "")]));
        assert_eq!(read("a=b=c"), owned(&[("a", "b=c")]));
        assert_eq!(read(""), owned(&[]));
        assert_eq!(read("a+b=%2B+%20&c%26=%3D"), owned(&[("a b", "+  "), ("c&", "=")]));
    }

    #[test]
    fn a_plus_sign_may_stand_for_itself() {
        let pairs = pairs_with(b"sig=a+b%2B", Plus::Plus, 1).expect("the form is well formed");
        assert_eq!(first(&pairs, "sig"), Some("a+b+"));
        assert_eq!(first(&pairs, "si"), None);
    }

    #[test]
    fn broken_text_is_an_error_and_so_is_too_much() {
        assert_eq!(read("a=%"), Err(EncodingError::BadEscape.into()));
        assert_eq!(read("%zz=1"), Err(EncodingError::BadEscape.into()));
        assert_eq!(read("a=%ff"), Err(EncodingError::NotUtf8.into()));
        assert_eq!(read("a=+%ff"), Err(EncodingError::NotUtf8.into()));
        assert_eq!(read("a&b&c&d").map(|pairs| pairs.len()), Ok(4));
        assert_eq!(read("a&b&c&d&e"), Err(FormError::TooMany { pairs_max: 4 }));
        assert_eq!(read("a&&&&&&b&c&d&&&").map(|pairs| pairs.len()), Ok(4), "nothing is no pair");
    }

    proptest! {
        #[test]
        fn what_a_browser_writes_is_read_back(pairs in proptest::collection::vec(("\\PC*", "\\PC*"), 0..5)) {
            let mut text = form_urlencoded::Serializer::new(String::new());
            text.extend_pairs(&pairs);
            let text = text.finish();
            let read = super::pairs(text.as_bytes(), 5).expect("the form has at most five pairs");
            let read: Vec<_> = read.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
            prop_assert_eq!(read, pairs);
        }

        #[test]
        fn no_bytes_are_too_odd_to_judge(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _judged = pairs(&bytes, 8);
        }
    }
}
