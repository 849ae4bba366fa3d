//! A message as a pull and a peek show it, written straight into the reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::{Content, ContentType, Message};
use kew_http::{hex, json};

use crate::notes::Notes;

/// Writes a message; `receipt` is the name and the value of what it is settled or purged by.
pub(crate) fn push(body: &mut Vec<u8>, message: &Message, receipt: (&str, &str)) {
    let Message { id, attempts, sent_at, content, .. } = message;
    body.extend_from_slice(br#"{"id":""#);
    hex::push(body, &id.0);
    body.extend_from_slice(
        format!(r#"","timestamp_ms":{},"attempts":{attempts},"body":"#, sent_at.0).as_bytes(),
    );
    push_text(body, content);
    let kind = content_type(content.content_type);
    let notes = Notes::of(content);
    let source = notes.source.name();
    body.extend_from_slice(
        format!(r#","metadata":{{"CF-Content-Type":"{kind}","CF-sourceMessageSource":"{source}""#).as_bytes(),
    );
    if notes.delay_seconds > 0 {
        body.extend_from_slice(format!(r#","CF-msg-delay-secs":"{}""#, notes.delay_seconds).as_bytes());
    }
    let (name, value) = receipt;
    // Base64 needs no escapes.
    body.extend_from_slice(format!(r#"}},"{name}":"{value}"}}"#).as_bytes());
}

/// Text is shown as it is, everything else in Base64.
fn push_text(body: &mut Vec<u8>, content: &Content) {
    match content.content_type {
        ContentType::Text => json::push_string(body, &String::from_utf8_lossy(&content.body)),
        ContentType::Json | ContentType::Bytes | ContentType::V8 => {
            json::push_plain(body, STANDARD.encode(&content.body).as_bytes());
        }
    }
}

/// A content type's name.
fn content_type(content_type: ContentType) -> &'static str {
    match content_type {
        ContentType::Text => "text",
        ContentType::Json => "json",
        ContentType::Bytes => "bytes",
        ContentType::V8 => "v8",
    }
}
