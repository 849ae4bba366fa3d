//! What a request is about, for those who note requests.

use crate::encodings::trace::TraceContext;

/// Bytes kept of each text that a client chose.
const TEXT_MAX: usize = 256;

/// What a request is about, as its front-end reads it from request and reply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subject {
    /// The dialect that was spoken; empty where no front-end recognized the request.
    pub dialect: &'static str,
    /// The operation, where the reply does not say it.
    pub operation: Option<&'static str>,
    /// The queue it names.
    pub queue: Option<Box<str>>,
    /// Which key, account or user it shows; never the secret.
    pub key: Option<Box<str>>,
    /// The code of the error in the reply, in the dialect's words.
    pub error: Option<Box<str>>,
    /// The trace that it belongs to.
    pub trace: Option<TraceContext>,
}

impl Subject {
    /// A subject in this dialect of which nothing more is known.
    pub fn of(dialect: &'static str) -> Self {
        Self { dialect, ..Self::default() }
    }
}

/// A text from outside, cut to what is kept.
pub fn short(text: &str) -> Box<str> {
    let end = text.floor_char_boundary(TEXT_MAX);
    text.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_are_cut_between_characters() {
        assert_eq!(short("abc"), "abc".into());
        assert_eq!(short(&"é".repeat(200)).len(), 256);
        assert_eq!(short(&format!("a{}", "é".repeat(200))).len(), 255);
    }
}
