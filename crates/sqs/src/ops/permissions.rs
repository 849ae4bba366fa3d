//! What AddPermission and RemovePermission share: labels, and a change of the policy's text in one step.

use std::sync::Arc;

use kew_core::Queue;
use serde_json::Value;

use crate::attributes::{Change, change};
use crate::error::{Code, WireError};
use crate::{Context, documents, policy};

/// A label that a statement can have.
pub(super) fn check_label(label: Option<&str>) -> Result<&str, WireError> {
    let label = label.filter(|label| !label.is_empty()).ok_or_else(|| WireError::missing("Label"))?;
    let is_legal = label.len() <= 80
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_legal {
        return Ok(label);
    }
    let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
    Err(WireError::invalid_value("Label", label, reason))
}

/// The statements of a policy; a single one becomes a list.
pub(super) fn statements(policy: &mut Value) -> Result<&mut Vec<Value>, WireError> {
    let statements = policy.get_mut("Statement").ok_or(Code::InvalidAttributeValue)?;
    if statements.is_object() {
        *statements = Value::Array(vec![statements.take()]);
    }
    statements.as_array_mut().ok_or_else(|| Code::InvalidAttributeValue.into())
}

/// Changes a queue's policy by `edit`, from whatever it is when the change is made.
pub(super) async fn change_policy(
    cx: &Context<'_>,
    queue: Arc<Queue>,
    edit: impl Fn(&mut Option<Value>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    change(cx, queue, |queue| {
        let policy = documents::policy(queue).map(serde_json::from_str).transpose();
        let mut policy =
            policy.map_err(|error| WireError::new(Code::InvalidAttributeValue).because(error))?;
        edit(&mut policy)?;
        let text = policy.map(|policy| policy.to_string());
        if let Some(text) = &text {
            check_size(text)?;
            policy::check(text)?;
        }
        Ok(Change { policy: None, documents: vec![documents::write_policy(text.as_deref())] })
    })
    .await
}

fn check_size(text: &str) -> Result<(), WireError> {
    if text.len() <= policy::TEXT_BYTES_MAX {
        return Ok(());
    }
    let text = format!("A policy may have at most {} bytes.", policy::TEXT_BYTES_MAX);
    Err(WireError::new(Code::OverLimit).saying(text))
}
