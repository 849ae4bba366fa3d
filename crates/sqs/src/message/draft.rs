//! A message on its way in: what a send says of it, checked against the queue it goes to.

use std::borrow::Cow;

use bytes::Bytes;
use kew_core::outcome::Sent;
use kew_core::{Content, DeduplicationId, GroupId, NewMessage, Queue, QueueKind, Text as CoreText};
use kew_http::{HeaderName, hex};
use sha2::{Digest, Sha256};

use crate::decode::Text;
use crate::encode::{Shape, Writer};
use crate::error::{Code, WireError};
use crate::message::annotations::Notes;
use crate::message::hash::{Hash, hash};
use crate::message::message_attributes::{Given, TRACE_HEADER_BYTES, trace_hash};
use crate::message::system_attributes::sequence_number;
use crate::{Context, limits, names};

/// Traces of the HTTP request a message came in.
static TRACE_ID: HeaderName = HeaderName::from_static("x-amzn-trace-id");

/// A message as a request describes it.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) body: Option<Text<'a>>,
    pub(crate) delay_seconds: Option<i64>,
    pub(crate) attributes: Option<Given<'a>>,
    pub(crate) system_attributes: Option<Given<'a>>,
    pub(crate) group: Option<Text<'a>>,
    pub(crate) deduplication: Option<Text<'a>>,
}

/// Whether a message comes alone or in a batch: the texts differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Company {
    Alone,
    Batch,
}

/// A message that may be sent, and what the reply to its sender says.
pub(crate) struct Checked {
    pub(crate) message: NewMessage,
    pub(crate) hashes: Hashes,
}

/// The hashes of what was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashes {
    body: Hash,
    attributes: Option<Hash>,
    system_attributes: Option<Hash>,
}

impl Draft<'_> {
    /// Its size as SQS counts: the body, and names, types and values of its attributes.
    pub(crate) fn size(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.len()) + self.attributes.as_ref().map_or(0, Given::size)
    }

    /// What a FIFO queue demands is there: a group, and something to tell repeats by.
    pub(crate) fn check_fifo(&self, queue: &Queue) -> Result<(), WireError> {
        let QueueKind::Fifo { by_content, .. } = queue.policy.kind else { return Ok(()) };
        if self.group.is_none() {
            return Err(WireError::missing("MessageGroupId"));
        }
        if self.deduplication.is_none() && !by_content {
            let text = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly";
            return Err(WireError::new(Code::InvalidParameterValue).saying(text));
        }
        Ok(())
    }

    /// Checks everything, and makes the message.
    pub(crate) fn check(
        self,
        cx: &Context<'_>,
        queue: &Queue,
        company: Company,
    ) -> Result<Checked, WireError> {
        self.check_body(queue, company)?;
        let delay = limits::DELAY_SECONDS.seconds(self.delay_seconds)?;
        if let Some(delay) = delay.filter(|delay| !delay.is_zero() && queue.policy.kind.is_fifo()) {
            let reason = "The request include parameter that is not valid for this queue type.";
            return Err(WireError::invalid_value("DelaySeconds", delay.as_secs(), reason));
        }
        self.check_fifo(queue)?;
        self.check_ids(queue)?;
        let attributes = self.attributes.as_ref().filter(|attributes| !attributes.is_empty());
        let attributes = attributes.map(Given::encode).transpose()?;
        let attributes = attributes.as_ref().map(|attributes| (attributes, attributes.hash()));
        let traced = self.system_attributes.as_ref().map(Given::trace_header).transpose()?.flatten();
        let body = self.body.ok_or_else(|| WireError::missing("MessageBody"))?;
        let hashes = Hashes {
            body: hash(body.as_bytes()),
            attributes: attributes.map(|(_, hash)| hash),
            system_attributes: traced.map(trace_hash),
        };
        let notes = Notes {
            body_hash: hashes.body,
            sender: (!is_account(&cx.caller.sender, queue)).then_some(&*cx.caller.sender),
            trace_header: traced.or_else(|| trace_of_request(cx)),
            attributes,
        };
        let content_hash = match queue.policy.kind {
            QueueKind::Fifo { by_content: true, .. } if self.deduplication.is_none() => {
                Some(content_hash(&body))
            }
            QueueKind::Fifo { .. } | QueueKind::Standard => None,
        };
        let content = Content { annotations: notes.write(), body: bytes(cx, body), ..Content::default() };
        let message = NewMessage {
            content,
            group: self.group.map(|group| GroupId(text(cx, group))),
            deduplication: self.deduplication.map(|id| DeduplicationId(text(cx, id))),
            content_hash,
            delay,
            ..NewMessage::text(cx.engine.message_id(), Bytes::new())
        };
        Ok(Checked { message, hashes })
    }

    fn check_body(&self, queue: &Queue, company: Company) -> Result<(), WireError> {
        let body = self.body.as_ref().filter(|body| !body.is_empty());
        let body = body.ok_or_else(|| WireError::missing("MessageBody"))?;
        let most = queue.policy.body_bytes_max;
        if self.size() > most as usize {
            let are = match company {
                Company::Alone => "are invalid",
                Company::Batch => "cannot be validated",
            };
            let text =
                format!("One or more parameters {are}. Reason: Message must be shorter than {most} bytes.");
            return Err(WireError::new(Code::InvalidParameterValue).saying(text));
        }
        if !limits::is_legal_text(body) {
            return Err(WireError::new(Code::InvalidMessageContents).saying(limits::INVALID_CHARACTERS));
        }
        Ok(())
    }

    fn check_ids(&self, queue: &Queue) -> Result<(), WireError> {
        if let Some(group) = &self.group {
            limits::check_id("MessageGroupId", group)?;
        }
        let Some(id) = &self.deduplication else { return Ok(()) };
        if !queue.policy.kind.is_fifo() {
            let reason = "The request includes a parameter that is not valid for this queue type.";
            return Err(WireError::invalid_value("MessageDeduplicationId", &**id, reason));
        }
        limits::check_id("MessageDeduplicationId", id)
    }
}

/// Messages of the queue's own account need no note of who sent them.
fn is_account(sender: &str, queue: &Queue) -> bool {
    names::account(sender) == Some(queue.key.account)
}

/// The trace the HTTP request itself belongs to.
fn trace_of_request<'r>(cx: &Context<'r>) -> Option<&'r str> {
    let trace = cx.request.headers.get(&TRACE_ID)?.text()?;
    (1..=TRACE_HEADER_BYTES).contains(&trace.len()).then_some(trace)
}

/// A body's SHA-256 in hex digits, the deduplication id where the queue uses bodies for it.
fn content_hash(body: &str) -> DeduplicationId {
    let mut text = Vec::with_capacity(64);
    hex::push(&mut text, &Sha256::digest(body.as_bytes()));
    DeduplicationId(CoreText::from_utf8(text.into()).unwrap_or_default())
}

/// The store copies what it keeps, so a slice of the request does until then.
fn bytes(cx: &Context<'_>, text: Text<'_>) -> Bytes {
    match text.0 {
        Cow::Borrowed(text) => cx.call.body.slice_ref(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    }
}

/// A text of the request, likewise.
pub(crate) fn text(cx: &Context<'_>, text: Text<'_>) -> CoreText {
    // It was a text before.
    CoreText::from_utf8(bytes(cx, text)).unwrap_or_default()
}

/// What the reply to the sender of a message says.
pub(crate) struct Accepted {
    sent: Sent,
    hashes: Hashes,
    is_fifo: bool,
}

impl Accepted {
    pub(crate) fn new(sent: Sent, hashes: Hashes, queue: &Queue) -> Self {
        Self { sent, hashes, is_fifo: queue.policy.kind.is_fifo() }
    }
}

impl Shape for Accepted {
    fn write<W: Writer>(&self, out: &mut W) {
        out.plain("MD5OfMessageBody", &hex::hash(&self.hashes.body));
        if let Some(hash) = &self.hashes.attributes {
            out.plain("MD5OfMessageAttributes", &hex::hash(hash));
        }
        if let Some(hash) = &self.hashes.system_attributes {
            out.plain("MD5OfMessageSystemAttributes", &hex::hash(hash));
        }
        out.plain("MessageId", &hex::uuid(self.sent.id.0));
        if self.is_fifo {
            out.plain("SequenceNumber", sequence_number(self.sent.sequence).as_bytes());
        }
    }
}
