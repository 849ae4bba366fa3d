//! Signing keys: a secret narrowed to one day, one region and one service, remembered because making one takes four
//! hashes.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use sha2::Sha256;

use super::keys::Known;
use super::scope::{Scope, Service};

/// Maximum signing keys that are remembered; a power of two.
const SLOTS: u64 = 256;

/// A key that signs requests of one day in one region.
#[derive(Clone)]
pub(super) struct SigningKey {
    mac: Hmac<Sha256>,
    /// Shared, so that a request's region costs no allocation.
    pub(super) region: Arc<str>,
}

impl SigningKey {
    fn derive(secret: &str, scope: &Scope<'_>) -> Self {
        let mut key = mac(format!("AWS4{secret}").as_bytes());
        for part in [scope.date, scope.region, scope.service, scope.terminator] {
            key.update(part.as_bytes());
            key = mac(&key.finalize().into_bytes());
        }
        Self { mac: key, region: scope.region.into() }
    }

    /// The signature of a text given in parts.
    pub(super) fn sign(self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.mac;
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length will do")
}

struct Remembered {
    place: u32,
    service: Service,
    date: Box<str>,
    key: SigningKey,
}

/// Signing keys by access key, service, day and region, each in the one slot that its hash says; a newer one takes the
/// place of an older. So memory is bounded whatever regions are asked for, and nothing has to be cleaned up after
/// midnight.
pub(super) struct SigningKeys {
    hasher: RandomState,
    /// Guards the slots.
    slots: Mutex<Box<[Option<Remembered>]>>,
}

impl SigningKeys {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), slots: Mutex::new((0..SLOTS).map(|_| None).collect()) }
    }

    /// The signing key of `known` for the day and region of `scope`, whose service and terminator are the right ones.
    pub(super) fn of(&self, known: &Known, service: Service, scope: &Scope<'_>) -> SigningKey {
        let hash = self.hasher.hash_one((known.place, service, scope.date, scope.region));
        let place = usize::try_from(hash & (SLOTS - 1)).unwrap_or_default();
        let remembered = |slot: &Remembered| {
            slot.place == known.place
                && slot.service == service
                && *slot.date == *scope.date
                && *slot.key.region == *scope.region
        };
        if let Some(Some(slot)) = self.slots.lock().get(place)
            && remembered(slot)
        {
            return slot.key.clone();
        }
        let key = SigningKey::derive(&known.secret, scope);
        if let Some(slot) = self.slots.lock().get_mut(place) {
            let (place, date) = (known.place, scope.date.into());
            *slot = Some(Remembered { place, service, date, key: key.clone() });
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::keys::Principal;
    use kew_core::AccountId;
    use kew_http::hex;

    fn known(place: u32, secret: &str) -> Known {
        let principal = Arc::new(Principal::new(AccountId(0), None));
        Known { place, secret: secret.into(), principal }
    }

    fn signature(keys: &SigningKeys, known: &Known, region: &str) -> String {
        let scope = Scope { key: "", date: "20150830", region, service: "iam", terminator: "aws4_request" };
        let mut text = Vec::new();
        hex::push(&mut text, &keys.of(known, Service::Sqs, &scope).sign(&[b"text", b" in parts"]));
        String::from_utf8(text).expect("hex digits are text")
    }

    #[test]
    fn remembered_keys_sign_like_fresh_ones_and_unlike_others() {
        let keys = SigningKeys::new();
        let (one, two) = (known(1, "one"), known(2, "two"));
        let first = signature(&keys, &one, "us-east-1");
        assert_eq!(signature(&keys, &one, "us-east-1"), first);
        assert_ne!(signature(&keys, &two, "us-east-1"), first);
        assert_ne!(signature(&keys, &one, "us-east-2"), first);
        for region in 0..2_000 {
            signature(&keys, &one, &format!("r{region}"));
        }
        assert_eq!(signature(&keys, &one, "us-east-1"), first, "pushed out and made again");
        assert_eq!(keys.slots.lock().len() as u64, SLOTS);
    }
}
