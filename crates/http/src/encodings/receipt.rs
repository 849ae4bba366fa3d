//! Receipts: the 41 bytes of a lease token in Base64, the same text in every dialect.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::LeaseToken;

/// 41 bytes in Base64, padding included.
const LENGTH: usize = LeaseToken::LENGTH.div_ceil(3) * 4;

/// A token's text, as bytes that need no escape.
pub fn bytes(token: LeaseToken) -> [u8; LENGTH] {
    let mut text = [b'='; LENGTH];
    STANDARD.encode_slice(token.to_bytes(), &mut text).expect("the buffer is as long as the text");
    text
}

/// A token's text.
pub fn text(token: LeaseToken) -> String {
    STANDARD.encode(token.to_bytes())
}

/// The token in a text, unless it never was one.
pub fn read(text: &str) -> Option<LeaseToken> {
    if text.len() != LENGTH {
        return None;
    }
    // A whole group longer than the token: the decoder wants room for what it cannot know to be padding.
    let mut bytes = [0; LeaseToken::LENGTH + 1];
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    LeaseToken::from_bytes(bytes.get(..length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{QueueId, Sequence};

    #[test]
    fn a_receipt_reads_back_as_its_token() {
        let token =
            LeaseToken { queue: QueueId(1), sequence: Sequence(u64::MAX), nonce: 3, mac: u128::MAX - 7 };
        let handle = text(token);
        assert_eq!(handle.as_bytes(), bytes(token));
        assert_eq!(handle.len(), 56);
        assert_eq!(read(&handle), Some(token));
    }

    #[test]
    fn garbage_is_no_receipt() {
        for garbage in ["", "garbage", &"A".repeat(56), &"=".repeat(56), &"é".repeat(28)] {
            assert_eq!(read(garbage), None, "{garbage}");
        }
    }
}
