//! RemovePermission: the statement of a label leaves the queue's policy; with the last one the policy goes.

use kew_http::Reply;
use serde::Deserialize;
use serde_json::Value;

use super::permissions::{change_policy, statements};
use crate::Context;
use crate::decode::Text;
use crate::error::WireError;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RemovePermission<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
}

pub(crate) async fn remove_permission(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: RemovePermission<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let label = request.label.as_deref().filter(|label| !label.is_empty());
    let label = label.ok_or_else(|| WireError::missing("Label"))?;
    change_policy(cx, queue, |policy| {
        let not_found = || WireError::invalid_value("Label", label, "can't find label.");
        let statements = statements(policy.as_mut().ok_or_else(not_found)?)?;
        let before = statements.len();
        statements.retain(|statement| statement.get("Sid").and_then(Value::as_str) != Some(label));
        if statements.len() == before {
            return Err(not_found());
        }
        if statements.is_empty() {
            *policy = None;
        }
        Ok(())
    })
    .await?;
    Ok(cx.done())
}
