//! What SQS keeps with a message beside its body: made once at the send, handed back at every receive.
//!
//! The bytes, which the store keeps without looking inside: `S` (SQS wrote them), a format version (1), the sixteen
//! bytes of the body's MD5. Later versions may go on behind that.

use bytes::Bytes;
use md5::{Digest, Md5};

use kew_core::Content;

const WRITER: u8 = b'S';
const VERSION: u8 = 1;

/// The MD5 of a body.
pub(crate) type BodyHash = [u8; 16];

/// Hashes a body.
pub(crate) fn hash(body: &[u8]) -> BodyHash {
    Md5::digest(body).into()
}

/// The annotations of a message whose body has this hash.
pub(crate) fn write(hash: BodyHash) -> Bytes {
    let mut bytes = [0; 18];
    bytes[0] = WRITER;
    bytes[1] = VERSION;
    bytes[2..].copy_from_slice(&hash);
    Bytes::copy_from_slice(&bytes)
}

/// The hash of a message's body: the stored one, or for a message of another dialect a fresh one.
pub(crate) fn body_hash(content: &Content) -> BodyHash {
    match content.annotations.split_first_chunk::<2>() {
        Some(([WRITER, VERSION], rest)) => rest.first_chunk().copied().unwrap_or_else(|| hash(&content.body)),
        Some(_) | None => hash(&content.body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_the_send_is_handed_back() {
        let content = Content { annotations: write([7; 16]), ..Content::default() };
        assert_eq!(body_hash(&content), [7; 16]);
    }

    #[test]
    fn a_message_of_another_dialect_is_hashed_when_it_is_read() {
        for annotations in ["", "S", "S\u{1}short", "Azure, perhaps"] {
            let content = Content {
                body: Bytes::from_static(b"abc"),
                annotations: Bytes::from_static(annotations.as_bytes()),
                ..Content::default()
            };
            assert_eq!(body_hash(&content), hash(b"abc"), "{annotations}");
        }
    }
}
