//! The temporary claim on a message: its terms, its token, and who may still use that token.

use std::time::Duration;

use crate::{QueueId, Sequence};

/// The claim check of one lease, or of one send: 41 bytes on the wire.
///
/// The nonce is chance, never a counter: the token of a lease that a power cut made the store forget is stale
/// afterwards, not equal to the next one. The MAC makes tokens unforgeable; the store that sealed one checks it.
///
/// Packed to words of eight bytes: the MAC alone would align every list that holds a token to sixteen, which
/// allocators give at twice the cost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(C, packed(8))]
pub struct LeaseToken {
    /// The queue the message was in.
    pub queue: QueueId,
    /// The message's place in that queue.
    pub sequence: Sequence,
    /// What tells this receipt from every other of the message.
    pub nonce: u64,
    /// Seals the three fields above with the store's key.
    pub mac: u128,
}

impl LeaseToken {
    /// Bytes of a token.
    pub const LENGTH: usize = 41;
    const VERSION: u8 = 1;

    /// The token as bytes.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = Self::VERSION;
        bytes[1..9].copy_from_slice(&self.queue.0.to_be_bytes());
        bytes[9..17].copy_from_slice(&self.sequence.0.to_be_bytes());
        bytes[17..25].copy_from_slice(&self.nonce.to_be_bytes());
        bytes[25..41].copy_from_slice(&self.mac.to_be_bytes());
        bytes
    }

    /// The token in `bytes`, or `None` when they were never one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LENGTH] = bytes.try_into().ok()?;
        let (version, rest) = bytes.split_first()?;
        let (queue, rest) = rest.split_first_chunk::<8>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (nonce, rest) = rest.split_first_chunk::<8>()?;
        let (mac, _) = rest.split_first_chunk::<16>()?;
        (*version == Self::VERSION).then(|| Self {
            queue: QueueId(u64::from_be_bytes(*queue)),
            sequence: Sequence(u64::from_be_bytes(*sequence)),
            nonce: u64::from_be_bytes(*nonce),
            mac: u128::from_be_bytes(*mac),
        })
    }
}

/// Which receipts of a message a caller may still use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiptRule {
    /// Any receipt the message ever had.
    Any,
    /// Only its newest receipt, also after the lease it came from has ended. A send's receipt counts until the first
    /// lease.
    Current,
    /// Only the receipt of a lease that still runs, its last instant included.
    Unexpired,
    /// Any receipt, also of a message of a FIFO queue that was never leased: for an operator, who does not have to wait
    /// for its turn.
    OutOfTurn,
}

/// What extending a message does when no lease of it is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFree {
    /// Nothing; the message stays where it is.
    Ignore,
    /// Hides the message as if its lease had never ended; attempts are not raised.
    Hide,
}

/// Where a message takes its place when it becomes visible again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Return {
    /// Where its send put it: before everything sent later.
    #[default]
    InPlace,
    /// Behind everything visible before it.
    Behind,
}

/// The terms a lease is taken on; it keeps them until it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// How long; `None` means the queue's own length.
    pub length: Option<Duration>,
    /// The longest the lease may be stretched, from the arrival of the request that took it.
    pub cap: Option<Duration>,
    /// How long the message stays hidden after a lease that ended by itself.
    pub lapse_delay: Duration,
    /// Where the message returns to.
    pub returns: Return,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { length: None, cap: None, lapse_delay: Duration::ZERO, returns: Return::InPlace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_survives_its_bytes() {
        let token = LeaseToken { queue: QueueId(7), sequence: Sequence(9), nonce: u64::MAX, mac: 3 };
        assert_eq!(LeaseToken::from_bytes(&token.to_bytes()), Some(token));
    }

    #[test]
    fn bytes_of_another_length_or_version_are_no_token() {
        let token = LeaseToken { queue: QueueId(7), sequence: Sequence(9), nonce: 1, mac: 3 };
        let mut bytes = token.to_bytes().to_vec();
        bytes[0] = 2;
        assert_eq!(LeaseToken::from_bytes(&bytes), None);
        assert_eq!(LeaseToken::from_bytes(&token.to_bytes()[..40]), None);
        assert_eq!(LeaseToken::from_bytes(&[]), None);
    }
}
