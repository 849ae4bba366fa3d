//! `/api/v1/push/attempts`: what came of the batches that were brought to consumers lately, the newest first, and which
//! consumers cannot be reached.

use kew_http::{HeaderValue, Reply, Request, StatusCode, form};
use serde_json::{Value, json};

use crate::board::{Board, Phase};
use crate::sources::{PushAttempt, PushCircuit};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// More than a query has.
const PAIRS_MAX: usize = 20;
/// Attempts of a reply that was asked for no number, and the most.
const MAX_USUALLY: usize = 100;
const MAX: usize = 1_000;
const OUTCOMES: [&str; 3] = ["ok", "failed", "unreached"];

/// Which of them are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    queue: Option<String>,
    consumer: Option<String>,
    outcome: Option<String>,
    max: usize,
}

/// Shows them.
pub(crate) fn answer(board: &Board, request: &Request) -> Result<Reply, Reply> {
    let wanted = Wanted::read(request.uri.query().unwrap_or_default());
    let wanted = wanted.map_err(|why| Reply::text(StatusCode::BAD_REQUEST, &why))?;
    let Phase::Serving(running) = board.phase() else {
        return Err(Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the server is not serving"));
    };
    let latest = (running.latest_pushes)();
    let shown: Vec<Value> =
        latest.iter().filter(|attempt| wanted.has(attempt)).take(wanted.max).map(shown).collect();
    let circuits = (running.open_circuits)();
    let circuits: Vec<Value> =
        circuits.iter().filter(|open| wanted.has_circuit(open)).take(wanted.max).map(shown_circuit).collect();
    Ok(Reply::new(StatusCode::OK, JSON, json!({ "attempts": shown, "circuits": circuits }).to_string()))
}

impl Wanted {
    fn read(query: &str) -> Result<Self, String> {
        let pairs = form::pairs(query.as_bytes(), PAIRS_MAX).map_err(|error| error.to_string())?;
        let text =
            |name: &str| form::first(&pairs, name).filter(|text| !text.is_empty()).map(ToOwned::to_owned);
        let outcome = text("outcome");
        if let Some(other) = outcome.as_deref().filter(|outcome| !OUTCOMES.contains(outcome)) {
            return Err(format!("outcome is ok, failed or unreached, and not {other:?}"));
        }
        let max = match text("max") {
            None => MAX_USUALLY,
            Some(max) => {
                let number = max.parse().ok().filter(|number| (1..=MAX).contains(number));
                number.ok_or_else(|| format!("max is a whole number from 1 to {MAX}, and not {max:?}"))?
            }
        };
        Ok(Self { queue: text("queue"), consumer: text("consumer"), outcome, max })
    }

    fn has_circuit(&self, open: &PushCircuit) -> bool {
        self.queue.as_deref().is_none_or(|queue| queue == &*open.queue.name)
            && self.consumer.as_deref().is_none_or(|consumer| consumer == open.consumer)
    }

    fn has(&self, attempt: &PushAttempt) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.queue, &attempt.queue.name)
            && is(&self.consumer, &attempt.consumer)
            && is(&self.outcome, attempt.outcome)
    }
}

fn shown(attempt: &PushAttempt) -> Value {
    json!({
        "at_ms": attempt.at.0,
        "account": attempt.queue.account.to_string(),
        "region": &*attempt.queue.region,
        "queue": &*attempt.queue.name,
        "consumer": attempt.consumer,
        "target": attempt.target,
        "batch": attempt.batch,
        "messages": attempt.messages,
        "acked": attempt.acked,
        "outcome": attempt.outcome,
        // To the hundredth of a millisecond.
        "took_ms": (attempt.took.as_secs_f64() * 100_000.0).round() / 100.0,
        "status": attempt.status,
        "error": attempt.error,
    })
}

fn shown_circuit(open: &PushCircuit) -> Value {
    json!({
        "state": "open",
        "account": open.queue.account.to_string(),
        "region": &*open.queue.region,
        "queue": &*open.queue.name,
        "consumer": open.consumer,
        "target": open.target,
        "since_ms": open.since.0,
        "tries": open.tries,
        "pause_ms": u64::try_from(open.pause.as_millis()).unwrap_or(u64::MAX),
        "error": open.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::{AccountId, QueueKey, Timestamp};
    use std::time::Duration;

    fn attempt(queue: &str, outcome: &'static str) -> PushAttempt {
        PushAttempt {
            at: Timestamp(7),
            queue: QueueKey::new(AccountId(1), "here", queue),
            consumer: "c1".to_owned(),
            target: "worker w".to_owned(),
            batch: "b1".to_owned(),
            messages: 2,
            acked: 1,
            outcome,
            took: Duration::from_micros(1_234),
            status: Some(200),
            error: None,
        }
    }

    #[test]
    fn attempts_are_picked_by_queue_consumer_and_outcome() {
        for (query, expected) in [
            ("", [true, true, true]),
            ("queue=a", [true, true, false]),
            ("queue=a&outcome=failed", [false, true, false]),
            ("outcome=ok&consumer=c1", [true, false, true]),
            ("consumer=c2", [false, false, false]),
        ] {
            let wanted = Wanted::read(query).expect("the queries of this table are valid");
            let all = [attempt("a", "ok"), attempt("a", "failed"), attempt("b", "ok")];
            assert_eq!(all.each_ref().map(|attempt| wanted.has(attempt)), expected, "{query}");
        }
        assert_eq!(Wanted::read("").map(|wanted| wanted.max), Ok(MAX_USUALLY));
        for wrong in ["max=0", "max=1001", "max=all", "outcome=good"] {
            assert!(Wanted::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_open_circuit_is_shown_with_everything_that_is_known_of_it() {
        let open = PushCircuit {
            queue: QueueKey::new(AccountId(1), "here", "a"),
            consumer: "c1".to_owned(),
            target: "webhook w".to_owned(),
            since: Timestamp(7),
            tries: 3,
            pause: Duration::from_micros(399_999),
            error: "cannot connect".to_owned(),
        };
        let expected = json!({
            "state": "open", "account": "000000000001", "region": "here", "queue": "a", "consumer": "c1",
            "target": "webhook w", "since_ms": 7, "tries": 3, "pause_ms": 399, "error": "cannot connect",
        });
        assert_eq!(shown_circuit(&open), expected);
        for (query, expected) in [("queue=a&outcome=ok", true), ("queue=b", false), ("consumer=c2", false)] {
            assert_eq!(
                Wanted::read(query).expect("the queries of this table are valid").has_circuit(&open),
                expected,
                "{query}"
            );
        }
    }

    #[test]
    fn an_attempt_is_shown_with_everything_that_is_known_of_it() {
        let expected = json!({
            "at_ms": 7, "account": "000000000001", "region": "here", "queue": "a", "consumer": "c1",
            "target": "worker w", "batch": "b1", "messages": 2, "acked": 1, "outcome": "ok", "took_ms": 1.23,
            "status": 200, "error": null,
        });
        assert_eq!(shown(&attempt("a", "ok")), expected);
    }
}
