//! The public keys of those who issue tokens: a JSON Web Key Set, exchanged as a whole when it changes.
//!
//! Only keys that cannot be mistaken for a shared secret are taken: RSA, the two elliptic curves and Ed25519. A key of
//! a kind that is not known here is left out, and does not spoil the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use parking_lot::RwLock;
use serde::Deserialize;

/// More keys than this has no honest issuer.
const KEYS_MAX: usize = 256;

/// Keys in use.
#[derive(Default)]
pub struct KeySet {
    /// Guards which keys are in use; never held while anything is verified.
    keys: RwLock<Arc<Vec<Key>>>,
    /// Somebody showed a token of a key that is not there.
    missed: AtomicBool,
}

/// A key and what it verifies.
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithms: &'static [Algorithm],
    pub(super) key: DecodingKey,
}

/// Why a text is no key set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeySetError {
    /// It is not JSON of the right shape.
    #[error("it is no JSON Web Key Set: {0}")]
    Malformed(String),
    /// There is nothing in it that verifies a signature.
    #[error("it holds no key that verifies signatures (RSA, P-256, P-384 or Ed25519)")]
    NoKeys,
    /// It is too long.
    #[error("it holds more than {KEYS_MAX} keys")]
    TooMany,
}

impl KeySet {
    /// Takes these keys instead of those before, and says how many can be used. Nothing changes if none can.
    pub fn replace(&self, json: &[u8]) -> Result<usize, KeySetError> {
        let keys = read(json)?;
        let count = keys.len();
        *self.keys.write() = Arc::new(keys);
        Ok(count)
    }

    /// Whether a token named a key that is not there, since this was asked last: newer keys may be worth a look.
    pub fn was_missed(&self) -> bool {
        self.missed.swap(false, Ordering::Relaxed)
    }

    pub(super) fn keys(&self) -> Arc<Vec<Key>> {
        Arc::clone(&self.keys.read())
    }

    pub(super) fn miss(&self) {
        self.missed.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys().len()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

fn read(json: &[u8]) -> Result<Vec<Key>, KeySetError> {
    let document: Document =
        serde_json::from_slice(json).map_err(|error| KeySetError::Malformed(error.to_string()))?;
    if document.keys.len() > KEYS_MAX {
        return Err(KeySetError::TooMany);
    }
    let keys: Vec<Key> = document.keys.into_iter().filter_map(key).collect();
    if keys.is_empty() { Err(KeySetError::NoKeys) } else { Ok(keys) }
}

/// A key that verifies signatures, and nothing else.
fn key(value: serde_json::Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if matches!(&jwk.common.public_key_use, Some(of) if *of != PublicKeyUse::Signature) {
        return None;
    }
    let all: &'static [Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        _ => return None,
    };
    let algorithms = match jwk.common.key_algorithm {
        None => all,
        // A key that says what it is for is for nothing else.
        Some(named) => {
            let place = all.iter().position(|algorithm| named == (*algorithm).into())?;
            all.get(place..=place)?
        }
    };
    let decoding = DecodingKey::from_jwk(&jwk).ok()?;
    Some(Key { id: jwk.common.key_id, algorithms, key: decoding })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        r#"{"kty":"OKP","crv":"Ed25519","kid":"e","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    const P256: &str = r#"{"kty":"EC","crv":"P-256","kid":"p","alg":"ES256","use":"sig","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    fn kinds(json: &str) -> Result<Vec<&'static [Algorithm]>, KeySetError> {
        read(json.as_bytes()).map(|keys| keys.iter().map(|key| key.algorithms).collect())
    }

    #[test]
    fn keys_that_verify_are_taken_and_others_left_out() {
        let secret = r#"{"kty":"oct","kid":"s","k":"c2VjcmV0"}"#;
        let encrypts = P256.replace(r#""sig""#, r#""enc""#);
        let set = format!(r#"{{"keys":[{ED},{secret},{P256},{encrypts},{{"kty":"new"}},7]}}"#);
        assert_eq!(kinds(&set), Ok(vec![&[Algorithm::EdDSA][..], &[Algorithm::ES256]]));
        let of_another = ED.replace(r#""kid""#, r#""alg":"RS256","kid""#);
        for none in [secret, &encrypts, &of_another] {
            assert_eq!(kinds(&format!(r#"{{"keys":[{none}]}}"#)), Err(KeySetError::NoKeys), "{none}");
        }
        assert!(matches!(kinds("[]"), Err(KeySetError::Malformed(_))));
        let many = format!(r#"{{"keys":[{}]}}"#, vec![ED; KEYS_MAX + 1].join(","));
        assert_eq!(kinds(&many), Err(KeySetError::TooMany));
    }

    #[test]
    fn a_set_that_cannot_be_used_leaves_the_one_before() {
        let set = KeySet::default();
        assert_eq!(set.replace(format!(r#"{{"keys":[{ED}]}}"#).as_bytes()), Ok(1));
        assert!(set.replace(b"{}").is_err());
        assert_eq!(set.keys().len(), 1);
        set.miss();
        assert!(set.was_missed() && !set.was_missed());
    }
}
