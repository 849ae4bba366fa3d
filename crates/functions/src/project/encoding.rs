//! How message texts are stored: said for the whole host in host.json, and by a binding for itself.

/// How message texts are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// In Base64.
    Base64,
    /// As they are.
    None,
}

impl Encoding {
    /// Reads `base64` or `none`, in any case.
    pub(super) fn read(word: &str) -> Option<Self> {
        if word.eq_ignore_ascii_case("base64") {
            Some(Self::Base64)
        } else {
            word.eq_ignore_ascii_case("none").then_some(Self::None)
        }
    }
}
