//! Strict mode: what the vendor's own client signed is accepted, and nothing that was changed afterwards.
//!
//! The signatures were made by the Python client, version 12.18.1, with the well-known key, for the instant at which
//! the clocks of these tests stand.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::server::{Answer, AzureAnswer, AzureServer, DATE, KEY, strict};

/// A request as that client sent it.
#[derive(Clone)]
struct Signed {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Signed {
    fn new(method: &str, path: &str, headers: &[(&str, &str)], signature: &str, body: &str) -> Self {
        let authorization = format!("SharedKey devstoreaccount1:{signature}");
        let own =
            [("x-ms-version", "2026-10-06"), ("x-ms-date", DATE), ("Authorization", authorization.as_str())];
        let headers =
            own.iter().chain(headers).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { method: method.into(), path: path.into(), headers: headers.collect(), body: body.into() }
    }

    async fn ask(&self, server: &AzureServer) -> Answer {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        server.raw(&self.method, &self.path, &headers, &self.body).await
    }
}

fn samples() -> Vec<(Signed, u16)> {
    let id = |id| ("x-ms-client-request-id", id);
    vec![
        (
            Signed::new(
                "GET",
                "/devstoreaccount1/?prefix=o%20r&maxresults=5&include=metadata&comp=list",
                &[id("08b92fae-e5e6-11f1-8b5c-02fc00000001")],
                "/SACYKbkBC8CMBfs9+9tOzVdbaHrP22ZvCNAVamUZqU=",
                "",
            ),
            200,
        ),
        (
            Signed::new(
                "PUT",
                "/devstoreaccount1/orders",
                &[
                    ("x-ms-meta-Colour", "blue"),
                    ("x-ms-meta-a_b", "1"),
                    ("x-ms-meta-aB", "2"),
                    ("x-ms-meta", "{'Colour': 'blue', 'a_b': '1', 'aB': '2'}"),
                    id("08b978a6-e5e6-11f1-8b5c-02fc00000001"),
                ],
                "egjHUJWfcjxWdWf/A1t0yhcvU48h/TpHR5j2+9jKKns=",
                "",
            ),
            201,
        ),
        (
            Signed::new(
                "POST",
                "/devstoreaccount1/orders/messages?visibilitytimeout=5&messagettl=60",
                &[("Content-Type", "application/xml"), id("08b9af38-e5e6-11f1-8b5c-02fc00000001")],
                "xnk6Ly5+E3Uh9o9rDcaOnyerjivm8Dzfs86lXg5BTMk=",
                "<?xml version='1.0' encoding='utf-8'?>\n<QueueMessage><MessageText>h\u{e9}llo &lt;&amp;&gt;</MessageText></QueueMessage>",
            ),
            201,
        ),
        (
            Signed::new(
                "GET",
                "/devstoreaccount1/orders/messages?numofmessages=3&visibilitytimeout=10",
                &[id("08bb6abc-e5e6-11f1-8b5c-02fc00000001")],
                "zJJ8pvfd/+CnhwO9Sy8zlSHk+CodmMi6hj+LbUgrYfQ=",
                "",
            ),
            200,
        ),
        (
            Signed::new(
                "DELETE",
                "/devstoreaccount1/orders/messages/11111111-2222-4333-8444-555555555555?popreceipt=AQ%2B%2F%3D%3D",
                &[id("08bc5be8-e5e6-11f1-8b5c-02fc00000001")],
                "7ccBbLR+ASc9cJ0+Go4ua29ymZK5vBtkqeDXcbYpiFw=",
                "",
            ),
            // It is believed, and then the receipt is none.
            400,
        ),
        (
            Signed::new(
                "GET",
                "/devstoreaccount1/?restype=service&comp=properties",
                &[id("08be2de2-e5e6-11f1-8b5c-02fc00000001")],
                "9GKhWCQ8JSIfkrbVhx3vxYbsBqPLigriD2apOzy1sYs=",
                "",
            ),
            200,
        ),
    ]
}

/// Vendor: signed by azure-storage-queue for Python
#[tokio::test]
async fn requests_signed_by_the_vendors_client_are_believed() {
    let server = AzureServer::with(strict()).await;
    for (request, status) in samples() {
        let answer = request.ask(&server).await;
        assert_eq!(answer.status, status, "{} {}: {}", request.method, request.path, answer.body);
    }
}

/// Everything a signature covers, changed a little, one thing at a time.
fn tampered(request: &Signed) -> Vec<(String, Signed)> {
    let mut all = Vec::new();
    let mut change = |what: &str, change: &dyn Fn(&mut Signed)| {
        let mut changed = request.clone();
        change(&mut changed);
        all.push((format!("{what} of {} {}", request.method, request.path), changed));
    };
    let set = |request: &mut Signed, name: &str, value: String| {
        for header in &mut request.headers {
            if header.0.eq_ignore_ascii_case(name) {
                header.1.clone_from(&value);
            }
        }
    };
    let signature = request.headers[2].1.clone();
    // A verb the resource does not know is refused before anybody is asked who he is.
    let other_verb = match (request.method.as_str(), request.path.as_str()) {
        ("GET", path) if path.contains("/messages") => Some("DELETE"),
        ("GET", path) if path.contains("properties") => Some("PUT"),
        ("POST", _) => Some("GET"),
        ("PUT", _) => Some("DELETE"),
        ("DELETE", _) => Some("PUT"),
        _ => None,
    };
    if let Some(verb) = other_verb {
        change("another verb", &|request| request.method = verb.into());
    }
    change("a further parameter", &|request| {
        request.path.push(if request.path.contains('?') { '&' } else { '?' });
        request.path.push_str("timeout=30");
    });
    change("another path", &|request| {
        request.path = request.path.replacen("orders", "orderz", 1).replacen("comp", "x=1&comp", 1);
    });
    change("another date", &|request| set(request, "x-ms-date", "Thu, 01 Jan 2026 00:00:01 GMT".into()));
    change("another version", &|request| set(request, "x-ms-version", "2026-10-07".into()));
    change("another request id", &|request| set(request, "x-ms-client-request-id", "other".into()));
    change("a further header", &|request| request.headers.push(("x-ms-other".into(), "1".into())));
    change("a missing header", &|request| {
        request.headers.retain(|(name, _)| name != "x-ms-client-request-id");
    });
    change("another signature", &|request| {
        let last = signature.len() - 5;
        let other = if signature.as_bytes()[last] == b'A' { "B" } else { "A" };
        set(request, "Authorization", format!("{}{other}{}", &signature[..last], &signature[last + 1..]));
    });
    change("a cut signature", &|request| {
        set(request, "Authorization", signature[..signature.len() - 4].to_owned());
    });
    change("no Base64", &|request| set(request, "Authorization", "SharedKey devstoreaccount1:!!".into()));
    change("another scheme of the same key", &|request| {
        set(request, "Authorization", signature.replace("SharedKey ", "SharedKeyLite "));
    });
    change("another account", &|request| {
        set(request, "Authorization", signature.replace("account1:", "account2:"));
    });
    change("no credentials", &|request| request.headers.retain(|(name, _)| name != "Authorization"));
    change("no date", &|request| request.headers.retain(|(name, _)| name != "x-ms-date"));
    change("another encoding", &|request| request.headers.push(("Content-Encoding".into(), "gzip".into())));
    change("a range", &|request| request.headers.push(("Range".into(), "bytes=0-1".into())));
    change("a condition", &|request| request.headers.push(("If-Match".into(), "*".into())));
    all
}

#[tokio::test]
async fn nothing_that_was_changed_after_it_was_signed_is_believed() {
    let server = AzureServer::with(strict()).await;
    let mut refused = 0;
    for (request, _) in samples() {
        for (what, changed) in tampered(&request) {
            let answer = changed.ask(&server).await;
            assert_eq!(answer.status, 403, "{what}: {}", answer.body);
            assert_eq!(answer.header("x-ms-error-code"), Some("AuthenticationFailed"), "{what}");
            refused += 1;
        }
    }
    assert!(refused >= 60, "{refused}");
}

#[tokio::test]
async fn a_malformed_authorization_header_has_its_own_error() {
    let server = AzureServer::with(strict()).await;
    for authorization in ["SharedKey", "Basic abc", "SharedKey nocolon", ""] {
        let answer = server
            .ask_with("GET", "?comp=list", &[("Authorization", authorization), ("x-ms-date", DATE)], "")
            .await;
        answer.is_error(400, "InvalidAuthenticationInfo");
    }
    let bearer = server.ask_with("GET", "?comp=list", &[("Authorization", "Bearer a.b.c")], "").await;
    bearer.is_error(403, "AuthenticationFailed");
}

/// What the well-known key makes of a text.
fn signature(text: &str) -> String {
    let key = STANDARD.decode(KEY).expect("the well-known key is Base64");
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length of key will do");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Vendor: REST reference, "Authorize with Shared Key", "Content-Length header in version 2014-02-14 and earlier"
#[tokio::test]
async fn the_length_of_an_empty_body_is_signed_in_old_versions_only() {
    let server = AzureServer::with(strict()).await;
    for (queue, version, length, expected) in [
        ("one", "2011-08-18", "0", 201),
        ("two", "2014-02-14", "0", 201),
        ("three", "2014-02-14", "", 403),
        ("four", "2015-02-21", "", 201),
        ("five", "2015-02-21", "0", 403),
    ] {
        let text = format!(
            "PUT\n\n\n{length}\n\n\n\n\n\n\n\n\nx-ms-date:{DATE}\nx-ms-version:{version}\n/devstoreaccount1/devstoreaccount1/{queue}"
        );
        let authorization = format!("SharedKey devstoreaccount1:{}", signature(&text));
        let headers = [("x-ms-date", DATE), ("x-ms-version", version), ("Authorization", &authorization)];
        let answer = server.raw("PUT", &format!("/devstoreaccount1/{queue}"), &headers, "").await;
        assert_eq!(answer.status, expected, "{version} with {length:?}: {}", answer.body);
    }
}

/// Vendor: REST reference, "Create a service SAS", "Version 2015-02-21 and later", "Version 2015-04-05 and later"
#[tokio::test]
async fn a_queue_signature_names_the_service_since_february_2015() {
    let server = AzureServer::with(strict()).await;
    code(&server, "PUT", "/orders", FOR_ALL, "").await;
    let end = "2030-01-01T00:00:00Z";
    for (version, resource, more, expected) in [
        ("2014-02-14", "/devstoreaccount1/orders", "", "200"),
        ("2014-02-14", "/queue/devstoreaccount1/orders", "", "AuthenticationFailed"),
        ("2015-02-21", "/queue/devstoreaccount1/orders", "", "200"),
        ("2015-02-21", "/devstoreaccount1/orders", "", "AuthenticationFailed"),
        ("2015-04-05", "/queue/devstoreaccount1/orders", "\n\n", "200"),
    ] {
        let text = format!("p\n\n{end}\n{resource}\n\n{more}{version}");
        let signature = signature(&text).replace('+', "%2B").replace('=', "%3D");
        let sas = format!("sp=p&se={}&sv={version}&sig={signature}", end.replace(':', "%3A"));
        assert_eq!(
            code(&server, "GET", "/orders/messages", &sas, "").await,
            expected,
            "{version} {resource}"
        );
    }
}

/// Valid from 2020 to 2030 for everything, from the addresses 127.0.0.1 to 127.0.0.9, over http and https.
const FOR_ALL: &str = "st=2020-01-01T00%3A00%3A00Z&se=2030-01-01T00%3A00%3A00Z&sp=rwdlacup&sip=127.0.0.1-127.0.0.9&spr=https%2Chttp&sv=2026-10-06&ss=q&srt=sco&sig=yUVZEm3TKWxPheWGErAjNuC8EmA%2BWVDkih7pzWNFjmE%3D";
/// Lists queues, until 2030.
const FOR_LISTS: &str = "se=2030-01-01T00%3A00%3A00Z&sp=l&sv=2026-10-06&ss=q&srt=s&sig=qLSj3eE4ILAMeyaSZ%2BTs9S%2Bf7/SAsh61bOCNnzLM58s%3D";
/// Everything with messages of the queue `orders`, from 127.0.0.1.
const FOR_QUEUE: &str = "st=2020-01-01T00%3A00%3A00Z&se=2030-01-01T00%3A00%3A00Z&sp=raup&sip=127.0.0.1&sv=2026-10-06&sig=P%2BEXaG0ckw43Ngas8lVDPpdOmmREG/VSyFU7UyzmjKM%3D";
/// What the stored policy `a` of the queue `orders` says.
const BY_POLICY: &str = "sv=2026-10-06&si=a&sig=jkC83iR4qf7vvDsKZ6VeRb9KpYBkC27Z67UfGfkgAR8%3D";

async fn code(server: &AzureServer, method: &str, path: &str, sas: &str, body: &str) -> String {
    let mark = if path.contains('?') { '&' } else { '?' };
    let answer = server.ask(method, &format!("{path}{mark}{sas}"), body).await;
    answer.header("x-ms-error-code").map_or_else(|| answer.status.to_string(), str::to_owned)
}

/// Vendor: REST reference, "Create an account SAS", operations by signed service, resource type and permission
#[tokio::test]
async fn an_account_signature_reaches_as_far_as_it_says() {
    let server = AzureServer::with(strict()).await;
    for (method, path, expected) in [
        ("PUT", "/orders", "201"),
        ("GET", "?comp=list", "200"),
        ("GET", "?restype=service&comp=properties", "200"),
        ("GET", "/orders?comp=metadata", "200"),
        ("PUT", "/orders?comp=metadata", "204"),
        ("GET", "/orders?comp=acl", "AuthorizationPermissionMismatch"),
        ("GET", "/orders/messages", "200"),
        ("GET", "/orders/messages?peekonly=true", "200"),
        ("DELETE", "/orders/messages", "204"),
    ] {
        assert_eq!(code(&server, method, path, FOR_ALL, "").await, expected, "{method} {path}");
    }
    for (path, expected) in [
        ("?comp=list", "200"),
        ("/orders?comp=metadata", "AuthorizationResourceTypeMismatch"),
        ("?restype=service&comp=properties", "AuthorizationPermissionMismatch"),
    ] {
        assert_eq!(code(&server, "GET", path, FOR_LISTS, "").await, expected, "{path}");
    }
}

/// "Create a service SAS", table "Permissions for a queue": nothing there opens the queue itself, its policies or
/// lists.
/// Vendor: REST reference, "Create a service SAS", permissions for a queue; error AuthorizationFailure for an
/// operation no SAS can do
#[tokio::test]
async fn a_queue_signature_reaches_its_queue_and_no_further() {
    let server = AzureServer::with(strict()).await;
    code(&server, "PUT", "/orders", FOR_ALL, "").await;
    code(&server, "PUT", "/others", FOR_ALL, "").await;
    let message = super::server::message("a");
    for (method, path, body, expected) in [
        ("POST", "/orders/messages", message.as_str(), "201"),
        ("GET", "/orders/messages", "", "200"),
        ("GET", "/orders?comp=metadata", "", "200"),
        ("DELETE", "/orders/messages", "", "AuthorizationFailure"),
        ("DELETE", "/orders", "", "AuthorizationFailure"),
        ("PUT", "/orders?comp=acl", "", "AuthorizationFailure"),
        ("GET", "/others/messages", "", "AuthenticationFailed"),
        ("PUT", "/orders?comp=metadata", "", "AuthorizationFailure"),
        ("PUT", "/orders", "", "AuthorizationFailure"),
        ("GET", "?comp=list", "", "AuthorizationFailure"),
    ] {
        assert_eq!(code(&server, method, path, FOR_QUEUE, body).await, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_stored_policy_decides_as_long_as_it_stands() {
    let server = AzureServer::with(strict()).await;
    code(&server, "PUT", "/orders", FOR_ALL, "").await;
    assert_eq!(code(&server, "GET", "/orders/messages", BY_POLICY, "").await, "AuthenticationFailed");
    let queue = server.engine.all_queues().remove(0);
    let store = async |policies: &str| {
        let update = kew_core::command::UpdateQueue {
            queue: queue.id,
            if_version: None,
            policy: None,
            documents: vec![(
                kew_core::DocumentKey::new("azure", "acl"),
                Some(bytes::Bytes::from(policies.to_owned())),
            )],
            rename: None,
        };
        server.engine.update_queue(update).await.expect("the queue is there");
    };
    store(r#"[{"id":"a","start":null,"expiry":"2027-01-01","permission":"p"}]"#).await;
    assert_eq!(code(&server, "GET", "/orders/messages", BY_POLICY, "").await, "200");
    let put = code(&server, "POST", "/orders/messages", BY_POLICY, &super::server::message("a")).await;
    assert_eq!(put, "AuthorizationPermissionMismatch");
    store(r#"[{"id":"a","start":null,"expiry":null,"permission":"p"}]"#).await;
    assert_eq!(code(&server, "GET", "/orders/messages", BY_POLICY, "").await, "AuthenticationFailed");
}

#[tokio::test]
async fn signatures_lapse_with_the_engines_time() {
    let server = AzureServer::with(strict()).await;
    server.advance(5 * 366 * 86_400).await;
    assert_eq!(code(&server, "GET", "?comp=list", FOR_LISTS, "").await, "AuthenticationFailed");
}

#[tokio::test]
async fn no_field_of_a_signature_can_be_changed_left_out_or_given_twice() {
    let server = AzureServer::with(strict()).await;
    for sas in [FOR_ALL, FOR_QUEUE] {
        let path = "/orders/messages";
        for field in sas.split('&') {
            let (name, value) = field.split_once('=').expect("fields have values");
            let without: Vec<&str> = sas.split('&').filter(|other| *other != field).collect();
            let changed = sas.replace(field, &format!("{name}={value}x"));
            let twice = format!("{sas}&{field}");
            for forged in [without.join("&"), changed, twice] {
                let answer = code(&server, "GET", path, &forged, "").await;
                assert_eq!(answer, "AuthenticationFailed", "{forged}");
            }
        }
    }
}
