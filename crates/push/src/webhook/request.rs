//! What is sent to a webhook: the batch as JSON, and who says so.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use kew_core::{Content, ContentType};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::Sha256;

use crate::batch::{Batch, Metadata, hex_text};
use crate::consumer::Secret;

const QUEUE: HeaderName = HeaderName::from_static("kew-queue");
const BATCH_ID: HeaderName = HeaderName::from_static("kew-batch-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("kew-timestamp");
const TRACE: HeaderName = HeaderName::from_static(kew_http::TRACEPARENT);
const SIGNATURE: HeaderName = HeaderName::from_static("kew-signature");

/// Headers and body of one delivery, signed at this second.
pub(super) fn write(batch: &Batch, signed_at: u64, secret: Option<&Secret>) -> (HeaderMap, Bytes) {
    let id = batch.id_text();
    let body = Body {
        queue: batch.queue_name(),
        batch_id: &id,
        messages: batch.messages.iter().map(|leased| message(&leased.message)).collect(),
        metadata: batch.metadata(),
    };
    let body = serde_json::to_vec(&body).expect("texts, numbers and checked JSON are JSON");
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("kew/", env!("CARGO_PKG_VERSION"))));
    let mut put = |name, value: &str| {
        // Queue names are letters, digits and hyphens; a name that is no header stands in the body alone.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(QUEUE, batch.queue_name());
    put(BATCH_ID, &id);
    put(TIMESTAMP, &signed_at.to_string());
    if let Some(trace) = &batch.trace {
        put(TRACE, &trace.own.w3c());
    }
    if let Some(secret) = secret {
        put(SIGNATURE, &signature(secret, signed_at, &body));
    }
    (headers, body.into())
}

/// `v1=` and the HMAC-SHA-256 of time and body: who knows the secret said this, then.
fn signature(secret: &Secret, signed_at: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()).expect("a key of any length is a key");
    mac.update(signed_at.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = b"v1=".to_vec();
    kew_http::hex::push(&mut text, &mac.finalize().into_bytes());
    text.into_iter().map(char::from).collect()
}

#[derive(Serialize)]
struct Body<'a> {
    queue: &'a str,
    batch_id: &'a str,
    messages: Vec<Message<'a>>,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Message<'a> {
    id: String,
    timestamp_ms: u64,
    attempts: u32,
    content_type: &'static str,
    body: Value<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Json(&'a RawValue),
    Text(Cow<'a, str>),
}

fn message(message: &kew_core::Message) -> Message<'_> {
    Message {
        id: hex_text(&message.id.0),
        timestamp_ms: message.sent_at.0,
        attempts: message.attempts,
        content_type: content_type(message.content.content_type),
        body: value(&message.content),
    }
}

fn content_type(content_type: ContentType) -> &'static str {
    match content_type {
        ContentType::Text => "text",
        ContentType::Json => "json",
        ContentType::Bytes => "bytes",
        ContentType::V8 => "v8",
    }
}

fn value(content: &Content) -> Value<'_> {
    let body = &content.body;
    match content.content_type {
        ContentType::Text => Value::Text(String::from_utf8_lossy(body)),
        // It was checked when it was sent; what is no JSON after all is text.
        ContentType::Json => serde_json::from_slice(body)
            .map_or_else(|_| Value::Text(String::from_utf8_lossy(body)), Value::Json),
        ContentType::Bytes | ContentType::V8 => Value::Text(STANDARD.encode(body).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{batch, leased};

    fn body_of(content_type: ContentType, body: &'static [u8]) -> String {
        let (_, body) = write(&batch(vec![leased(content_type, body)]), 1, None);
        let parsed: serde_json::Value = serde_json::from_slice(&body).expect("the body of a batch is JSON");
        parsed.pointer("/messages/0/body").expect("the first message has a body").to_string()
    }

    #[test]
    fn batch_is_one_json_object() {
        let (headers, body) = write(&batch(vec![leased(ContentType::Text, b"hi")]), 1, None);
        let expected = format!(
            r#"{{"queue":"orders","batch_id":"{}","messages":[{{"id":"{}","timestamp_ms":7,"attempts":2,"content_type":"text","body":"hi"}}],"metadata":{{"metrics":{{"backlogCount":2,"backlogBytes":30,"oldestMessageTimestamp":5}}}}}}"#,
            "0c".repeat(16),
            "ab".repeat(16),
        );
        assert_eq!(std::str::from_utf8(&body), Ok(expected.as_str()));
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header("content-type"), Some("application/json"));
        assert_eq!(header("kew-queue"), Some("orders"));
        assert_eq!(header("kew-batch-id"), Some("0c".repeat(16).as_str()));
        assert_eq!(header("kew-timestamp"), Some("1"));
        assert_eq!(header("kew-signature"), None);
    }

    #[test]
    fn bodies_are_shown_by_their_content_type() {
        assert_eq!(body_of(ContentType::Text, "\"é\n".as_bytes()), r#""\"é\n""#);
        assert_eq!(body_of(ContentType::Json, br#" {"a": [1, null]} "#), r#"{"a":[1,null]}"#);
        assert_eq!(body_of(ContentType::Json, b"null"), "null");
        assert_eq!(body_of(ContentType::Json, b"{"), r#""{""#);
        assert_eq!(body_of(ContentType::Bytes, &[0xff, 0x0f]), r#""/w8=""#);
        assert_eq!(body_of(ContentType::V8, &[0xff, 0x0f]), r#""/w8=""#);
    }

    #[test]
    fn signature_is_the_hmac_of_time_and_body() {
        // What `printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key` prints.
        assert_eq!(
            signature(&Secret("key".into()), 1_700_000_000, br#"{"a":1}"#),
            "v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
        );
        let secret = Secret("key".into());
        let (headers, body) = write(&batch(vec![leased(ContentType::Text, b"hi")]), 5, Some(&secret));
        let header = headers.get("kew-signature").and_then(|value| value.to_str().ok());
        assert_eq!(header, Some(signature(&secret, 5, &body).as_str()));
    }
}
