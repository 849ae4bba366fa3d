//! Put, get, peek and clear: what is asked of all messages of a queue.

use std::time::Duration;

use bytes::Bytes;
use kew_core::command::{FirstMessage, FirstReceipts, Lease, OverLimit, Peek, Purge, Send, View};
use kew_core::{Content, Expiry, LeaseTerms, Message, NewMessage, Return, Timestamp};
use kew_http::xml::{self, Writer};
use kew_http::{HeaderName, HeaderValue, Reply, StatusCode};

use crate::client::WAITED_HEADER;
use crate::error::{Code, WireError};
use crate::{Context, encode, limits, receipt};

const WAITED: HeaderName = HeaderName::from_static(WAITED_HEADER);

pub(crate) async fn put(cx: &Context<'_>) -> Result<Reply, WireError> {
    let hidden = limits::PUT_VISIBILITY.seconds(cx.params)?.unwrap_or_default();
    let expiry = limits::time_to_live(cx.params)?;
    refuse_hidden_for_life(cx, hidden, expiry)?;
    if !cx.request.headers.contains("content-length") && cx.request.body.is_empty() {
        return Err(Code::MissingContentLengthHeader.into());
    }
    let text = read_text(&cx.request.body)?.ok_or(Code::InvalidXmlDocument)?;
    let queue = cx.queue()?;
    let message = NewMessage {
        delay: Some(hidden),
        returns: Return::Behind,
        expiry,
        ..NewMessage::text(cx.engine.message_id(), text)
    };
    let send = Send { queue: queue.id, messages: vec![message], receipts: FirstReceipts::Told };
    let sent = cx.engine.send(send).await?;
    let (sent, token) = sent.first().and_then(|sent| Some((sent, sent.token?))).ok_or(Code::InternalError)?;
    let mut out = encode::document();
    out.open("QueueMessagesList");
    out.open("QueueMessage");
    out.element("MessageId", &sent.id.to_string());
    out.element("InsertionTime", &encode::http_date(sent.sent_at));
    out.element("ExpirationTime", &encode::expiry(sent.expires_at));
    out.element("PopReceipt", &receipt::text(token));
    out.element("TimeNextVisible", &encode::http_date(sent.visible_at));
    out.close("QueueMessage");
    out.close("QueueMessagesList");
    Ok(encode::xml(StatusCode::CREATED, out, cx.request))
}

/// A message that would be hidden as long as it lives, by what the request itself says.
fn refuse_hidden_for_life(cx: &Context<'_>, hidden: Duration, expiry: Expiry) -> Result<(), WireError> {
    let Expiry::After { seconds } = expiry else { return Ok(()) };
    if cx.params.text("messagettl").is_none() || hidden < Duration::from_secs(u64::from(seconds)) {
        return Ok(());
    }
    let reason = "messagettl must be greater than visibilitytimeout.";
    Err(WireError::bad_parameter("visibilitytimeout", hidden.as_secs(), reason))
}

/// The text in a message's document; `None` when it has no such element.
pub(crate) fn read_text(body: &[u8]) -> Result<Option<Bytes>, WireError> {
    // An editor's mark at the beginning is no part of the document.
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let root = xml::parse(body, xml::Bounds::default()).map_err(|error| {
        WireError::new(Code::InvalidXmlDocument)
            .saying(format!("XML specified is not syntactically valid: {error}."))
    })?;
    if root.name != "QueueMessage" {
        return Err(Code::InvalidXmlDocument.into());
    }
    let mut texts = root.children.into_iter().filter(|child| child.name == "MessageText");
    let text = texts.next();
    // What is not text in it, or is said twice, would be lost without a word.
    if texts.next().is_some() || text.as_ref().is_some_and(|text| !text.children.is_empty()) {
        return Err(Code::InvalidXmlDocument.into());
    }
    match text.map(|text| text.text) {
        Some(text) if text.len() > limits::TEXT_BYTES => {
            Err(WireError::new(Code::RequestBodyTooLarge).with("MaxLimit", limits::TEXT_BYTES))
        }
        text => Ok(text.map(Bytes::from)),
    }
}

pub(crate) async fn get(cx: &Context<'_>) -> Result<Reply, WireError> {
    let max = limits::NUM_OF_MESSAGES.read(cx.params)?.unwrap_or(1);
    let hidden = limits::GET_VISIBILITY.seconds(cx.params)?.unwrap_or(limits::GET_VISIBILITY_DEFAULT);
    let queue = cx.queue()?;
    let lease = Lease {
        queue: queue.id,
        max,
        body_bytes_max: limits::REPLY_BODY_BYTES,
        first: FirstMessage::AlwaysFits,
        terms: LeaseTerms {
            length: Some(hidden),
            // Each update counts its week from its own instant.
            cap: None,
            lapse_delay: Duration::ZERO,
            returns: Return::Behind,
        },
        received_at: cx.now(),
        attempt: None,
        owner: None,
        in_flight_max: cx.settings.in_flight_max,
        over_limit: OverLimit::FindNothing,
        by: cx.request.consumer(),
    };
    let wait = limits::wait(cx.request);
    let room = &cx.request.room;
    let freed = async { Ok::<_, WireError>(room.free().await?) };
    let leased = cx.engine.lease_when_free(lease, wait, room.for_leases(), freed).await?;
    let waited = !wait.is_zero() && leased.is_empty() && cx.engine.now() >= cx.now().plus(wait);
    let mut out = encode::document();
    list(&mut out, leased.iter(), |out, leased| {
        push_head(out, &leased.message);
        out.element("PopReceipt", &receipt::text(leased.token));
        out.element("TimeNextVisible", &encode::http_date(leased.until));
        push_rest(out, &leased.message);
    });
    let reply = encode::xml(StatusCode::OK, out, cx.request);
    // A client that asked to be held need not pause before its next request.
    Ok(if waited { reply.with(WAITED, HeaderValue::from_static("1")) } else { reply })
}

pub(crate) async fn peek(cx: &Context<'_>) -> Result<Reply, WireError> {
    let max = limits::NUM_OF_MESSAGES.read(cx.params)?.unwrap_or(1);
    let queue = cx.queue()?;
    let peek =
        Peek { queue: queue.id, view: View::Ready, skip: 0, max, body_bytes_max: limits::REPLY_BODY_BYTES };
    let _kept = cx.request.room.keep(limits::PEEKED_BYTES).await?;
    let seen = cx.engine.peek(peek).await?;
    let mut out = encode::document();
    list(&mut out, seen.iter(), |out, (message, _)| {
        push_head(out, message);
        push_rest(out, message);
    });
    Ok(encode::xml(StatusCode::OK, out, cx.request))
}

pub(crate) async fn clear(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    cx.engine.purge(Purge { queue: queue.id }).await?;
    Ok(encode::empty(StatusCode::NO_CONTENT))
}

fn list<T>(out: &mut Writer, messages: impl ExactSizeIterator<Item = T>, each: impl Fn(&mut Writer, T)) {
    if messages.len() == 0 {
        out.empty("QueueMessagesList");
        return;
    }
    out.open("QueueMessagesList");
    for message in messages {
        out.open("QueueMessage");
        each(out, message);
        out.close("QueueMessage");
    }
    out.close("QueueMessagesList");
}

fn push_head(out: &mut Writer, message: &Message) {
    out.element("MessageId", &message.id.to_string());
    out.element("InsertionTime", &encode::http_date(message.sent_at));
    out.element("ExpirationTime", &encode::expiry(message.expires_at));
}

fn push_rest(out: &mut Writer, message: &Message) {
    out.element("DequeueCount", &message.attempts.to_string());
    let text = encode::message_text(&message.content);
    if text.is_empty() { out.empty("MessageText") } else { out.element("MessageText", &text) }
}

/// The content of a message of this dialect.
pub(crate) fn content(text: Bytes) -> Content {
    Content { body: text, ..Content::default() }
}

/// When a lease of this length ends, as replies show it.
pub(crate) fn next_visible(until: Timestamp) -> String {
    encode::http_date(until).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(xml: &str) -> Result<Option<String>, Code> {
        let text = read_text(xml.as_bytes()).map_err(|error| error.code())?;
        Ok(text.map(|text| String::from_utf8(text.to_vec()).expect("a message within the bounds is UTF-8")))
    }

    fn message(inside: &str) -> String {
        format!("<QueueMessage><MessageText>{inside}</MessageText></QueueMessage>")
    }

    #[test]
    fn texts_are_taken_as_they_are() {
        for (inside, expected) in [
            ("abc", "abc"),
            ("", ""),
            ("  a \n\t ", "  a \n\t "),
            ("a\rb\r\n", "a\rb\r\n"),
            ("&lt;&amp;&#xD;&#65;", "<&\rA"),
            ("<![CDATA[<x>]]>y<!-- no -->", "<x>y"),
        ] {
            assert_eq!(text(&message(inside)), Ok(Some(expected.to_owned())), "{inside:?}");
        }
        let with_mark = format!("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>{}", message("a"));
        assert_eq!(text(&with_mark), Ok(Some("a".to_owned())));
        assert_eq!(text("<QueueMessage/>"), Ok(None));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bad in [
            "",
            "abc",
            "<Other/>",
            "<QueueMessage>",
            "<!DOCTYPE a><QueueMessage/>",
            &message("&unknown;"),
            &message("\u{1}"),
            &message("&#1;"),
            &message("a<b/>c"),
            "<QueueMessage><MessageText>a</MessageText><MessageText>b</MessageText></QueueMessage>",
        ] {
            assert_eq!(text(bad), Err(Code::InvalidXmlDocument), "{bad:?}");
        }
        assert!(text(&message(&"é".repeat(32_768))).is_ok());
        assert_eq!(text(&message(&"é".repeat(32_769))), Err(Code::RequestBodyTooLarge));
    }
}
