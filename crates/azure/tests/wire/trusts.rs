//! Keys issued to holders of tokens: a server accepts them only where it trusts the same kind of token. What an open
//! server issued, or one that believes any token, a strict server refuses.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use kew_azure::{Azure, Bearer, KeySet, Settings, Verifier};
use kew_http::{Handler, HeaderName, HeaderValue, Headers, Method, Request, RequestId, Uri};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::json;

use super::delegation::{KEY_PATH, VERSION, bearer, code, key, sas};
use super::server::{Answer, AzureAnswer, AzureServer, NOW, settings, strict};

const ISSUER: &str = "https://sts.windows.net/22222222-2222-2222-2222-222222222222/";
const OTHER: &str = "https://id.example/";

/// Strict, and without a check of the signatures of tokens.
pub fn basic() -> Settings {
    Settings { bearer: Bearer::Basic, ..strict() }
}

/// A key for a day, asked for over TLS at a front-end with these settings over the same store.
pub async fn issue(server: &AzureServer, settings: Settings, authorization: &str) -> Answer {
    let mut headers = Headers::default();
    for (name, value) in [VERSION, ("authorization", authorization)] {
        let value = HeaderValue::from_str(value).expect("the header's value is visible ASCII");
        headers.append(HeaderName::from_static(name), value);
    }
    let body = "<KeyInfo><Start>2026-01-01T00:00:00Z</Start><Expiry>2026-01-02T00:00:00Z</Expiry></KeyInfo>";
    let request = Request {
        method: Method::POST,
        uri: format!("/devstoreaccount1/{KEY_PATH}").parse::<Uri>().expect("the path is a URI"),
        headers,
        body: body.into(),
        id: RequestId::from_chance(0),
        received_at: NOW,
        peer: ([127, 0, 0, 1], 1).into(),
        secure: true,
        room: Default::default(),
    };
    let reply = Azure::new(Arc::clone(&server.engine), settings).answer(&request).await;
    let body = String::from_utf8(reply.body.to_vec()).expect("a reply of the front-end is UTF-8");
    Answer { status: reply.status.as_u16(), reason: String::new(), headers: Vec::new(), body }
}

/// Somebody who signs tokens, and a front-end that believes whom they name.
struct Authority {
    key: EncodingKey,
    keys: Arc<KeySet>,
}

impl Authority {
    fn new() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key pair for ES256 is generated");
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        let public = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a signing key has a public half");
        let keys = Arc::new(KeySet::default());
        keys.replace(json!({"keys": [public]}).to_string().as_bytes()).expect("the key set holds one key");
        Self { key, keys }
    }

    fn token(&self) -> String {
        let seconds = NOW.0 / 1_000;
        let claims = json!({
            "iss": ISSUER, "aud": "https://storage.azure.com", "nbf": seconds - 60, "exp": seconds + 3_600,
            "oid": "anna", "tid": "acme",
        });
        let token =
            encode(&Header::new(Algorithm::ES256), &claims, &self.key).expect("a token is signed for ES256");
        format!("Bearer {token}")
    }

    fn settings(&self, issuers: &[&str]) -> Settings {
        let issuers = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
        let verifier = Verifier::new(issuers, Vec::new(), Duration::ZERO, Arc::clone(&self.keys));
        Settings { bearer: Bearer::Verified(Arc::new(verifier)), ..strict() }
    }
}

async fn server() -> AzureServer {
    let open = AzureServer::with(settings()).await;
    open.queue("orders").await;
    open
}

/// What a receive with a signature by this key comes to at a front-end with these settings.
async fn judged(server: &AzureServer, settings: Settings, key: &Answer) -> String {
    code(&server.beside(settings).await, "GET", "/orders/messages", &sas(key, &[]), "").await
}

const REFUSED: &str = "AuthenticationFailed";

/// Vendor: REST reference, "Authorize with Microsoft Entra ID"
#[tokio::test]
async fn who_shows_a_token_that_is_verified_gets_a_key_that_holds() {
    let (server, authority) = (server().await, Authority::new());
    let key = issue(&server, authority.settings(&[ISSUER]), &authority.token()).await;
    assert_eq!(key.status, 200, "{}", key.body);
    assert_eq!((key.element("SignedOid"), key.element("SignedTid")), ("anna".into(), "acme".into()));
    assert_eq!(judged(&server, authority.settings(&[ISSUER]), &key).await, "200");
    let forged = issue(&server, authority.settings(&[ISSUER]), &Authority::new().token()).await;
    assert_eq!((forged.status, forged.element("Code")), (401, "InvalidAuthenticationInfo".into()));
    let unsigned = issue(&server, authority.settings(&[ISSUER]), &bearer()).await;
    assert_eq!(unsigned.status, 401, "{}", unsigned.body);
}

#[tokio::test]
async fn a_key_holds_only_where_the_same_word_is_believed() {
    let (server, authority) = (server().await, Authority::new());
    let trusts = || [basic(), authority.settings(&[ISSUER]), authority.settings(&[OTHER, ISSUER]), strict()];
    let of_open = key(&server).await;
    for settings in trusts() {
        assert_eq!(judged(&server, settings, &of_open).await, REFUSED, "an open server gives to anybody");
    }
    let of_basic = issue(&server, basic(), &bearer()).await;
    let of_one = issue(&server, authority.settings(&[ISSUER]), &authority.token()).await;
    let of_two = issue(&server, authority.settings(&[OTHER, ISSUER]), &authority.token()).await;
    for (key, place) in [(of_basic, 0), (of_one, 1), (of_two, 2)] {
        for (settings, other) in trusts().into_iter().zip(0..) {
            let expected = if other == place { "200" } else { REFUSED };
            assert_eq!(judged(&server, settings, &key).await, expected, "of {place} at {other}");
        }
    }
}

#[tokio::test]
async fn the_order_of_issuers_changes_no_key() {
    let (server, authority) = (server().await, Authority::new());
    let key = issue(&server, authority.settings(&[OTHER, ISSUER]), &authority.token()).await;
    assert_eq!(judged(&server, authority.settings(&[ISSUER, OTHER]), &key).await, "200");
}
