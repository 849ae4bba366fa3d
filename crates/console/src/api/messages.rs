//! Messages: sent, received, settled. A receive leases as every dialect does, and says so with receipts.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::command::{Ack, FirstReceipts, Lease, Release, Send};
use kew_core::event::Tag;
use kew_core::outcome::Leased;
use kew_core::{
    Content, ContentType, DeduplicationId, GroupId, LeaseTerms, LeaseToken, NewMessage, Queue, QueueKind,
    ReceiptRule, RuleError, Text,
};
use kew_engine::EngineError;
use kew_http::{Reply, StatusCode, hex, receipt};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Context;
use super::work::{render, wait_at_home};
use crate::error::{ApiError, answer};
use crate::notes::{Attribute, AttributeValue, MessageNotes};

/// The longest a lease may be stretched.
const LEASE_CAP: Duration = Duration::from_secs(43_200);
/// Bytes of bodies in one reply; the first message always fits.
const REPLY_BODY_BYTES: u64 = 4 << 20;
const CONTENT_TYPES: [(&str, ContentType); 4] = [
    ("text", ContentType::Text),
    ("json", ContentType::Json),
    ("bytes", ContentType::Bytes),
    ("v8", ContentType::V8),
];

/// `POST /queues/{q}/messages`.
pub(super) async fn send(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let content = content(cx, &queue)?;
    let id = |name: &str| -> Result<Option<Text>, ApiError> {
        let Some(text) = cx.body.text(name) else { return Ok(None) };
        let is_id = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let allowed = || ApiError::bad_request(format!("{name} must be 1 to 128 visible ASCII characters"));
        if is_id { Ok(Some(Text::from(text))) } else { Err(allowed()) }
    };
    let deduplication = id("deduplication_id")?.map(DeduplicationId);
    let content_hash = match queue.policy.kind {
        QueueKind::Fifo { by_content: true, .. } if deduplication.is_none() => Some(hash_of(&content.body)),
        QueueKind::Fifo { .. } | QueueKind::Standard => None,
    };
    let delay = cx.body.whole("delay_seconds").map(Duration::from_secs);
    let message = NewMessage {
        content,
        group: id("group")?.map(GroupId),
        deduplication,
        content_hash,
        // A FIFO queue delays all messages alike, and no delay is none of one message.
        delay: delay.filter(|delay| !delay.is_zero() || !queue.policy.kind.is_fifo()),
        ..NewMessage::text(running.engine.message_id(), Bytes::new())
    };
    let send = Send { queue: queue.id, messages: vec![message], receipts: FirstReceipts::Untold };
    let engine = Arc::clone(&running.engine);
    let sent = cx.console.work.run(move || async move { Ok(engine.send(send).await?) }).await?;
    let sent = sent.first().ok_or_else(|| ApiError::unavailable("the store answered nothing"))?;
    let body = json!({ "id": sent.id.to_string(), "duplicate": sent.duplicate });
    Ok(answer(StatusCode::CREATED, &body))
}

/// What a message carries, within what its queue accepts.
fn content(cx: &Context<'_>, queue: &Queue) -> Result<Content, ApiError> {
    let word = cx.body.text("content_type").unwrap_or("text");
    let known = CONTENT_TYPES.iter().find(|(name, _)| *name == word);
    let content_type = known.map_or(ContentType::Text, |(_, content_type)| *content_type);
    let body = match (cx.body.text("body"), cx.body.text("body_base64")) {
        (Some(text), None) => Bytes::copy_from_slice(text.as_bytes()),
        (None, Some(_)) if matches!(content_type, ContentType::Text | ContentType::Json) => {
            return Err(ApiError::bad_request("body_base64 needs the content_type bytes or v8"));
        }
        (None, Some(encoded)) => {
            let decoded = STANDARD.decode(encoded);
            decoded.map_err(|_| ApiError::bad_request("body_base64 is no Base64"))?.into()
        }
        _ => return Err(ApiError::bad_request("give either body or body_base64")),
    };
    if content_type == ContentType::Json
        && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&body)
    {
        return Err(ApiError::bad_request(format!(
            "the body is no JSON, which its content_type says: {error}"
        )));
    }
    let attributes = attributes(cx.body.object("attributes"))?;
    // Cloudflare and Azure take empty bodies, also in place of one that came with attributes; FIFO queues are those of
    // SQS, which takes none.
    let may_be_empty =
        matches!(content_type, ContentType::Text | ContentType::Bytes) && !queue.policy.kind.is_fifo();
    if body.is_empty() && !may_be_empty {
        let message = "the body is empty: only text and bytes may be, on a standard queue";
        return Err(ApiError::bad_request(message));
    }
    let bytes = body.len() + attributes.iter().map(bytes_of).sum::<usize>();
    let max = queue.policy.body_bytes_max;
    if bytes > max as usize {
        let message = format!("body and attributes have {bytes} bytes, and the queue accepts {max}");
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "message_too_large", message));
    }
    let annotations = match (attributes.as_slice(), std::str::from_utf8(&body)) {
        ([], _) => Bytes::new(),
        (some, Ok(text)) if content_type == ContentType::Text => {
            let written = cx.console.settings.notes.write(text, some);
            written.map_err(|why| ApiError::bad_request(format!("attributes: {why}")))?
        }
        _ => return Err(ApiError::bad_request("attributes need the content_type text")),
    };
    Ok(Content { content_type, body, annotations })
}

/// Bytes of an attribute, as they count with the body.
fn bytes_of(attribute: &Attribute) -> usize {
    let value = match &attribute.value {
        AttributeValue::Text(text) => text.len(),
        AttributeValue::Binary(bytes) => bytes.len(),
    };
    attribute.name.len() + attribute.data_type.len() + value
}

fn attributes(given: Option<&Map<String, Value>>) -> Result<Vec<Attribute>, ApiError> {
    let given = given.into_iter().flatten();
    given.map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, given: &Value) -> Result<Attribute, ApiError> {
    let refuse = |why: &str| {
        let shown: String = name.chars().take(64).collect();
        ApiError::bad_request(format!("attribute {shown:?}: {why}"))
    };
    if let Value::String(text) = given {
        let value = AttributeValue::Text(text.clone());
        return Ok(Attribute { name: name.to_owned(), data_type: "String".to_owned(), value });
    }
    let malformed = || refuse("write a text, or {\"type\":…,\"value\":…} with two texts");
    let members = given.as_object().filter(|members| members.len() == 2).ok_or_else(malformed)?;
    let text = |member: &str| members.get(member).and_then(Value::as_str).ok_or_else(malformed);
    let (data_type, value) = (text("type")?, text("value")?);
    let value = match data_type.split('.').next() {
        Some("Binary") => {
            let decoded = STANDARD.decode(value);
            AttributeValue::Binary(decoded.map_err(|_| refuse("a Binary value is Base64"))?)
        }
        _ => AttributeValue::Text(value.to_owned()),
    };
    Ok(Attribute { name: name.to_owned(), data_type: data_type.to_owned(), value })
}

/// A body's SHA-256 in hex digits: what stands in for a deduplication id in every dialect.
fn hash_of(body: &[u8]) -> DeduplicationId {
    let mut text = Vec::with_capacity(64);
    hex::push(&mut text, &Sha256::digest(body));
    DeduplicationId(Text::from_utf8(text.into()).unwrap_or_default())
}

/// `POST /queues/{q}/receive`.
pub(super) async fn receive(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    let max = cx.body.whole("max").and_then(|max| u32::try_from(max).ok()).unwrap_or(1);
    let limits = cx.console.settings.in_flight_limits;
    let length = cx.body.whole("visibility_seconds").map(Duration::from_secs);
    let lease = Lease {
        body_bytes_max: REPLY_BODY_BYTES,
        terms: LeaseTerms { length, cap: Some(LEASE_CAP), ..LeaseTerms::default() },
        in_flight_max: if queue.policy.kind.is_fifo() { limits.fifo } else { limits.standard },
        by: Tag::new(&format!("admin {}", cx.caller.name)),
        ..Lease::of(queue.id, max, running.engine.now())
    };
    let wait = Duration::from_secs(cx.body.whole("wait_seconds").unwrap_or_default());
    let engine = Arc::clone(&running.engine);
    let room = cx.request.room.clone();
    let leasing = wait_at_home(&running, async move {
        let freed = async { Ok::<_, ApiError>(room.free().await?) };
        engine.lease_when_free(lease, wait, room.for_leases(), freed).await
    });
    let client = cx.client.lock().take();
    let leased = match client {
        Some(mut client) => tokio::select! {
            biased;
            leased = leasing => leased?,
            // Nothing is leased for a client that will not learn of it.
            () = client.gone() => return Err(ApiError::unavailable("the client hung up while it waited")),
        },
        None => leasing.await?,
    };
    let notes = Arc::clone(&cx.console.settings.notes);
    render(move || {
        let messages: Vec<Value> = leased.iter().map(|leased| shown(&*notes, leased)).collect();
        json!({ "messages": messages })
    })
    .await
}

fn shown(notes: &dyn MessageNotes, leased: &Leased) -> Value {
    let message = &leased.message;
    let mut shown = json!({
        "id": message.id.to_string(),
        "receipt": receipt::text(leased.token),
        "attempts": message.attempts,
        "sent_at_ms": message.sent_at.0,
        "until_ms": leased.until.0,
        "group": message.group.as_ref().map(|group| group.0.as_str()),
        "deduplication_id": message.deduplication.as_ref().map(|id| id.0.as_str()),
    });
    if let Value::Object(members) = &mut shown {
        put_content(members, &message.content, notes);
    }
    shown
}

/// A body as replies show it.
pub(super) enum Shown<'a> {
    Text(&'a str),
    Base64(String),
}

/// Text where the body says that it is text, and is; else Base64.
pub(super) fn shown_body(content: &Content) -> Shown<'_> {
    match content.text() {
        Some(text) => Shown::Text(text),
        None => Shown::Base64(STANDARD.encode(&content.body)),
    }
}

/// Adds what a message carries to what is shown of it.
pub(super) fn put_content(members: &mut Map<String, Value>, content: &Content, notes: &dyn MessageNotes) {
    let word = CONTENT_TYPES.iter().find(|(_, content_type)| *content_type == content.content_type);
    let (name, body) = match shown_body(content) {
        Shown::Text(text) => ("body", text.to_owned()),
        Shown::Base64(text) => ("body_base64", text),
    };
    let attributes: Map<String, Value> = notes.read(content).iter().map(shown_attribute).collect();
    members.insert("content_type".to_owned(), word.map_or("text", |(name, _)| name).into());
    members.insert("attributes".to_owned(), Value::Object(attributes));
    members.insert(name.to_owned(), body.into());
}

fn shown_attribute(attribute: &Attribute) -> (String, Value) {
    let value = match &attribute.value {
        AttributeValue::Text(text) => text.clone(),
        AttributeValue::Binary(bytes) => STANDARD.encode(bytes),
    };
    (attribute.name.clone(), json!({ "type": attribute.data_type, "value": value }))
}

/// `POST /queues/{q}/settle`.
pub(super) async fn settle(cx: &Context<'_>) -> Result<Reply, ApiError> {
    let running = cx.running()?;
    let queue = cx.queue(&running.engine)?;
    // A FIFO message is settled while its lease runs; elsewhere any of its receipts counts.
    let rule = if queue.policy.kind.is_fifo() { ReceiptRule::Unexpired } else { ReceiptRule::Any };
    let delete = receipts(&cx.body.texts("delete"))?;
    let release = receipts(&cx.body.texts("release"))?;
    let texts: Vec<String> = delete.iter().chain(&release).map(|token| receipt::text(*token)).collect();
    let (deletes, releases) = (delete.len(), release.len());
    let ack = Ack { queue: queue.id, receipt: rule, tokens: delete };
    let entries = release.into_iter().map(|token| (token, Duration::ZERO)).collect();
    let released = Release { queue: queue.id, receipt: ReceiptRule::Current, entries };
    let engine = Arc::clone(&running.engine);
    let settled =
        cx.console.work.run(move || async move { Ok(engine.ack_and_release(ack, released).await) }).await?;
    let released =
        settled.released.map(|ended| ended.into_iter().map(|released| released.map(drop)).collect());
    let body = ended((settled.acked, deletes), (released, releases), &texts)?;
    Ok(answer(StatusCode::OK, &body))
}

/// How one half of a settling ended: for each receipt, or for all of them alike.
type Half = Result<Vec<Result<(), RuleError>>, EngineError>;

/// What became of each receipt, those to delete first. One half may be done while the other meets an error of the
/// engine, which is then the code of each of its receipts; it is the error of the request only if nothing else was
/// asked for or both halves met one.
fn ended(
    (acked, deletes): (Half, usize),
    (released, releases): (Half, usize),
    texts: &[String],
) -> Result<Value, ApiError> {
    let is_undone = |half: &Half, count: usize| half.is_err() || count == 0;
    if is_undone(&acked, deletes) && is_undone(&released, releases) {
        for half in [&acked, &released] {
            if let Err(error) = half {
                return Err(error.clone().into());
            }
        }
    }
    let of_each = |half: Half, count: usize| -> Vec<Result<(), ApiError>> {
        match half {
            Ok(ended) => ended.into_iter().map(|ended| ended.map_err(ApiError::from)).collect(),
            Err(error) => vec![Err(ApiError::from(error)); count],
        }
    };
    let (first, second) = (of_each(acked, deletes), of_each(released, releases));
    let done = |ended: &[Result<(), ApiError>]| ended.iter().filter(|ended| ended.is_ok()).count();
    let failed: Vec<Value> = first
        .iter()
        .chain(&second)
        .zip(texts)
        .filter_map(|(ended, text)| Some((ended.as_ref().err()?, text)))
        .map(|(error, text)| json!({ "receipt": text, "code": error.code() }))
        .collect();
    Ok(json!({ "deleted": done(&first), "released": done(&second), "failed": failed }))
}

fn receipts(texts: &[&str]) -> Result<Vec<LeaseToken>, ApiError> {
    let malformed =
        || ApiError::new(StatusCode::BAD_REQUEST, "bad_receipt", "a receipt is not one of this server");
    texts.iter().map(|text| receipt::read(text).ok_or_else(malformed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).into()
    }

    #[test]
    fn a_half_that_is_done_is_reported_beside_one_that_met_an_error_of_the_engine() {
        let deleted = ended((Ok(vec![Ok(()), Ok(())]), 2), (Err(EngineError::NoSpace), 1), &texts());
        let failed = json!([{ "receipt": "c", "code": "no_space" }]);
        assert_eq!(deleted, Ok(json!({ "deleted": 2, "released": 0, "failed": failed })));
        let released = ended((Err(EngineError::NoSpace), 2), (Ok(vec![Ok(())]), 1), &texts());
        let failed = json!([{ "receipt": "a", "code": "no_space" }, { "receipt": "b", "code": "no_space" }]);
        assert_eq!(released, Ok(json!({ "deleted": 0, "released": 1, "failed": failed })));
    }

    #[test]
    fn where_nothing_was_done_the_error_of_the_engine_is_the_request_s() {
        let no_space = || Err(EngineError::NoSpace);
        for (first, second) in [
            ((no_space(), 2), (no_space(), 1)),
            ((no_space(), 2), (Ok(Vec::new()), 0)),
            ((Ok(Vec::new()), 0), (no_space(), 1)),
        ] {
            assert_eq!(ended(first, second, &texts()).map_err(|error| error.code()), Err("no_space"));
        }
    }
}
