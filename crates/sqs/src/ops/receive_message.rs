//! ReceiveMessage.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::command::{FirstMessage, Lease, OverLimit};
use kew_core::outcome::Leased;
use kew_core::{LeaseTerms, Queue, Return};
use kew_http::{Reply, hex, receipt};
use serde::Deserialize;

use crate::decode::{Names, Text};
use crate::encode::{NAME_VALUE, Name, Shape, Writer};
use crate::error::WireError;
use crate::message::annotations::{self, Annotations};
use crate::message::draft;
use crate::message::message_attributes::{Attribute, Filter, Value};
use crate::message::shown::Shown;
use crate::message::system_attributes::Wanted;
use crate::{Context, limits};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveMessage<'a> {
    #[serde(borrow)]
    queue_url: Option<Text<'a>>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    #[serde(borrow)]
    attribute_names: Option<Names<'a>>,
    #[serde(borrow)]
    message_system_attribute_names: Option<Names<'a>>,
    #[serde(borrow)]
    message_attribute_names: Option<Names<'a>>,
    #[serde(borrow)]
    receive_request_attempt_id: Option<Text<'a>>,
}

pub(crate) async fn receive_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let mut request: ReceiveMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let max = limits::MAX_NUMBER_OF_MESSAGES.check(request.max_number_of_messages)?.unwrap_or(1);
    let length = limits::VISIBILITY_TIMEOUT.seconds(request.visibility_timeout)?;
    let wait = limits::WAIT_TIME_SECONDS.seconds(request.wait_time_seconds)?.unwrap_or(queue.policy.wait);
    let older = request.attribute_names.as_ref();
    let wanted = Wanted::of(older, request.message_system_attribute_names.as_ref())?;
    let filter = Filter::of(request.message_attribute_names.as_ref())?;
    let mut lease = lease(cx, &queue, max, length);
    // Only FIFO queues repeat a receive; on others the id says nothing.
    if let Some(id) = request.receive_request_attempt_id.take_if(|_| queue.policy.kind.is_fifo()) {
        limits::check_id("ReceiveRequestAttemptId", &id)?;
        lease.attempt = Some(draft::text(cx, id));
    }
    let room = &cx.request.room;
    let freed = async { Ok::<_, WireError>(room.free().await?) };
    let leased = cx.engine.lease_when_free(lease, wait, room.for_leases(), freed).await?;
    Ok(cx.result(&Received { leased, queue: &queue, wanted, filter }))
}

fn lease(cx: &Context<'_>, queue: &Queue, max: u32, length: Option<Duration>) -> Lease {
    let in_flight_max = if queue.policy.kind.is_fifo() {
        cx.settings.fifo_in_flight_limit
    } else {
        cx.settings.standard_in_flight_limit
    };
    Lease {
        queue: queue.id,
        max,
        body_bytes_max: limits::RECEIVE_BODY_BYTES,
        first: FirstMessage::AlwaysFits,
        terms: LeaseTerms {
            length,
            cap: Some(limits::VISIBILITY_TOTAL),
            lapse_delay: Duration::ZERO,
            returns: Return::InPlace,
        },
        received_at: cx.request.received_at,
        attempt: None,
        owner: None,
        in_flight_max,
        // A FIFO queue at its limit just stays silent.
        over_limit: if queue.policy.kind.is_fifo() { OverLimit::FindNothing } else { OverLimit::Refuse },
        by: cx.request.consumer(),
    }
}

pub(crate) const MESSAGES: Name = Name { json: "Messages", xml: "Message" };
pub(crate) const ATTRIBUTES: Name = Name { json: "Attributes", xml: "Attribute" };

/// Messages, and what of them is wanted.
struct Received<'r> {
    leased: Vec<Leased>,
    queue: &'r Queue,
    wanted: Wanted,
    filter: Filter<'r, 'r>,
}

impl Shape for Received<'_> {
    fn write<W: Writer>(&self, out: &mut W) {
        out.list(MESSAGES, &self.leased, |out, leased| {
            let content = &leased.message.content;
            let annotations = annotations::read(content);
            let shown = Shown::of(content, annotations.as_ref());
            out.plain("MessageId", &hex::uuid(leased.message.id.0));
            out.plain("ReceiptHandle", &receipt::bytes(leased.token));
            out.plain("MD5OfBody", &hex::hash(&shown.hash));
            out.text("Body", &shown.body);
            if self.wanted != Wanted::default() {
                out.map(ATTRIBUTES, NAME_VALUE, self.wanted.found(self.queue, &leased.message, annotations));
            }
            if let Some(annotations) = annotations.filter(|_| !self.filter.is_empty()) {
                write_attributes(out, &annotations, self.filter);
            }
        });
    }

    fn size_hint(&self) -> usize {
        const AROUND_A_BODY: usize = 256;
        let bodies = self.leased.iter().map(|leased| leased.message.content.body.len() + AROUND_A_BODY);
        bodies.sum::<usize>() + 16
    }
}

/// The attributes a receive chose, and their hash: that of all of them was made at the send.
pub(crate) fn write_attributes<W: Writer>(
    out: &mut W,
    annotations: &Annotations<'_>,
    filter: Filter<'_, '_>,
) {
    let Some((all, hash_of_all)) = annotations.attributes() else { return };
    let chosen: Vec<Attribute<'_>> = all.filter(|attribute| filter.wants(attribute.name)).collect();
    if chosen.is_empty() {
        return;
    }
    let hash = if chosen.len() == all.count() { hash_of_all } else { Attribute::hash_of(&chosen) };
    out.plain("MD5OfMessageAttributes", &hex::hash(&hash));
    let name = Name { json: "MessageAttributes", xml: "MessageAttribute" };
    let by_name = chosen.iter().map(|attribute| (attribute.name, attribute));
    out.objects(name, NAME_VALUE, by_name, |out, attribute| {
        match attribute.value {
            Value::Text(text) => out.text("StringValue", text),
            Value::Binary(bytes) => out.plain("BinaryValue", STANDARD.encode(bytes).as_bytes()),
        }
        out.text("DataType", attribute.data_type);
    });
}
