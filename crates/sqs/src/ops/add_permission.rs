//! AddPermission: one more statement in the queue's policy, under a label.

use kew_core::AccountId;
use kew_http::Reply;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::permissions::{change_policy, check_label, statements};
use crate::action::Action;
use crate::decode::{Bounded, Text};
use crate::error::{Code, WireError};
use crate::names::{self, Arn};
use crate::{Context, policy};

/// Principals of a statement; of longer lists nothing is kept.
const LISTED_MAX: usize = policy::PRINCIPALS_MAX;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AddPermission<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    label: Option<Text<'a>>,
    #[serde(borrow, rename = "AWSAccountIds")]
    accounts: Option<Bounded<Text<'a>, LISTED_MAX>>,
    #[serde(borrow)]
    actions: Option<Bounded<Text<'a>, LISTED_MAX>>,
}

pub(crate) async fn add_permission(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: AddPermission<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let label = check_label(request.label.as_deref())?;
    let actions = actions(request.actions.unwrap_or_default())?;
    let accounts = accounts(request.accounts.unwrap_or_default())?;
    let arn = Arn::of(&queue.key).to_string();
    change_policy(cx, queue, |policy| {
        let policy = policy.get_or_insert_with(
            || json!({ "Version": "2008-10-17", "Id": format!("{arn}/SQSDefaultPolicy"), "Statement": [] }),
        );
        let statements = statements(policy)?;
        if statements.iter().any(|statement| statement.get("Sid").and_then(Value::as_str) == Some(label)) {
            return Err(WireError::invalid_value("Label", label, "Already exists."));
        }
        if statements.len() >= policy::STATEMENTS_MAX {
            return Err(too_many("Statements", statements.len() + 1, policy::STATEMENTS_MAX));
        }
        statements.push(json!({
            "Sid": label,
            "Effect": "Allow",
            "Principal": Map::from_iter([("AWS".to_owned(), one_or_many(accounts.clone()))]),
            "Action": one_or_many(actions.clone()),
            "Resource": arn,
        }));
        Ok(())
    })
    .await?;
    Ok(cx.done())
}

fn too_many(what: &str, found: usize, max: usize) -> WireError {
    let text = format!("{found} {what} were found, maximum allowed is {max}.");
    WireError::new(Code::OverLimit).saying(text)
}

/// A list of one is that one.
fn one_or_many(mut texts: Vec<String>) -> Value {
    if texts.len() > 1 { Value::from(texts) } else { texts.pop().map_or(Value::Null, Value::from) }
}

/// The actions as policies spell them, each once.
fn actions(names: Bounded<Text<'_>, LISTED_MAX>) -> Result<Vec<String>, WireError> {
    if names.count == 0 {
        return Err(WireError::missing("Actions"));
    }
    if names.count > policy::ACTIONS_MAX {
        return Err(too_many("Actions", names.count, policy::ACTIONS_MAX));
    }
    let mut actions = Vec::new();
    for name in names.kept {
        let action = check_action(&name)?;
        if !actions.contains(&action) {
            actions.push(action);
        }
    }
    Ok(actions)
}

fn check_action(name: &str) -> Result<String, WireError> {
    let full = format!("SQS:{name}");
    let reason = match Action::named(name) {
        _ if name == "*" => return Ok(full),
        Some(action) if !action.is_for_owners() => return Ok(full),
        Some(_) => "Only the queue owner is allowed to invoke this action.",
        None => "Please refer to the appropriate WSDL for a list of valid actions. ",
    };
    Err(WireError::invalid_value("ActionName", full, reason))
}

/// The accounts' own ARNs, each once.
fn accounts(ids: Bounded<Text<'_>, LISTED_MAX>) -> Result<Vec<String>, WireError> {
    if ids.count > LISTED_MAX {
        return Err(too_many("Principals", ids.count, LISTED_MAX));
    }
    let ids = ids.kept;
    let accounts: Option<Vec<AccountId>> = ids.iter().map(|id| names::account(id)).collect();
    let Some(mut accounts) = accounts.filter(|accounts| !accounts.is_empty()) else {
        let given: Vec<&str> = ids.iter().map(|id| &**id).collect();
        let given = format!("[{}]", given.join(", "));
        return Err(WireError::invalid_value("PrincipalId", given, "Unable to verify."));
    };
    accounts.sort_unstable();
    accounts.dedup();
    Ok(accounts.iter().map(|account| format!("arn:aws:iam::{account}:root")).collect())
}
