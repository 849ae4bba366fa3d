//! Cloudflare Queues on its hot paths.

use kew_cloudflare::{Cloudflare, Settings};
use kew_http::{Method, Reply, Request};

use super::road::{Road, between, message, pass, request, text};
use crate::rig::Rig;

/// Cloudflare, open to everybody.
pub struct CloudflareRoad {
    front_end: Cloudflare,
    queue: String,
}

pub fn open(rig: &Rig) -> CloudflareRoad {
    let front_end = Cloudflare::new(rig.engine.clone(), Settings::open("us-east-1".into()));
    let made = call("", r#"{"queue_name":"guard"}"#);
    let made = pass(&rig.engine, &front_end, vec![made], false);
    let queue = between(text(&made[0]), "\"queue_id\":\"", '"')[0].to_owned();
    let consumer = r#"{"type":"http_pull","settings":{"max_retries":100}}"#;
    pass(&rig.engine, &front_end, vec![call(&format!("/{queue}/consumers"), consumer)], false);
    CloudflareRoad { front_end, queue }
}

fn call(path: &str, body: &str) -> Request {
    let length = body.len().to_string();
    let target = format!("/client/v4/accounts/{}/queues{path}", "0".repeat(32));
    let headers = [
        ("host", "127.0.0.1:9326"),
        ("authorization", "Bearer guard"),
        ("user-agent", "kew-bench"),
        ("content-type", "application/json"),
        ("content-length", length.as_str()),
    ];
    request(Method::POST, &target, &headers, body.as_bytes().to_vec())
}

impl Road for CloudflareRoad {
    type FrontEnd = Cloudflare;

    fn front_end(&self) -> &Cloudflare {
        &self.front_end
    }

    fn send(&self, _: u64) -> Request {
        let body = format!(r#"{{"content_type":"text","body":"{}"}}"#, message());
        call(&format!("/{}/messages", self.queue), &body)
    }

    fn receive(&self) -> Request {
        let body = r#"{"batch_size":1,"visibility_timeout_ms":43200000}"#;
        call(&format!("/{}/messages/pull", self.queue), body)
    }

    fn delete(&self, reply: &Reply) -> Request {
        let leases = between(text(reply), "\"lease_id\":\"", '"');
        let body = format!(r#"{{"acks":[{{"lease_id":"{}"}}]}}"#, leases[0]);
        call(&format!("/{}/messages/ack", self.queue), &body)
    }
}
