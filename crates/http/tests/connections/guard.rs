//! What does not reach a front-end, and in whose words.

use crate::server::ScriptedServer;
use kew_http::Limits;

#[tokio::test]
async fn refusals_come_in_the_front_ends_words_and_the_connection_goes_on() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    for (headers, status, words) in [
        ("Host: evil.example", 421, "refused /x: this server accepts any credentials"),
        (
            "Host: localhost\r\nOrigin: https://evil.example",
            403,
            "takes no requests from web pages of https://evil.example",
        ),
        (
            "Host: localhost\r\nSec-Fetch-Site: cross-site",
            403,
            "takes no requests from web pages of other sites",
        ),
        ("Host: a\r\nHost: a", 400, "more than one Host header"),
        ("Host: me@localhost", 400, "not a host and a port"),
        ("X: y", 400, "no Host header"),
    ] {
        client.send(format!("GET /x HTTP/1.1\r\n{headers}\r\n\r\n")).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{headers}: {answer:?}");
        assert!(answer.body.contains(words), "{headers}: {answer:?}");
    }
    assert_eq!(client.get("/fine").await.status, 200);
}

#[tokio::test]
async fn a_refused_request_with_a_body_is_answered_although_its_client_goes_on_sending() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send("POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 4000000\r\n\r\n").await;
    for _ in 0..40 {
        client.send(vec![b'x'; 100_000]).await;
    }
    assert_eq!(client.answer().await.status, 421);
    assert_eq!(client.rest().await, "", "the connection ends");
}

#[tokio::test]
async fn a_target_with_a_host_counts() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    client.send("GET http://localhost/a HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(client.answer().await.body, "GET /a 0");
    client.send("GET http://evil.example/a HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 400);
    client.send("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 405);
}
