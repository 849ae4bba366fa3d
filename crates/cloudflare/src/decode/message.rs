//! Messages that are published: bodies, content types and delays.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::{Content, ContentType, MessageId, NewMessage};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Bounded, object, text, whole};
use crate::error::{Code, WireError};
use crate::limits;
use crate::notes::{Notes, Source};

#[derive(Deserialize)]
struct Wire<'a> {
    /// `null` is a body, and not a body that was left out.
    #[serde(borrow, default, deserialize_with = "even_null")]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    content_type: Option<&'a RawValue>,
    #[serde(borrow)]
    delay_seconds: Option<&'a RawValue>,
}

fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(json: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(json).map(Some)
}

#[derive(Deserialize)]
struct WireBatch<'a> {
    #[serde(borrow)]
    messages: Option<Bounded<&'a RawValue, { limits::BATCH_MESSAGES }>>,
    #[serde(borrow)]
    delay_seconds: Option<&'a RawValue>,
}

/// A message to be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Draft {
    pub(crate) content_type: ContentType,
    pub(crate) body: Bytes,
    /// Its own delay in seconds, which may be zero.
    pub(crate) delay: Option<u32>,
}

/// Messages to be published together, and their common delay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DraftBatch {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) delay: Option<u32>,
}

impl Draft {
    /// Reads a push.
    pub(crate) fn read(json: &[u8]) -> Result<Self, WireError> {
        let wire: Wire<'_> = object(json)?;
        let body = wire.body.ok_or_else(|| WireError::new(Code::Schema).saying("A message needs a body"))?;
        let content_type = match wire.content_type {
            Some(json) => content_type(&text(json).unwrap_or_default())?,
            None => ContentType::Json,
        };
        let delay = wire.delay_seconds.map(|json| delay(whole(json), Code::InvalidMetadata)).transpose()?;
        Self::of(content_type, read_body(content_type, body)?, delay)
    }

    /// A message with its body checked.
    pub(crate) fn of(content_type: ContentType, body: Bytes, delay: Option<u32>) -> Result<Self, WireError> {
        if body.len() > limits::MESSAGE_BYTES {
            return Err(Code::MessageTooLarge.into());
        }
        Ok(Self { content_type, body, delay })
    }

    /// The message it becomes; a delay of its own comes before the batch's, which comes before the queue's.
    pub(crate) fn message(self, id: MessageId, batch_delay: Option<u32>, source: Source) -> NewMessage {
        let delay = self.delay.or(batch_delay);
        let notes = Notes { source, delay_seconds: delay.unwrap_or_default() };
        NewMessage {
            content: Content { content_type: self.content_type, body: self.body, annotations: notes.write() },
            delay: delay.map(|seconds| Duration::from_secs(u64::from(seconds))),
            ..NewMessage::text(id, Bytes::new())
        }
    }
}

impl DraftBatch {
    /// Reads a batch: all of it, or nothing.
    pub(crate) fn read(json: &[u8]) -> Result<Self, WireError> {
        let wire: WireBatch<'_> = object(json)?;
        let messages = wire.messages.unwrap_or_default();
        let delay = wire.delay_seconds.map(|json| delay(whole(json), Code::InvalidBatchDelay)).transpose()?;
        check_count(messages.entries.len(), messages.is_too_long)?;
        let drafts: Vec<Draft> = messages
            .entries
            .iter()
            .map(|json| Draft::read(json.get().as_bytes()))
            .collect::<Result<_, _>>()?;
        Self::of(drafts, delay)
    }

    /// A batch with its size checked.
    pub(crate) fn of(drafts: Vec<Draft>, delay: Option<u32>) -> Result<Self, WireError> {
        let bytes: usize = drafts.iter().map(|draft| draft.body.len()).sum();
        if bytes > limits::BATCH_BYTES {
            return Err(Code::BatchTooLarge.into());
        }
        Ok(Self { drafts, delay })
    }
}

/// Refuses batches of none and of too many.
pub(crate) fn check_count(kept: usize, is_too_long: bool) -> Result<(), WireError> {
    if is_too_long {
        return Err(Code::BatchTooLong.into());
    }
    if kept == 0 {
        return Err(WireError::new(Code::Schema).saying("messages must be a list of 1 to 100 messages"));
    }
    Ok(())
}

/// The content type of this name over REST, where no V8 runtime can have serialised anything.
fn content_type(name: &str) -> Result<ContentType, WireError> {
    match name {
        "json" => Ok(ContentType::Json),
        "text" => Ok(ContentType::Text),
        "bytes" => Ok(ContentType::Bytes),
        _ => Err(WireError::new(Code::InvalidMetadata).saying("content_type must be text, json or bytes")),
    }
}

/// A delay within its bounds.
pub(crate) fn delay(seconds: Option<i64>, code: Code) -> Result<u32, WireError> {
    let seconds = seconds.and_then(|seconds| limits::DELIVERY_DELAY.check(Some(seconds)).ok());
    seconds.ok_or_else(|| match code {
        Code::InvalidMetadata => {
            WireError::new(code).saying("delay_seconds must be a whole number from 0 to 86400")
        }
        _ => code.into(),
    })
}

fn read_body(content_type: ContentType, json: &RawValue) -> Result<Bytes, WireError> {
    let as_text = |what: &'static str| text(json).ok_or_else(|| WireError::new(Code::Schema).saying(what));
    match content_type {
        // As it was written: what is read back is what was sent.
        ContentType::Json | ContentType::V8 => Ok(Bytes::copy_from_slice(json.get().as_bytes())),
        ContentType::Text => as_text("The body of a text message must be a string").map(Bytes::from),
        ContentType::Bytes => {
            const WHAT: &str = "The body of a bytes message must be a Base64 string";
            let decoded = STANDARD.decode(as_text(WHAT)?);
            decoded.map(Bytes::from).map_err(|_| WireError::new(Code::Schema).saying(WHAT))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(json: &str) -> Result<Draft, Code> {
        Draft::read(json.as_bytes()).map_err(|error| error.code())
    }

    fn body(json: &str) -> Result<String, Code> {
        draft(json).map(|draft| String::from_utf8_lossy(&draft.body).into_owned())
    }

    #[test]
    fn bodies_are_what_their_content_type_says() {
        for (json, expected) in [
            (r#"{"body":{"a": 1}}"#, Ok(r#"{"a": 1}"#)),
            (r#"{"body":"x"}"#, Ok("\"x\"")),
            (r#"{"body":null}"#, Ok("null")),
            (r#"{"body":null,"content_type":null}"#, Ok("null")),
            (r#"{"body":false,"content_type":"json"}"#, Ok("false")),
            (r#"{"body":"a\nb","content_type":"text"}"#, Ok("a\nb")),
            (r#"{"body":"","content_type":"text"}"#, Ok("")),
            (r#"{"body":"aGk=","content_type":"bytes"}"#, Ok("hi")),
            (r#"{"body":{},"content_type":"text"}"#, Err(Code::Schema)),
            (r#"{"body":null,"content_type":"text"}"#, Err(Code::Schema)),
            (r#"{"body":"\ud800","content_type":"text"}"#, Err(Code::Schema)),
            (r#"{"body":"a","content_type":"bytes"}"#, Err(Code::Schema)),
            (r#"{"content_type":"text"}"#, Err(Code::Schema)),
            ("{}", Err(Code::Schema)),
            (r#"{"body":1,"content_type":"v8"}"#, Err(Code::InvalidMetadata)),
            (r#"{"body":1,"content_type":"JSON"}"#, Err(Code::InvalidMetadata)),
            (r#"{"body":1,"content_type":7}"#, Err(Code::InvalidMetadata)),
        ] {
            assert_eq!(body(json), expected.map(str::to_owned), "{json}");
        }
    }

    #[test]
    fn delays_hold_at_their_edges() {
        for (delay, expected) in [
            ("0", Ok(Some(0))),
            ("86400", Ok(Some(86_400))),
            ("null", Ok(None)),
            ("86401", Err(Code::InvalidMetadata)),
            ("-1", Err(Code::InvalidMetadata)),
            ("1.5", Err(Code::InvalidMetadata)),
            ("\"5\"", Err(Code::InvalidMetadata)),
        ] {
            let json = format!(r#"{{"body":1,"delay_seconds":{delay}}}"#);
            assert_eq!(draft(&json).map(|draft| draft.delay), expected, "{delay}");
            let json = format!(r#"{{"messages":[{{"body":1}}],"delay_seconds":{delay}}}"#);
            let batch = DraftBatch::read(json.as_bytes()).map(|batch| batch.delay);
            let expected = expected.map_err(|_| Code::InvalidBatchDelay);
            assert_eq!(batch.map_err(|error| error.code()), expected, "{delay}");
        }
    }

    #[test]
    fn sizes_hold_at_their_edges() {
        let text = |bytes: usize| format!(r#"{{"body":"{}","content_type":"text"}}"#, "a".repeat(bytes));
        assert!(draft(&text(128_000)).is_ok());
        assert_eq!(draft(&text(128_001)), Err(Code::MessageTooLarge));
        let batch = |messages: &[String]| {
            let json = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
            DraftBatch::read(json.as_bytes()).map(|batch| batch.drafts.len()).map_err(|error| error.code())
        };
        assert_eq!(batch(&[text(128_000), text(128_000)]), Ok(2));
        assert_eq!(batch(&[text(128_000), text(128_000), text(1)]), Err(Code::BatchTooLarge));
        assert_eq!(batch(&[text(128_001)]), Err(Code::MessageTooLarge));
        assert_eq!(batch(&vec![text(1); 100]), Ok(100));
        assert_eq!(batch(&vec![text(1); 101]), Err(Code::BatchTooLong));
        assert_eq!(batch(&[]), Err(Code::Schema));
        assert_eq!(batch(&["7".to_owned()]), Err(Code::Schema));
        assert_eq!(batch(&[r#"["a","text"]"#.to_owned()]), Err(Code::Schema));
        assert!(DraftBatch::read(b"{}").is_err() && DraftBatch::read(br#"{"messages":{}}"#).is_err());
    }

    #[test]
    fn own_delay_comes_before_the_batchs() {
        let of = |own, batch| {
            let draft = Draft { content_type: ContentType::Text, body: Bytes::new(), delay: own };
            draft.message(MessageId::default(), batch, Source::Api).delay
        };
        let seconds = Duration::from_secs;
        assert_eq!(of(None, None), None);
        assert_eq!(of(None, Some(7)), Some(seconds(7)));
        assert_eq!(of(Some(0), Some(7)), Some(Duration::ZERO));
        assert_eq!(of(Some(9), Some(7)), Some(seconds(9)));
    }
}
