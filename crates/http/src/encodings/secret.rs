//! Comparisons of secrets that take the same time wherever the first difference is.
//!
//! Signatures, keys and tokens are compared here and nowhere else. Only a difference in length shows early, and the
//! length of a signature is no secret.

use subtle::ConstantTimeEq;

/// Whether both are the same bytes.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Whether both are the same text.
#[must_use]
pub fn is_same_text(one: &str, other: &str) -> bool {
    is_same(one.as_bytes(), other.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_only_the_same_as_nothing() {
        assert!(is_same(b"", b""));
        assert!(!is_same(b"", b"a"));
        assert!(!is_same(b"a", b""));
        assert!(!is_same_text("secret", "secreT"));
    }

    proptest! {
        #[test]
        fn it_agrees_with_plain_comparison(one in "[ab]{0,4}", other in "[ab]{0,4}") {
            prop_assert_eq!(is_same_text(&one, &other), one == other);
        }
    }
}
