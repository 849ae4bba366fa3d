//! Signatures: HMAC-SHA256 over a text that names what is signed.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The signature of a text.
pub(crate) fn sign(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}
