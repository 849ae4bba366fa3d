//! Receipt handles: the 41 bytes of a lease token in Base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::LeaseToken;

/// 41 bytes in Base64, padding included.
const LENGTH: usize = LeaseToken::LENGTH.div_ceil(3) * 4;

/// A receipt handle's text.
pub(crate) fn receipt(token: LeaseToken) -> [u8; LENGTH] {
    let mut text = [b'='; LENGTH];
    STANDARD.encode_slice(token.to_bytes(), &mut text).expect("the buffer is as long as the text");
    text
}

/// The token in a receipt handle, unless it never was one.
pub(crate) fn read_receipt(handle: &str) -> Option<LeaseToken> {
    if handle.len() != LENGTH {
        return None;
    }
    // A whole group longer than the token: the decoder wants room for what it cannot know to be padding.
    let mut bytes = [0; LeaseToken::LENGTH + 1];
    let length = STANDARD.decode_slice(handle, &mut bytes).ok()?;
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
        let handle = String::from_utf8(receipt(token).to_vec()).expect("it is text");
        assert_eq!(handle.len(), 56);
        assert_eq!(read_receipt(&handle), Some(token));
    }

    #[test]
    fn garbage_is_no_receipt() {
        for garbage in ["", "garbage", &"A".repeat(56), &"=".repeat(56), &"é".repeat(28)] {
            assert_eq!(read_receipt(garbage), None, "{garbage}");
        }
    }
}
