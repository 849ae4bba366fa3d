//! RedrivePolicy: where a queue's dead letters go, and whether they may.

use kew_core::{Carries, DeadLetterAction, DeadLetterRule, QueueKey};
use kew_engine::Engine;
use serde_json::{Map, Value};

use super::RedriveAllowPolicy;
use crate::documents;
use crate::error::{Code, WireError};
use crate::names::Arn;

/// Receives allowed.
const MAX_RECEIVE_COUNT: std::ops::RangeInclusive<u32> = 1..=1_000;

/// A RedrivePolicy that could be: whether its target is there is for [`RedrivePolicy::check_target`] to say.
#[derive(Clone, Debug)]
pub(crate) struct RedrivePolicy {
    target: QueueKey,
    max_receive_count: u32,
    /// As it was sent, for the text of a refusal.
    text: String,
}

/// The same target after as many receives, however it was written.
impl PartialEq for RedrivePolicy {
    fn eq(&self, other: &Self) -> bool {
        (&self.target, self.max_receive_count) == (&other.target, other.max_receive_count)
    }
}

impl RedrivePolicy {
    /// Reads a policy's text; an empty one takes the policy away.
    pub(crate) fn read(text: &str) -> Result<Option<Self>, WireError> {
        if text.is_empty() {
            return Ok(None);
        }
        let (target, max_receive_count) = parse(text).map_err(|reason| refusal(text, &reason))?;
        Ok(Some(Self { target, max_receive_count, text: text.to_owned() }))
    }

    /// Whether a queue's rule does the same.
    pub(super) fn is_done_by(&self, rule: Option<&DeadLetterRule>) -> bool {
        rule.is_some_and(|rule| {
            rule.attempts_max == self.max_receive_count
                && matches!(&rule.then, DeadLetterAction::MoveTo(key) if *key == self.target)
        })
    }

    /// The rule that does what it says.
    pub(super) fn rule(&self) -> DeadLetterRule {
        DeadLetterRule {
            attempts_max: self.max_receive_count,
            then: DeadLetterAction::MoveTo(self.target.clone()),
            carries: Carries::History,
            written_by: "sqs".into(),
        }
    }

    /// Refuses a target that a queue of this name and kind cannot use. The service accepts the queue itself as its own
    /// target, and so does this: such a queue moves nothing.
    pub(crate) fn check_target(
        &self,
        engine: &Engine,
        source: &QueueKey,
        fifo: bool,
    ) -> Result<(), WireError> {
        let refuse = |reason: &str| Err(refusal(&self.text, reason));
        if self.target.account != source.account {
            return refuse("Dead-letter target owner should be same as the source.");
        }
        // What is not in the source's region is not there for it.
        let in_region = self.target.region == source.region;
        let target = engine.find(&self.target)?.filter(|_| in_region);
        let Some(target) = target else { return refuse("Dead letter target does not exist.") };
        if target.policy.kind.is_fifo() != fifo {
            return refuse("Dead-letter queue must be same type of queue as the source.");
        }
        if !RedriveAllowPolicy::of(documents::redrive_allow(&target)).allows(source) {
            return refuse("The dead-letter queue's RedriveAllowPolicy does not allow this source queue.");
        }
        Ok(())
    }
}

/// A queue's policy as text, when it has a rule with a target, from whichever dialect the rule came.
pub(crate) fn shown(rule: Option<&DeadLetterRule>) -> Option<String> {
    let rule = rule?;
    let DeadLetterAction::MoveTo(target) = &rule.then else { return None };
    let arn = Arn::of(target);
    Some(format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":{}}}"#, rule.attempts_max))
}

fn refusal(text: &str, reason: &str) -> WireError {
    let legible: String = text.chars().take(2_048).collect();
    let text = format!("Value {legible} for parameter RedrivePolicy is invalid. Reason: {reason}");
    WireError::new(Code::InvalidParameterValue).saying(text)
}

fn parse(text: &str) -> Result<(QueueKey, u32), String> {
    const MEMBERS: [&str; 2] = ["deadLetterTargetArn", "maxReceiveCount"];
    let Ok(Value::Object(map)) = serde_json::from_str(text) else { return Err(not_a_map()) };
    if map.keys().any(|key| !MEMBERS.contains(&key.as_str())) {
        return Err(not_a_map());
    }
    let count = mandatory(&map, "maxReceiveCount")?;
    let target = mandatory(&map, "deadLetterTargetArn")?;
    Ok((target_key(target)?, receive_count(count)?))
}

fn not_a_map() -> String {
    "Redrive policy is not a valid JSON map.".to_owned()
}

fn mandatory<'a>(map: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    let missing = || format!("Redrive policy does not contain mandatory attribute: {name}.");
    map.get(name).filter(|value| !value.is_null()).ok_or_else(missing)
}

fn receive_count(value: &Value) -> Result<u32, String> {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let number = shown.parse().ok().filter(|number| MAX_RECEIVE_COUNT.contains(number));
    number.ok_or_else(|| {
        format!("Invalid value for maxReceiveCount: {shown}, valid values are from 1 to 1000 both inclusive.")
    })
}

fn target_key(value: &Value) -> Result<QueueKey, String> {
    let text = value.as_str().unwrap_or_default();
    if let Some(arn) = Arn::read(text) {
        return Ok(arn.key());
    }
    let mut parts = text.split(':');
    let is_of_another_service =
        parts.next() == Some("arn") && parts.nth(1).is_some_and(|service| service != "sqs");
    Err(if is_of_another_service {
        "Only SQS queues are valid resources for deadLetterTargetArn.".to_owned()
    } else {
        "Invalid value for deadLetterTargetArn.".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:dead";

    fn reason(text: &str) -> String {
        let error = RedrivePolicy::read(text).expect_err(text);
        assert_eq!(error.code(), Code::InvalidParameterValue);
        let prefix = format!("Value {text} for parameter RedrivePolicy is invalid. Reason: ");
        error.message().strip_prefix(&prefix).expect("the error names the value that was refused").to_owned()
    }

    fn policy(count: &str) -> String {
        format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":{count}}}"#)
    }

    // Spec 8: N is an integer or a numeric string, 1-1000, and comes back as a number.
    #[test]
    fn counts_are_numbers_or_numeric_texts() {
        for (count, number) in [("1", 1), ("\"1\"", 1), ("1000", 1_000), ("\"1000\"", 1_000)] {
            let read = RedrivePolicy::read(&policy(count))
                .expect("a redrive policy is read")
                .expect("a redrive policy with a target is a rule");
            assert_eq!(read.max_receive_count, number);
            assert_eq!(read.target, QueueKey::new(AccountId(0), "us-east-1", "dead"));
            assert_eq!(shown(Some(&read.rule())), Some(policy(&number.to_string())));
        }
        for count in ["0", "1001", "-1", "\"0\"", "1.5", "true"] {
            let shown = count.trim_matches('"');
            let expected = format!(
                "Invalid value for maxReceiveCount: {shown}, valid values are from 1 to 1000 both inclusive."
            );
            assert_eq!(reason(&policy(count)), expected);
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let target = format!(r#"{{"deadLetterTargetArn":"{ARN}"}}"#);
        let missing = "Redrive policy does not contain mandatory attribute:";
        assert_eq!(reason(&target), format!("{missing} maxReceiveCount."));
        assert_eq!(reason("{}"), format!("{missing} maxReceiveCount."));
        assert_eq!(reason(r#"{"maxReceiveCount":1}"#), format!("{missing} deadLetterTargetArn."));
    }

    #[test]
    fn text_that_is_no_policy_is_refused() {
        let extra = format!(r#"{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":1,"x":1}}"#);
        for text in ["x", "[]", "1", "{", &extra] {
            assert_eq!(reason(text), "Redrive policy is not a valid JSON map.");
        }
        for (arn, expected) in [
            (
                "arn:aws:sns:us-east-1:000000000000:dead",
                "Only SQS queues are valid resources for deadLetterTargetArn.",
            ),
            ("dead", "Invalid value for deadLetterTargetArn."),
            ("arn:aws:sqs:us-east-1:1:dead", "Invalid value for deadLetterTargetArn."),
        ] {
            assert_eq!(reason(&policy("1").replace(ARN, arn)), expected);
        }
        assert_eq!(
            reason(r#"{"deadLetterTargetArn":7,"maxReceiveCount":1}"#),
            "Invalid value for deadLetterTargetArn."
        );
    }

    #[test]
    fn only_a_rule_with_a_target_is_shown() {
        let mut rule = RedrivePolicy::read(&policy("3"))
            .expect("a redrive policy is read")
            .expect("a redrive policy with a target is a rule")
            .rule();
        rule.written_by = "someone else".into();
        assert_eq!(shown(Some(&rule)), Some(policy("3")));
        rule.then = DeadLetterAction::Drop;
        assert_eq!((shown(Some(&rule)), shown(None)), (None, None));
    }
}
