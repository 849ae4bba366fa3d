//! What every reply shows, and what is refused before any operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kew_azure::Settings;
use kew_http::RequestId;

use super::server::{AzureAnswer, AzureServer, settings};

#[tokio::test]
async fn every_reply_names_the_request_the_version_and_the_server() {
    let server = AzureServer::open().await;
    let headers = [("x-ms-version", "2031-01-01"), ("x-ms-client-request-id", "mine")];
    for path in ["?comp=list", "/orders?comp=metadata"] {
        let answer = server.ask_with("GET", path, &headers, "").await;
        assert_eq!(answer.header("x-ms-version"), Some("2031-01-01"));
        assert_eq!(answer.header("x-ms-client-request-id"), Some("mine"));
        assert_eq!(answer.header("x-ms-request-id").map(str::len), Some(36));
        assert!(answer.header("server").is_some_and(|server| server.starts_with("Kew")));
        assert!(answer.header("date").is_some());
    }
}

#[tokio::test]
async fn an_error_tells_its_code_text_request_and_time() {
    let server = AzureServer::open().await;
    let answer = server.ask("GET", "/orders?comp=metadata", "").await;
    answer.is_error(404, "QueueNotFound");
    let id = answer.header("x-ms-request-id").expect("each reply has a request id");
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>QueueNotFound</Code><Message>The specified queue does not exist.\nRequestId:{id}\nTime:2026-01-01T00:00:00.0000000Z</Message></Error>"
    );
    assert_eq!(answer.body, body);
    let head = server.ask("HEAD", "/orders?comp=metadata", "").await;
    head.is_error(404, "QueueNotFound");
    assert_eq!(head.body, "");
}

#[tokio::test]
async fn versions_are_dates_from_2009_on() {
    let server = AzureServer::open().await;
    for (version, legal) in [
        ("2009-04-14", true),
        ("2999-12-31", true),
        ("2009-04-13", false),
        ("2026-13-01", false),
        ("today", false),
    ] {
        let answer = server.ask_with("GET", "?comp=list", &[("x-ms-version", version)], "").await;
        assert_eq!(answer.status, if legal { 200 } else { 400 }, "{version}");
        if !legal {
            answer.is_error(400, "InvalidHeaderValue");
            assert_eq!(answer.element("HeaderName"), "x-ms-version");
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_refused() {
    let server = AzureServer::open().await;
    server.raw("GET", "/unknown?comp=list", &[], "").await.is_error(404, "ResourceNotFound");
    server.ask("GET", "/orders/other", "").await.is_error(400, "InvalidUri");
    server.ask("GET", "/orders?comp=other", "").await.is_error(400, "InvalidQueryParameterValue");
    server.ask("POST", "/orders", "").await.is_error(405, "UnsupportedHttpVerb");
    server.ask("GET", "/%ff%fe%fd?comp=metadata", "").await.is_error(400, "InvalidUri");
    server.ask("GET", "?comp=list&x=%zz", "").await.is_error(400, "InvalidUri");
}

/// The operator gets reports of internal errors, not of the faults of clients.
#[tokio::test]
async fn what_clients_get_wrong_is_no_failure_of_ours() {
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    let failures = Arc::new(move |_: RequestId, _: &str| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let server = AzureServer::with(Settings { failures, ..settings() }).await;
    server.queue("orders").await;
    for (method, path, body) in [
        ("GET", "/%ff", ""),
        ("GET", "/orders?comp=%zz", ""),
        ("PUT", "/orders?comp=acl", "<SignedIdentifiers>"),
        ("PUT", "?restype=service&comp=properties", "no XML"),
    ] {
        let answer = server.ask(method, path, body).await;
        assert_eq!(answer.status, 400, "{method} {path}");
    }
    assert_eq!(told.load(Ordering::Relaxed), 0);
}
