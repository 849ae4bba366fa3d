//! Web pages: preflight requests, headers for browsers, and who is kept out of an open server.

use kew_azure::Settings;

use super::server::{AzureAnswer, AzureServer, settings, strict};

const RULES: &str = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders>x-ms-*</AllowedHeaders><ExposedHeaders>x-ms-request-*,x-other</ExposedHeaders><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";

async fn with_rules() -> AzureServer {
    let server = AzureServer::open().await;
    let set = server.ask("PUT", "?restype=service&comp=properties", RULES).await;
    assert_eq!(set.status, 202, "{}", set.body);
    server
}

/// Vendor: REST reference, "Cross-Origin Resource Sharing (CORS) support", "Preflight Queue Request"
#[tokio::test]
async fn a_browser_gets_the_headers_that_a_cors_rule_allows() {
    let server = with_rules().await;
    let headers = [
        ("Origin", "http://a.example"),
        ("Access-Control-Request-Method", "PUT"),
        ("Access-Control-Request-Headers", "x-ms-date,X-MS-Version"),
    ];
    let answer = server.ask_with("OPTIONS", "/orders", &headers, "").await;
    assert_eq!(answer.status, 200);
    for (name, value) in [
        ("access-control-allow-origin", "http://a.example"),
        ("access-control-allow-methods", "PUT"),
        ("access-control-allow-headers", "x-ms-date,X-MS-Version"),
        ("access-control-max-age", "60"),
        ("access-control-allow-credentials", "true"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
}

#[tokio::test]
async fn what_no_rule_allows_is_refused() {
    let server = with_rules().await;
    for (origin, method, header) in [
        ("http://b.example", "PUT", "x-ms-date"),
        ("http://a.example", "DELETE", "x-ms-date"),
        ("http://a.example", "PUT", "x-ms-date,authorization"),
    ] {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", method),
            ("Access-Control-Request-Headers", header),
        ];
        server.ask_with("OPTIONS", "/orders", &headers, "").await.is_error(403, "CorsPreflightFailure");
    }
    let bare = server.ask_with("OPTIONS", "/orders", &[("Origin", "http://a.example")], "").await;
    bare.is_error(400, "InvalidHeaderValue");
}

#[tokio::test]
async fn a_page_sees_the_headers_that_its_rule_exposes_on_errors_too() {
    let server = with_rules().await;
    let answer = server.ask_with("GET", "/orders?comp=metadata", &[("Origin", "http://a.example")], "").await;
    answer.is_error(404, "QueueNotFound");
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://a.example"));
    assert_eq!(answer.header("access-control-expose-headers"), Some("x-ms-request-id,x-other"));
    assert_eq!(answer.header("vary"), Some("Origin"));
}

/// Vendor: recorded by the JavaScript SDK's test `enqueue, peek and dequeue negative`
#[tokio::test]
async fn a_page_may_see_headers_that_the_server_adds_but_none_of_the_rules_own() {
    let server = AzureServer::open().await;
    let rules = RULES.replace("x-ms-request-*,x-other", "*");
    assert_eq!(server.ask("PUT", "?restype=service&comp=properties", &rules).await.status, 202);
    let answer = server.ask_with("GET", "?comp=list", &[("Origin", "http://a.example")], "").await;
    let exposed =
        answer.header("access-control-expose-headers").expect("all headers are exposed").to_lowercase();
    let exposed: Vec<&str> = exposed.split(',').collect();
    for name in ["x-ms-request-id", "x-ms-version", "server", "content-type", "content-length", "date"] {
        assert!(exposed.contains(&name), "{name} is not in {exposed:?}");
    }
    assert!(!exposed.iter().any(|name| name.starts_with("access-control")), "{exposed:?}");
}

/// Vendor: REST reference, "Preflight Queue Request": judged by the service, not by what is asked for
#[tokio::test]
async fn a_preflight_request_may_name_any_path() {
    let server = with_rules().await;
    let headers = [("Origin", "http://a.example"), ("Access-Control-Request-Method", "PUT")];
    for path in ["/Bad_Queue/messages", "/a/b/c/d", "/orders/messages/", ""] {
        assert_eq!(server.ask_with("OPTIONS", path, &headers, "").await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_do_not_reach_an_open_server() {
    let server = with_rules().await;
    let answer = server.ask_with("GET", "?comp=list", &[("Origin", "http://b.example")], "").await;
    answer.is_error(403, "AuthorizationFailure");
    let answer = server.ask_with("GET", "?comp=list", &[("Sec-Fetch-Site", "cross-site")], "").await;
    answer.is_error(403, "AuthorizationFailure");
    let answer = server.raw("GET", "/devstoreaccount1?comp=list", &[("Host", "evil.example")], "").await;
    answer.is_error(421, "MisdirectedRequest");
}

#[tokio::test]
async fn an_account_is_reached_by_its_own_host() {
    let server = AzureServer::open().await;
    let host = [("Host", "devstoreaccount1.queue.localhost:10001")];
    assert_eq!(server.raw("PUT", "/orders", &host, "").await.status, 201);
    let listed = server.raw("GET", "/?comp=list", &host, "").await;
    assert!(listed.body.contains(r#"ServiceEndpoint="http://devstoreaccount1.queue.localhost:10001/""#));
    assert_eq!(server.ask("GET", "?comp=list", "").await.elements("Name"), ["orders"]);
}

/// The status of a list of queues that is asked for by this host.
async fn status_by(server: &AzureServer, host: &str) -> u16 {
    server.raw("GET", "/?comp=list", &[("Host", host)], "").await.status
}

// A page's own domain may be pointed at this machine, and begin with the account.
#[tokio::test]
async fn an_open_server_is_not_reached_by_an_account_before_a_foreign_domain() {
    let server = AzureServer::open().await;
    for foreign in [
        "devstoreaccount1.attacker.example",
        "devstoreaccount1.queue.attacker.example:10001",
        "devstoreaccount1-secondary.attacker.example",
        "devstoreaccount1.queue.core.windows.net",
        "devstoreaccount1.queue.kew",
        "devstoreaccount1.queue",
        "devstoreaccount1.localhost.attacker.example",
    ] {
        let answer = server.raw("GET", "/?comp=list", &[("Host", foreign)], "").await;
        answer.is_error(421, "MisdirectedRequest");
    }
    for own in ["devstoreaccount1.queue.localhost", "DevStoreAccount1.queue.host.docker.internal:10001"] {
        assert_eq!(status_by(&server, own).await, 200, "{own}");
    }
}

#[tokio::test]
async fn an_account_stands_before_the_parents_an_operator_lists() {
    let parents = ["queue.corp.test".to_owned(), "kew.test".to_owned()].as_slice().into();
    let server = AzureServer::with(Settings { host_parents: parents, ..settings() }).await;
    for own in
        ["devstoreaccount1.queue.corp.test", "devstoreaccount1.queue.kew.test", "devstoreaccount1.kew.test"]
    {
        assert_eq!(status_by(&server, own).await, 200, "{own}");
    }
    for foreign in ["kew.test", "other.queue.corp.test", "devstoreaccount1.corp.test"] {
        assert_eq!(status_by(&server, foreign).await, 421, "{foreign}");
    }
    // The signature identifies the caller.
    assert_eq!(status_by(&AzureServer::with(strict()).await, "devstoreaccount1.anywhere.example").await, 403);
}
