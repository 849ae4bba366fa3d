//! What a policy says of one request: a matching Deny wins, then a matching Allow, else it says nothing.

use super::condition::{Truth, expand};
use super::document::{Document, Effect, Named, Statement, Who, full_name};
use super::facts::Facts;
use super::wildcard;
use crate::action::Action;
use crate::auth::Principal;
use crate::names::Arn;

/// What a policy says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Denied,
    Allowed,
    /// Nothing of this request.
    Silent,
}

impl Document {
    /// What it says of an action on its queue.
    ///
    /// What is unknown counts against the request: a statement that may not apply allows nothing, and one that may
    /// apply denies.
    pub(crate) fn says(&self, action: Action, facts: &Facts<'_>) -> Verdict {
        let asked = Asked {
            names: [full_name(action), full_name(action.single())],
            arn: Arn::of(&facts.queue.key).to_string(),
            has_variables: self.has_variables,
            facts,
        };
        let mut verdict = Verdict::Silent;
        for statement in &self.statements {
            match (statement.effect, asked.meets(statement)) {
                (Effect::Deny, Truth::Yes | Truth::Unknown) => return Verdict::Denied,
                (Effect::Allow, Truth::Yes) => verdict = Verdict::Allowed,
                (Effect::Deny | Effect::Allow, _) => {}
            }
        }
        verdict
    }
}

struct Asked<'a> {
    /// The action's own name, and that of the action on one message which stands for it.
    names: [String; 2],
    arn: String,
    has_variables: bool,
    facts: &'a Facts<'a>,
}

impl Asked<'_> {
    /// Whether a statement applies.
    fn meets(&self, statement: &Statement) -> Truth {
        let is_meant = statement.principals.means(|who| is(who, self.facts.principal))
            && statement.actions.means(|pattern| self.is_action(pattern));
        if !is_meant {
            return Truth::No;
        }
        let conditions = statement.conditions.iter();
        let holds = conditions.map(|condition| condition.holds(self.facts, self.has_variables));
        holds.min().unwrap_or(Truth::Yes).min(self.is_about(&statement.resources))
    }

    fn is_action(&self, pattern: &str) -> bool {
        self.names.iter().any(|name| wildcard::matches_any_case(pattern, name))
    }

    fn is_about(&self, resources: &Named<Box<str>>) -> Truth {
        let (Named::Only(patterns) | Named::AllBut(patterns)) = resources;
        let found = patterns.iter().map(|pattern| match expand(pattern, self.facts, self.has_variables) {
            Some(pattern) => wildcard::matches(&pattern, &self.arn).into(),
            None => Truth::Unknown,
        });
        match (resources, found.max().unwrap_or(Truth::No)) {
            (Named::Only(_), found) => found,
            (Named::AllBut(_), Truth::Unknown) => Truth::Unknown,
            (Named::AllBut(_), found) => (found == Truth::No).into(),
        }
    }
}

fn is(who: &Who, principal: &Principal) -> bool {
    match who {
        Who::Anyone => true,
        Who::Account(account) => *account == principal.account,
        Who::Arn(arn) => **arn == *principal.arn,
        Who::Stranger => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{AccountId, Policy, Queue, QueueId, QueueKey, Timestamp};
    use kew_http::{HeaderValue, Headers, Method, Request, RequestId, Uri};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// Anna of account 2 asks about a queue of account 1 on the first of January 2026, from 192.0.2.7, without TLS.
    fn says(policy: &Value, action: Action) -> Verdict {
        let queue = Queue {
            id: QueueId(1),
            key: QueueKey::new(AccountId(1), "us-east-1", "orders"),
            policy: Policy::standard(),
            documents: BTreeMap::new(),
            version: 1,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        };
        let mut headers = Headers::default();
        headers.insert(kew_http::header::USER_AGENT, HeaderValue::from_static("Anna's Agent/1.0"));
        let request = Request {
            method: Method::POST,
            uri: Uri::from_static("/"),
            headers,
            body: Default::default(),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: ([192, 0, 2, 7], 1).into(),
            secure: false,
            room: Default::default(),
        };
        let principal = Principal::new(AccountId(2), Some("anna"));
        let now = Timestamp(1_767_225_600_000);
        let facts = Facts { principal: &principal, request: &request, queue: &queue, now };
        Document::read(policy.to_string().as_bytes())
            .expect("the policies of this table are valid")
            .says(action, &facts)
    }

    fn allow(changes: Value) -> Value {
        let mut statement = json!({
            "Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"
        });
        for (name, value) in changes.as_object().expect("changes are a JSON object") {
            if let Some(other) = name.strip_prefix("Not") {
                statement.as_object_mut().expect("a statement is a JSON object").remove(other);
            }
            statement[name] = value.clone();
        }
        statement
    }

    fn policy(statements: Vec<Value>) -> Value {
        json!({ "Version": "2012-10-17", "Statement": statements })
    }

    fn allows(changes: Value) -> bool {
        says(&policy(vec![allow(changes)]), Action::SendMessage) == Verdict::Allowed
    }

    #[test]
    fn principals_are_everybody_an_account_or_a_user() {
        for (principal, allowed) in [
            (json!("*"), true),
            (json!({ "AWS": "*" }), true),
            (json!({ "AWS": "000000000002" }), true),
            (json!({ "AWS": "arn:aws:iam::000000000002:root" }), true),
            (json!({ "AWS": "arn:aws-cn:iam::000000000002:root" }), true),
            (json!({ "AWS": "arn:aws:iam::000000000002:user/anna" }), true),
            (json!({ "AWS": ["000000000003", "000000000002"] }), true),
            (json!({ "AWS": "000000000003" }), false),
            (json!({ "AWS": "arn:aws:iam::000000000003:root" }), false),
            (json!({ "AWS": "arn:aws:iam::000000000002:user/Anna" }), false),
            (json!({ "AWS": "arn:aws:iam::000000000002:user/team/anna" }), false),
            (json!({ "AWS": "arn:aws:iam::000000000002:role/anna" }), false),
            (json!({ "AWS": "arn:aws:sts::000000000002:assumed-role/r/anna" }), false),
            (json!({ "AWS": "AIDAISJEXAMPLEEXAMPLE" }), false),
            (json!({ "Service": "sns.amazonaws.com" }), false),
            (json!({ "Federated": "accounts.google.com", "AWS": "000000000002" }), true),
        ] {
            assert_eq!(allows(json!({ "Principal": principal })), allowed, "{principal}");
            let others = json!({ "NotPrincipal": principal });
            assert_eq!(allows(others), !allowed, "not {principal}");
        }
    }

    #[test]
    fn actions_are_patterns_without_case_and_cover_their_batches() {
        for (pattern, action, allowed) in [
            ("*", Action::SendMessage, true),
            ("sqs:*", Action::SendMessage, true),
            ("SQS:SendMessage", Action::SendMessage, true),
            ("sqs:sendmessage", Action::SendMessageBatch, true),
            ("sqs:DeleteMessage", Action::DeleteMessageBatch, true),
            ("sqs:ChangeMessageVisibility", Action::ChangeMessageVisibilityBatch, true),
            ("sqs:SendMessageBatch", Action::SendMessageBatch, true),
            ("sqs:SendMessageBatch", Action::SendMessage, false),
            ("sqs:Send*", Action::SendMessage, true),
            ("sqs:?endMessage", Action::SendMessage, true),
            ("sqs:Send*", Action::ReceiveMessage, false),
            ("sqs:SendMessage", Action::ReceiveMessage, false),
        ] {
            let verdict = |name: &str| says(&policy(vec![allow(json!({ name: pattern }))]), action);
            assert_eq!(verdict("Action") == Verdict::Allowed, allowed, "{pattern} {action:?}");
            assert_eq!(verdict("NotAction") == Verdict::Allowed, !allowed, "not {pattern} {action:?}");
        }
    }

    #[test]
    fn resources_are_patterns_of_arns() {
        for (pattern, allowed) in [
            ("*", true),
            ("arn:aws:sqs:us-east-1:000000000001:orders", true),
            ("arn:aws:sqs:*:000000000001:ord*", true),
            ("arn:aws:sqs:us-east-1:000000000001:order?", true),
            ("arn:aws:sqs:us-east-1:000000000001:ORDERS", false),
            ("arn:aws:sqs:us-east-1:000000000001:other", false),
            ("arn:aws:sqs:us-east-1:${aws:ResourceAccount}:orders", true),
            ("orders", false),
        ] {
            assert_eq!(allows(json!({ "Resource": pattern })), allowed, "{pattern}");
            assert_eq!(allows(json!({ "NotResource": pattern })), !allowed, "not {pattern}");
        }
        assert!(!allows(json!({ "Resource": "*${aws:Unknown}*" })));
        assert!(!allows(json!({ "NotResource": "*${aws:Unknown}*" })));
    }

    #[test]
    fn a_deny_wins_wherever_it_stands() {
        let deny = |changes: Value| {
            let mut statement = allow(changes);
            statement["Effect"] = json!("Deny");
            statement
        };
        let all = || allow(json!({}));
        assert_eq!(says(&policy(vec![all(), deny(json!({}))]), Action::SendMessage), Verdict::Denied);
        assert_eq!(says(&policy(vec![deny(json!({})), all()]), Action::SendMessage), Verdict::Denied);
        let other = deny(json!({ "Action": "sqs:ReceiveMessage" }));
        assert_eq!(says(&policy(vec![all(), other]), Action::SendMessage), Verdict::Allowed);
        let unmet = deny(json!({ "Condition": { "Bool": { "aws:SecureTransport": true } } }));
        assert_eq!(says(&policy(vec![all(), unmet]), Action::SendMessage), Verdict::Allowed);
        let plain = deny(json!({ "Condition": { "Bool": { "aws:SecureTransport": "false" } } }));
        assert_eq!(says(&policy(vec![all(), plain]), Action::SendMessage), Verdict::Denied);
        let unknown = deny(json!({ "Condition": { "StringEquals": { "aws:Tomorrow": "x" } } }));
        assert_eq!(says(&policy(vec![all(), unknown]), Action::SendMessage), Verdict::Denied);
        assert_eq!(says(&policy(vec![other_account()]), Action::SendMessage), Verdict::Silent);
    }

    fn other_account() -> Value {
        allow(json!({ "Principal": { "AWS": "000000000009" } }))
    }

    #[test]
    fn conditions_compare_what_is_known_of_the_request() {
        for (operator, key, value, allowed) in [
            ("StringEquals", "aws:PrincipalArn", json!("arn:aws:iam::000000000002:user/anna"), true),
            ("StringEquals", "aws:username", json!(["bob", "anna"]), true),
            ("StringEquals", "AWS:UserName", json!("anna"), true),
            ("StringEquals", "aws:username", json!("Anna"), false),
            ("StringEqualsIgnoreCase", "aws:username", json!("Anna"), true),
            ("StringNotEquals", "aws:username", json!(["bob", "anna"]), false),
            ("StringNotEquals", "aws:username", json!("bob"), true),
            ("StringLike", "aws:UserAgent", json!("Anna*"), true),
            ("StringLike", "aws:UserAgent", json!("anna*"), false),
            ("StringNotLike", "aws:UserAgent", json!("bob*"), true),
            ("StringEquals", "aws:username", json!("${aws:username}"), true),
            ("StringEquals", "aws:username", json!("${aws:Unknown}"), false),
            ("StringNotEquals", "aws:username", json!("${aws:Unknown}"), false),
            ("StringEquals", "aws:RequestedRegion", json!("us-east-1"), true),
            ("ArnEquals", "aws:PrincipalArn", json!("arn:aws:iam::*:user/*"), true),
            ("ArnLike", "aws:PrincipalArn", json!("arn:aws:iam::000000000003:*"), false),
            ("ArnNotLike", "aws:PrincipalArn", json!("arn:aws:iam::000000000003:*"), true),
            ("ArnEquals", "aws:SourceArn", json!("arn:aws:sns:*:*:*"), false),
            ("ArnEqualsIfExists", "aws:SourceArn", json!("arn:aws:sns:*:*:*"), true),
            ("ArnNotEquals", "aws:SourceArn", json!("arn:aws:sns:*:*:*"), true),
            ("StringEquals", "aws:SourceAccount", json!("000000000002"), false),
            ("Bool", "aws:SecureTransport", json!("false"), true),
            ("Bool", "aws:SecureTransport", json!(true), false),
            ("Bool", "aws:MultiFactorAuthPresent", json!("true"), false),
            ("BoolIfExists", "aws:MultiFactorAuthPresent", json!("true"), true),
            ("IpAddress", "aws:SourceIp", json!("192.0.2.0/24"), true),
            ("IpAddress", "aws:SourceIp", json!(["10.0.0.0/8", "192.0.2.7"]), true),
            ("IpAddress", "aws:SourceIp", json!("2001:db8::/32"), false),
            ("NotIpAddress", "aws:SourceIp", json!("192.0.2.0/24"), false),
            ("NotIpAddress", "aws:SourceIp", json!("10.0.0.0/8"), true),
            ("DateGreaterThan", "aws:CurrentTime", json!("2025-12-31T23:59:59Z"), true),
            ("DateLessThan", "aws:CurrentTime", json!("2026-01-01T00:00:00Z"), false),
            ("DateLessThanEquals", "aws:CurrentTime", json!("2026-01-01T00:00:00Z"), true),
            ("DateEquals", "aws:CurrentTime", json!("2026-01-01"), true),
            ("DateNotEquals", "aws:CurrentTime", json!("2026-01-01"), false),
            ("DateGreaterThanEquals", "aws:EpochTime", json!(1_767_225_600), true),
            ("NumericLessThan", "aws:EpochTime", json!("1767225601"), true),
            ("NumericEquals", "aws:EpochTime", json!(1_767_225_600), true),
            ("NumericNotEquals", "aws:EpochTime", json!(1_767_225_600), false),
            ("NumericEquals", "aws:username", json!(1), false),
            ("NumericNotEquals", "aws:username", json!(1), false),
            ("Null", "aws:SourceArn", json!("true"), true),
            ("Null", "aws:SourceArn", json!("false"), false),
            ("Null", "aws:username", json!("false"), true),
            ("Null", "aws:Tomorrow", json!("true"), false),
            ("ForAllValues:StringEquals", "aws:SourceOwner", json!("x"), true),
            ("ForAnyValue:StringEquals", "aws:SourceOwner", json!("x"), false),
            ("ForAnyValue:StringEquals", "aws:username", json!("anna"), true),
            ("StringEquals", "aws:Tomorrow", json!("x"), false),
            ("StringNotEquals", "aws:Tomorrow", json!("x"), false),
            ("StringEqualsIfExists", "aws:Tomorrow", json!("x"), false),
        ] {
            let condition = json!({ operator: { key: value } });
            assert_eq!(allows(json!({ "Condition": condition })), allowed, "{operator} {key} {value}");
        }
        let both =
            json!({ "Bool": { "aws:SecureTransport": "false" }, "StringEquals": { "aws:username": "bob" } });
        assert!(!allows(json!({ "Condition": both })), "all conditions have to hold");
    }

    #[test]
    fn variables_are_characters_in_older_policies() {
        let condition = json!({ "StringEquals": { "aws:username": "${aws:username}" } });
        let old = json!({ "Version": "2008-10-17", "Statement": allow(json!({ "Condition": condition })) });
        assert_eq!(says(&old, Action::SendMessage), Verdict::Silent);
    }
}
