//! HTTP/1: what is accepted, and what is no request at all.

use crate::server::ScriptedServer;
use kew_http::Limits;

const HEAD: &str = "POST /p HTTP/1.1\r\nHost: localhost\r\n";

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    assert_eq!(client.get("/from").await.body, "127.0.0.1 false");
    client.send(format!("{HEAD}Content-Length: 3\r\n\r\nabc")).await;
    assert_eq!(client.answer().await.body, "POST /p 3");
    client
        .send(format!(
            "{HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nTrailer: t\r\n\r\n"
        ))
        .await;
    assert_eq!(client.answer().await.body, "POST /p 3");
    assert_eq!(client.get("/end").await.body, "GET /end 0");
}

#[tokio::test]
async fn a_body_may_come_byte_by_byte() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    for byte in format!("{HEAD}Content-Length: 5\r\n\r\nabcde").bytes() {
        client.send([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.answer().await.body, "POST /p 5");
    assert_eq!(server.shared.bodies.held(), 0);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    let requests: String = (0..100)
        .map(|number| format!("POST /{number} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"))
        .collect();
    client.send(requests).await;
    for number in 0..100 {
        assert_eq!(client.answer().await.body, format!("POST /{number} 2"));
    }
}

#[tokio::test]
async fn requests_behind_one_that_waits_are_answered_after_it() {
    let mut server = ScriptedServer::open(Limits { pipelined_bytes_max: 100, ..Limits::default() }).await;
    let mut client = server.client().await;
    let after: String =
        (0..20).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
    client.send(format!("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n{after}")).await;
    server.event().await;
    client.send("GET /last HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    server.release.notify_one();
    assert_eq!(client.answer().await.body, "waited");
    for number in 0..20 {
        assert_eq!(client.answer().await.body, format!("GET /{number} 0"));
    }
    assert_eq!(client.answer().await.body, "GET /last 0");
}

#[tokio::test]
async fn framing_that_two_readers_may_read_differently_is_refused() {
    let server = ScriptedServer::open(Limits::default()).await;
    for headers in [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1, 2",
        "Content-Length: -1",
        "Content-Length: +1",
        "Content-Length: 0x1",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked\r\n folded: yes",
        "X\0: y",
    ] {
        let reply = server.all(format!("{HEAD}{headers}\r\n\r\nabcdef")).await;
        assert!(reply.starts_with("HTTP/1.1 400"), "{headers}: {reply}");
        assert_eq!(
            reply.matches("HTTP/1.1 ").count(),
            1,
            "nothing behind it is read as a request: {headers}"
        );
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_ignored_and_hidden_from_handlers() {
    let server = ScriptedServer::open(Limits::default()).await;
    for headers in [
        "Content-Length: 100\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 100",
    ] {
        let mut client = server.client().await;
        client
            .send(format!("POST /host HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n1\r\na\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await;
        assert_eq!(client.answer().await.body, "Some(\"localhost\") None", "{headers}");
        assert_eq!(client.rest().await, "", "nobody is trusted after that: {headers}");
    }
}

#[tokio::test]
async fn broken_bodies_are_refused_in_the_front_ends_words() {
    let server = ScriptedServer::open(Limits::default()).await;
    for body in ["zz\r\nabc\r\n", "ffffffffffffffffff\r\n", "1\r\nabc\r\n"] {
        let mut client = server.client().await;
        client.send(format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.body.as_str()), (400, "refused /p: the request body is broken\n"));
        assert_eq!(client.rest().await, "", "the connection ends");
    }
}

#[tokio::test]
async fn old_clients_get_one_answer() {
    let server = ScriptedServer::open(Limits::default()).await;
    let reply = server.all("GET /old HTTP/1.0\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.0 200"), "{reply}");
    assert!(reply.ends_with("GET /old 0"), "{reply}");
    let head = server.all("HEAD /h HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(head.contains("content-length: 9\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn an_old_client_that_asks_for_it_keeps_its_connection() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    for path in ["/one", "/two"] {
        client.send(format!("GET {path} HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")).await;
        let answer = client.answer().await;
        assert_eq!(answer.body, format!("GET {path} 0"));
        assert!(answer.header("connection") == Some("keep-alive"), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_asked_behind_the_last_request_is_not_answered() {
    let server = ScriptedServer::open(Limits::default()).await;
    let last = "GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let reply = server.all(format!("{last}GET /more HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    assert!(reply.contains("connection: close\r\n") && reply.ends_with("GET /last 0"), "{reply}");
}

#[tokio::test]
async fn a_request_that_would_like_another_protocol_is_answered_in_this_one() {
    let server = ScriptedServer::open(Limits::default()).await;
    let mut client = server.client().await;
    for _ in 0..2 {
        client
            .send("GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n")
            .await;
        assert_eq!(client.answer().await.body, "GET /x 0");
    }
}

#[tokio::test]
async fn bytes_that_are_no_http_are_refused_and_the_connection_is_closed() {
    let server = ScriptedServer::open(Limits::default()).await;
    for bytes in [
        "\x16\x03\x01\0\0",
        "GET\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        "\0\0\0\0",
    ] {
        let reply = server.all(bytes).await;
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 400"), "{bytes:?}: {reply}");
    }
}

#[tokio::test]
async fn leave_to_send_a_body_is_given_when_the_head_is_acceptable() {
    let server = ScriptedServer::open(Limits { body_bytes_max: 10, ..Limits::default() }).await;
    let mut client = server.client().await;
    client.send(format!("{HEAD}Expect: 100-continue\r\nContent-Length: 10\r\n\r\n")).await;
    let leave = client.answer().await;
    assert_eq!(
        (leave.status, leave.reason.as_str(), leave.headers.as_slice()),
        (100, "Continue", [].as_slice())
    );
    client.send("0123456789").await;
    assert_eq!(client.answer().await.body, "POST /p 10");
    client.send(format!("{HEAD}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")).await;
    assert_eq!(client.answer().await.body, "POST /p 3", "who has sent it waits for no leave");

    client.send(format!("{HEAD}Expect: 100-continue\r\nContent-Length: 11\r\n\r\n")).await;
    let refused = client.answer().await;
    assert_eq!(refused.status, 413, "{refused:?}");
    assert_eq!(client.rest().await, "", "the connection ends");

    let mut client = server.client().await;
    client
        .send("POST / HTTP/1.1\r\nHost: evil.example\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 421);
}

#[tokio::test]
async fn what_is_being_asked_when_the_server_ends_is_answered() {
    let server = ScriptedServer::open(Limits::default()).await;
    let (mut begun, mut kept) = (server.client().await, server.client().await);
    kept.get("/kept").await;
    begun.send("GET /begun HTTP/1.1\r\nHo").await;
    while server.shared.drain.places() < 2 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    server.shared.drain.close();
    assert_eq!(kept.rest().await, "", "who has not begun to ask is let go");
    begun.send("st: localhost\r\n\r\n").await;
    let reply = begun.rest().await;
    assert!(reply.contains("connection: close\r\n") && reply.ends_with("GET /begun 0"), "{reply}");
}
