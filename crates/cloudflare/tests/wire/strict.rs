//! Strict mode: tokens, what they allow, and whose queues they reach.

use kew_cloudflare::{Account, Permissions, Settings, Token, Trust};
use kew_core::AccountId;
use kew_http::Guard;
use serde_json::{Value, json};

use super::server::{Answer, CloudflareAnswer, CloudflareServer, settings};

const MINE: &str = "0123456789abcdef0123456789abcdef";
const THEIRS: &str = "fedcba9876543210fedcba9876543210";

fn strict() -> Settings {
    let token =
        |secret: &str, read, write| Token { secret: secret.into(), permissions: Permissions { read, write } };
    let mine = Account {
        id: AccountId(1),
        name: MINE.into(),
        tokens: vec![
            token("all", true, true),
            token("reads", true, false),
            token("writes", false, true),
            token("nothing", false, false),
        ],
    };
    let theirs = Account { id: AccountId(2), name: THEIRS.into(), tokens: vec![token("other", true, true)] };
    Settings {
        accounts: vec![mine, theirs],
        trust: Trust::Strict,
        inner_token: Some("inner".into()),
        ..settings()
    }
}

async fn server() -> CloudflareServer {
    CloudflareServer::with(strict(), Guard::strict()).await
}

async fn ask(server: &CloudflareServer, token: &str, method: &str, path: &str, body: Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let path = format!("/client/v4/accounts/{MINE}{path}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.raw(method, &path, &[("Authorization", &bearer)], body.as_bytes()).await
}

/// A queue that can be pulled from, made with the token that may do everything.
async fn queue(server: &CloudflareServer, name: &str) -> String {
    let made = ask(server, "all", "POST", "/queues", json!({ "queue_name": name })).await.result();
    let queue = format!("/queues/{}", made["queue_id"].as_str().expect("a created queue has an id"));
    ask(server, "all", "POST", &format!("{queue}/consumers"), json!({ "type": "http_pull" })).await.result();
    queue
}

#[tokio::test]
async fn only_tokens_that_are_known_get_in() {
    let server = server().await;
    let path = format!("/client/v4/accounts/{MINE}/queues");
    for (headers, status, code) in [
        (vec![], 403, 10_000),
        (vec![("Authorization", "Bearer wrong")], 403, 10_000),
        (vec![("Authorization", "Bearer allx")], 403, 10_000),
        (vec![("Authorization", "Bearer")], 400, 6_003),
        (vec![("Authorization", "Bearer ")], 400, 6_003),
        (vec![("Authorization", "Bearer two words")], 400, 6_003),
        (vec![("Authorization", "Basic all")], 400, 6_003),
        (vec![("Authorization", "all")], 400, 6_003),
        (vec![("Authorization", "Bearer all"), ("Authorization", "Bearer all")], 400, 6_003),
        (vec![("X-Auth-Key", "all")], 403, 10_000),
        (vec![("X-Auth-Email", "a@b.c"), ("X-Auth-Key", "wrong")], 403, 10_000),
    ] {
        server.raw("GET", &path, &headers, b"").await.is_error(status, code);
    }
    for headers in [
        vec![("Authorization", "Bearer all")],
        vec![("Authorization", "bearer all")],
        vec![("X-Auth-Email", "a@b.c"), ("X-Auth-Key", "all")],
    ] {
        server.raw("GET", &path, &headers, b"").await.result();
    }
    let malformed = server.raw("GET", &path, &[("Authorization", "x")], b"").await;
    assert_eq!(malformed.json()["errors"][0]["error_chain"][0]["code"], 6_111);
    let told = server.raw("GET", "/client/v4/user", &[], b"").await.is_error(403, 10_000);
    assert_eq!(told, "Authentication error");
}

#[tokio::test]
async fn a_token_reaches_its_own_account_only() {
    let server = server().await;
    let queue = queue(&server, "orders").await;
    let theirs = format!("/client/v4/accounts/{THEIRS}/queues");
    server.raw("GET", &theirs, &[("Authorization", "Bearer all")], b"").await.is_error(403, 10_000);
    let listed = server.raw("GET", &theirs, &[("Authorization", "Bearer other")], b"").await.result();
    assert_eq!(listed, json!([]));
    let path = format!("/client/v4/accounts/{THEIRS}{queue}");
    server.raw("GET", &path, &[("Authorization", "Bearer other")], b"").await.is_error(404, 11_000);
    let accounts = server.raw("GET", "/client/v4/accounts", &[("Authorization", "Bearer other")], b"").await;
    assert_eq!(accounts.result()[0]["id"], THEIRS);
}

#[tokio::test]
async fn reading_and_writing_are_allowed_apart() {
    let server = server().await;
    let queue = queue(&server, "orders").await;
    let message = json!({ "body": 1 });
    for (method, path, body, readers, writers) in [
        ("GET", "".to_owned(), Value::Null, true, false),
        ("GET", "/metrics".to_owned(), Value::Null, true, false),
        ("GET", "/consumers".to_owned(), Value::Null, true, false),
        ("PATCH", "".to_owned(), json!({}), false, true),
        ("POST", "/purge".to_owned(), json!({ "delete_messages_permanently": true }), false, true),
        ("POST", "/messages".to_owned(), message.clone(), false, true),
        ("POST", "/messages/batch".to_owned(), json!({ "messages": [message] }), false, true),
        ("POST", "/messages/peek".to_owned(), json!({}), true, false),
        ("POST", "/messages/purge".to_owned(), json!({ "refs": [] }), false, true),
        // Pulling and settling need both.
        ("POST", "/messages/pull".to_owned(), json!({}), false, false),
        ("POST", "/messages/ack".to_owned(), json!({}), false, false),
    ] {
        let code = if path.starts_with("/messages") { 10_106 } else { 10_000 };
        for (token, allowed) in [("reads", readers), ("writes", writers), ("nothing", false), ("all", true)] {
            let answer = ask(&server, token, method, &format!("{queue}{path}"), body.clone()).await;
            if allowed {
                answer.result();
            } else {
                answer.is_error(403, code);
            }
        }
    }
    ask(&server, "nothing", "POST", "/queues", json!({ "queue_name": "x" })).await.is_error(403, 10_000);
}

#[tokio::test]
async fn bindings_show_the_inner_token_or_one_that_may_publish() {
    let server = server().await;
    queue(&server, "orders").await;
    let send = async |headers: &[(&str, &str)]| {
        let mut headers = headers.to_vec();
        headers.extend([("X-Kew-Queue", "orders"), ("X-Msg-Fmt", "text")]);
        server.raw("POST", "/message", &headers, b"m").await
    };
    for headers in [
        &[("X-Kew-Token", "inner"), ("X-Kew-Account", MINE)][..],
        &[("Authorization", "Bearer all")],
        &[("Authorization", "Bearer writes")],
    ] {
        assert_eq!(send(headers).await.status, 200, "{headers:?}");
    }
    for headers in [
        &[][..],
        &[("X-Kew-Token", "outer"), ("X-Kew-Account", MINE)],
        &[("X-Kew-Token", "inner"), ("X-Kew-Account", "nobody")],
        &[("Authorization", "Bearer reads")],
        &[("Authorization", "Bearer wrong")],
    ] {
        let refused = send(headers).await;
        refused.is_error(403, 10_106);
        assert_eq!(refused.header("cf-queues-error-code"), Some("10106"), "{headers:?}");
    }
    let elsewhere = send(&[("X-Kew-Token", "inner"), ("X-Kew-Account", THEIRS)]).await;
    elsewhere.is_error(404, 10_104);
}
