//! A body as SQS shows it, from whichever dialect it came.
//!
//! SQS knows texts, and of those only what XML can carry. Text and JSON of other front-ends are shown as they are,
//! unless they hold a character XML forbids; that and binary bodies are shown as Base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Content;

use crate::limits;
use crate::message::annotations::Annotations;
use crate::message::hash::{Hash, hash};

/// A body, and its hash.
pub(crate) struct Shown<'a> {
    pub(crate) body: Cow<'a, str>,
    pub(crate) hash: Hash,
}

impl<'a> Shown<'a> {
    /// What SQS sent was checked and hashed then; everything else is now.
    pub(crate) fn of(content: &'a Content, annotations: Option<&Annotations<'_>>) -> Self {
        let text = content.text();
        if let (Some(text), Some(hash)) = (text, annotations.and_then(|annotations| annotations.body_hash)) {
            return Self { body: Cow::Borrowed(text), hash };
        }
        let body = match text.filter(|text| limits::is_legal_text(text)) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(STANDARD.encode(&content.body)),
        };
        let hash = hash(body.as_bytes());
        Self { body, hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::annotations::{self, Notes};
    use bytes::Bytes;
    use kew_core::ContentType;

    #[test]
    fn bodies_of_others_are_shown_as_text_or_as_base64_and_hashed_as_shown() {
        for (content_type, body, shown) in [
            (ContentType::Text, &b"abc"[..], "abc"),
            (ContentType::Json, b"{\"a\":\"\xc3\xa9\"}", "{\"a\":\"é\"}"),
            (ContentType::Text, b"a\0", "YQA="),
            (ContentType::Json, b"\"\x0b\"", "Igsi"),
            (ContentType::Text, "\u{ffff}".as_bytes(), "77+/"),
            (ContentType::Text, b"\xff", "/w=="),
            (ContentType::Bytes, b"abc", "YWJj"),
            (ContentType::V8, b"\xff\x0f", "/w8="),
        ] {
            let content = Content { content_type, body: Bytes::from_static(body), ..Content::default() };
            let found = Shown::of(&content, None);
            assert_eq!((&*found.body, found.hash), (shown, hash(shown.as_bytes())));
        }
    }

    #[test]
    fn the_hash_of_the_send_is_handed_back() {
        let annotations = Notes { body_hash: [7; 16], ..Notes::default() }.write();
        let content = Content { body: Bytes::from_static(b"abc"), annotations, ..Content::default() };
        let shown = Shown::of(&content, annotations::read(&content).as_ref());
        assert_eq!((&*shown.body, shown.hash), ("abc", [7; 16]));
    }
}
