//! ReceiveMessage.

use std::time::Duration;

use kew_core::command::{Lease, OverLimit};
use kew_core::event::Tag;
use kew_core::outcome::Leased;
use kew_core::{LeaseTerms, Queue, Return};
use kew_http::{Reply, hex};

use crate::annotations;
use crate::encode::{Name, Shape, Writer};
use crate::error::WireError;
use crate::{Context, decode, encode, limits};

pub(crate) async fn receive_message(cx: &Context<'_>) -> Result<Reply, WireError> {
    let request: decode::ReceiveMessage<'_> = cx.read()?;
    let queue = cx.queue(request.queue_url.as_deref())?;
    let max = limits::MAX_NUMBER_OF_MESSAGES.check(request.max_number_of_messages)?.unwrap_or(1);
    let length = limits::VISIBILITY_TIMEOUT.seconds(request.visibility_timeout)?;
    let wait = limits::WAIT_TIME_SECONDS.seconds(request.wait_time_seconds)?.unwrap_or(queue.policy.wait);
    let lease = lease(cx, &queue, max, length);
    let leased = cx.engine.lease_waiting(lease, wait).await?;
    Ok(cx.result(&Received(leased)))
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

struct Received(Vec<Leased>);

impl Shape for Received {
    fn write<W: Writer>(&self, out: &mut W) {
        out.list(Name { json: "Messages", xml: "Message" }, &self.0, |out, leased| {
            let content = &leased.message.content;
            out.plain("MessageId", &hex::uuid(leased.message.id.0));
            out.plain("ReceiptHandle", &encode::receipt(leased.token));
            out.plain("MD5OfBody", &hex::hash(&annotations::body_hash(content)));
            out.text("Body", &String::from_utf8_lossy(&content.body));
        });
    }

    fn size_hint(&self) -> usize {
        const AROUND_A_BODY: usize = 256;
        let bodies = self.0.iter().map(|leased| leased.message.content.body.len() + AROUND_A_BODY);
        bodies.sum::<usize>() + 16
    }
}
