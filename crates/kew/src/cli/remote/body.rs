//! A message's body as commands show it: text as it is; anything else in Base64 behind a mark, as one line.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// What stands before Base64, so that it is not taken for the body itself.
const MARK: &str = "base64:";

/// The body of a message that the admin API answered.
pub(super) enum Body<'a> {
    Text(&'a str),
    Base64(&'a str),
}

impl<'a> Body<'a> {
    pub(super) fn of(message: &'a Value) -> Self {
        match (message["body"].as_str(), message["body_base64"].as_str()) {
            (None, Some(base64)) => Self::Base64(base64),
            (text, _) => Self::Text(text.unwrap_or_default()),
        }
    }

    pub(super) fn is_base64(&self) -> bool {
        matches!(self, Self::Base64(_))
    }

    /// The bytes of a body that is no text.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(_) => None,
            Self::Base64(base64) => STANDARD.decode(base64).ok(),
        }
    }

    /// As text.
    pub(super) fn shown(&self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Base64(base64) => Cow::Owned(format!("{MARK}{base64}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_shown_as_it_is_and_bytes_behind_a_mark() {
        for (message, shown, bytes) in [
            (json!({ "body": "AAEC" }), "AAEC", None),
            (json!({ "body": "", "body_base64": null }), "", None),
            (json!({ "body_base64": "AAH/" }), "base64:AAH/", Some(vec![0, 1, 255])),
            (json!({ "body_base64": "" }), "base64:", Some(Vec::new())),
            (json!({ "body_base64": "?" }), "base64:?", None),
            (json!({}), "", None),
        ] {
            let body = Body::of(&message);
            assert_eq!((&*body.shown(), body.bytes()), (shown, bytes), "{message}");
        }
    }
}
