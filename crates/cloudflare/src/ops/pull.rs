//! `POST /queues/{id}/messages/pull`: leases what is there now; an empty queue answers at once.

use std::time::Duration;

use kew_core::command::{FirstMessage, Lease, OverLimit};
use kew_core::{LeaseTerms, Return};
use kew_http::Reply;
use kew_push::Delivery;

use crate::decode::settle::PullBody;
use crate::encode::metrics::Metrics;
use crate::error::{Code, WireError};
use crate::{Context, encode, limits, receipt};

pub(crate) async fn pull(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = PullBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let consumer = cx.consumers.of(&queue).ok_or(Code::PullNotEnabled)?;
    let Delivery::Pull(pull) = &consumer.delivery else { return Err(Code::PullNotEnabled.into()) };
    if queue.policy.paused {
        return Err(Code::DeliveryPaused.into());
    }
    let lease = Lease {
        queue: queue.id,
        max: body.batch_size.unwrap_or(consumer.batch_size),
        body_bytes_max: limits::REPLY_BODY_BYTES,
        first: FirstMessage::AlwaysFits,
        terms: LeaseTerms {
            length: Some(body.visibility_timeout.unwrap_or(pull.visibility_timeout)),
            cap: Some(limits::LEASE_CAP),
            // [seed] A consumer that never answers is an implicit failure, which its retry delay covers too.
            lapse_delay: consumer.retry_delay,
            returns: Return::InPlace,
        },
        received_at: cx.now(),
        attempt: None,
        owner: None,
        in_flight_max: cx.settings.in_flight_max,
        over_limit: OverLimit::FindNothing,
        by: cx.request.consumer(),
    };
    let room = &cx.request.room;
    let freed = async { Ok::<_, WireError>(room.free().await?) };
    let leased = cx.engine.lease_when_free(lease, Duration::ZERO, room.for_leases(), freed).await?;
    let metrics = Metrics::of(&cx.engine.counts_so_far(queue.id).await.unwrap_or_default());
    let mut body = encode::opened();
    let backlog = metrics.backlog_count;
    body.extend_from_slice(
        format!(r#"{{"message_backlog_count":{backlog},"metadata":{{"metrics":"#).as_bytes(),
    );
    metrics.push_rest(&mut body);
    body.extend_from_slice(br#"},"messages":["#);
    for (place, leased) in leased.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        encode::message::push(&mut body, &leased.message, ("lease_id", &receipt::lease_id(leased.token)));
    }
    body.extend_from_slice(b"]}");
    Ok(encode::closed(body))
}
