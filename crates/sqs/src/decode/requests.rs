//! The members of each request, as they come.

use serde::Deserialize;

use super::Text;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SendMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) message_body: Option<Text<'a>>,
    pub(crate) delay_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ReceiveMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    pub(crate) max_number_of_messages: Option<i64>,
    pub(crate) visibility_timeout: Option<i64>,
    pub(crate) wait_time_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeleteMessage<'a> {
    #[serde(borrow)]
    pub(crate) queue_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) receipt_handle: Option<Text<'a>>,
}
