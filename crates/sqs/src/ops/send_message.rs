//! SendMessage.

use std::borrow::Cow;

use bytes::Bytes;
use kew_core::command::Send;
use kew_core::{Content, MessageId, NewMessage, Queue};
use kew_http::{Reply, hex};

use crate::annotations::{self, BodyHash};
use crate::encode::{Shape, Writer};
use crate::error::{Code, WireError};
use crate::{Context, decode, limits};

pub(crate) async fn send_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::SendMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let delay = limits::DELAY_SECONDS.seconds(request.delay_seconds)?;
    let body = request.message_body.filter(|body| !body.is_empty());
    let body = body.ok_or_else(|| WireError::missing("MessageBody"))?;
    check_body(&queue, &body)?;
    let hash = annotations::hash(body.as_bytes());
    let body = match body.0 {
        // The store copies what it keeps, so a slice of the request does until then.
        Cow::Borrowed(text) => cx.call.body.slice_ref(text.as_bytes()),
        Cow::Owned(text) => Bytes::from(text),
    };
    let content = Content { body, annotations: annotations::write(hash), ..Content::default() };
    let message = NewMessage { content, delay, ..NewMessage::text(cx.engine.message_id(), Bytes::new()) };
    let sent = cx.engine.send(Send { queue: queue.id, messages: vec![message] }).await?;
    let sent = sent.first().ok_or(Code::InternalFailure)?;
    Ok(cx.result(&Accepted { id: sent.id, body_hash: hash }))
}

fn check_body(queue: &Queue, body: &str) -> Result<(), WireError> {
    let most = queue.policy.body_bytes_max;
    if body.len() > most as usize {
        let text =
            format!("One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.");
        return Err(WireError::new(Code::InvalidParameterValue).saying(text));
    }
    limits::check_characters(body)
}

struct Accepted {
    id: MessageId,
    body_hash: BodyHash,
}

impl Shape for Accepted {
    fn write<W: Writer>(&self, out: &mut W) {
        out.plain("MD5OfMessageBody", &hex::hash(&self.body_hash));
        out.plain("MessageId", &hex::uuid(self.id.0));
    }
}
