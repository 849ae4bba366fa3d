//! ReceiveMessage.

use std::time::Duration;

use kew_core::command::{Lease, OverLimit};
use kew_core::event::Tag;
use kew_core::outcome::Leased;
use kew_core::{LeaseTerms, Queue, Return};
use kew_http::{Reply, json};

use crate::annotations;
use crate::error::WireError;
use crate::{Context, decode, encode, limits};

pub(crate) async fn receive_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::ReceiveMessage<'_> = decode::read(&cx.request.body)?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    request.refuse_not_yet()?;
    let max = limits::MAX_NUMBER_OF_MESSAGES.check(request.max_number_of_messages)?.unwrap_or(1);
    let length = limits::VISIBILITY_TIMEOUT.seconds(request.visibility_timeout)?;
    let wait = limits::WAIT_TIME_SECONDS.seconds(request.wait_time_seconds)?.unwrap_or(queue.policy.wait);
    let lease = lease(cx, &queue, max, length);
    let leased = cx.engine.lease_waiting(lease, wait).await?;
    Ok(encode::result(reply(&leased)))
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
        by: Tag::default(),
    }
}

/// Without messages there is no member `Messages`, not an empty one.
fn reply(leased: &[Leased]) -> Vec<u8> {
    const AROUND_A_BODY: usize = 256;
    let bodies: usize = leased.iter().map(|leased| leased.message.content.body.len() + AROUND_A_BODY).sum();
    let mut json = Vec::with_capacity(bodies + 16);
    json.push(b'{');
    for (place, leased) in leased.iter().enumerate() {
        json.extend_from_slice(if place == 0 { br#""Messages":["# } else { b"," });
        push_message(&mut json, leased);
    }
    json.extend_from_slice(if leased.is_empty() { b"}" } else { b"]}" });
    json
}

fn push_message(json: &mut Vec<u8>, leased: &Leased) {
    let content = &leased.message.content;
    json.extend_from_slice(br#"{"MessageId":"#);
    encode::push_message_id(json, leased.message.id);
    json.extend_from_slice(br#","ReceiptHandle":"#);
    encode::push_receipt(json, leased.token);
    json.extend_from_slice(br#","MD5OfBody":"#);
    encode::push_hash(json, &annotations::body_hash(content));
    json.extend_from_slice(br#","Body":"#);
    json::push_string(json, &String::from_utf8_lossy(&content.body));
    json.push(b'}');
}
