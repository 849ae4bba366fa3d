//! Seals lease tokens with the store's key, and knows a forged one.

use std::fmt;
use std::hash::Hasher;

use kew_core::{LeaseToken, QueueId, RuleError, Sequence};
use siphasher::sip128::{Hasher128, SipHasher24};

/// The key tokens are sealed with. Made with the store, it travels with backup, export and migration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenKey(pub [u8; 16]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

/// What tells a receipt that was sealed here from every other of its message. Aligned to eight bytes, not sixteen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealed {
    nonce: u64,
    mac: [u64; 2],
}

impl Sealed {
    fn mac(self) -> u128 {
        u128::from(self.mac[0]) | u128::from(self.mac[1]) << 64
    }
}

impl From<LeaseToken> for Sealed {
    fn from(token: LeaseToken) -> Self {
        Self { nonce: token.nonce, mac: [token.mac as u64, (token.mac >> 64) as u64] }
    }
}

impl TokenKey {
    /// The token of this receipt.
    pub fn seal(&self, queue: QueueId, sequence: Sequence, nonce: u64) -> LeaseToken {
        LeaseToken { queue, sequence, nonce, mac: self.mac(queue, sequence, nonce) }
    }

    /// Whether a token is the very one that was sealed with this nonce and MAC: of a receipt that is kept, nothing has
    /// to be worked out again.
    pub fn is_same(token: &LeaseToken, kept: Sealed) -> bool {
        let mac = token.mac ^ kept.mac();
        (token.nonce ^ kept.nonce) | mac as u64 | (mac >> 64) as u64 == 0
    }

    /// Refuses a token this key never sealed.
    pub fn verify(&self, token: &LeaseToken) -> Result<(), RuleError> {
        // Both sides are folded to one difference: no early exit tells how much of a forgery was right.
        let difference = self.mac(token.queue, token.sequence, token.nonce) ^ token.mac;
        if difference == 0 { Ok(()) } else { Err(RuleError::TokenForged) }
    }

    /// The nonce of a send's own receipt: chance to everyone without the key, and nothing to store.
    pub fn first_nonce(&self, queue: QueueId, sequence: Sequence) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write_u64(queue.0);
        hasher.write_u64(sequence.0);
        hasher.write_u8(b'f');
        hasher.finish128().h1
    }

    /// A keyed hash of a deduplication identity, so that no sender can aim at another's.
    pub fn hash(&self, parts: &[&[u8]]) -> u128 {
        // Gathered first: many small pieces cost the hasher more than one that is copied together.
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| 4 + part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        self.hash_of(&bytes)
    }

    fn hash_of(&self, bytes: &[u8]) -> u128 {
        SipHasher24::new_with_key(&self.0).hash(bytes).as_u128()
    }

    fn mac(&self, queue: QueueId, sequence: Sequence, nonce: u64) -> u128 {
        let mut message = [0; 24];
        message[..8].copy_from_slice(&queue.0.to_le_bytes());
        message[8..16].copy_from_slice(&sequence.0.to_le_bytes());
        message[16..].copy_from_slice(&nonce.to_le_bytes());
        self.hash_of(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids are remembered on disk under this hash.
    #[test]
    fn hash_of_parts_is_that_of_one_part_after_the_other() {
        let key = TokenKey([7; 16]);
        for lengths in [[0, 0, 0], [1, 0, 128], [8, 3, 5], [128, 128, 400]] {
            let parts: Vec<Vec<u8>> = lengths.iter().map(|length| vec![9; *length]).collect();
            let mut hasher = SipHasher24::new_with_key(&key.0);
            for part in &parts {
                hasher.write_u32(part.len() as u32);
                hasher.write(part);
            }
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            assert_eq!(key.hash(&parts), hasher.finish128().as_u128());
        }
    }

    #[test]
    fn altered_token_is_forged() {
        let key = TokenKey([7; 16]);
        let token = key.seal(QueueId(1), Sequence(2), 3);
        assert_eq!(key.verify(&token), Ok(()));
        for altered in [
            LeaseToken { queue: QueueId(2), ..token },
            LeaseToken { sequence: Sequence(3), ..token },
            LeaseToken { nonce: 4, ..token },
            LeaseToken { mac: token.mac ^ 1, ..token },
        ] {
            assert_eq!(key.verify(&altered), Err(RuleError::TokenForged));
        }
        assert_eq!(TokenKey([8; 16]).verify(&token), Err(RuleError::TokenForged));
    }

    #[test]
    fn receipt_that_is_kept_is_known_by_nonce_and_all_of_its_mac() {
        let token = TokenKey([7; 16]).seal(QueueId(1), Sequence(2), 3);
        assert!(TokenKey::is_same(&token, token.into()));
        assert!(!TokenKey::is_same(&LeaseToken { nonce: 4, ..token }, token.into()));
        for bit in 0..128 {
            assert!(!TokenKey::is_same(&LeaseToken { mac: token.mac ^ 1 << bit, ..token }, token.into()));
        }
    }
}
