//! Keys issued to who holds a token, and signatures made with them.
//!
//! What is signed is what `_QueueSharedAccessHelper.add_resource_signature` of azure-storage-queue 12.18.1 signs; one
//! signature here was made by that client itself. Element names are those of its `KeyInfo` and `UserDelegationKey`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::server::{Answer, AzureAnswer, AzureServer, encoded, message, settings, strict};
use super::trusts::{basic, issue};

pub const KEY_PATH: &str = "?restype=service&comp=userdelegationkey";
pub const VERSION: (&str, &str) = ("x-ms-version", "2026-10-06");
const OBJECT: &str = "11111111-1111-1111-1111-111111111111";
const TENANT: &str = "22222222-2222-2222-2222-222222222222";

pub fn bearer() -> String {
    let claims = format!(
        r#"{{"exp":1767312000,"nbf":1,"iat":1,"iss":"https://sts.windows.net/{TENANT}/","aud":"https://storage.azure.com","oid":"{OBJECT}","tid":"{TENANT}"}}"#
    );
    format!("Bearer e30.{}.x", URL_SAFE_NO_PAD.encode(claims))
}

async fn ask_key(server: &AzureServer, start: &str, expiry: &str) -> Answer {
    let body = format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>");
    let token = bearer();
    server.ask_with("POST", KEY_PATH, &[VERSION, ("Authorization", &token)], &body).await
}

/// A key for a day from the instant at which the clock of these tests stands.
pub async fn key(server: &AzureServer) -> Answer {
    let answer = ask_key(server, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

/// A signature of the queue `orders`, with changes to its fields after the key was issued and before it is signed.
pub fn sas(key: &Answer, changes: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = [
        ("sp", "raup".to_owned()),
        ("st", String::new()),
        ("se", "2026-01-01T12:00:00Z".to_owned()),
        ("skoid", key.element("SignedOid")),
        ("sktid", key.element("SignedTid")),
        ("skt", key.element("SignedStart")),
        ("ske", key.element("SignedExpiry")),
        ("sks", key.element("SignedService")),
        ("skv", key.element("SignedVersion")),
        ("skdutid", String::new()),
        ("sduoid", String::new()),
        ("sip", String::new()),
        ("spr", String::new()),
        ("sv", "2026-10-06".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec();
    for (name, value) in changes {
        let field = fields
            .iter_mut()
            .find(|(found, _)| found == name)
            .expect("the shared access signature has the field that is changed");
        (*value).clone_into(&mut field.1);
    }
    let values: Vec<&str> = fields.iter().map(|(_, value)| value.as_str()).collect();
    let (of_signature, of_key) = values.split_at(3);
    let text = [of_signature, &["/queue/devstoreaccount1/orders"], of_key].concat().join("\n");
    let secret = STANDARD.decode(key.element("Value")).expect("an issued key is Base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret).expect("any length will do");
    mac.update(text.as_bytes());
    fields.push(("sig".to_owned(), encoded(&STANDARD.encode(mac.finalize().into_bytes()))));
    fields.retain(|(_, value)| !value.is_empty());
    fields
}

/// Made by that client from the key of [`key_of`] (`generate_queue_sas` with `user_delegation_key`).
const BY_THE_CLIENT: &str = "st=2026-01-01T00%3A00%3A00Z&se=2026-01-01T12%3A00%3A00Z&sp=raup&sip=127.0.0.1&spr=https%2Chttp&sv=2026-10-06&skoid=11111111-1111-1111-1111-111111111111&sktid=22222222-2222-2222-2222-222222222222&skt=2026-01-01T00%3A00%3A00Z&ske=2026-01-02T00%3A00%3A00Z&sks=q&skv=2026-10-06&sig=x/nGdQFcprksiMx08xUHWF3t3Bc%2B18/oMk9x311oO04%3D";

pub async fn code(
    server: &AzureServer,
    method: &str,
    path: &str,
    sas: &[(String, String)],
    body: &str,
) -> String {
    let query: Vec<String> = sas.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mark = if path.contains('?') { '&' } else { '?' };
    let answer = server.ask_with(method, &format!("{path}{mark}{}", query.join("&")), &[VERSION], body).await;
    answer.header("x-ms-error-code").map_or_else(|| answer.status.to_string(), str::to_owned)
}

/// A strict front-end that believes what tokens say, over a store in which an open one has made the queues.
async fn server() -> AzureServer {
    let open = AzureServer::with(settings()).await;
    open.queue("orders").await;
    open.queue("others").await;
    open.beside(basic()).await
}

/// A key of that front-end's.
async fn key_of(server: &AzureServer) -> Answer {
    issue(server, basic(), &bearer()).await
}

/// Vendor: REST reference, "Get User Delegation Key"; azure-storage-queue for Python 12.18.1, get_user_delegation_key
#[tokio::test]
async fn a_key_names_its_holder_its_time_and_its_service() {
    let server = AzureServer::open().await;
    let key = key(&server).await;
    let element = |name: &str| key.element(name);
    assert!(key.body.contains("<UserDelegationKey><SignedOid>"), "{}", key.body);
    assert_eq!((element("SignedOid").as_str(), element("SignedTid").as_str()), (OBJECT, TENANT));
    assert_eq!(element("SignedStart"), "2026-01-01T00:00:00Z");
    assert_eq!(element("SignedExpiry"), "2026-01-02T00:00:00Z");
    assert_eq!((element("SignedService").as_str(), element("SignedVersion").as_str()), ("q", "2026-10-06"));
    assert_eq!(STANDARD.decode(element("Value")).map(|key| key.len()), Ok(32));
    let again = self::key(&server).await;
    assert_eq!(again.element("Value"), element("Value"), "what was asked again is the same key");
    let later = ask_key(&server, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z").await;
    assert_ne!(later.element("Value"), element("Value"));
    for (start, expiry) in [
        ("2026-01-01T00:00:00Z", "2026-01-09T00:00:00Z"),
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2025-12-01T00:00:00Z", "2025-12-31T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "soon"),
    ] {
        ask_key(&server, start, expiry).await.is_error(400, "InvalidXmlNodeValue");
    }
    let body =
        "<KeyInfo><Expiry>2026-01-02T00:00:00Z</Expiry><DelegatedUserTid>t</DelegatedUserTid></KeyInfo>";
    let shared = server.ask_with("POST", KEY_PATH, &[VERSION], body).await;
    assert_eq!(shared.element("SignedDelegatedUserTid"), "t");
    let old = server.ask_with("POST", KEY_PATH, &[("x-ms-version", "2025-05-05")], body).await;
    old.is_error(400, "InvalidHeaderValue");
    server.ask_with("POST", KEY_PATH, &[VERSION], "<KeyInfo/>").await.is_error(400, "InvalidXmlDocument");
}

/// "Get User Delegation Key", section "Authorization": with a token, never with a key or a signature.
#[tokio::test]
async fn no_account_key_is_good_for_a_delegated_one() {
    let server = AzureServer::with(strict()).await;
    let date = ("x-ms-date", super::server::DATE);
    let signed = [VERSION, date, ("Authorization", "SharedKey devstoreaccount1:AAAA")];
    let answer = server.ask_with("POST", KEY_PATH, &signed, "").await;
    answer.is_error(403, "AuthenticationFailed");
    assert_eq!(
        answer.element("AuthenticationErrorDetail"),
        "Only authentication scheme Bearer is supported."
    );
    let token = bearer();
    let refused = server.ask_with("POST", KEY_PATH, &[VERSION, ("Authorization", &token)], "").await;
    refused.is_error(403, "AuthenticationFailed");
    server.ask_with("POST", KEY_PATH, &[VERSION], "").await.is_error(403, "AuthenticationFailed");
}

/// Vendor: signed by azure-storage-queue for Python 12.18.1, generate_queue_sas with a user delegation key
#[tokio::test]
async fn a_signature_that_the_vendors_client_made_is_believed() {
    let strict = server().await;
    assert_eq!(key_of(&strict).await.element("Value"), "HPlKxv3+FaoE/DgofgDxQ2obRPuV/te4FW0zvs4ixSc=");
    for (path, status) in [("/orders/messages", 200), ("/others/messages", 403)] {
        let answer = strict.ask_with("GET", &format!("{path}?{BY_THE_CLIENT}"), &[VERSION], "").await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
}

/// Vendor: REST reference, "Create a user delegation SAS"
#[tokio::test]
async fn a_delegated_signature_reaches_its_queue_as_far_as_it_permits() {
    let strict = server().await;
    let key = key_of(&strict).await;
    let all = sas(&key, &[]);
    let text = message("a");
    for (method, path, body, expected) in [
        ("POST", "/orders/messages", text.as_str(), "201"),
        ("GET", "/orders/messages?peekonly=true", "", "200"),
        ("GET", "/orders/messages", "", "200"),
        ("GET", "/orders?comp=metadata", "", "200"),
        ("GET", "/others/messages", "", "AuthenticationFailed"),
        ("DELETE", "/orders/messages", "", "AuthorizationFailure"),
        ("PUT", "/orders?comp=acl", "", "AuthorizationFailure"),
        ("GET", "?comp=list", "", "AuthorizationFailure"),
    ] {
        assert_eq!(code(&strict, method, path, &all, body).await, expected, "{method} {path}");
    }
    let peek = sas(&key, &[("sp", "r")]);
    assert_eq!(code(&strict, "GET", "/orders/messages?peekonly=true", &peek, "").await, "200");
    assert_eq!(code(&strict, "GET", "/orders/messages", &peek, "").await, "AuthorizationPermissionMismatch");
    let encrypted = sas(&key, &[("spr", "https")]);
    assert_eq!(
        code(&strict, "GET", "/orders/messages", &encrypted, "").await,
        "AuthorizationProtocolMismatch"
    );
    let elsewhere = sas(&key, &[("sip", "10.0.0.1")]);
    assert_eq!(
        code(&strict, "GET", "/orders/messages", &elsewhere, "").await,
        "AuthorizationSourceIPMismatch"
    );
    let older = sas(&key, &[("sv", "2025-07-05")]);
    assert_eq!(code(&strict, "GET", "/orders/messages", &older, "").await, "200");
    let too_old = sas(&key, &[("sv", "2025-05-05")]);
    assert_eq!(code(&strict, "GET", "/orders/messages", &too_old, "").await, "AuthenticationFailed");
    let personal = sas(&key, &[("sduoid", OBJECT)]);
    let alone = code(&strict, "GET", "/orders/messages", &personal, "").await;
    assert_eq!(alone, "AuthenticationFailed", "it needs a token of the person beside it");
}

#[tokio::test]
async fn a_delegated_signature_lapses_with_its_own_time_and_with_its_keys() {
    let strict = server().await;
    let key = key_of(&strict).await;
    let (short, long) = (sas(&key, &[]), sas(&key, &[("se", "2026-02-01T00:00:00Z")]));
    let early = sas(&key, &[("st", "2026-01-01T01:00:00Z")]);
    let judge = async |sas: &[(String, String)]| code(&strict, "GET", "/orders/messages", sas, "").await;
    assert_eq!((judge(&short).await, judge(&long).await), ("200".into(), "200".into()));
    assert_eq!(judge(&early).await, "AuthenticationFailed");
    strict.advance(12 * 3_600 + 1).await;
    assert_eq!((judge(&short).await, judge(&long).await), ("AuthenticationFailed".into(), "200".into()));
    strict.advance(12 * 3_600).await;
    assert_eq!(judge(&long).await, "AuthenticationFailed", "its key has lapsed");
}

/// Vendor: REST reference, "Create a user delegation SAS", string-to-sign
#[tokio::test]
async fn no_field_of_a_delegated_signature_can_be_changed_left_out_or_given_twice() {
    let strict = server().await;
    let whole = sas(&key_of(&strict).await, &[("sip", "127.0.0.1"), ("st", "2026-01-01T00:00:00Z")]);
    assert_eq!(code(&strict, "GET", "/orders/messages", &whole, "").await, "200");
    for place in 0..whole.len() {
        let mut without = whole.clone();
        without.remove(place);
        let mut changed = whole.clone();
        changed[place].1.push('x');
        let mut twice = whole.clone();
        twice.push(whole[place].clone());
        for forged in [without, changed, twice] {
            let answer = code(&strict, "GET", "/orders/messages", &forged, "").await;
            assert_eq!(answer, "AuthenticationFailed", "{forged:?}");
        }
    }
}

#[tokio::test]
async fn without_a_key_ever_issued_no_delegated_signature_holds() {
    let strict = server().await;
    let key = key_of(&AzureServer::with(settings()).await).await;
    let stranger = sas(&key, &[]);
    assert_eq!(code(&strict, "GET", "/orders/messages", &stranger, "").await, "AuthenticationFailed");
}
