//! Which action a request means, before its body is looked at.

use kew_http::{Method, Request};

use crate::error::{Code, Protocol, WireError};

/// What may be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Makes a queue, or finds the same one.
    CreateQueue,
    /// Says a queue's URL.
    GetQueueUrl,
    /// Adds a message.
    SendMessage,
    /// Leases messages.
    ReceiveMessage,
    /// Deletes a message by its receipt.
    DeleteMessage,
}

impl Action {
    /// The action of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "SendMessage" => Self::SendMessage,
            "ReceiveMessage" => Self::ReceiveMessage,
            "DeleteMessage" => Self::DeleteMessage,
            "CreateQueue" => Self::CreateQueue,
            "GetQueueUrl" => Self::GetQueueUrl,
            _ => return None,
        })
    }
}

const TARGET_PREFIX: &str = "AmazonSQS.";

/// The action a request names in its target header.
pub(crate) fn action(request: &Request) -> Result<Action, WireError> {
    let Some(target) = request.header("x-amz-target") else {
        return Err(without_target(request));
    };
    if request.method != Method::POST {
        let text = format!("{} is not a method of the JSON protocol: use POST.", request.method);
        return Err(WireError::new(Code::UnknownOperation).saying(text));
    }
    target.strip_prefix(TARGET_PREFIX).and_then(Action::named).ok_or_else(|| {
        let text = format!("The operation {target} is not known, or not served by this version of Kew.");
        WireError::new(Code::UnknownOperation).saying(text)
    })
}

/// The path of a queue's URL, when the request was sent to one.
pub(crate) fn queue_path(request: &Request) -> Option<&str> {
    let path = request.uri.path();
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    (parts.next().is_some() && parts.next().is_some()).then_some(path)
}

/// Without the header it is the Query protocol, or nothing of SQS.
fn without_target(request: &Request) -> WireError {
    let form = std::str::from_utf8(&request.body).unwrap_or_default();
    let pairs = request.uri.query().unwrap_or_default().split('&').chain(form.split('&'));
    match pairs.filter_map(|pair| pair.strip_prefix("Action=")).next() {
        Some(action) => {
            let legible: String = action.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
            let text = format!(
                "The action {legible} is not valid for this endpoint: this version of Kew serves the JSON protocol only."
            );
            WireError::new(Code::InvalidAction).saying(text).to(Protocol::Query)
        }
        None => WireError::new(Code::UnknownPath).to(Protocol::Query),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole_and_by_case() {
        assert_eq!(Action::named("SendMessage"), Some(Action::SendMessage));
        assert_eq!(Action::named("sendmessage"), None);
        assert_eq!(Action::named("SendMessageBatch"), None);
    }
}
