//! ChangeMessageVisibility: the lease ends so long from now, within twelve hours of the receive.

use std::time::Duration;

use kew_core::command::{Extend, Extension};
use kew_core::{LeaseToken, Queue, WhenFree};
use kew_http::Reply;
use serde::Deserialize;

use crate::decode::Text;
use crate::error::{Code, WireError};
use crate::{Context, limits, receipts};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChangeMessageVisibility<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    receipt_handle: Option<Text<'a>>,
    visibility_timeout: Option<i64>,
}

pub(crate) async fn change_message_visibility(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: ChangeMessageVisibility<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let change = Change::read(request.receipt_handle.as_ref(), request.visibility_timeout)?;
    let extended = cx.engine.extend(extend(&queue, vec![change.extension()])).await?;
    change.ended(extended.into_iter().next().ok_or(Code::InternalFailure)?)?;
    Ok(cx.done())
}

/// One lease, and how many seconds from now it shall end.
#[derive(Clone, Copy)]
pub(super) struct Change<'h> {
    handle: &'h str,
    token: LeaseToken,
    seconds: u32,
}

impl<'h> Change<'h> {
    pub(super) fn read(handle: Option<&'h Text<'_>>, seconds: Option<i64>) -> Result<Self, WireError> {
        if handle.is_some() && seconds.is_none() {
            return Err(WireError::missing("VisibilityTimeout"));
        }
        let (handle, token) = receipts::read(handle)?;
        let seconds = limits::VISIBILITY_TIMEOUT.check(seconds)?;
        let seconds = seconds.ok_or_else(|| WireError::missing("VisibilityTimeout"))?;
        Ok(Self { handle, token, seconds })
    }

    pub(super) fn extension(&self) -> Extension {
        let length = Duration::from_secs(u64::from(self.seconds));
        Extension { token: self.token, length, content: None }
    }

    /// How it ended. A message that is visible again stays so, and that is no error.
    pub(super) fn ended<T>(&self, extended: Result<T, kew_core::RuleError>) -> Result<(), WireError> {
        match extended {
            Ok(_) => Ok(()),
            Err(error) => Err(receipts::change_refusal(self.handle, self.seconds, error)),
        }
    }
}

pub(super) fn extend(queue: &Queue, entries: Vec<Extension>) -> Extend {
    let receipt = receipts::rule(queue);
    Extend { queue: queue.id, receipt, when_free: WhenFree::Ignore, renew: false, entries }
}
