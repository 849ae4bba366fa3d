//! Delete and update of one message, by its id and its newest receipt.

use bytes::Bytes;
use kew_core::command::{Ack, Extend, Extension, Identify, Peek, View};
use kew_core::event::Words;
use kew_core::outcome::Extended;
use kew_core::{Failure, LeaseToken, Queue, ReceiptRule, RuleError, WhenFree};
use kew_engine::EngineError;
use kew_http::{FAILED_HEADER, HeaderName, HeaderValue, PUT_ASIDE_HEADER, Reply, StatusCode};

use super::messages::{content, next_visible, read_text};
use crate::error::{Code, WireError};
use crate::{Context, encode, limits, receipt};

const POP_RECEIPT: HeaderName = HeaderName::from_static("x-ms-popreceipt");
const TIME_NEXT_VISIBLE: HeaderName = HeaderName::from_static("x-ms-time-next-visible");
/// Messages of each kind that are looked through for an id, to tell a wrong receipt from a message that is gone.
const SEARCHED: u32 = 1_000;

pub(crate) async fn delete(cx: &Context<'_>) -> Result<Reply, WireError> {
    let receipt = read_receipt(cx)?;
    let queue = cx.queue()?;
    let token = check(cx, &queue, receipt).await?;
    if let Some(to) = cx.request.header(PUT_ASIDE_HEADER) {
        // Before it is gone: what cannot be remembered is asked for again.
        let failure = (token.sequence, Failure::PutAside, Words::new(to));
        cx.engine.note_failures(queue.id, vec![failure]).await?;
    }
    let ack = Ack { queue: queue.id, receipt: ReceiptRule::Current, tokens: vec![token] };
    let acked = cx.engine.ack(ack).await?;
    acked.into_iter().next().ok_or(Code::InternalError)??;
    Ok(encode::empty(StatusCode::NO_CONTENT))
}

pub(crate) async fn update(cx: &Context<'_>) -> Result<Reply, WireError> {
    let receipt = read_receipt(cx)?;
    let length = limits::PUT_VISIBILITY.seconds(cx.params)?;
    let length = length.ok_or_else(|| WireError::missing_parameter("visibilitytimeout"))?;
    let text = read_new_text(&cx.request.body)?;
    let queue = cx.queue()?;
    let token = check(cx, &queue, receipt).await?;
    let extend = Extend {
        queue: queue.id,
        receipt: ReceiptRule::Current,
        when_free: WhenFree::Hide,
        renew: true,
        entries: vec![Extension { token, length, content: text.map(content) }],
    };
    if let Some(why) = cx.request.header(FAILED_HEADER) {
        // Before what becomes of the message, so that the next delivery finds the reason.
        let failure = (token.sequence, Failure::Threw, Words::new(why));
        cx.engine.note_failures(queue.id, vec![failure]).await?;
    }
    let extended = cx.engine.extend(extend).await?;
    match extended.into_iter().next().ok_or(Code::InternalError)?? {
        Extended::Until { until, token } => {
            let mut reply = encode::empty(StatusCode::NO_CONTENT);
            for (name, text) in
                [(POP_RECEIPT, receipt::text(token)), (TIME_NEXT_VISIBLE, next_visible(until))]
            {
                let value = HeaderValue::try_from(text).map_err(|_| Code::InternalError)?;
                reply.headers.insert(name, value);
            }
            Ok(reply)
        }
        Extended::Free => Err(Code::PopReceiptMismatch.into()),
    }
}

/// The token in the receipt; `None` in one that is not Kew's.
fn read_receipt(cx: &Context<'_>) -> Result<Option<LeaseToken>, WireError> {
    let text = cx.params.filled("popreceipt").ok_or_else(|| WireError::missing_parameter("popreceipt"))?;
    receipt::read(text)
}

/// The new text; no body and a body without a text both keep the old one.
fn read_new_text(body: &[u8]) -> Result<Option<Bytes>, WireError> {
    if body.iter().all(u8::is_ascii_whitespace) { Ok(None) } else { read_text(body) }
}

/// The token of a receipt, refused if it is not the named message's.
async fn check(
    cx: &Context<'_>,
    queue: &Queue,
    receipt: Option<LeaseToken>,
) -> Result<LeaseToken, WireError> {
    let named = cx.message_id();
    if let Some(token) = receipt {
        match cx.engine.identify(Identify { queue: queue.id, token }).await {
            Ok(id) if id.to_string().eq_ignore_ascii_case(named) => return Ok(token),
            // The receipt's own message is gone: of the named one, nothing is known but that this is not its receipt.
            Ok(_)
            | Err(EngineError::Rule(
                RuleError::MessageNotFound | RuleError::TokenForged | RuleError::TokenOfOtherQueue,
            )) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let is_there = is_there(cx, queue, named).await?;
    Err(if is_there { Code::PopReceiptMismatch } else { Code::MessageNotFound }.into())
}

/// Whether a message of this id is found among the first of its queue. Only a request that fails anyway asks.
async fn is_there(cx: &Context<'_>, queue: &Queue, named: &str) -> Result<bool, WireError> {
    for view in [View::Leased, View::Ready, View::Delayed] {
        let peek =
            Peek { queue: queue.id, view, skip: 0, max: SEARCHED, body_bytes_max: limits::REPLY_BODY_BYTES };
        let seen = cx.engine.peek(peek).await?;
        if seen.iter().any(|(message, _)| message.id.to_string().eq_ignore_ascii_case(named)) {
            return Ok(true);
        }
    }
    Ok(false)
}
