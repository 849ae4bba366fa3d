//! Tokens that hold and tokens that only look like it, against keys made for the test.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use kew_core::Timestamp;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};
use serde_json::{Value, json};

use super::keys::KeySet;
use super::verifier::Verifier;

/// 2026-01-01, in seconds.
const NOW: u64 = 1_767_225_600;
const ISSUER: &str = "https://sts.windows.net/11111111-2222-3333-4444-555555555555/";
const SKEW: u64 = 300;

/// Somebody who signs.
struct Signer {
    id: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
    /// Its public half, where that is plain bytes.
    raw: Vec<u8>,
}

impl Signer {
    fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let kind = match algorithm {
            Algorithm::ES256 => &PKCS_ECDSA_P256_SHA256,
            Algorithm::ES384 => &PKCS_ECDSA_P384_SHA384,
            Algorithm::EdDSA => &PKCS_ED25519,
            _ => &PKCS_RSA_SHA256,
        };
        let pair = KeyPair::generate_for(kind).expect("a key pair of this kind is generated");
        let (der, raw) = (pair.serialize_der(), pair.public_key_raw().to_vec());
        let key = match algorithm {
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_der(&der),
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            // The key itself lies behind 26 bytes that say what kind it is.
            _ => EncodingKey::from_rsa_der(der.get(26..).expect("an RSA key is longer than its header")),
        };
        Self { id, algorithm, key, raw }
    }

    /// Its public half, as key sets have it.
    fn public(&self) -> Value {
        if self.algorithm == Algorithm::EdDSA {
            let x = URL_SAFE_NO_PAD.encode(&self.raw);
            return json!({"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x});
        }
        let mut jwk =
            Jwk::from_encoding_key(&self.key, self.algorithm).expect("a signing key has a public half");
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).expect("a key is written as JSON")
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }

    fn token(&self, claims: &Value) -> String {
        encode(&self.header(), claims, &self.key).expect("a token is signed with its own algorithm")
    }
}

fn set(signers: &[&Signer]) -> Vec<u8> {
    json!({"keys": signers.iter().map(|signer| signer.public()).collect::<Vec<_>>()}).to_string().into()
}

fn verifier(signers: &[&Signer]) -> (Verifier, Arc<KeySet>) {
    let keys = Arc::new(KeySet::default());
    keys.replace(&set(signers)).expect("the key set holds a key of each signer");
    let skew = Duration::from_secs(SKEW);
    (Verifier::new(vec![ISSUER.to_owned()], Vec::new(), skew, Arc::clone(&keys)), keys)
}

fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": "https://storage.azure.com", "nbf": NOW - 60, "iat": NOW - 60, "exp": NOW + 3600,
        "sub": "somebody",
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    claims
}

/// Why a token is refused; nothing when it is not.
fn judged(verifier: &Verifier, token: &str) -> Option<String> {
    let error = verifier.check(token, "acc", Timestamp(NOW * 1_000)).err()?;
    Some(error.details().first().map_or_else(|| error.code().name().to_owned(), |detail| detail.1.clone()))
}

const FORGED: &str = "Signature validation failed.";

#[test]
fn tokens_of_every_kind_of_key_are_taken_with_and_without_the_keys_name() {
    for algorithm in [
        Algorithm::RS256,
        Algorithm::RS512,
        Algorithm::PS256,
        Algorithm::ES256,
        Algorithm::ES384,
        Algorithm::EdDSA,
    ] {
        let signer = Signer::new("one", algorithm);
        let other = Signer::new("two", Algorithm::ES256);
        let (verifier, _) = verifier(&[&other, &signer]);
        assert_eq!(judged(&verifier, &signer.token(&claims(json!({})))), None, "{algorithm:?}");
        let nameless = encode(&Header::new(algorithm), &claims(json!({})), &signer.key)
            .expect("a token without a key id is signed");
        assert_eq!(judged(&verifier, &nameless), None, "{algorithm:?}");
        let renamed = Header { kid: Some("two".to_owned()), ..Header::new(algorithm) };
        let renamed =
            encode(&renamed, &claims(json!({})), &signer.key).expect("a token with another key id is signed");
        assert_eq!(judged(&verifier, &renamed).as_deref(), Some(FORGED), "{algorithm:?}");
    }
}

#[test]
fn what_a_token_says_has_to_hold_here_and_now() {
    let signer = Signer::new("one", Algorithm::ES256);
    let (verifier, _) = verifier(&[&signer]);
    let early = "Lifetime validation failed. The token is not yet valid.";
    let late = "Lifetime validation failed. The token is expired.";
    let (issuer, audience) = ("Invalid token issuer.", "Invalid token audience.");
    let malformed = "InvalidAuthenticationInfo";
    for (changes, refusal) in [
        (json!({"exp": NOW - SKEW}), None),
        (json!({"exp": NOW - SKEW - 1}), Some(late)),
        (json!({"nbf": NOW + SKEW}), None),
        (json!({"nbf": NOW + SKEW + 1}), Some(early)),
        (json!({"nbf": null, "iat": null}), None),
        (json!({"exp": null}), Some(malformed)),
        (json!({"exp": "tomorrow"}), Some(malformed)),
        (json!({"iss": "https://sts.windows.net/other/"}), Some(issuer)),
        (json!({"iss": "https://sts.windows.net/"}), Some(issuer)),
        (json!({"iss": format!("{ISSUER}x")}), Some(issuer)),
        (json!({"iss": null}), Some(malformed)),
        (json!({"aud": "https://storage.azure.com/"}), None),
        (json!({"aud": ["x", "https://acc.queue.core.windows.net"]}), None),
        (json!({"aud": "https://other.queue.core.windows.net"}), Some(audience)),
        (json!({"aud": []}), Some(audience)),
        (json!({"aud": null}), Some(malformed)),
    ] {
        assert_eq!(
            judged(&verifier, &signer.token(&claims(changes.clone()))).as_deref(),
            refusal,
            "{changes}"
        );
    }
    let audiences = vec!["api://kew".to_owned()];
    let keys = Arc::new(KeySet::default());
    keys.replace(&set(&[&signer])).expect("the key set holds the signer's key");
    let own = Verifier::new(vec![ISSUER.to_owned()], audiences, Duration::ZERO, keys);
    assert_eq!(judged(&own, &signer.token(&claims(json!({"aud": "api://kew"})))), None);
    assert_eq!(judged(&own, &signer.token(&claims(json!({})))).as_deref(), Some(audience));
}

#[test]
fn no_algorithm_is_believed_because_a_token_names_it() {
    let rsa = Signer::new("one", Algorithm::RS256);
    let curve = Signer::new("two", Algorithm::ES256);
    let (verifier, _) = verifier(&[&rsa, &curve]);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let body = part(&claims(json!({})));
    // A public key is no secret: a token signed with it as if it were one is forged.
    for signer in [&rsa, &curve] {
        let public = signer.public();
        let texts = ["n", "x", "y"].iter().filter_map(|name| public[name].as_str());
        let bytes = texts.map(|text| URL_SAFE_NO_PAD.decode(text).expect("the parts of a token are Base64"));
        for secret in bytes.chain([public.to_string().into_bytes(), Vec::new()]) {
            let header = Header { kid: Some(signer.id.to_owned()), ..Header::new(Algorithm::HS256) };
            let token = encode(&header, &claims(json!({})), &EncodingKey::from_secret(&secret));
            assert_eq!(
                judged(&verifier, &token.expect("a token is signed with a public key as secret")).as_deref(),
                Some(FORGED)
            );
        }
    }
    for header in [
        json!({"alg": "none", "kid": "one"}),
        json!({"alg": "None"}),
        json!({"alg": "ES256", "kid": "one"}),
        json!({"alg": "RS256", "kid": "two"}),
        json!({"kid": "one"}),
        json!({"alg": ["RS256"], "kid": "one"}),
    ] {
        for signature in ["", "AAAA"] {
            let token = format!("{}.{body}.{signature}", part(&header));
            assert_eq!(judged(&verifier, &token).as_deref(), Some(FORGED), "{header}");
        }
    }
}

#[test]
fn a_token_that_brings_its_own_key_or_was_changed_is_refused() {
    let (signer, forger) = (Signer::new("one", Algorithm::ES256), Signer::new("one", Algorithm::ES256));
    let (verifier, _) = verifier(&[&signer]);
    let jwk = serde_json::from_value(forger.public()).expect("a public key is read from its JSON");
    let own = Header { jwk: Some(jwk), jku: Some("https://evil.example/keys".to_owned()), ..forger.header() };
    let token =
        encode(&own, &claims(json!({})), &forger.key).expect("a token with a key of its own is signed");
    assert_eq!(judged(&verifier, &token).as_deref(), Some(FORGED));
    let critical = Header { crit: Some(vec!["b64".to_owned()]), ..signer.header() };
    let token =
        encode(&critical, &claims(json!({})), &signer.key).expect("a token with a critical header is signed");
    assert_eq!(judged(&verifier, &token).as_deref(), Some(FORGED), "an extension nobody here knows");

    let token = signer.token(&claims(json!({})));
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("{token} has three parts") };
    let longer = URL_SAFE_NO_PAD.encode(claims(json!({"exp": NOW + 999_999})).to_string());
    let flipped = signature.replacen(['A', 'B', 'C', 'D'], "E", 1);
    let other = if flipped == signature { signature.replacen(|_: char| true, "A", 1) } else { flipped };
    for changed in [
        format!("{header}.{longer}.{signature}"),
        format!("{header}.{payload}.{other}"),
        format!("{header}.{payload}."),
        format!("{header}.{payload}.{signature}AAAA"),
        format!("x{header}.{payload}.{signature}"),
    ] {
        assert_eq!(judged(&verifier, &changed).as_deref(), Some(FORGED), "{changed}");
    }
    for text in ["", "x", "a.b", &format!("{token}.x"), &format!("{header}.{payload}")] {
        assert_eq!(judged(&verifier, text).as_deref(), Some("InvalidAuthenticationInfo"), "{text}");
    }
    assert_eq!(judged(&verifier, &token), None, "unchanged it holds");
}

#[test]
fn keys_are_exchanged_while_tokens_come_in() {
    let (old, new) = (Signer::new("old", Algorithm::ES256), Signer::new("new", Algorithm::ES256));
    let (verifier, keys) = verifier(&[&old]);
    let (first, second) = (old.token(&claims(json!({}))), new.token(&claims(json!({}))));
    assert_eq!(judged(&verifier, &first), None);
    assert!(!keys.was_missed());
    assert_eq!(judged(&verifier, &second).as_deref(), Some(FORGED));
    assert!(keys.was_missed(), "somebody signs with a key that is not here");
    keys.replace(&set(&[&old, &new])).expect("the key set holds the old and the new key");
    assert_eq!((judged(&verifier, &first), judged(&verifier, &second)), (None, None));
    keys.replace(&set(&[&new])).expect("the key set holds the new key");
    assert_eq!(judged(&verifier, &first).as_deref(), Some(FORGED));
    assert_eq!(judged(&verifier, &second), None);
}

#[test]
fn clients_are_sent_to_the_tenant_of_the_issuer() {
    for (issuer, authority) in [
        (ISSUER, "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/oauth2/authorize"),
        ("https://login.microsoftonline.com/t/v2.0", "https://login.microsoftonline.com/t/oauth2/authorize"),
        ("https://id.example/realms/a", "https://id.example/realms/a"),
    ] {
        let verifier = Verifier::new(vec![issuer.to_owned()], Vec::new(), Duration::ZERO, Arc::default());
        assert_eq!(verifier.authority(), authority);
    }
}
