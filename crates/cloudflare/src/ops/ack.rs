//! `POST /queues/{id}/messages/ack`: deletes messages and gives others up, each for itself.
//!
//! An acknowledgement counts however late it comes. A retry counts while its lease runs: nobody can give up what somebody
//! else holds by now, or what is waiting already.

use std::borrow::Cow;
use std::time::Duration;

use kew_core::command::{Ack, Release};
use kew_core::{LeaseToken, Queue, ReceiptRule, RuleError};
use kew_http::Reply;
use serde_json::{Map, Value, json};

use crate::decode::settle::AckBody;
use crate::error::WireError;
use crate::{Context, encode, receipt};

/// Lease ids, each with why it had no effect.
type Warnings = Map<String, Value>;

pub(crate) async fn ack(cx: &Context<'_>) -> Result<Reply, WireError> {
    let body = AckBody::read(&cx.request.body)?;
    let queue = cx.queue()?;
    let mut warnings = Warnings::new();
    let acked = acknowledge(cx, &queue, &body.acks, &mut warnings).await?;
    let retried = retry(cx, &queue, &body.retries, &mut warnings).await?;
    Ok(encode::result(&json!({ "ackCount": acked, "retryCount": retried, "warnings": warnings })))
}

async fn acknowledge(
    cx: &Context<'_>,
    queue: &Queue,
    leases: &[Cow<'_, str>],
    warnings: &mut Warnings,
) -> Result<usize, WireError> {
    let (ids, tokens): (Vec<&str>, Vec<LeaseToken>) =
        leases.iter().filter_map(|id| Some((&**id, genuine(id, warnings)?))).unzip();
    if tokens.is_empty() {
        return Ok(0);
    }
    let ack = Ack { queue: queue.id, receipt: ReceiptRule::Any, tokens };
    let results = cx.engine.ack(ack).await?;
    Ok(count(ids.into_iter().zip(results), warnings))
}

async fn retry(
    cx: &Context<'_>,
    queue: &Queue,
    leases: &[(Cow<'_, str>, Option<u32>)],
    warnings: &mut Warnings,
) -> Result<usize, WireError> {
    if leases.is_empty() {
        return Ok(0);
    }
    let default = cx.consumers.of(queue).map(|consumer| consumer.retry_delay).unwrap_or_default();
    let delay = |seconds: Option<u32>| seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()));
    let (ids, entries): (Vec<&str>, Vec<(LeaseToken, Duration)>) = leases
        .iter()
        .filter_map(|(id, seconds)| Some((&**id, (genuine(id, warnings)?, delay(*seconds)))))
        .unzip();
    if entries.is_empty() {
        return Ok(0);
    }
    let release = Release { queue: queue.id, receipt: ReceiptRule::Current, entries };
    let results = cx.engine.release(release).await?;
    Ok(count(ids.into_iter().zip(results), warnings))
}

/// The token in a lease id, or a warning.
fn genuine(id: &str, warnings: &mut Warnings) -> Option<LeaseToken> {
    let token = receipt::read_lease_id(id);
    if token.is_none() {
        warnings.insert(id.to_owned(), warning(&RuleError::TokenForged).into());
    }
    token
}

/// How many took effect; the others are warnings.
fn count<'a, T>(
    results: impl Iterator<Item = (&'a str, Result<T, RuleError>)>,
    warnings: &mut Warnings,
) -> usize {
    let mut effects = 0;
    for (id, result) in results {
        match result {
            Ok(_) => effects += 1,
            Err(error) => {
                warnings.insert(id.to_owned(), warning(&error).into());
            }
        }
    }
    effects
}

/// Why a receipt had no effect.
pub(super) fn warning(error: &RuleError) -> Cow<'static, str> {
    Cow::Borrowed(match error {
        RuleError::TokenForged => "this is not a valid identifier",
        RuleError::TokenOfOtherQueue => "the message belongs to another queue",
        RuleError::MessageNotFound => "the message was already acknowledged, or is gone",
        RuleError::TokenStale => "the message has been delivered again since",
        RuleError::LeaseEnded => "the lease has ended",
        other => return Cow::Owned(other.to_string()),
    })
}
