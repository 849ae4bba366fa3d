//! Results in JSON for clients of the Query protocol: the service names two lists otherwise there, and shows members
//! that are absent as null.

use serde_json::{Map, Value};

use crate::action::Action;

/// Names that differ from those of the JSON protocol: theirs, and the Query protocol's.
const RENAMED: [(&str, &str); 2] = [("Messages", "messages"), ("QueueUrls", "queueUrls")];

const MESSAGE: &[&str] = &[
    "Attributes",
    "Body",
    "MD5OfBody",
    "MD5OfMessageAttributes",
    "MessageAttributes",
    "MessageId",
    "ReceiptHandle",
];

/// Every member a result of this action may have, by the names of the JSON protocol.
fn members(action: Action) -> &'static [&'static str] {
    match action {
        Action::ReceiveMessage => &["Messages"],
        Action::ListQueues => &["NextToken", "QueueUrls"],
        Action::ListDeadLetterSourceQueues => &["NextToken", "queueUrls"],
        Action::SendMessage => &[
            "MD5OfMessageAttributes",
            "MD5OfMessageBody",
            "MD5OfMessageSystemAttributes",
            "MessageId",
            "SequenceNumber",
        ],
        Action::SendMessageBatch | Action::DeleteMessageBatch | Action::ChangeMessageVisibilityBatch => {
            &["Failed", "Successful"]
        }
        Action::GetQueueAttributes => &["Attributes"],
        Action::ListQueueTags => &["Tags"],
        Action::ListMessageMoveTasks => &["Results"],
        // Those that always say all they have, and those without a result.
        Action::CreateQueue
        | Action::GetQueueUrl
        | Action::StartMessageMoveTask
        | Action::CancelMessageMoveTask
        | Action::DeleteMessage
        | Action::ChangeMessageVisibility
        | Action::SetQueueAttributes
        | Action::DeleteQueue
        | Action::PurgeQueue
        | Action::TagQueue
        | Action::UntagQueue
        | Action::AddPermission
        | Action::RemovePermission => &[],
    }
}

/// A result of the JSON protocol, as the Query protocol shows it in JSON.
pub(super) fn shown(action: Action, result: &[u8]) -> Vec<u8> {
    let Ok(Value::Object(mut result)) = serde_json::from_slice(result) else { return result.to_vec() };
    fill(&mut result, members(action));
    if let Some(Value::Array(messages)) = result.get_mut("Messages") {
        messages.iter_mut().filter_map(Value::as_object_mut).for_each(|message| fill(message, MESSAGE));
    }
    for (json, query) in RENAMED {
        if let Some(value) = result.remove(json) {
            result.insert(query.to_owned(), value);
        }
    }
    Value::Object(result).to_string().into_bytes()
}

/// Adds each member that is absent, as null.
fn fill(object: &mut Map<String, Value>, members: &[&str]) {
    for member in members {
        object.entry(*member).or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(action: Action, result: &str) -> String {
        String::from_utf8(shown(action, result.as_bytes())).expect("JSON is text")
    }

    #[test]
    fn an_empty_receive_has_null_for_messages() {
        assert_eq!(text(Action::ReceiveMessage, "{}"), r#"{"messages":null}"#);
    }

    #[test]
    fn a_message_has_null_for_each_member_it_lacks() {
        let message = r#"{"Messages":[{"Body":"b","MessageId":"i","ReceiptHandle":"r","MD5OfBody":"m"}]}"#;
        let expected = r#"{"messages":[{"Attributes":null,"Body":"b","MD5OfBody":"m","MD5OfMessageAttributes":null,"MessageAttributes":null,"MessageId":"i","ReceiptHandle":"r"}]}"#;
        assert_eq!(text(Action::ReceiveMessage, message), expected);
    }

    #[test]
    fn lists_of_queues_have_their_other_name() {
        assert_eq!(
            text(Action::ListQueues, r#"{"QueueUrls":["u"]}"#),
            r#"{"NextToken":null,"queueUrls":["u"]}"#
        );
        let sources = r#"{"NextToken":null,"queueUrls":null}"#;
        assert_eq!(text(Action::ListDeadLetterSourceQueues, "{}"), sources);
    }
}
