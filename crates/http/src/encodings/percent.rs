//! Percent-encoding as signatures want it: strictly, in upper case, and decoded only when it is well formed.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Everything but letters, digits and `-_.~`: what RFC 3986 calls unreserved stays.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The same, and `/` stays.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// Why a text is not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodingError {
    /// A percent sign without two hex digits behind it.
    #[error("a percent sign is not followed by two hex digits")]
    BadEscape,
    /// The bytes are no UTF-8.
    #[error("the text is not UTF-8")]
    NotUtf8,
}

/// Bytes with everything escaped that is not unreserved; a space becomes `%20`.
pub fn encode(bytes: &[u8]) -> Cow<'_, str> {
    percent_encode(bytes, RESERVED).into()
}

/// The same for a path, whose slashes stay.
pub fn encode_path(path: &[u8]) -> Cow<'_, str> {
    percent_encode(path, RESERVED_IN_PATH).into()
}

/// Writes what [`encode`] gives at the end of `text`.
pub fn push_encoded(text: &mut String, bytes: &[u8]) {
    text.extend(percent_encode(bytes, RESERVED));
}

/// The text behind escapes; what has none is borrowed. A plus sign is a plus sign.
pub fn decode(text: &[u8]) -> Result<Cow<'_, str>, EncodingError> {
    if !has_sound_escapes(text) {
        return Err(EncodingError::BadEscape);
    }
    percent_decode(text).decode_utf8().map_err(|_| EncodingError::NotUtf8)
}

fn has_sound_escapes(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let is_sound = *byte != b'%'
            || (bytes.next().is_some_and(u8::is_ascii_hexdigit)
                && bytes.next().is_some_and(u8::is_ascii_hexdigit));
        if !is_sound {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(encode(b"AZaz09-_.~"), "AZaz09-_.~");
        assert_eq!(encode(b" +*/:=&%'!()"), "%20%2B%2A%2F%3A%3D%26%25%27%21%28%29");
        assert_eq!(encode("\u{f6}\0\u{7f}".as_bytes()), "%C3%B6%00%7F");
        assert_eq!(encode_path(b"/a b/c+d/"), "/a%20b/c%2Bd/");
        let mut text = "x=".to_owned();
        push_encoded(&mut text, b"\xff/");
        assert_eq!(text, "x=%FF%2F");
    }

    #[test]
    fn what_is_not_well_formed_is_not_decoded() {
        for text in ["%", "%1", "a%", "%g0", "%0g", "%%20", "100% sure"] {
            assert_eq!(decode(text.as_bytes()), Err(EncodingError::BadEscape), "{text}");
        }
        for bytes in [&b"%ff"[..], b"%C3", b"\xff", b"%ED%A0%80", b"%C0%AF"] {
            assert_eq!(decode(bytes), Err(EncodingError::NotUtf8), "{bytes:?}");
        }
    }

    #[test]
    fn escapes_of_either_case_are_decoded_once() {
        assert_eq!(decode(b"%2f%2F%25%32%66+").as_deref(), Ok("//%2f+"));
        assert_eq!(decode(b"%00").as_deref(), Ok("\0"));
        assert!(matches!(decode(b"plain"), Ok(Cow::Borrowed("plain"))));
    }

    proptest! {
        #[test]
        fn every_text_survives_both_ways(text in "\\PC*|[\\x00-\\x7f]*") {
            for encoded in [encode(text.as_bytes()), encode_path(text.as_bytes())] {
                let decoded = decode(encoded.as_bytes());
                prop_assert_eq!(decoded.as_deref(), Ok(text.as_str()));
            }
        }

        #[test]
        fn no_bytes_are_too_odd_to_judge(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _judged = decode(&bytes);
        }
    }
}
