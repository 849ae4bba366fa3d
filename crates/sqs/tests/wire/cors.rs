//! Web apps of listed origins. What a browser asks and needs is the Fetch standard's (section 3.2, the CORS protocol);
//! which headers an SDK sends and reads is in the sources of the vendor's JavaScript SDK (`x-amz-*`, `amz-sdk-*`;
//! `x-amzn-requestid`, `x-amzn-errortype`, `x-amzn-query-error`).

use kew_core::Policy;
use kew_sqs::Settings;

use super::server::{Answer, SqsServer};

const APP: &str = "http://localhost:3000";

async fn server(origins: &[&str]) -> SqsServer {
    let cors_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let server = SqsServer::with(Settings { cors_origins, ..Settings::default() }).await;
    server.queue("orders", Policy::standard()).await;
    server
}

async fn preflight(server: &SqsServer, origin: &str) -> Answer {
    let request = format!(
        "OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
         Access-Control-Request-Headers: amz-sdk-invocation-id,authorization,content-type,x-amz-date,x-amz-target,x-other\r\n\r\n"
    );
    server.send(request.as_bytes()).await
}

async fn ask(server: &SqsServer, origin: &str, body: &str) -> Answer {
    let request = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nSec-Fetch-Site: cross-site\r\n\
         X-Amz-Target: AmazonSQS.GetQueueUrl\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    server.send(request.as_bytes()).await
}

const FOUND: &str = r#"{"QueueName":"orders"}"#;
const MISSING: &str = r#"{"QueueName":"missing"}"#;

/// Vendor: Fetch standard, section 3.2; the service answers no preflight, the setting is ours
#[tokio::test]
async fn a_page_of_a_listed_origin_may_ask_with_an_sdks_headers() {
    let server = server(&["http://other.test", APP]).await;
    let answer = preflight(&server, APP).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST"));
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("amz-sdk-invocation-id, authorization, content-type, x-amz-date, x-amz-target"),
        "what no SDK sends is not allowed"
    );
    assert_eq!(answer.header("vary"), Some("Origin"));
}

#[tokio::test]
async fn a_page_of_a_listed_origin_sees_results_and_errors() {
    let server = server(&[APP]).await;
    for (body, status) in [(FOUND, 200), (MISSING, 400)] {
        let answer = ask(&server, APP, body).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
        let exposed = answer.header("access-control-expose-headers").expect("some are");
        assert!(exposed.contains("x-amzn-requestid") && exposed.contains("x-amzn-errortype"), "{exposed}");
        assert_eq!(answer.header("vary"), Some("Origin"));
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_refused_as_ever() {
    let server = server(&[APP]).await;
    for origin in ["http://localhost:3001", "null"] {
        for answer in [preflight(&server, origin).await, ask(&server, origin, FOUND).await] {
            assert_eq!(answer.status, 403, "{origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[tokio::test]
async fn a_star_lists_every_page() {
    let server = server(&["*"]).await;
    assert_eq!(ask(&server, "http://any.example", FOUND).await.status, 200);
    let answer = preflight(&server, "http://any.example").await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://any.example"));
}

#[tokio::test]
async fn without_the_setting_nothing_of_it_is_seen() {
    let server = server(&[]).await;
    for answer in [preflight(&server, APP).await, ask(&server, APP, FOUND).await] {
        assert_eq!(answer.status, 403);
    }
    let plain = server.ask("GetQueueUrl", FOUND).await;
    for header in ["vary", "access-control-allow-origin", "access-control-expose-headers"] {
        assert_eq!(plain.header(header), None);
    }
}
