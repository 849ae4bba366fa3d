//! Cloudflare Queues as the bench speaks it: REST, with a pull consumer.
//!
//! Paths name a queue by its id, which the reply that made it tells, so ids are kept by name.

use std::cell::RefCell;
use std::collections::HashMap;

use kew_http::json::push_string;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Fault;
use super::client::Reply;
use super::dialect::{Dialect, Outgoing, Queue, Received, check_status};

/// Requests of Cloudflare to one server.
pub(super) struct Cloudflare {
    pub(super) host: String,
    /// The account's 32 hex digits; in open mode any text will do.
    pub(super) account: String,
    /// Without one, requests carry none.
    pub(super) token: Option<String>,
    /// The ids of queues that were made.
    pub(super) ids: RefCell<HashMap<String, String>>,
}

impl Cloudflare {
    fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let Self { host, account, token, .. } = self;
        let mut request = format!(
            "{method} /client/v4/accounts/{account}/queues{path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: kew-bench\r\n"
        );
        if let Some(token) = token {
            request.push_str(&format!("authorization: Bearer {token}\r\n"));
        }
        let length = body.len();
        request.push_str(&format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n"));
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// A request about a queue; one that was never made has an id that no queue has.
    fn about(&self, method: &str, queue: &Queue, path: &str, body: &[u8]) -> Vec<u8> {
        let ids = self.ids.borrow();
        let id = ids.get(&queue.name).map_or("0", String::as_str);
        self.request(method, &format!("/{id}{path}"), body)
    }
}

#[derive(Deserialize)]
struct Pulled {
    result: PulledMessages,
}

#[derive(Deserialize)]
struct PulledMessages {
    messages: Vec<PulledMessage>,
}

#[derive(Deserialize)]
struct PulledMessage {
    body: String,
    lease_id: String,
}

fn push_message(json: &mut Vec<u8>, message: &Outgoing<'_>) {
    json.extend_from_slice(br#"{"content_type":"text","body":"#);
    push_string(json, message.body);
    json.push(b'}');
}

impl Dialect for Cloudflare {
    fn batch_max(&self) -> u32 {
        10
    }

    fn create(&self, queue: &Queue) -> Vec<u8> {
        self.request("POST", "", json!({ "queue_name": queue.name }).to_string().as_bytes())
    }

    /// Notes the id, and gives the queue a consumer that never gives a message up.
    fn created(&self, queue: &Queue, reply: &Reply<'_>) -> Result<Option<Vec<u8>>, Fault> {
        let made: Value = serde_json::from_slice(reply.body)?;
        let id = made["result"]["queue_id"].as_str().ok_or("a queue without an id")?.to_owned();
        self.ids.borrow_mut().insert(queue.name.clone(), id);
        let consumer = json!({ "type": "http_pull", "settings": { "max_retries": 100 } });
        Ok(Some(self.about("POST", queue, "/consumers", consumer.to_string().as_bytes())))
    }

    fn remove(&self, queue: &Queue) -> Vec<u8> {
        self.about("DELETE", queue, "", b"")
    }

    fn send(&self, queue: &Queue, messages: &[Outgoing<'_>]) -> Vec<u8> {
        let mut body = Vec::new();
        if let [message] = messages {
            push_message(&mut body, message);
            return self.about("POST", queue, "/messages", &body);
        }
        body.extend_from_slice(br#"{"messages":["#);
        for (place, message) in messages.iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            push_message(&mut body, message);
        }
        body.extend_from_slice(b"]}");
        self.about("POST", queue, "/messages/batch", &body)
    }

    /// There is no waiting here.
    fn receive(&self, queue: &Queue, max: u32, _: u32) -> Vec<u8> {
        let millis = u64::from(queue.lease_seconds) * 1_000;
        let body = format!(r#"{{"batch_size":{max},"visibility_timeout_ms":{millis}}}"#);
        self.about("POST", queue, "/messages/pull", body.as_bytes())
    }

    fn received(&self, reply: &Reply<'_>) -> Result<Vec<Received>, Fault> {
        check_status(reply)?;
        let pulled: Pulled = serde_json::from_slice(reply.body)?;
        let messages = pulled.result.messages.into_iter();
        Ok(messages.map(|message| Received { body: message.body, receipt: message.lease_id }).collect())
    }

    fn delete(&self, queue: &Queue, messages: &[Received]) -> Vec<u8> {
        let acks: Vec<String> =
            messages.iter().map(|message| format!(r#"{{"lease_id":"{}"}}"#, message.receipt)).collect();
        let body = format!(r#"{{"acks":[{}]}}"#, acks.join(","));
        self.about("POST", queue, "/messages/ack", body.as_bytes())
    }

    fn count(&self, queue: &Queue) -> Vec<u8> {
        self.about("GET", queue, "/metrics", b"")
    }

    fn counted(&self, reply: &Reply<'_>) -> Result<u64, Fault> {
        check_status(reply)?;
        let metrics: Value = serde_json::from_slice(reply.body)?;
        Ok(metrics["result"]["backlog_count"].as_u64().ok_or("no count of messages")?)
    }

    fn check(&self, reply: &Reply<'_>, count: usize) -> Result<(), Fault> {
        check_status(reply)?;
        let text = std::str::from_utf8(reply.body)?;
        // Only an acknowledgement says how many it was for.
        if text.contains("\"ackCount\"") && !text.contains(&format!("\"ackCount\":{count},")) {
            return Err(format!("{count} messages were acknowledged, and the reply is {text}").into());
        }
        Ok(())
    }
}
