//! GetQueueUrl.

use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::error::WireError;
use crate::names::{self, Address};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(borrow)]
    queue_name: Option<Text<'a>>,
    #[serde(borrow, rename = "QueueOwnerAWSAccountId")]
    queue_owner: Option<Text<'a>>,
}

pub(crate) fn get_queue_url(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: Request<'_> = cx.read()?;
    let name = request.queue_name.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| WireError::missing("QueueName"))?;
    let account = request.queue_owner.as_deref().and_then(names::account);
    let queue = cx.queue_at(Address { account, name })?;
    Ok(super::queue_url(cx, &queue))
}
