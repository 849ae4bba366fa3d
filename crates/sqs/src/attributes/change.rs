//! Changing a queue that others may be changing too.

use std::sync::Arc;

use kew_core::command::UpdateQueue;
use kew_core::{Policy, Queue, RuleError};
use kew_engine::EngineError;

use crate::documents::Write;
use crate::error::WireError;
use crate::{Code, Context};

/// How often a change is planned again because the queue became another one meanwhile.
const TRIES: u32 = 8;

/// What is to become of a queue.
pub(crate) struct Change {
    /// Other settings.
    pub(crate) policy: Option<Policy>,
    /// Documents to write, or to remove.
    pub(crate) documents: Vec<Write>,
}

/// Changes a queue in one step, planned on what it is at that very step.
pub(crate) async fn change(
    cx: &Context<'_>,
    queue: Arc<Queue>,
    plan: impl Fn(&Queue) -> Result<Change, WireError>,
) -> Result<(), WireError> {
    let mut seen = queue;
    for _ in 0..TRIES {
        let Change { policy, documents } = plan(&seen)?;
        if policy.is_none() && documents.is_empty() {
            return Ok(());
        }
        let update =
            UpdateQueue { queue: seen.id, if_version: Some(seen.version), policy, documents, rename: None };
        match cx.engine.update_queue(update).await {
            Ok(_) => return Ok(()),
            Err(EngineError::Rule(RuleError::VersionChanged)) => {
                seen = cx.engine.find_by_id(seen.id)?.ok_or(Code::QueueDoesNotExist)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(RuleError::VersionChanged.into())
}
