//! GetQueueUrl.

use kew_http::Reply;
use serde::Deserialize;

use crate::Context;
use crate::decode::Text;
use crate::error::{Code, WireError};
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
    let owner = request.queue_owner.as_deref().filter(|owner| !owner.is_empty());
    let account = owner.and_then(names::account);
    // In open mode every owner is the caller; else what is no account owns no queue, least of all the caller's.
    if owner.is_some() && account.is_none() && cx.caller.principal.is_some() {
        return Err(Code::QueueDoesNotExist.into());
    }
    let queue = cx.queue_at(Address { account, region: None, name })?;
    Ok(super::queue_url(cx, &queue))
}
