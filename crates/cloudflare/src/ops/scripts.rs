//! Whether a consumer's Worker is there, where this server runs Workers.

use kew_push::{Consumer, Delivery, Push, Target};

use crate::Context;
use crate::error::{Code, WireError};

/// Refuses a consumer whose Worker is not deployed, or takes no messages. A server that runs no Workers knows of none,
/// and keeps such consumers for others.
pub(super) async fn check_consumer(cx: &Context<'_>, consumer: &Consumer) -> Result<(), WireError> {
    let Delivery::Push(Push { target: Target::Worker { script }, .. }) = &consumer.delivery else {
        return Ok(());
    };
    let Some(workers) = cx.settings.scripts.workers.get() else { return Ok(()) };
    workers.follow(cx.caller.account).await?;
    let found = workers.describe(cx.caller.account, script).filter(|found| found.deployed.is_some());
    match found.ok_or(Code::ScriptNotFound)?.handles_queues {
        Some(false) => Err(Code::QueueHandlerMissing.into()),
        // A Worker that is being started has not reported its handlers yet.
        Some(true) | None => Ok(()),
    }
}
