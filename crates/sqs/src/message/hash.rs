//! MD5, as SQS tells of bodies and attributes.

use md5::{Digest, Md5};

/// An MD5.
pub(crate) type Hash = [u8; 16];

/// Hashes a body.
pub(crate) fn hash(body: &[u8]) -> Hash {
    Md5::digest(body).into()
}
