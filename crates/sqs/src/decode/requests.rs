//! The members of each request, as they come.

use serde::Deserialize;

use super::{NotYet, Text};
use crate::error::WireError;

/// Refuses the first member that is not served yet and holds something.
macro_rules! refuse_not_yet {
    ($request:expr; $($member:ident: $name:literal),*) => {{
        $(if $request.$member.0 {
            return Err(WireError::not_yet($name));
        })*
        Ok(())
    }};
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CreateQueue<'a> {
    #[serde(borrow)]
    pub(crate) queue_name: Option<Text<'a>>,
    #[serde(default)]
    attributes: NotYet,
    #[serde(default, rename = "tags")]
    tags: NotYet,
}

impl CreateQueue<'_> {
    pub(crate) fn refuse_not_yet(&self) -> Result<(), WireError> {
        refuse_not_yet!(self; attributes: "Attributes", tags: "tags")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct GetQueueUrl<'a> {
    #[serde(borrow)]
    pub(crate) queue_name: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SendMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) message_body: Option<Text<'a>>,
    pub(crate) delay_seconds: Option<i64>,
    #[serde(default)]
    message_attributes: NotYet,
    #[serde(default)]
    message_system_attributes: NotYet,
    #[serde(default)]
    message_group_id: NotYet,
    #[serde(default)]
    message_deduplication_id: NotYet,
}

impl SendMessage<'_> {
    pub(crate) fn refuse_not_yet(&self) -> Result<(), WireError> {
        refuse_not_yet!(self;
            message_attributes: "MessageAttributes",
            message_system_attributes: "MessageSystemAttributes",
            message_group_id: "MessageGroupId",
            message_deduplication_id: "MessageDeduplicationId")
    }
}

/// `MessageAttributeNames` needs no member here: no message has attributes yet, so every filter finds none.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ReceiveMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    pub(crate) max_number_of_messages: Option<i64>,
    pub(crate) visibility_timeout: Option<i64>,
    pub(crate) wait_time_seconds: Option<i64>,
    #[serde(default)]
    attribute_names: NotYet,
    #[serde(default)]
    message_system_attribute_names: NotYet,
    #[serde(default)]
    receive_request_attempt_id: NotYet,
}

impl ReceiveMessage<'_> {
    pub(crate) fn refuse_not_yet(&self) -> Result<(), WireError> {
        refuse_not_yet!(self;
            attribute_names: "AttributeNames",
            message_system_attribute_names: "MessageSystemAttributeNames",
            receive_request_attempt_id: "ReceiveRequestAttemptId")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeleteMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) receipt_handle: Option<Text<'a>>,
}
