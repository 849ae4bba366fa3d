//! The table of errors, row by row where no other topic has the row, and what is refused before any operation.

use kew_core::command::CreateQueue;
use kew_core::{AccountId, Policy, QueueKey};
use kew_http::Guard;
use serde_json::json;

use super::server::{ACCOUNT, CloudflareAnswer, CloudflareServer, settings};

#[tokio::test]
async fn an_unknown_path_is_refused() {
    let server = CloudflareServer::open().await;
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/client/v4"),
        ("GET", "/client/v4/zones"),
        ("GET", "/client/v4/accounts//queues"),
        ("GET", "/client/v4/accounts//workers/scripts"),
        ("DELETE", "/client/v4/accounts/a/queues"),
        ("GET", "/client/v4/accounts/a/queues/1/messages"),
        ("PATCH", "/client/v4/accounts/a/queues/1/consumers/2"),
    ] {
        let told = server.raw(method, path, &[], b"").await.is_error(404, 7_003);
        assert!(told.starts_with("Could not route to /") && !told.contains("/client/v4"), "{told}");
        assert!(told.ends_with(", perhaps your object identifier is invalid?"), "{told}");
    }
    let told = server.ask("GET", "/event_subscriptions/subscriptions", "").await.is_error(404, 7_003);
    assert!(told.contains("not offered"), "{told}");
}

#[tokio::test]
async fn a_queue_that_is_not_there_has_two_numbers() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("gone").await;
    server.ask("DELETE", &queue, "").await.result();
    for (method, path, body) in [
        ("GET", "", ""),
        ("PUT", "", "{}"),
        ("PATCH", "", "{}"),
        ("DELETE", "", ""),
        ("GET", "/metrics", ""),
        ("GET", "/purge", ""),
        ("POST", "/purge", r#"{"delete_messages_permanently":true}"#),
        ("GET", "/consumers", ""),
        ("POST", "/consumers", r#"{"type":"http_pull"}"#),
        ("GET", "/consumers/1", ""),
        ("DELETE", "/consumers/1", ""),
    ] {
        server.ask(method, &format!("{queue}{path}"), body).await.is_error(404, 11_000);
    }
    for (path, body) in [
        ("", r#"{"body":1}"#),
        ("/batch", r#"{"messages":[{"body":1}]}"#),
        ("/pull", ""),
        ("/ack", ""),
        ("/peek", ""),
        ("/purge", r#"{"refs":[]}"#),
    ] {
        for queue in [queue.as_str(), "/queues/ffffffffffffffffffffffffffffffff", "/queues/orders"] {
            server.ask("POST", &format!("{queue}/messages{path}"), body).await.is_error(404, 10_104);
        }
    }
}

/// The live service answers 11000 for a queue's id with hyphens (distilled-cloudflare, `test/services/queues.test.ts`).
#[tokio::test]
async fn an_id_that_never_was_one_is_malformed_for_messages_and_not_there_for_queues() {
    let server = CloudflareServer::open().await;
    for id in ["00000000-0000-0000-0000-000000000000", "my-queue", "a%20b"] {
        for (method, path, body) in [
            ("GET", "", ""),
            ("PUT", "", "{}"),
            ("PATCH", "", "{}"),
            ("DELETE", "", ""),
            ("GET", "/metrics", ""),
            ("GET", "/purge", ""),
            ("POST", "/purge", r#"{"delete_messages_permanently":true}"#),
            ("GET", "/consumers", ""),
            ("POST", "/consumers", r#"{"type":"http_pull"}"#),
            ("GET", "/consumers/00000000-0000-0000-0000-000000000000", ""),
            ("DELETE", "/consumers/00000000-0000-0000-0000-000000000000", ""),
        ] {
            server.ask(method, &format!("/queues/{id}{path}"), body).await.is_error(404, 11_000);
        }
        for (path, body) in [("", r#"{"body":1}"#), ("/pull", ""), ("/ack", "")] {
            server.ask("POST", &format!("/queues/{id}/messages{path}"), body).await.is_error(400, 10_107);
        }
    }
}

#[tokio::test]
async fn bodies_of_every_call_are_json_objects() {
    let server = CloudflareServer::open().await;
    let queue = server.pulled("orders", json!({})).await;
    for (method, path) in [
        ("POST", "/queues".to_owned()),
        ("PUT", queue.clone()),
        ("PATCH", queue.clone()),
        ("POST", format!("{queue}/purge")),
        ("POST", format!("{queue}/consumers")),
        ("POST", format!("{queue}/messages")),
        ("POST", format!("{queue}/messages/batch")),
        ("POST", format!("{queue}/messages/pull")),
        ("POST", format!("{queue}/messages/ack")),
        ("POST", format!("{queue}/messages/peek")),
        ("POST", format!("{queue}/messages/purge")),
    ] {
        server.ask(method, &path, "{").await.is_error(400, 10_208);
        server.ask(method, &path, "[]").await.is_error(400, 10_207);
        server.ask(method, &path, "7").await.is_error(400, 10_207);
        server.ask(method, &path, "{\"a\":NaN}").await.is_error(400, 10_208);
        server.ask(method, &path, "\u{feff}{}").await.is_error(400, 10_208);
    }
    for body in [r#"{"batch_size":0}"#, r#"{"batch_size":101}"#, r#"{"visibility_timeout_ms":43200001}"#] {
        server.ask("POST", &format!("{queue}/messages/pull"), body).await.is_error(400, 10_207);
    }
}

#[tokio::test]
async fn a_body_beyond_the_listeners_bound_is_refused_in_the_envelope() {
    let server = CloudflareServer::open().await;
    let queue = server.queue("orders").await;
    let huge = format!(r#"{{"body":"{}"}}"#, "a".repeat(3 << 20));
    server.ask("POST", &format!("{queue}/messages"), &huge).await.is_error(413, 10_205);
}

#[tokio::test]
async fn queues_of_other_dialects_with_names_that_are_none_here_are_not_there() {
    let server = CloudflareServer::open().await;
    for (name, policy) in [("under_score", Policy::standard()), ("strict.fifo", Policy::fifo())] {
        let key = QueueKey::new(AccountId(0), "us-east-1", name);
        let create = CreateQueue { key, policy, documents: Vec::new() };
        let queue = server.engine.create_queue(create).await.expect("the name is free");
        server.ask("GET", &format!("/queues/{:032x}", queue.id.0), "").await.is_error(404, 11_000);
        assert!(server.path(name).await.is_none());
    }
    let elsewhere = QueueKey::new(AccountId(0), "eu-west-1", "orders");
    let create = CreateQueue { key: elsewhere, policy: Policy::standard(), documents: Vec::new() };
    let queue = server.engine.create_queue(create).await.expect("the name is free");
    server.ask("GET", &format!("/queues/{:032x}", queue.id.0), "").await.is_error(404, 11_000);
    assert_eq!(server.ask("GET", "/queues", "").await.result(), json!([]));
}

#[tokio::test]
async fn web_pages_and_unknown_hosts_do_not_reach_an_open_server() {
    let server = CloudflareServer::with(settings(), Guard::open()).await;
    let path = format!("{ACCOUNT}/queues");
    server.raw("GET", &path, &[("Host", "evil.example.com")], b"").await.is_error(421, 0);
    server.raw("GET", &path, &[("Sec-Fetch-Site", "cross-site")], b"").await.is_error(403, 0);
    server.raw("GET", &path, &[("Origin", "https://evil.example.com")], b"").await.is_error(403, 0);
    for host in ["localhost:9326", "kew", "fake-host", "a.localhost", "[::1]:9326"] {
        server.raw("GET", &path, &[("Host", host)], b"").await.result();
    }
}

#[tokio::test]
async fn an_account_goes_by_any_id_in_open_mode_and_clients_find_it() {
    let server = CloudflareServer::open().await;
    server.queue("orders").await;
    let other = "/client/v4/accounts/023e105f4ecef8ad9ca31a8372d0c353";
    let listed = server.raw("GET", &format!("{other}/queues"), &[], b"").await.result();
    assert_eq!(listed[0]["queue_name"], "orders");
    let account = server.raw("GET", other, &[], b"").await.result();
    assert_eq!(account["id"], "023e105f4ecef8ad9ca31a8372d0c353");
    assert!(server.raw("GET", "/client/v4/user", &[], b"").await.result()["email"].is_string());
    let verified = server.raw("GET", "/client/v4/user/tokens/verify", &[], b"").await.result();
    assert_eq!(verified["status"], "active");
    for path in ["/client/v4/accounts", "/client/v4/memberships"] {
        let listed = server.raw("GET", path, &[], b"").await.result();
        assert!(listed[0].to_string().contains(&"0".repeat(32)), "{listed}");
    }
}
