//! `POST /queues/{id}/messages/peek`: shows what could be pulled, and changes nothing.

use kew_core::command::{Peek, View};
use kew_http::Reply;

use crate::decode::settle::PullBody;
use crate::error::WireError;
use crate::{Context, encode, limits, receipt};

pub(crate) async fn peek(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = PullBody::read(&cx.request.body)?;
    let peek = Peek {
        queue: cx.queue()?.id,
        view: View::Ready,
        skip: 0,
        max: body.batch_size.unwrap_or(limits::PULL_MESSAGES.default),
        body_bytes_max: limits::REPLY_BODY_BYTES,
    };
    let _kept = cx.request.room.keep(limits::PEEKED_BYTES).await?;
    let seen = cx.engine.peek(peek).await?;
    let mut body = encode::opened();
    body.extend_from_slice(br#"{"messages":["#);
    for (place, (message, token)) in seen.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        encode::message::push(&mut body, message, ("ref", &receipt::reference(*token)));
    }
    body.extend_from_slice(b"]}");
    Ok(encode::closed(body))
}
