//! The look at a queue's messages on addresses of all dialects: how much it shows at most. What it shows is tested over
//! the program (`crates/kew/tests/serve/also.rs`).

use std::sync::Arc;

use kew_core::{Policy, Timestamp};
use kew_http::{Headers, Method, Reply, Request, RequestId, Uri};
use kew_sqs::{Settings, Sqs};
use serde_json::{Value, json};

use super::server::{SqsAnswer, SqsServer};

const MIB: usize = 1 << 20;

async fn look(server: &SqsServer, query: &str) -> Reply {
    let target = format!("/_aws/sqs/messages?QueueUrl=orders{query}");
    let request = Request {
        method: Method::GET,
        uri: target.parse::<Uri>().expect("the target of a look is a URI"),
        headers: Headers::default(),
        body: Default::default(),
        id: RequestId::from_chance(0),
        received_at: Timestamp::ZERO,
        peer: ([127, 0, 0, 1], 1).into(),
        secure: false,
        room: Default::default(),
    };
    let sqs = Sqs::new(Arc::clone(&server.engine), Settings::default());
    let reply = sqs.look(&request).await;
    assert_eq!(reply.status, 200);
    reply
}

fn shown(reply: &Reply) -> usize {
    let text = std::str::from_utf8(&reply.body).expect("a reply of the console is UTF-8");
    text.matches("<Message>").count()
}

async fn server() -> SqsServer {
    let server = SqsServer::open().await;
    server.queue("orders", Policy::standard()).await;
    server
}

async fn send(server: &SqsServer, body: &str, further: Value) {
    assert_eq!(server.send_to("orders", body, further).await.status, 200);
}

#[tokio::test]
async fn attributes_count_as_bodies_do() {
    let server = server().await;
    let value = "v".repeat(MIB - 100);
    let attributes =
        json!({"MessageAttributes": {"k": {"DataType": "String", "StringValue": value}}, "DelaySeconds": 0});
    for number in 0..24 {
        let mut further = attributes.clone();
        if number % 2 == 1 {
            further["DelaySeconds"] = json!(900);
        }
        send(&server, "x", further).await;
    }
    for query in ["", "&ShowDelayed=true&ShowInvisible=true"] {
        let reply = look(&server, query).await;
        assert_eq!(shown(&reply), 8, "as many as 8 MiB hold");
        assert!(reply.body.len() < 9 * MIB, "{}", reply.body.len());
    }
}

#[tokio::test]
async fn what_escapes_make_of_bodies_is_bounded() {
    let server = server().await;
    let body = "\"".repeat(MIB / 2);
    for _ in 0..12 {
        send(&server, &body, json!({})).await;
    }
    let reply = look(&server, "").await;
    assert_eq!(shown(&reply), 5, "six quotes of a quote each: 3 MiB for a message");
    assert!(reply.body.len() < 16 * MIB, "{}", reply.body.len());
}

#[tokio::test]
async fn a_thousand_of_each_kind_are_shown_once() {
    let server = server().await;
    let batch = |first: usize, delay: u32| -> Value {
        let entry = |id: usize| json!({"Id": id.to_string(), "MessageBody": (first + id).to_string(), "DelaySeconds": delay});
        json!({"QueueUrl": "orders", "Entries": (0..10).map(entry).collect::<Vec<_>>()})
    };
    for hundred in 0..101 {
        server.call("SendMessageBatch", batch(hundred * 10, 0)).await.ok();
    }
    server.call("SendMessageBatch", batch(5_000, 900)).await.ok();
    assert_eq!(shown(&look(&server, "").await), 1_000);
    let all = look(&server, "&ShowDelayed=true").await;
    let text = std::str::from_utf8(&all.body).expect("a reply of the console is UTF-8");
    let bodies: Vec<&str> =
        text.split("<Body>").skip(1).filter_map(|rest| rest.split("</Body>").next()).collect();
    let expected: Vec<String> = (0..1_000).chain(5_000..5_010).map(|number| number.to_string()).collect();
    assert_eq!(bodies, expected, "each once, in the order of sends");
}
