//! Texts into settings: what each attribute may be set to, and what is said when it may not.

use std::time::Duration;

use kew_core::DeduplicationScope;

use super::redrive::RedrivePolicy;
use super::{Attribute, RedriveAllowPolicy, invalid, unknown};
use crate::decode::Pairs;
use crate::error::{Code, WireError};
use crate::policy;

/// One attribute and what it is to be. Two that mean the same are equal, however they were written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Setting {
    ContentBasedDeduplication(bool),
    DeduplicationScope(DeduplicationScope),
    DelaySeconds(Duration),
    /// It says what the queue is already.
    FifoQueue,
    /// Whether the limit is counted for each group.
    FifoThroughputLimit(bool),
    KmsDataKeyReusePeriodSeconds(u32),
    KmsMasterKeyId(Option<String>),
    MaximumMessageSize(u32),
    MessageRetentionPeriod(Duration),
    Policy(Option<String>),
    ReceiveMessageWaitTimeSeconds(Duration),
    RedriveAllowPolicy(Option<String>),
    RedrivePolicy(Option<RedrivePolicy>),
    SqsManagedSseEnabled(bool),
    VisibilityTimeout(Duration),
}

/// When attributes are given: what may be said of a queue's kind differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Occasion {
    Create { fifo: bool },
    Set { fifo: bool },
}

impl Occasion {
    fn is_fifo(self) -> bool {
        match self {
            Self::Create { fifo } | Self::Set { fifo } => fifo,
        }
    }
}

/// Whether attributes ask for a FIFO queue.
pub(crate) fn wants_fifo(given: &Pairs<'_>) -> bool {
    given.value(Attribute::FifoQueue.name()).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// All settings given, or the first fault.
pub(crate) fn read(given: &Pairs<'_>, occasion: Occasion) -> Result<Vec<(Attribute, Setting)>, WireError> {
    given.iter().map(|(name, text)| read_one(name, text, occasion)).collect()
}

fn read_one(name: &str, text: &str, occasion: Occasion) -> Result<(Attribute, Setting), WireError> {
    let attribute = Attribute::named(name).ok_or_else(|| unknown(name))?;
    if attribute.is_of_fifo() && !occasion.is_fifo() {
        return Err(not_of_standard(attribute));
    }
    let seconds = |min, max| number(attribute, text, min, max).map(|n| Duration::from_secs(u64::from(n)));
    let setting = match attribute {
        Attribute::ContentBasedDeduplication => Setting::ContentBasedDeduplication(flag(attribute, text)?),
        Attribute::DeduplicationScope => Setting::DeduplicationScope(scope(text)?),
        Attribute::DelaySeconds => Setting::DelaySeconds(seconds(0, 900)?),
        Attribute::FifoQueue => fifo(text)?,
        Attribute::FifoThroughputLimit => Setting::FifoThroughputLimit(per_group(text)?),
        Attribute::KmsDataKeyReusePeriodSeconds => {
            Setting::KmsDataKeyReusePeriodSeconds(number(attribute, text, 60, 86_400)?)
        }
        Attribute::KmsMasterKeyId => Setting::KmsMasterKeyId(kms_key(text)?),
        Attribute::MaximumMessageSize => {
            Setting::MaximumMessageSize(number(attribute, text, 1_024, 1_048_576)?)
        }
        Attribute::MessageRetentionPeriod => Setting::MessageRetentionPeriod(seconds(60, 1_209_600)?),
        Attribute::Policy => Setting::Policy(access_policy(text)?),
        Attribute::ReceiveMessageWaitTimeSeconds => Setting::ReceiveMessageWaitTimeSeconds(seconds(0, 20)?),
        Attribute::RedriveAllowPolicy => Setting::RedriveAllowPolicy(RedriveAllowPolicy::check(text)?),
        Attribute::RedrivePolicy => Setting::RedrivePolicy(RedrivePolicy::read(text)?),
        Attribute::SqsManagedSseEnabled => Setting::SqsManagedSseEnabled(flag(attribute, text)?),
        Attribute::VisibilityTimeout => Setting::VisibilityTimeout(seconds(0, 43_200)?),
        // These can only be read.
        Attribute::ApproximateNumberOfMessages
        | Attribute::ApproximateNumberOfMessagesDelayed
        | Attribute::ApproximateNumberOfMessagesNotVisible
        | Attribute::CreatedTimestamp
        | Attribute::LastModifiedTimestamp
        | Attribute::QueueArn => return Err(unknown(name)),
    };
    Ok((attribute, setting))
}

fn not_of_standard(attribute: Attribute) -> WireError {
    match attribute {
        Attribute::DeduplicationScope | Attribute::FifoThroughputLimit => {
            let name = attribute.name();
            let text = format!("You can specify the {name} only when FifoQueue is set to true.");
            WireError::new(Code::InvalidAttributeName).saying(text)
        }
        _ => unknown(attribute.name()),
    }
}

/// Digits and nothing else: no sign, no blanks.
fn number(attribute: Attribute, text: &str, min: u32, max: u32) -> Result<u32, WireError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| invalid(attribute))
}

fn flag(attribute: Attribute, text: &str) -> Result<bool, WireError> {
    if text.eq_ignore_ascii_case("true") {
        return Ok(true);
    }
    if text.eq_ignore_ascii_case("false") { Ok(false) } else { Err(invalid(attribute)) }
}

fn scope(text: &str) -> Result<DeduplicationScope, WireError> {
    match text {
        "queue" => Ok(DeduplicationScope::Queue),
        "messageGroup" => Ok(DeduplicationScope::Group),
        _ => Err(invalid(Attribute::DeduplicationScope)),
    }
}

fn per_group(text: &str) -> Result<bool, WireError> {
    match text {
        "perQueue" => Ok(false),
        "perMessageGroupId" => Ok(true),
        _ => Err(invalid(Attribute::FifoThroughputLimit)),
    }
}

/// Asked of FIFO queues only, which stay what they are.
fn fifo(text: &str) -> Result<Setting, WireError> {
    if flag(Attribute::FifoQueue, text)? {
        return Ok(Setting::FifoQueue);
    }
    let text = "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.";
    Err(WireError::new(Code::InvalidAttributeValue).saying(text))
}

/// An id, alias or ARN of a key; what it names is not looked at.
fn kms_key(text: &str) -> Result<Option<String>, WireError> {
    const KEY_LENGTH: usize = 2_048;
    if text.len() > KEY_LENGTH || text.chars().any(char::is_control) {
        return Err(invalid(Attribute::KmsMasterKeyId));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// An access policy's text; empty takes it away.
fn access_policy(text: &str) -> Result<Option<String>, WireError> {
    if text.is_empty() {
        return Ok(None);
    }
    policy::check(text)?;
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDARD: Occasion = Occasion::Set { fifo: false };
    const FIFO: Occasion = Occasion::Set { fifo: true };

    fn fault(name: &str, text: &str, occasion: Occasion) -> (Code, String) {
        let error = read_one(name, text, occasion).expect_err(name);
        (error.code(), error.message().to_owned())
    }

    // Spec 4: the ranges of all numbers, at their edges.
    #[test]
    fn numbers_hold_at_their_edges() {
        for (name, min, max) in [
            ("DelaySeconds", 0, 900),
            ("MaximumMessageSize", 1_024, 1_048_576),
            ("MessageRetentionPeriod", 60, 1_209_600),
            ("ReceiveMessageWaitTimeSeconds", 0, 20),
            // [seed] spec 4: VisibilityTimeout 0-43200.
            ("VisibilityTimeout", 0, 43_200),
            ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
        ] {
            let is_legal = |number: i64| read_one(name, &number.to_string(), STANDARD).is_ok();
            assert_eq!([min - 1, min, max, max + 1].map(is_legal), [false, true, true, false], "{name}");
        }
    }

    #[test]
    fn numbers_are_digits_and_nothing_else() {
        for text in ["", " 5", "5 ", "+5", "-0", "5.0", "0x5", "five", "99999999999999999999", "٣"] {
            let expected = "Invalid value for the parameter DelaySeconds.".to_owned();
            assert_eq!(fault("DelaySeconds", text, STANDARD), (Code::InvalidAttributeValue, expected));
        }
        assert!(read_one("DelaySeconds", "005", STANDARD).is_ok());
    }

    // [rec] spec 4: the values True/False in any case are accepted.
    #[test]
    fn flags_are_read_in_any_case() {
        for text in ["true", "True", "TRUE", "tRuE"] {
            let read = read_one("SqsManagedSseEnabled", text, STANDARD);
            assert_eq!(read, Ok((Attribute::SqsManagedSseEnabled, Setting::SqsManagedSseEnabled(true))));
        }
        for text in ["", "1", "yes", "true "] {
            assert!(read_one("SqsManagedSseEnabled", text, STANDARD).is_err(), "{text:?}");
        }
    }

    // [rec] spec 4: unknown names; read-only attributes are unknown to a set; FIFO's on a standard queue.
    #[test]
    fn names_that_cannot_be_set_are_unknown() {
        for name in ["Foobar", "", "VisibilityTimeout ", "All", "QueueArn", "CreatedTimestamp", "FifoQueue"] {
            let expected = (Code::InvalidAttributeName, format!("Unknown Attribute {name}."));
            assert_eq!(fault(name, "false", STANDARD), expected);
        }
        let expected = "Unknown Attribute ContentBasedDeduplication.".to_owned();
        assert_eq!(
            fault("ContentBasedDeduplication", "true", STANDARD),
            (Code::InvalidAttributeName, expected)
        );
        for name in ["DeduplicationScope", "FifoThroughputLimit"] {
            let expected = format!("You can specify the {name} only when FifoQueue is set to true.");
            assert_eq!(fault(name, "queue", STANDARD), (Code::InvalidAttributeName, expected));
        }
    }

    // [rec] spec 4: FifoQueue=true on a FIFO queue is accepted, false is not.
    #[test]
    fn a_queue_keeps_its_kind() {
        assert_eq!(read_one("FifoQueue", "TRUE", FIFO), Ok((Attribute::FifoQueue, Setting::FifoQueue)));
        let expected =
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.";
        assert_eq!(fault("FifoQueue", "false", FIFO), (Code::InvalidAttributeValue, expected.to_owned()));
    }

    #[test]
    fn policies_are_whole_and_of_bounded_size() {
        let policy = |bytes: usize| {
            let rest = r#""Statement":{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}}"#;
            format!("{{\"Id\":\"{}\",{rest}", "x".repeat(bytes - rest.len() - 9))
        };
        assert_eq!(policy(8_192).len(), 8_192);
        assert!(read_one("Policy", &policy(8_192), STANDARD).is_ok());
        let expected = "Submitted policy is over max allowed size.".to_owned();
        assert_eq!(fault("Policy", &policy(8_193), STANDARD), (Code::OverLimit, expected));
        for text in ["{}", "[]", "{", "\"{}\"", &"[".repeat(8_000)] {
            let expected = "Invalid value for the parameter Policy.".to_owned();
            assert_eq!(fault("Policy", text, STANDARD), (Code::InvalidAttributeValue, expected));
        }
        assert_eq!(read_one("Policy", "", STANDARD), Ok((Attribute::Policy, Setting::Policy(None))));
    }
}
