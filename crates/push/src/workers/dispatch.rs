//! What is said to the shim in a child, and what the runtime's result means.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::outcome::Leased;
use kew_core::{Content, ContentType, Failure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::notes::message_id;
use crate::batch::{Batch, Metadata, hex_text};
use crate::delivered::Delivered;
use crate::verdict::{Ending, Report, clamped_delay};

/// The runtime counts attempts in sixteen bits.
const ATTEMPTS_MAX: u32 = u16::MAX as u32;

#[derive(Serialize)]
struct Body<'a> {
    queue: &'a str,
    messages: Vec<Message<'a>>,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Message<'a> {
    id: String,
    ts: u64,
    attempts: u32,
    #[serde(flatten)]
    body: Value<'a>,
}

/// A body under the name the shim looks for. Texts and JSON go as they are: decoding them there costs more.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Value<'a> {
    Json { json: &'a RawValue },
    Text { text: Cow<'a, str> },
    Bytes { b64: String },
    V8 { b64: String },
}

/// A batch as the shim reads it.
pub(super) fn write(batch: &Batch) -> Bytes {
    let messages = batch.messages.iter().map(|leased| &leased.message);
    let body = Body {
        queue: batch.queue_name(),
        messages: messages
            .map(|message| Message {
                id: hex_text(&message.id.0),
                ts: message.sent_at.0,
                attempts: message.attempts.min(ATTEMPTS_MAX),
                body: value(&message.content),
            })
            .collect(),
        metadata: batch.metadata(),
    };
    serde_json::to_vec(&body).expect("texts, numbers and checked JSON are JSON").into()
}

fn value(content: &Content) -> Value<'_> {
    let body = &content.body;
    match content.content_type {
        ContentType::Text => Value::Text { text: String::from_utf8_lossy(body) },
        // It was checked when it was sent; what is no JSON after all is text.
        ContentType::Json => serde_json::from_slice(body).map_or_else(
            |_| Value::Text { text: String::from_utf8_lossy(body) },
            |json| Value::Json { json },
        ),
        ContentType::Bytes => Value::Bytes { b64: STANDARD.encode(body) },
        ContentType::V8 => Value::V8 { b64: STANDARD.encode(body) },
    }
}

/// The runtime's result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    outcome: String,
    #[serde(default)]
    ack_all: bool,
    #[serde(default)]
    retry_batch: RetryBatch,
    #[serde(default)]
    explicit_acks: Vec<String>,
    #[serde(default)]
    retry_messages: Vec<RetryMessage>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RetryBatch {
    retry: bool,
    delay_seconds: Option<f64>,
}

/// What is said of a handler that threw when nothing more is known.
const THREW: &str = "the queue handler threw an exception, or there is none";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryMessage {
    msg_id: String,
    #[serde(default)]
    delay_seconds: Option<f64>,
}

/// What a result says of the batch.
#[derive(Debug)]
pub(super) struct Judged {
    report: Report,
    /// What went wrong, if anything did.
    error: Option<String>,
    /// Whether the handler may never have seen the batch.
    unseen: bool,
}

impl Judged {
    /// Whether the handler threw, or there is none.
    pub(super) fn threw(&self) -> bool {
        self.error.as_deref() == Some(THREW)
    }

    /// The same with the words of what was thrown, where they are known: then there is a handler.
    pub(super) fn saying(self, thrown: Option<String>) -> Self {
        match thrown {
            Some(thrown) => Self { error: Some(thrown), unseen: false, ..self },
            None => self,
        }
    }

    /// The same of this batch. A `v8` body that does not decode fails its whole batch before the handler runs, and the
    /// result does not say which. So those that may be it come alone next time, and cost no other message a delivery
    /// again.
    pub(super) fn of(self, batch: &Batch) -> Delivered {
        let Self { report, mut error, unseen } = self;
        let mut alone = Vec::new();
        if unseen {
            let is_v8 = |leased: &&Leased| leased.message.content.content_type == ContentType::V8;
            alone.extend(batch.messages.iter().filter(is_v8).map(|leased| leased.message.id));
        }
        if let (Some(error), false) = (&mut error, alone.is_empty()) {
            error.push_str(", or a v8 body could not be decoded");
        }
        if batch.messages.len() == 1 {
            // It was alone.
            alone.clear();
        }
        // The status was our shim's, and says nothing of the Worker.
        Delivered { report, hold: None, alone, strange_ids: None, status: None, error, why: Failure::Threw }
    }
}

/// What a result says of the batch; or why it says nothing.
pub(super) fn judge(body: &[u8]) -> Result<Judged, String> {
    let outcome: Outcome =
        serde_json::from_slice(body).map_err(|error| format!("the runtime's result is none: {error}"))?;
    let ending = if outcome.outcome == "ok" { Ending::Returned } else { Ending::Failed };
    let error = (ending == Ending::Failed).then(|| match outcome.outcome.as_str() {
        "exception" => THREW.to_owned(),
        other => format!("the queue handler was ended: {other}"),
    });
    let unseen = outcome.outcome == "exception"
        && outcome.explicit_acks.is_empty()
        && outcome.retry_messages.is_empty()
        && !outcome.ack_all
        && !outcome.retry_batch.retry;
    let retries = outcome
        .retry_messages
        .iter()
        .filter_map(|retry| Some((message_id(&retry.msg_id)?, retry.delay_seconds.map(clamped_delay))));
    let report = Report {
        ending,
        acks: outcome.explicit_acks.iter().filter_map(|id| message_id(id)).collect(),
        retries: retries.collect(),
        ack_all: outcome.ack_all,
        retry_all: outcome.retry_batch.retry.then(|| outcome.retry_batch.delay_seconds.map(clamped_delay)),
        implicit_delay: None,
    };
    Ok(Judged { report, error, unseen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{batch, leased};
    use crate::verdict::{Verdict, judge as judge_message};
    use kew_core::MessageId;
    use std::time::Duration;

    fn written(content_type: ContentType, body: &'static [u8]) -> serde_json::Value {
        let text = write(&batch(vec![leased(content_type, body)]));
        let parsed: serde_json::Value = serde_json::from_slice(&text).expect("the body of a batch is JSON");
        parsed.pointer("/messages/0").expect("a batch has a first message").clone()
    }

    #[test]
    fn bodies_travel_under_the_name_of_their_type() {
        let id = "ab".repeat(16);
        let expected = serde_json::json!({ "id": id, "ts": 7, "attempts": 2, "type": "json", "json": { "a": [1, null] } });
        assert_eq!(written(ContentType::Json, br#"{"a":[1,null]}"#), expected);
        let text = written(ContentType::Text, "é\"".as_bytes());
        assert_eq!((text["type"].as_str(), text["text"].as_str()), (Some("text"), Some("é\"")));
        for (content_type, name) in [(ContentType::Bytes, "bytes"), (ContentType::V8, "v8")] {
            let bytes = written(content_type, &[0xff, 0x0f]);
            assert_eq!((bytes["type"].as_str(), bytes["b64"].as_str()), (Some(name), Some("/w8=")));
        }
        let broken = written(ContentType::Json, b"{");
        assert_eq!(broken["type"].as_str(), Some("text"));
    }

    #[test]
    fn results_are_read_as_the_runtime_writes_them() {
        let id = "ab".repeat(16);
        let verdict = |result: &str| {
            let judged = judge(result.as_bytes()).expect("the result of a batch is well formed");
            judge_message(&judged.report, &MessageId([0xab; 16]), Duration::from_secs(7))
        };
        let with = |rest: &str, outcome: &str| {
            format!(
                r#"{{"outcome":"{outcome}","ackAll":false,"retryBatch":{{"retry":false}},"explicitAcks":[],"retryMessages":[]{rest}}}"#
            )
        };
        assert_eq!(verdict(&with("", "ok")), Verdict::Done);
        assert_eq!(verdict(&with("", "exception")), Verdict::Retry(Duration::from_secs(7)));
        assert_eq!(verdict(&with("", "exceededCpu")), Verdict::Retry(Duration::from_secs(7)));
        let acked = format!(r#"{{"outcome":"exception","explicitAcks":["{id}"]}}"#);
        assert_eq!(verdict(&acked), Verdict::Done, "an acknowledgement holds although it threw");
        let retried = format!(r#"{{"outcome":"ok","retryMessages":[{{"msgId":"{id}","delaySeconds":-9}}]}}"#);
        assert_eq!(verdict(&retried), Verdict::Retry(Duration::ZERO));
        let batch = r#"{"outcome":"ok","retryBatch":{"retry":true,"delaySeconds":99999999}}"#;
        assert_eq!(verdict(batch), Verdict::Retry(Duration::from_secs(86_400)));
        for none in ["", "[]", "{}", "<html>"] {
            assert!(judge(none.as_bytes()).is_err(), "{none}");
        }
    }

    #[test]
    fn bodies_that_may_not_decode_come_alone_after_a_batch_that_no_handler_spoke_of() {
        let message = |content_type, id: u8| {
            let mut leased = leased(content_type, b"x");
            leased.message.id = MessageId([id; 16]);
            leased
        };
        let mixed = || {
            batch(vec![
                message(ContentType::V8, 1),
                message(ContentType::Json, 2),
                message(ContentType::V8, 3),
            ])
        };
        let alone = |result: &str, batch: &Batch| {
            let delivered = judge(result.as_bytes()).expect("the result of a batch is well formed").of(batch);
            delivered.alone.iter().map(|id| id.0[0]).collect::<Vec<u8>>()
        };
        let threw = r#"{"outcome":"exception"}"#;
        assert_eq!(alone(threw, &mixed()), [1, 3]);
        assert_eq!(alone(threw, &batch(vec![message(ContentType::V8, 1)])), [0; 0], "it was alone");
        for seen in [
            r#"{"outcome":"ok"}"#,
            r#"{"outcome":"exceededCpu"}"#,
            r#"{"outcome":"exception","ackAll":true}"#,
            r#"{"outcome":"exception","explicitAcks":["x"]}"#,
            r#"{"outcome":"exception","retryMessages":[{"msgId":"x"}]}"#,
            r#"{"outcome":"exception","retryBatch":{"retry":true}}"#,
        ] {
            assert_eq!(alone(seen, &mixed()), [0; 0], "a handler has spoken: {seen}");
        }
    }
}
