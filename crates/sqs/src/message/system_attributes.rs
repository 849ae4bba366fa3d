//! What SQS itself tells of a message: which of it a receive wants, and what it is.

use std::borrow::Cow;

use kew_core::{Message, MoveReason, Queue, Sequence};

use crate::decode::{Names, within};
use crate::error::{Code, WireError};
use crate::message::annotations::Annotations;
use crate::names::Arn;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    SenderId,
    SentTimestamp,
    ApproximateReceiveCount,
    ApproximateFirstReceiveTimestamp,
    SequenceNumber,
    MessageDeduplicationId,
    MessageGroupId,
    AwsTraceHeader,
    DeadLetterQueueSourceArn,
}

/// All of them, in the order of a reply.
const NAMES: [(Name, &str); 9] = [
    (Name::SenderId, "SenderId"),
    (Name::SentTimestamp, "SentTimestamp"),
    (Name::ApproximateReceiveCount, "ApproximateReceiveCount"),
    (Name::ApproximateFirstReceiveTimestamp, "ApproximateFirstReceiveTimestamp"),
    (Name::SequenceNumber, "SequenceNumber"),
    (Name::MessageDeduplicationId, "MessageDeduplicationId"),
    (Name::MessageGroupId, "MessageGroupId"),
    (Name::AwsTraceHeader, "AWSTraceHeader"),
    (Name::DeadLetterQueueSourceArn, "DeadLetterQueueSourceArn"),
];

/// Attributes of queues, which old clients ask messages for; no message has one.
const OF_QUEUES: [&str; 21] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
    "ContentBasedDeduplication",
    "CreatedTimestamp",
    "DeduplicationScope",
    "DelaySeconds",
    "FifoQueue",
    "FifoThroughputLimit",
    "KmsDataKeyReusePeriodSeconds",
    "KmsMasterKeyId",
    "LastModifiedTimestamp",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "Policy",
    "QueueArn",
    "ReceiveMessageWaitTimeSeconds",
    "RedriveAllowPolicy",
    "RedrivePolicy",
    "SqsManagedSseEnabled",
    "VisibilityTimeout",
];

/// Which of them a receive wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Wanted(u16);

impl Wanted {
    pub(crate) const ALL: Self = Self((1 << NAMES.len()) - 1);

    /// Those named in either of two lists.
    pub(crate) fn of(older: Option<&Names<'_>>, newer: Option<&Names<'_>>) -> Result<Self, WireError> {
        let mut wanted = Self::default();
        let older = within("AttributeNames", older)?;
        for name in older.iter().chain(within("MessageSystemAttributeNames", newer)?) {
            wanted.add(name)?;
        }
        Ok(wanted)
    }

    fn add(&mut self, wanted: &str) -> Result<(), WireError> {
        if wanted == "All" {
            *self = Self::ALL;
        } else if let Some(place) = NAMES.iter().position(|(_, name)| *name == wanted) {
            self.0 |= 1 << place;
        } else if !OF_QUEUES.contains(&wanted) {
            let text = format!("Unknown Attribute {wanted}.");
            return Err(WireError::new(Code::InvalidAttributeName).saying(text));
        }
        Ok(())
    }

    /// The wanted ones that this message has, by name.
    pub(crate) fn found<'m>(
        self,
        queue: &'m Queue,
        message: &'m Message,
        annotations: Option<Annotations<'m>>,
    ) -> impl Iterator<Item = (&'static str, Cow<'m, str>)> {
        let places = (0..NAMES.len()).filter(move |place| self.0 & (1 << place) != 0);
        let names = places.filter_map(|place| NAMES.get(place));
        names.filter_map(move |(name, text)| {
            Some((*text, value(*name, queue, message, annotations.as_ref())?))
        })
    }
}

fn value<'m>(
    name: Name,
    queue: &'m Queue,
    message: &'m Message,
    annotations: Option<&Annotations<'m>>,
) -> Option<Cow<'m, str>> {
    let number = |number: u64| Cow::Owned(number.to_string());
    match name {
        Name::SenderId => Some(match annotations.and_then(Annotations::sender) {
            Some(sender) => Cow::Borrowed(sender),
            None => Cow::Owned(queue.key.account.to_string()),
        }),
        Name::SentTimestamp => Some(number(message.sent_at.0)),
        Name::ApproximateReceiveCount => Some(number(u64::from(message.attempts))),
        Name::ApproximateFirstReceiveTimestamp => message.first_leased_at.map(|at| number(at.0)),
        Name::SequenceNumber => {
            queue.policy.kind.is_fifo().then(|| Cow::Owned(sequence_number(message.sequence)))
        }
        Name::MessageDeduplicationId => message.deduplication.as_ref().map(|id| id.0.as_str().into()),
        Name::MessageGroupId => message.group.as_ref().map(|group| group.0.as_str().into()),
        Name::AwsTraceHeader => annotations.and_then(Annotations::trace_header).map(Cow::Borrowed),
        Name::DeadLetterQueueSourceArn => {
            let origin = message.origin.as_ref();
            let died = origin.filter(|origin| origin.reason == MoveReason::AttemptsExhausted);
            died.map(|origin| Cow::Owned(Arn::of(&origin.queue).to_string()))
        }
    }
}

/// Twenty digits from 1 to 9, which rise with the place: the place to the base of nine. Tools take long runs of zeros
/// for a placeholder, and clients that read the text as a number find no leading zeros.
pub(crate) fn sequence_number(sequence: Sequence) -> String {
    const DIGITS: usize = 20;
    let mut digits = [b'1'; DIGITS];
    let mut rest = sequence.0;
    for digit in digits.iter_mut().rev() {
        if rest == 0 {
            break;
        }
        *digit += u8::try_from(rest % 9).expect("a rest of a division by 9 fits in a byte");
        rest /= 9;
    }
    str::from_utf8(&digits).expect("digits are ASCII").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(older: &str, newer: &str) -> Result<u32, String> {
        let older: Option<Names<'_>> =
            serde_json::from_str(older).expect("a JSON list is decoded into names");
        let newer: Option<Names<'_>> =
            serde_json::from_str(newer).expect("a JSON list is decoded into names");
        let wanted = Wanted::of(older.as_ref(), newer.as_ref());
        wanted.map(|wanted| wanted.0.count_ones()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn both_lists_count_and_names_of_queues_are_passed_over() {
        assert_eq!(wanted("null", "null"), Ok(0));
        assert_eq!(wanted(r#"["All"]"#, "null"), Ok(9));
        assert_eq!(wanted(r#"["SenderId"]"#, r#"["SenderId","MessageGroupId"]"#), Ok(2));
        assert_eq!(wanted(r#"["QueueArn","VisibilityTimeout"]"#, r#"["SentTimestamp"]"#), Ok(1));
        assert_eq!(wanted("null", r#"["Colour"]"#), Err("Unknown Attribute Colour.".to_owned()));
        assert_eq!(wanted(r#"["senderid"]"#, "null"), Err("Unknown Attribute senderid.".to_owned()));
    }

    #[test]
    fn sequence_numbers_have_twenty_digits_and_rise() {
        assert_eq!(sequence_number(Sequence(1)), "11111111111111111112");
        let places =
            [1, 8, 9, 10, 80, 81, 1_000, u64::from(u32::MAX), 9_u64.pow(19), 12_000_000_000_000_000_000];
        let numbers = places.map(|place| sequence_number(Sequence(place)));
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.iter().all(|number| number.len() == 20 && !number.contains('0')), "{numbers:?}");
    }
}
