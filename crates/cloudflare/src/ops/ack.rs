//! `POST /queues/{id}/messages/ack`: deletes messages and gives others up, each for itself.
//!
//! An acknowledgement counts however late it comes. A retry counts while its lease runs: no client can give up what
//! somebody else holds by now, or what is waiting already. A lease that is mentioned more than once is settled once, as
//! its first mention says, and an acknowledgement comes before a retry; the others are warnings.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use kew_core::command::{Ack, Release};
use kew_core::{LeaseToken, Queue, ReceiptRule, RuleError};
use kew_engine::{EngineError, Settled};
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
    let Asked { acks, tokens, retries, entries } = Asked::of(cx, &queue, &body, &mut warnings);
    let ack = Ack { queue: queue.id, receipt: ReceiptRule::Any, tokens };
    let release = Release { queue: queue.id, receipt: ReceiptRule::Current, entries };
    let Settled { acked, released } = cx.engine.ack_and_release(ack, release).await;
    // A client that is refused does it again, so it is refused only where nothing was done: what one part did stands.
    if !has_effect(&acked) && !has_effect(&released) {
        acked.as_ref().map_err(Clone::clone)?;
        released.as_ref().map_err(Clone::clone)?;
    }
    let acked = count(cx, &acks, acked, &mut warnings);
    let retried = count(cx, &retries, released, &mut warnings);
    Ok(encode::result(&json!({ "ackCount": acked, "retryCount": retried, "warnings": warnings })))
}

/// Whether a step changed anything.
fn has_effect<T>(results: &Result<Vec<Result<T, RuleError>>, EngineError>) -> bool {
    results.as_ref().is_ok_and(|results| results.iter().any(Result::is_ok))
}

/// What a request wants, every lease in it once.
#[derive(Default)]
struct Asked<'a> {
    /// The lease ids of what is to be deleted, and their tokens.
    acks: Vec<&'a str>,
    tokens: Vec<LeaseToken>,
    /// The lease ids of what is to be tried again, and their tokens with what delays them.
    retries: Vec<&'a str>,
    entries: Vec<(LeaseToken, Duration)>,
}

impl<'a> Asked<'a> {
    fn of(cx: &Context<'_>, queue: &Queue, body: &'a AckBody<'_>, warnings: &mut Warnings) -> Self {
        let mut asked = Self::default();
        let mut seen = HashSet::new();
        for id in &body.acks {
            if let Some(token) = first_mention(id, &mut seen, warnings) {
                asked.acks.push(id);
                asked.tokens.push(token);
            }
        }
        let default = cx.consumers.of(queue).map(|consumer| consumer.retry_delay).unwrap_or_default();
        for (id, seconds) in &body.retries {
            if let Some(token) = first_mention(id, &mut seen, warnings) {
                let delay = seconds.map_or(default, |seconds| Duration::from_secs(seconds.into()));
                asked.retries.push(id);
                asked.entries.push((token, delay));
            }
        }
        asked
    }
}

/// The token in a lease id that is mentioned for the first time, or a warning.
fn first_mention(id: &str, seen: &mut HashSet<LeaseToken>, warnings: &mut Warnings) -> Option<LeaseToken> {
    let Some(token) = receipt::read_lease_id(id) else {
        warnings.insert(id.to_owned(), warning(&RuleError::TokenForged).into());
        return None;
    };
    if seen.insert(token) {
        return Some(token);
    }
    let text =
        "it is in the request more than once: its first mention counts, an acknowledgement before a retry";
    warnings.insert(id.to_owned(), text.into());
    None
}

/// How many of one part took effect; the others are warnings.
fn count<T>(
    cx: &Context<'_>,
    ids: &[&str],
    results: Result<Vec<Result<T, RuleError>>, EngineError>,
    warnings: &mut Warnings,
) -> usize {
    let mut effects = 0;
    match results {
        Ok(results) => {
            for (id, result) in ids.iter().zip(results) {
                match result {
                    Ok(_) => effects += 1,
                    Err(error) => {
                        warnings.insert((*id).to_owned(), warning(&error).into());
                    }
                }
            }
        }
        Err(error) => {
            let error = WireError::from(error);
            if let Some(cause) = error.cause() {
                (cx.settings.failures)(cx.request.id, cause);
            }
            warnings.extend(ids.iter().map(|id| ((*id).to_owned(), error.message().into())));
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
