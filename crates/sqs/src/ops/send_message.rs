//! SendMessage.

use kew_core::command::{FirstReceipts, Send};
use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::error::{Code, WireError};
use crate::message::draft::{Accepted, Company, Draft};
use crate::message::message_attributes::Given;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendMessage<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    message_body: Option<Text<'a>>,
    delay_seconds: Option<i64>,
    #[serde(borrow)]
    message_attributes: Option<Given<'a>>,
    #[serde(borrow)]
    message_system_attributes: Option<Given<'a>>,
    #[serde(borrow)]
    message_group_id: Option<Text<'a>>,
    #[serde(borrow)]
    message_deduplication_id: Option<Text<'a>>,
}

pub(crate) async fn send_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: SendMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let draft = Draft {
        body: request.message_body,
        delay_seconds: request.delay_seconds,
        attributes: request.message_attributes,
        system_attributes: request.message_system_attributes,
        group: request.message_group_id,
        deduplication: request.message_deduplication_id,
    };
    let checked = draft.check(cx, &queue, Company::Alone)?;
    let send = Send { queue: queue.id, messages: vec![checked.message], receipts: FirstReceipts::Untold };
    let sent = cx.engine.send(send).await?;
    let sent = sent.into_iter().next().ok_or(Code::InternalFailure)?;
    Ok(cx.result(&Accepted::new(sent, checked.hashes, &queue)))
}
