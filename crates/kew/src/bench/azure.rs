//! Azure Queue Storage as the bench speaks it, signed with the account's key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use kew_core::Timestamp;
use kew_http::{date, percent};
use sha2::Sha256;

use super::Fault;
use super::client::Reply;
use super::dialect::{Dialect, Outgoing, Queue, Received, check_status};

const VERSION: &str = "2025-11-05";
/// The longest a message may be hidden, and the longest one lives unless it says otherwise.
const WEEK_SECONDS: u32 = 604_800;

/// Requests of Azure to one server.
pub(super) struct Azure {
    pub(super) host: String,
    pub(super) account: String,
    /// Decoded; without one nothing is signed.
    pub(super) key: Option<Vec<u8>>,
    /// The date of all requests of a round.
    pub(super) now: Timestamp,
}

impl Azure {
    fn request(&self, method: &str, path: &str, query: &[(&str, String)], body: &str) -> Vec<u8> {
        let path = format!("/{}{path}", self.account);
        let at = date::http_date(self.now);
        let length = if body.is_empty() { String::new() } else { body.len().to_string() };
        let kind = if body.is_empty() { "" } else { "application/xml" };
        let mut sorted = query.to_vec();
        sorted.sort_unstable();
        let resource: String = sorted.iter().map(|(name, value)| format!("\n{name}:{value}")).collect();
        let text = format!(
            "{method}\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\nx-ms-date:{at}\nx-ms-version:{VERSION}\n/{}{path}{resource}",
            self.account
        );
        let mut url = path;
        for (place, (name, value)) in query.iter().enumerate() {
            url.push(if place == 0 { '?' } else { '&' });
            url.push_str(&format!("{name}={}", percent::encode(value.as_bytes())));
        }
        let mut request = format!("{method} {url} HTTP/1.1\r\nhost: {}\r\n", self.host);
        request.push_str(&format!("x-ms-date: {at}\r\nx-ms-version: {VERSION}\r\nuser-agent: kew-bench\r\n"));
        if let Some(key) = &self.key {
            request.push_str(&format!("authorization: SharedKey {}:{}\r\n", self.account, sign(key, &text)));
        }
        if !kind.is_empty() {
            request.push_str(&format!("content-type: {kind}\r\n"));
        }
        request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        request.into_bytes()
    }
}

fn sign(key: &[u8], text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key will do");
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

impl Dialect for Azure {
    fn batch_max(&self) -> u32 {
        1
    }

    fn create(&self, queue: &Queue) -> Vec<u8> {
        self.request("PUT", &format!("/{}", queue.name), &[], "")
    }

    fn remove(&self, queue: &Queue) -> Vec<u8> {
        self.request("DELETE", &format!("/{}", queue.name), &[], "")
    }

    /// One message a request: there are no batches of sends here.
    fn send(&self, queue: &Queue, messages: &[Outgoing<'_>]) -> Vec<u8> {
        let text: String = messages.iter().map(|message| message.body).collect();
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        self.request("POST", &format!("/{}/messages", queue.name), &[], &body)
    }

    fn receive(&self, queue: &Queue, max: u32, _: u32) -> Vec<u8> {
        let hidden = queue.lease_seconds.min(WEEK_SECONDS).to_string();
        let query = [("numofmessages", max.to_string()), ("visibilitytimeout", hidden)];
        self.request("GET", &format!("/{}/messages", queue.name), &query, "")
    }

    fn received(&self, reply: &Reply<'_>) -> Result<Vec<Received>, Fault> {
        check_status(reply)?;
        let text = std::str::from_utf8(reply.body)?;
        let read = |message| {
            let element = |name: &str| {
                let (_, rest) = str::split_once(message, &format!("<{name}>"))?;
                Some(rest.split_once(&format!("</{name}>"))?.0)
            };
            let body = element("MessageText").ok_or("a message without a text")?.to_owned();
            let id = element("MessageId").ok_or("a message without an id")?;
            let receipt = element("PopReceipt").ok_or("a message without a receipt")?;
            Ok(Received { body, receipt: format!("{id} {receipt}") })
        };
        text.split("<QueueMessage>").skip(1).map(read).collect()
    }

    /// One message a request here too.
    fn delete(&self, queue: &Queue, messages: &[Received]) -> Vec<u8> {
        let named = messages.first().map(|message| message.receipt.as_str()).unwrap_or_default();
        let (id, receipt) = named.split_once(' ').unwrap_or_default();
        let query = [("popreceipt", receipt.to_owned())];
        self.request("DELETE", &format!("/{}/messages/{id}", queue.name), &query, "")
    }

    fn count(&self, queue: &Queue) -> Vec<u8> {
        self.request("GET", &format!("/{}", queue.name), &[("comp", "metadata".to_owned())], "")
    }

    fn counted(&self, reply: &Reply<'_>) -> Result<u64, Fault> {
        check_status(reply)?;
        let count = reply.header("x-ms-approximate-messages-count").ok_or("no count of messages")?;
        Ok(count.parse()?)
    }

    fn check(&self, reply: &Reply<'_>, _: usize) -> Result<(), Fault> {
        check_status(reply)
    }
}
