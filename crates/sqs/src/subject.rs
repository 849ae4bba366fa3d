//! What a request was about, for those who note requests: read from its body and its reply after the fact.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kew_http::{AMAZON_TRACE, Reply, Request, Subject, TRACEPARENT, TraceContext, form, short};
use serde::Deserialize;

use crate::limits::PAIRS_MAX;
use crate::names::Address;
use crate::route::{self, Protocol};
use crate::{auth, encode};

/// The longest name of a queue.
const NAME_BYTES_MAX: usize = 80;

/// The members that tell it, of every action.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Told<'a> {
    #[serde(borrow)]
    queue_url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    queue_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message_system_attributes: BTreeMap<Cow<'a, str>, Value<'a>>,
    #[serde(borrow)]
    message_attributes: BTreeMap<Cow<'a, str>, Value<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Value<'a> {
    #[serde(borrow)]
    string_value: Option<Cow<'a, str>>,
}

impl Told<'_> {
    /// The trace that the message of a send names itself.
    fn trace(&self) -> Option<TraceContext> {
        let text = |value: Option<&'_ Value<'_>>| {
            value.and_then(|value| value.string_value.as_deref().map(str::to_owned))
        };
        let own = text(self.message_attributes.get(TRACEPARENT));
        let amazons = text(self.message_system_attributes.get("AWSTraceHeader"));
        let own = own.and_then(|text| TraceContext::of_w3c(&text));
        own.or_else(|| amazons.and_then(|text| TraceContext::of_amazon(&text)))
    }
}

/// What it was about.
pub(crate) fn of(request: &Request, reply: Option<&Reply>) -> Subject {
    let protocol = Protocol::of(request);
    let (url, message) = match protocol {
        Protocol::Json => {
            let told: Told<'_> = serde_json::from_slice(&request.body).unwrap_or_default();
            let trace = told.trace();
            (told.queue_url.or(told.queue_name).map(Cow::into_owned), trace)
        }
        Protocol::Query | Protocol::QueryJson => (named_in_form(request), None),
    };
    let url = url.as_deref().filter(|url| !url.is_empty()).or_else(|| route::queue_path(request));
    let header = |name| request.header(name);
    let asked = || header(TRACEPARENT).and_then(TraceContext::of_w3c);
    let amazons = || header(AMAZON_TRACE).and_then(TraceContext::of_amazon);
    Subject {
        operation: if reply.is_none() { route::action_name(protocol, request) } else { None },
        queue: url.map(|url| Address::read(url).name).filter(|name| may_be_a_name(name)).map(short),
        key: auth::key_id(request).map(|id| short(&id)),
        error: reply.and_then(encode::error_code).map(short),
        trace: message.or_else(asked).or_else(amazons),
        ..Subject::of("sqs")
    }
}

/// Whether this text may be a queue's name. Other text is not noted: a presigned URL ends in its signature.
fn may_be_a_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn named_in_form(request: &Request) -> Option<String> {
    let query = request.uri.query().unwrap_or_default().as_bytes();
    let pairs = [query, &request.body[..]].into_iter().filter_map(|text| form::pairs(text, PAIRS_MAX).ok());
    let named = pairs.flatten().find(|(name, _)| matches!(&**name, "QueueUrl" | "QueueName"));
    named.map(|(_, value)| value.into_owned())
}
