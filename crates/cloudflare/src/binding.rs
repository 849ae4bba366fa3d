//! The other door: the protocol in which a Worker's producer binding speaks to its queue.
//!
//! `POST /message`, `POST /batch` and `GET /metrics`; nothing in them names the queue, so the runtime is set up to add
//! a header that does. The runtime checks nothing, and takes any status but 200 for a failure, whose number and text
//! stand in headers.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::{ContentType, Queue};
use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::decode::message::{Draft, DraftBatch, check_count, delay};
use crate::decode::{Bounded, object, text, whole};
use crate::encode::metrics::Metrics;
use crate::error::{Code, WireError};
use crate::notes::Source;
use crate::ops::publish;
use crate::{Cloudflare, auth, encode, find_queue, limits};

/// Names the queue.
const QUEUE: &str = "x-kew-queue";
const FORMAT: &str = "x-msg-fmt";
const DELAY: &str = "x-msg-delay-secs";
const ERROR_CODE: HeaderName = HeaderName::from_static("cf-queues-error-code");
const ERROR_CAUSE: HeaderName = HeaderName::from_static("cf-queues-error-cause");

/// Whether a request comes through this door.
pub(crate) fn is_meant(request: &Request) -> bool {
    request.headers.contains(QUEUE)
}

/// The queue that a binding names.
pub(crate) fn queue_named(request: &Request) -> Option<&str> {
    request.header(QUEUE)
}

/// Answers a producer binding.
pub(crate) async fn answer(house: &Cloudflare, request: &Request) -> Reply {
    let (name, answer) = match perform(house, request).await {
        // Once more, when other nodes have said what they keep.
        (_, Err(told)) if told.is_unknown() && house.engine.until_all_known().await => {
            Box::pin(perform(house, request)).await
        }
        done => done,
    };
    answer.unwrap_or_else(|told| failed(house, told, request)).to(name)
}

async fn perform(house: &Cloudflare, request: &Request) -> (&'static str, Result<Reply, WireError>) {
    match (&request.method, request.uri.path()) {
        (&Method::POST, "/message") => ("BindingSend", send(house, request).await),
        (&Method::POST, "/batch") => ("BindingSendBatch", send_batch(house, request).await),
        (&Method::GET, "/metrics") => ("BindingMetrics", metrics(house, request).await),
        _ => ("BindingUnknown", Err(Code::NoRoute.into())),
    }
}

/// The reply to a request that was not done.
pub(crate) fn failed(house: &Cloudflare, told: WireError, request: &Request) -> Reply {
    let told = told.about_messages();
    house.tell(&told, request);
    error(&told)
}

/// A refusal as the runtime reads it.
pub(crate) fn error(told: &WireError) -> Reply {
    let cause: String =
        told.message().chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    let cause = HeaderValue::from_str(&cause).unwrap_or(HeaderValue::from_static("Unknown"));
    let code = HeaderValue::from(told.code().number());
    encode::error(told).with(ERROR_CODE, code).with(ERROR_CAUSE, cause)
}

fn queue(house: &Cloudflare, request: &Request) -> Result<Arc<Queue>, WireError> {
    let caller = auth::check_binding(&house.settings, request)?;
    let name = request.header(QUEUE).unwrap_or_default();
    let found = find_queue(&house.engine, &house.settings, caller.account, name);
    if found.is_none() {
        house.engine.check_knows_all()?;
    }
    found.ok_or_else(|| Code::NoSuchQueue.into())
}

async fn send(house: &Cloudflare, request: &Request) -> Result<Reply, WireError> {
    let queue = queue(house, request)?;
    let content_type = content_type(header(request, FORMAT, Code::InvalidMetadata)?)?;
    let delay = header_delay(request, Code::InvalidMetadata)?;
    let draft = draft(content_type, Bytes::copy_from_slice(&request.body), delay)?;
    let metrics = publish::one(&house.engine, queue.id, draft, Source::Worker).await?;
    Ok(sent(metrics))
}

async fn send_batch(house: &Cloudflare, request: &Request) -> Result<Reply, WireError> {
    let queue = queue(house, request)?;
    let delay = header_delay(request, Code::InvalidBatchDelay)?;
    let batch = read_batch(&request.body, delay)?;
    let metrics = publish::all(&house.engine, queue.id, batch, Source::Worker).await?;
    Ok(sent(metrics))
}

async fn metrics(house: &Cloudflare, request: &Request) -> Result<Reply, WireError> {
    let counts = house.engine.counts(queue(house, request)?.id).await?;
    Ok(encode::json(StatusCode::OK, Metrics::of(&counts).binding().to_string()))
}

fn sent(metrics: Metrics) -> Reply {
    let body = json!({ "metadata": { "metrics": metrics.binding() } });
    encode::json(StatusCode::OK, body.to_string())
}

#[derive(Deserialize)]
struct WireBatch<'a> {
    #[serde(borrow)]
    messages: Option<Bounded<&'a RawValue, { limits::BATCH_MESSAGES }>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMessage<'a> {
    #[serde(borrow)]
    body: Cow<'a, str>,
    #[serde(borrow)]
    content_type: Option<&'a RawValue>,
    #[serde(borrow)]
    delay_secs: Option<&'a RawValue>,
}

fn read_batch(json: &[u8], batch_delay: Option<u32>) -> Result<DraftBatch, WireError> {
    let wire: WireBatch<'_> = object(json)?;
    let messages = wire.messages.unwrap_or_default();
    check_count(messages.entries.len(), messages.is_too_long)?;
    let read = |json: &&RawValue| {
        let wire: WireMessage<'_> = object(json.get().as_bytes())?;
        let format = match wire.content_type {
            Some(json) => Some(text(json).ok_or(Code::InvalidMetadata)?),
            None => None,
        };
        let own = wire.delay_secs.map(|json| delay(whole(json), Code::InvalidMetadata)).transpose()?;
        let body = STANDARD
            .decode(&*wire.body)
            .map_err(|_| WireError::new(Code::Schema).saying("The body of a message must be Base64"))?;
        draft(content_type(format.as_deref())?, Bytes::from(body), own)
    };
    let drafts = messages.entries.iter().map(read).collect::<Result<_, WireError>>()?;
    DraftBatch::of(drafts, batch_delay)
}

/// A message whose body is what its content type says.
fn draft(content_type: ContentType, body: Bytes, delay: Option<u32>) -> Result<Draft, WireError> {
    let draft = Draft::of(content_type, body, delay)?;
    match content_type {
        ContentType::Text if std::str::from_utf8(&draft.body).is_err() => {
            Err(WireError::new(Code::Schema).saying("The body of a text message must be UTF-8"))
        }
        ContentType::Json if serde_json::from_slice::<IgnoredAny>(&draft.body).is_err() => {
            Err(WireError::new(Code::NotJson).saying("The body of a json message must be JSON"))
        }
        ContentType::Text | ContentType::Json | ContentType::Bytes | ContentType::V8 => Ok(draft),
    }
}

/// A message that does not say is serialised by the runtime.
fn content_type(name: Option<&str>) -> Result<ContentType, WireError> {
    let Some(name) = name else { return Ok(ContentType::V8) };
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(ContentType::Text),
        "json" => Ok(ContentType::Json),
        "bytes" => Ok(ContentType::Bytes),
        "v8" => Ok(ContentType::V8),
        _ => {
            Err(WireError::new(Code::InvalidMetadata).saying("content type must be text, json, bytes or v8"))
        }
    }
}

fn header_delay(request: &Request, code: Code) -> Result<Option<u32>, WireError> {
    let Some(text) = header(request, DELAY, code)? else { return Ok(None) };
    delay(text.trim().parse().ok(), code).map(Some)
}

/// A header's text; one that is there and is no text is refused.
fn header<'a>(request: &'a Request, name: &str, code: Code) -> Result<Option<&'a str>, WireError> {
    match request.headers.get(name) {
        Some(value) => value.text().map(Some).ok_or_else(|| code.into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(json: &str) -> Result<usize, Code> {
        read_batch(json.as_bytes(), None).map(|batch| batch.drafts.len()).map_err(|error| error.code())
    }

    #[test]
    fn batches_are_checked_here_because_the_runtime_checks_nothing() {
        let of = |message: &str| batch(&format!(r#"{{"messages":[{message}]}}"#));
        assert_eq!(of(r#"{"body":"eyJhIjoxfQ==","contentType":"json","delaySecs":5}"#), Ok(1));
        assert_eq!(of(r#"{"body":"/w8="}"#), Ok(1));
        for (message, code) in [
            (r#"{"body":"!"}"#, Code::Schema),
            ("{}", Code::Schema),
            (r#"{"body":"aGk=","contentType":"json"}"#, Code::NotJson),
            (r#"{"body":"/w8=","contentType":"text"}"#, Code::Schema),
            (r#"{"body":"aGk=","contentType":"xml"}"#, Code::InvalidMetadata),
            (r#"{"body":"aGk=","delaySecs":-1}"#, Code::InvalidMetadata),
            (r#"{"body":"aGk=","delaySecs":86401}"#, Code::InvalidMetadata),
        ] {
            assert_eq!(of(message), Err(code), "{message}");
        }
        let many = vec![r#"{"body":""}"#; 101].join(",");
        assert_eq!(of(&many), Err(Code::BatchTooLong));
        assert_eq!(of(""), Err(Code::Schema));
        assert_eq!(batch("x"), Err(Code::NotJson));
    }
}
