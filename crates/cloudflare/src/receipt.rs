//! Lease ids and references: the bytes of a token as text.
//!
//! A lease id is the token in the same Base64 as in every dialect. A reference, which a peek gives, is written another
//! way, so that a client that only looked at a message cannot pass for its consumer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kew_core::LeaseToken;

pub(crate) use kew_http::receipt::{read as read_lease_id, text as lease_id};

const REFERENCE: &str = "ref.";

/// A reference.
pub(crate) fn reference(token: LeaseToken) -> String {
    format!("{REFERENCE}{}", URL_SAFE_NO_PAD.encode(token.to_bytes()))
}

/// The token in a reference, if it ever was one.
pub(crate) fn read_reference(text: &str) -> Option<LeaseToken> {
    LeaseToken::from_bytes(&URL_SAFE_NO_PAD.decode(text.strip_prefix(REFERENCE)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{QueueId, Sequence};

    #[test]
    fn neither_passes_for_the_other() {
        let token = LeaseToken { queue: QueueId(1), sequence: Sequence(2), nonce: 3, mac: 4 };
        assert_eq!(read_lease_id(&lease_id(token)), Some(token));
        assert_eq!(read_reference(&reference(token)), Some(token));
        assert_eq!(read_lease_id(&reference(token)), None);
        assert_eq!(read_reference(&lease_id(token)), None);
        assert_eq!((read_lease_id("x"), read_reference("ref.x")), (None, None));
    }
}
