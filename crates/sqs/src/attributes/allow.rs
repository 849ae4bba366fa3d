//! RedriveAllowPolicy: which queues may name a queue as the target of their dead letters.

use kew_core::QueueKey;
use serde_json::{Map, Value};

use crate::error::{Code, WireError};
use crate::names::Arn;

/// Maximum source queues that a list names.
const SOURCES_MAX: usize = 10;

/// Who may send dead letters to a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RedriveAllowPolicy {
    /// Everybody of the account and region; also what no policy means.
    AllowAll,
    DenyAll,
    ByQueue(Vec<QueueKey>),
}

impl RedriveAllowPolicy {
    /// The policy of a queue with this stored text.
    pub(crate) fn of(text: Option<&str>) -> Self {
        text.and_then(parse).unwrap_or(Self::AllowAll)
    }

    /// The text to store; an empty one takes the policy away.
    pub(crate) fn check(text: &str) -> Result<Option<String>, WireError> {
        if text.is_empty() {
            return Ok(None);
        }
        parse(text).map(|_| Some(text.to_owned())).ok_or_else(|| {
            let legible: String = text.chars().take(2_048).collect();
            let reason =
                "Amazon SQS can't create the redrive allow policy, as it’s in an unsupported format.";
            WireError::new(Code::InvalidParameterValue).saying(format!(
                "Value {legible} for parameter RedriveAllowPolicy is invalid. Reason: {reason}"
            ))
        })
    }

    /// Whether a queue may send its dead letters there.
    pub(crate) fn allows(&self, source: &QueueKey) -> bool {
        match self {
            Self::AllowAll => true,
            Self::DenyAll => false,
            Self::ByQueue(sources) => sources.contains(source),
        }
    }
}

fn parse(text: &str) -> Option<RedriveAllowPolicy> {
    const MEMBERS: [&str; 2] = ["redrivePermission", "sourceQueueArns"];
    let Ok(Value::Object(map)) = serde_json::from_str(text) else { return None };
    if map.keys().any(|key| !MEMBERS.contains(&key.as_str())) {
        return None;
    }
    let sources = sources(&map)?;
    match (map.get("redrivePermission")?.as_str()?, sources) {
        ("allowAll", None) => Some(RedriveAllowPolicy::AllowAll),
        ("denyAll", None) => Some(RedriveAllowPolicy::DenyAll),
        ("byQueue", Some(sources)) => Some(RedriveAllowPolicy::ByQueue(sources)),
        _ => None,
    }
}

/// The sources named, if any; nothing at all when they are not what they should be.
fn sources(map: &Map<String, Value>) -> Option<Option<Vec<QueueKey>>> {
    let Some(value) = map.get("sourceQueueArns") else { return Some(None) };
    let arns = value.as_array().filter(|arns| (1..=SOURCES_MAX).contains(&arns.len()))?;
    arns.iter().map(|arn| Some(Arn::read(arn.as_str()?)?.key())).collect::<Option<Vec<_>>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::AccountId;

    fn by_queue(sources: usize) -> String {
        let arns: Vec<String> =
            (0..sources).map(|number| format!("\"arn:aws:sqs:r:000000000000:q{number}\"")).collect();
        format!(r#"{{"redrivePermission":"byQueue","sourceQueueArns":[{}]}}"#, arns.join(","))
    }

    #[test]
    fn all_or_no_or_the_named_queues_may_send() {
        let source = QueueKey::new(AccountId(0), "r", "q3");
        for (text, allowed) in [
            (None, true),
            (Some(r#"{"redrivePermission":"allowAll"}"#.to_owned()), true),
            (Some(r#"{"redrivePermission":"denyAll"}"#.to_owned()), false),
            (Some(by_queue(4)), true),
            (Some(by_queue(3)), false),
        ] {
            assert_eq!(RedriveAllowPolicy::of(text.as_deref()).allows(&source), allowed, "{text:?}");
        }
    }

    // [doc] spec 8: at most ten sources, and only with byQueue.
    #[test]
    fn texts_that_are_no_policy_are_refused() {
        assert_eq!(RedriveAllowPolicy::check(&by_queue(10)), Ok(Some(by_queue(10))));
        assert_eq!(RedriveAllowPolicy::check(""), Ok(None));
        for text in [
            by_queue(0).as_str(),
            &by_queue(11),
            &by_queue(1).replace("byQueue", "allowAll"),
            r#"{"redrivePermission":"byQueue"}"#,
            r#"{"redrivePermission":"byQueue","sourceQueueArns":["q"]}"#,
            r#"{"redrivePermission":"maybe"}"#,
            r#"{"redrivePermission":"denyAll","x":1}"#,
            "{}",
            "x",
        ] {
            assert!(RedriveAllowPolicy::check(text).is_err(), "{text}");
        }
    }
}
