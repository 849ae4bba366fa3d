//! A policy's text, read: what cannot be understood whole is not taken at all, since half a policy allows too much.

use kew_core::AccountId;
use serde_json::{Map, Value};

use super::condition::Condition;
use super::wildcard;
use crate::action::Action;
use crate::names;

/// Bytes of a policy's text.
pub(crate) const TEXT_BYTES_MAX: usize = 8_192;
/// Statements of a policy.
pub(crate) const STATEMENTS_MAX: usize = 20;
/// Principals of a statement.
pub(crate) const PRINCIPALS_MAX: usize = 50;
/// Actions of a statement.
pub(crate) const ACTIONS_MAX: usize = 7;
/// Conditions of a statement.
const CONDITIONS_MAX: usize = 10;

/// A policy.
#[derive(PartialEq, Debug)]
pub(crate) struct Document {
    /// Whether `${aws:username}` and the like stand for something; older policies mean the characters themselves.
    pub(super) has_variables: bool,
    pub(super) statements: Vec<Statement>,
}

/// What it says of somebody, some actions and some queues.
#[derive(PartialEq, Debug)]
pub(super) struct Statement {
    pub(super) effect: Effect,
    pub(super) principals: Named<Who>,
    pub(super) actions: Named<Box<str>>,
    pub(super) resources: Named<Box<str>>,
    pub(super) conditions: Vec<Condition>,
}

/// What a statement does where it applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    Allow,
    Deny,
}

/// Those that are listed, or all others.
#[derive(PartialEq, Debug)]
pub(super) enum Named<T> {
    Only(Vec<T>),
    AllBut(Vec<T>),
}

impl<T> Named<T> {
    /// Whether something is meant, where `is` tells whether an entry of the list means it.
    pub(super) fn means(&self, is: impl FnMut(&T) -> bool) -> bool {
        match self {
            Self::Only(list) => list.iter().any(is),
            Self::AllBut(list) => !list.iter().any(is),
        }
    }
}

/// Somebody in a policy.
#[derive(PartialEq, Debug)]
pub(super) enum Who {
    Anyone,
    /// Everybody of an account.
    Account(AccountId),
    /// One user.
    Arn(Box<str>),
    /// A role, a service, a federation: no caller of this server.
    Stranger,
}

/// Why a text is no policy, for our log.
pub(crate) type Fault = &'static str;

impl Document {
    /// Reads a policy's text.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Fault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err("it is too long");
        }
        let Ok(Value::Object(mut members)) = serde_json::from_slice(text) else {
            return Err("it is not a JSON object");
        };
        let has_variables = match members.remove("Version") {
            None => false,
            Some(Value::String(version)) if version == "2008-10-17" => false,
            Some(Value::String(version)) if version == "2012-10-17" => true,
            Some(_) => return Err("its version is none"),
        };
        if !matches!(members.remove("Id"), None | Some(Value::String(_))) {
            return Err("its id is not a text");
        }
        let statements = match members.remove("Statement") {
            Some(Value::Array(statements)) => statements,
            Some(statement @ Value::Object(_)) => vec![statement],
            _ => return Err("it has no statements"),
        };
        if !members.is_empty() {
            return Err("it has a member that policies do not have");
        }
        if !(1..=STATEMENTS_MAX).contains(&statements.len()) {
            return Err("it has too many statements, or none");
        }
        let mut labels = Vec::new();
        let statements = statements.into_iter().map(|statement| read_statement(statement, &mut labels));
        Ok(Self { has_variables, statements: statements.collect::<Result<_, _>>()? })
    }
}

/// What a text has more of than a policy may have, as the service words it.
pub(super) fn over_limit(text: &str) -> Option<String> {
    if text.len() > TEXT_BYTES_MAX {
        return Some("Submitted policy is over max allowed size.".to_owned());
    }
    let policy: Value = serde_json::from_str(text).ok()?;
    let statements = policy.get("Statement")?.as_array().map(Vec::as_slice);
    let statements = statements.unwrap_or_else(|| std::slice::from_ref(&policy["Statement"]));
    if statements.len() > STATEMENTS_MAX {
        let (found, max) = (statements.len(), STATEMENTS_MAX);
        return Some(format!("{found} statements were found in the submitted policy, max allowed is {max}"));
    }
    let actions =
        statements.iter().flat_map(|statement| [statement.get("Action"), statement.get("NotAction")]);
    let found =
        actions.flatten().filter_map(Value::as_array).map(Vec::len).find(|found| *found > ACTIONS_MAX)?;
    Some(format!(
        "{found} actions were found in a statement from the submitted policy, max allowed is {ACTIONS_MAX}"
    ))
}

fn read_statement(statement: Value, labels: &mut Vec<String>) -> Result<Statement, Fault> {
    let Value::Object(mut members) = statement else { return Err("a statement is not an object") };
    match members.remove("Sid") {
        None => {}
        Some(Value::String(label)) if label.is_empty() || !labels.contains(&label) => labels.push(label),
        Some(_) => return Err("a statement's id is not a text of its own"),
    }
    let effect = match members.remove("Effect") {
        Some(Value::String(effect)) if effect == "Allow" => Effect::Allow,
        Some(Value::String(effect)) if effect == "Deny" => Effect::Deny,
        _ => return Err("a statement's effect is neither Allow nor Deny"),
    };
    let principals = named(&mut members, ["Principal", "NotPrincipal"], principals)?;
    let actions = named(&mut members, ["Action", "NotAction"], actions)?;
    let resources = named(&mut members, ["Resource", "NotResource"], resources)?;
    let conditions = members.remove("Condition").map(conditions).transpose()?.unwrap_or_default();
    if !members.is_empty() {
        return Err("a statement has a member that statements do not have");
    }
    Ok(Statement { effect, principals, actions, resources, conditions })
}

/// One of two members: those it lists, or all others.
fn named<T>(
    members: &mut Map<String, Value>,
    [only, all_but]: [&str; 2],
    read: impl FnOnce(Value) -> Result<Vec<T>, Fault>,
) -> Result<Named<T>, Fault> {
    match (members.remove(only), members.remove(all_but)) {
        (Some(value), None) => read(value).map(Named::Only),
        (None, Some(value)) => read(value).map(Named::AllBut),
        (None, None) => Err("a statement lacks a principal, an action or a resource"),
        (Some(_), Some(_)) => Err("a statement says both whom it means and whom it does not"),
    }
}

/// One text or a list of texts, from one to `max`.
fn texts(value: Value, max: usize) -> Result<Vec<String>, Fault> {
    let values = match value {
        Value::Array(values) => values,
        value => vec![value],
    };
    if !(1..=max).contains(&values.len()) {
        return Err("a list is empty or too long");
    }
    let texts = values.into_iter().map(|value| match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        _ => Err("a list holds something that is no text"),
    });
    texts.collect()
}

fn principals(value: Value) -> Result<Vec<Who>, Fault> {
    let kinds = match value {
        Value::String(text) if text == "*" => return Ok(vec![Who::Anyone]),
        Value::Object(kinds) if !kinds.is_empty() => kinds,
        _ => return Err("a principal is neither * nor an object"),
    };
    let mut principals = Vec::new();
    for (kind, value) in kinds {
        let found = texts(value, PRINCIPALS_MAX)?;
        match kind.as_str() {
            "AWS" => {
                for text in found {
                    principals.push(who(&text)?);
                }
            }
            "Service" | "Federated" | "CanonicalUser" => {
                principals.extend(found.iter().map(|_| Who::Stranger));
            }
            _ => return Err("a principal is of a kind that there is not"),
        }
    }
    if principals.len() > PRINCIPALS_MAX {
        return Err("a statement has too many principals");
    }
    Ok(principals)
}

/// `*`, an account, `arn:<partition>:iam::<account>:root`, a user's or another ARN, or the unique id of somebody gone.
fn who(text: &str) -> Result<Who, Fault> {
    if text == "*" {
        return Ok(Who::Anyone);
    }
    if let Some(account) = names::account(text) {
        return Ok(Who::Account(account));
    }
    let is_id = (16..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if is_id {
        return Ok(Who::Stranger);
    }
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    let &["arn", _, service @ ("iam" | "sts"), "", account, whom] = parts.as_slice() else {
        return Err("a principal is nobody");
    };
    let account = names::account(account).ok_or("a principal's account is none")?;
    if whom.is_empty() || whom.contains(['*', '?']) {
        return Err("a principal is a pattern");
    }
    Ok(match (service, whom) {
        ("iam", "root") => Who::Account(account),
        ("iam", user) if user.starts_with("user/") => {
            Who::Arn(format!("arn:aws:iam::{account}:{user}").into())
        }
        _ => Who::Stranger,
    })
}

fn actions(value: Value) -> Result<Vec<Box<str>>, Fault> {
    let actions = texts(value, ACTIONS_MAX)?;
    for pattern in &actions {
        let is_known = |action: &Action| wildcard::matches_any_case(pattern, &full_name(*action));
        if !Action::ALL.iter().any(is_known) {
            return Err("an action is none of this service");
        }
    }
    Ok(actions.into_iter().map(String::into_boxed_str).collect())
}

/// An action as policies spell it.
pub(super) fn full_name(action: Action) -> String {
    format!("sqs:{}", action.name())
}

fn resources(value: Value) -> Result<Vec<Box<str>>, Fault> {
    let resources = texts(value, STATEMENTS_MAX)?;
    Ok(resources.into_iter().map(String::into_boxed_str).collect())
}

fn conditions(value: Value) -> Result<Vec<Condition>, Fault> {
    let Value::Object(operators) = value else { return Err("conditions are not an object") };
    let mut conditions = Vec::new();
    for (operator, keys) in operators {
        let Value::Object(keys) = keys else { return Err("an operator's keys are not an object") };
        for (key, values) in keys {
            conditions.push(Condition::read(&operator, &key, values)?);
        }
    }
    if conditions.len() > CONDITIONS_MAX {
        return Err("a statement has too many conditions");
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn statement() -> Value {
        json!({ "Sid": "a", "Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*" })
    }

    fn read(policy: &Value) -> Result<Document, Fault> {
        Document::read(policy.to_string().as_bytes())
    }

    #[test]
    fn policies_of_every_legal_shape_are_read() {
        let with = |name: &str, value: Value| {
            let mut statement = statement();
            statement[name] = value;
            json!({ "Version": "2012-10-17", "Id": "id", "Statement": [statement] })
        };
        let many: Vec<String> = (0..50).map(|account| format!("{account:012}")).collect();
        let seven = [
            "*",
            "sqs:*",
            "SQS:SendMessage",
            "sqs:Re*",
            "sqs:TagQueue",
            "sqs:?urgeQueue",
            "sqs:SendMessageBatch",
        ];
        for policy in [
            json!({ "Statement": statement() }),
            json!({ "Version": "2008-10-17", "Statement": [statement()] }),
            with("Principal", json!({ "AWS": many })),
            with("Action", json!(seven)),
            with("Condition", json!({})),
            with("Condition", json!({ "Bool": { "aws:SecureTransport": [true] } })),
        ] {
            assert!(read(&policy).is_ok(), "{policy}: {:?}", read(&policy));
        }
    }

    #[test]
    fn policy_over_a_limit_is_told_which() {
        let over = |policy: &Value| over_limit(&policy.to_string());
        let of = |statements: usize| json!({ "Statement": vec![statement(); statements] });
        let acting = |actions: usize| {
            let mut statement = statement();
            statement["Action"] = json!(vec!["sqs:*"; actions]);
            statement
        };
        assert_eq!((over(&of(20)), over(&json!({ "Statement": acting(7) }))), (None, None));
        let said = "21 statements were found in the submitted policy, max allowed is 20";
        assert_eq!(over(&of(21)).as_deref(), Some(said));
        let said = "8 actions were found in a statement from the submitted policy, max allowed is 7";
        for policy in [json!({ "Statement": acting(8) }), json!({ "Statement": [statement(), acting(8)] })] {
            assert_eq!(over(&policy).as_deref(), Some(said), "{policy}");
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(over_limit(&long).as_deref(), Some("Submitted policy is over max allowed size."));
        for other in ["", "{", "[]", "{}", "7", r#"{"Statement":7}"#, r#"{"Statement":[7]}"#] {
            assert_eq!(over_limit(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_whole() {
        for text in ["", "x", "{", "[]", "null", "\"*\"", "{}", "{\"Statement\":[]}", &"[".repeat(5_000)] {
            assert!(Document::read(text.as_bytes()).is_err(), "{text}");
        }
        let with = |name: &str, value: Value| {
            let mut statement = statement();
            statement[name] = value;
            json!({ "Statement": [statement] })
        };
        let without = |name: &str| {
            let mut statement = statement();
            statement.as_object_mut().expect("a statement is a JSON object").remove(name);
            json!({ "Statement": [statement] })
        };
        let accounts = |count: usize| -> Vec<String> { (0..count).map(|n| format!("{n:012}")).collect() };
        let years: Value = (0..11).map(|n| (format!("aws:k{n}"), json!("x"))).collect();
        let named = |n: usize| {
            let mut statement = statement();
            statement["Sid"] = json!(format!("s{n}"));
            statement
        };
        for policy in [
            json!({ "Statement": "x" }),
            json!({ "Statement": [statement(), "x"] }),
            json!({ "Statement": [statement(), statement()] }),
            json!({ "Statement": (0..21).map(named).collect::<Vec<_>>() }),
            json!({ "Statement": [statement()], "Version": "2020-01-01" }),
            json!({ "Statement": [statement()], "Version": 2012 }),
            json!({ "Statement": [statement()], "Id": 7 }),
            json!({ "Statement": [statement()], "Statements": [] }),
            json!({ "Statement": [statement()], "Id": "x".repeat(8_192) }),
            without("Effect"),
            without("Principal"),
            without("Action"),
            without("Resource"),
            with("Effect", json!("allow")),
            with("Effect", json!(["Allow"])),
            with("Sid", json!(1)),
            with("Conditions", json!({})),
            with("NotAction", json!("sqs:SendMessage")),
            with("Principal", json!("000000000001")),
            with("Principal", json!({})),
            with("Principal", json!({ "AWS": [] })),
            with("Principal", json!({ "AWS": "1234" })),
            with("Principal", json!({ "AWS": "arn:aws:iam::*:root" })),
            with("Principal", json!({ "AWS": "arn:aws:iam::000000000001:user/*" })),
            with("Principal", json!({ "AWS": "arn:aws:s3:::bucket" })),
            with("Principal", json!({ "Everyone": "*" })),
            with("Principal", json!({ "AWS": accounts(51) })),
            with("Action", json!([])),
            with("Action", json!("SendMessage")),
            with("Action", json!("s3:GetObject")),
            with("Action", json!("sqs:Fly")),
            with("Action", json!(7)),
            with("Action", json!(["*", "*", "*", "*", "*", "*", "*", "*"])),
            with("Resource", json!("")),
            with("Resource", json!([null])),
            with("Condition", json!("x")),
            with("Condition", json!({ "StringSounds": { "aws:username": "x" } })),
            with("Condition", json!({ "StringEquals": "x" })),
            with("Condition", json!({ "StringEquals": { "aws:username": [] } })),
            with("Condition", json!({ "StringEquals": { "aws:username": {} } })),
            with("Condition", json!({ "Bool": { "aws:SecureTransport": "maybe" } })),
            with("Condition", json!({ "IpAddress": { "aws:SourceIp": "192.0.2.0/33" } })),
            with("Condition", json!({ "DateLessThan": { "aws:CurrentTime": "tomorrow" } })),
            with("Condition", json!({ "NumericEquals": { "aws:EpochTime": "many" } })),
            with("Condition", json!({ "StringEquals": years })),
        ] {
            assert!(read(&policy).is_err(), "{policy}");
        }
    }
}
