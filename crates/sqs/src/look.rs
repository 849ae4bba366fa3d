//! `/_aws/sqs/messages`, on addresses that serve every dialect: the messages of a queue, shown without being received.
//! It is the developer endpoint that a local emulator documents, for tests that wait for a message to arrive.
//!
//! Asked as ReceiveMessage is, in any protocol, or by a path that ends in region, account and name. Of its parameters
//! `QueueUrl`, `ShowInvisible` and `ShowDelayed` count. What is shown has no receipt that could be used.

use std::collections::BTreeMap;

use bytes::Bytes;
use kew_core::command::{Peek, View};
use kew_core::{Content, ContentType, Message, Queue, Sequence, State, is_region};
use kew_http::{Reply, Request, hex};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::auth::{self, Auth, Service};
use crate::decode::query::Form;
use crate::decode::{Text, read};
use crate::encode::{self, NAME_VALUE, Shape, Writer};
use crate::error::WireError;
use crate::message::annotations::{self, Annotations};
use crate::message::message_attributes::Filter;
use crate::message::shown::Shown;
use crate::message::system_attributes::Wanted;
use crate::names::Address;
use crate::ops::{ATTRIBUTES, MESSAGES, write_attributes};
use crate::route::{Call, Protocol};
use crate::{Context, Sqs};

const PATH: &str = "/_aws/sqs/messages";
/// At most this many messages of each kind are shown.
const MESSAGES_MAX: u64 = 1_000;
/// What they hold together, bodies and attributes, has at most this many bytes.
const CONTENT_BYTES_MAX: u64 = 8 << 20;
/// The reply has at most about this many bytes, with every escape in it. This much room is kept while it is made.
const REPLY_BYTES_MAX: u64 = 16 << 20;
/// One step reads at most this many messages. A step counts bodies only, and attributes may be a MiB in each.
const PAGE: u32 = 8;
/// What stands in the place of a receipt.
const NO_RECEIPT: &[u8] = b"SQS/BACKDOOR/ACCESS";

/// Whether a request asks for a look.
pub fn is_look(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is to be shown.
#[derive(Default)]
struct Asked {
    queue_url: Option<String>,
    invisible: bool,
    delayed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Members<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
}

impl Asked {
    fn of(protocol: Protocol, request: &Request) -> Result<Self, WireError> {
        let query = request.uri.query().unwrap_or_default().as_bytes();
        let body: &[u8] = if protocol == Protocol::Json { b"" } else { &request.body };
        let form = Form::read(query, body)?;
        let is_yes = |name| form.text(name).is_some_and(|text| matches!(text, "true" | "True" | "1"));
        let mut queue_url = form.text("QueueUrl").map(str::to_owned);
        if protocol == Protocol::Json && queue_url.is_none() {
            let members: Members<'_> = read(&request.body)?;
            queue_url = members.queue_url.map(|url| url.to_string());
        }
        Ok(Self { queue_url, invisible: is_yes("ShowInvisible"), delayed: is_yes("ShowDelayed") })
    }
}

impl Sqs {
    /// Shows the messages of a queue.
    pub async fn look(&self, request: &Request) -> Reply {
        let protocol = Protocol::of(request);
        let reply = match self.shown(protocol, request).await {
            Ok(reply) => encode::named(reply, request),
            Err(error) => encode::error(&error, protocol, request),
        };
        Reply { operation: Some("PeekMessages"), ..reply }
    }

    async fn shown(&self, protocol: Protocol, request: &Request) -> Result<Reply, WireError> {
        let mut caller = auth::caller(&self.settings, Service::Sqs, request)?;
        let asked = Asked::of(protocol, request)?;
        let path = request.uri.path().strip_prefix(PATH).unwrap_or_default().trim_matches('/');
        let (region, address) = whose(path, asked.queue_url.as_deref())?;
        // Who signs says the region so; everybody else by the address.
        if let (Some(region), Auth::Open) = (region, &self.settings.auth) {
            caller.region = region.into();
        }
        let call = Call { action: Action::ReceiveMessage, body: Bytes::new() };
        let Self { engine, settings, policies } = self;
        let cx = Context { engine, settings, policies, caller, request, protocol, call };
        let queue = cx.queue_at(address)?;
        let _kept = request.room.keep(REPLY_BYTES_MAX as usize).await?;
        let messages = peek(&cx, &queue, &asked).await?;
        let looked = Looked { messages, queue: &queue, asked: &asked };
        if protocol == Protocol::QueryJson { Ok(in_json(&cx, &looked)) } else { Ok(cx.result(&looked)) }
    }
}

/// The region and the queue that a path or a URL names.
fn whose<'a>(path: &'a str, url: Option<&'a str>) -> Result<(Option<&'a str>, Address<'a>), WireError> {
    if let Some((region, rest)) = path.split_once('/') {
        return Ok((Some(region), Address::read(rest)));
    }
    let url = url.filter(|url| !url.is_empty()).ok_or_else(|| WireError::missing("QueueUrl"))?;
    let host = url.split_once("://").map_or("", |(_, rest)| rest);
    let mut labels = host.split('.');
    let is_of_region = labels.next() == Some("sqs");
    let region = labels.next().filter(|region| is_of_region && is_region(region));
    Ok((region, Address::read(url)))
}

async fn peek(cx: &Context<'_>, queue: &Queue, asked: &Asked) -> Result<Vec<Message>, WireError> {
    let mut gathered = Gathered::default();
    let views = [(View::Ready, true), (View::Leased, asked.invisible), (View::Delayed, asked.delayed)];
    for (view, _) in views.into_iter().filter(|(_, is_wanted)| *is_wanted) {
        let mut skip = 0;
        while skip < MESSAGES_MAX && !gathered.is_full {
            let body_bytes_max = CONTENT_BYTES_MAX.saturating_sub(gathered.content_bytes);
            let peek = Peek { queue: queue.id, view, skip, max: PAGE, body_bytes_max };
            let page = cx.engine.peek(peek).await?;
            let is_last = page.len() < PAGE as usize;
            skip += page.len() as u64;
            page.into_iter().for_each(|(message, _)| gathered.add(message));
            if is_last {
                break;
            }
        }
    }
    Ok(gathered.messages.into_values().collect())
}

/// What was found, in the order of sends, as much of it as fits. A message that changes its state between two steps is
/// found in both: it counts as it was found first.
#[derive(Default)]
struct Gathered {
    messages: BTreeMap<Sequence, Message>,
    content_bytes: u64,
    reply_bytes: u64,
    is_full: bool,
}

impl Gathered {
    /// The first one always fits.
    fn add(&mut self, message: Message) {
        if self.is_full || self.messages.contains_key(&message.sequence) {
            return;
        }
        let content = &message.content;
        let content_bytes = self.content_bytes + (content.body.len() + content.annotations.len()) as u64;
        let reply_bytes = self.reply_bytes + bytes_shown(content);
        let fits = content_bytes <= CONTENT_BYTES_MAX && reply_bytes <= REPLY_BYTES_MAX;
        if !fits && !self.messages.is_empty() {
            self.is_full = true;
            return;
        }
        (self.content_bytes, self.reply_bytes) = (content_bytes, reply_bytes);
        self.messages.insert(message.sequence, message);
    }
}

/// About how many bytes a message takes in a reply, rather too many: an escape has up to six, and Base64 four for
/// three.
fn bytes_shown(content: &Content) -> u64 {
    const ELEMENTS: u64 = 3 << 10;
    let shown = |bytes: &[u8], is_text: bool| -> u64 {
        let is_escaped = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'&' | b'\'' | b'<' | b'>' | b'\\');
        let escaped = bytes.iter().filter(|byte| is_escaped(**byte)).count() as u64;
        let plain = bytes.len() as u64 - escaped;
        escaped * 6 + if is_text { plain } else { plain * 4 / 3 }
    };
    let is_text = matches!(content.content_type, ContentType::Text | ContentType::Json);
    ELEMENTS + shown(&content.body, is_text) + shown(&content.annotations, false)
}

struct Looked<'a> {
    messages: Vec<Message>,
    queue: &'a Queue,
    asked: &'a Asked,
}

impl Looked<'_> {
    /// The state that is shown for messages that cannot be received now.
    fn states(&self, message: &Message) -> [Option<(&'static str, &'static str)>; 2] {
        let text = |is_so: bool| if is_so { "true" } else { "false" };
        let (is_visible, is_delayed) = match message.state {
            State::Ready => (true, false),
            State::Delayed { .. } => (true, true),
            State::Leased { .. } => (false, false),
        };
        let is_told = self.asked.invisible || self.asked.delayed;
        [("IsVisible", text(is_visible)), ("IsDelayed", text(is_delayed))]
            .map(|state| is_told.then_some(state))
    }
}

impl Shape for Looked<'_> {
    fn write<W: Writer>(&self, out: &mut W) {
        out.list(MESSAGES, &self.messages, |out, message| {
            let annotations: Option<Annotations<'_>> = annotations::read(&message.content);
            let shown = Shown::of(&message.content, annotations.as_ref());
            out.plain("MessageId", &hex::uuid(message.id.0));
            out.plain("ReceiptHandle", NO_RECEIPT);
            out.plain("MD5OfBody", &hex::hash(&shown.hash));
            out.text("Body", &shown.body);
            let states = self.states(message).into_iter().flatten();
            let states = states.map(|(name, value)| (name, value.into()));
            out.map(
                ATTRIBUTES,
                NAME_VALUE,
                Wanted::ALL.found(self.queue, message, annotations).chain(states),
            );
            if let Some(annotations) = annotations {
                write_attributes(out, &annotations, Filter::EVERYTHING);
            }
        });
    }

    fn size_hint(&self) -> usize {
        const AROUND_A_BODY: usize = 512;
        self.messages.iter().map(|message| message.content.body.len() + AROUND_A_BODY).sum::<usize>() + 16
    }
}

/// The XML's words in JSON, with lists where it has several elements of a name.
fn in_json(cx: &Context<'_>, looked: &Looked<'_>) -> Reply {
    let mut messages = json!([]);
    if let Ok(Value::Object(mut result)) = serde_json::from_slice(&encode::json(looked)) {
        messages = result.remove("Messages").unwrap_or(messages);
    }
    for message in messages.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for (from, to) in [("Attributes", "Attribute"), ("MessageAttributes", "MessageAttribute")] {
            if let Some(Value::Object(pairs)) = message.remove(from) {
                message.insert(to.to_owned(), listed(pairs));
            }
        }
    }
    let result = json!({ "Message": messages });
    encode::in_response(&cx.call, cx.request, Some(result.to_string().as_bytes()))
}

fn listed(pairs: Map<String, Value>) -> Value {
    pairs.into_iter().map(|(name, value)| json!({ "Name": name, "Value": value })).collect()
}
