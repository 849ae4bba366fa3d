//! What a webhook's reply means for each message of its batch.
//!
//! A reply with a good status is read strictly: one that cannot be understood is a failed batch, because nothing in it
//! can be relied on. One with another status is a failed batch already; what it says of single messages still holds.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use kew_core::{Failure, MessageId, Timestamp};
use kew_http::client::Answer;
use kew_http::{date, hex};
use serde::Deserialize;

use crate::batch::Batch;
use crate::delivered::Delivered;
use crate::notice::StrangeIds;
use crate::verdict::{Ending, Report, clamped_delay};

/// Maximum characters of a strange id that are shown.
const EXAMPLE_CHARS_MAX: usize = 64;

/// What a whole reply means for its batch, read `now` by the machine's clock.
pub(super) fn judge(answer: &Answer, batch: &Batch, now: Timestamp) -> Delivered {
    let is_good = answer.status.is_success();
    let delivered = if is_good { returned(&answer.body, batch) } else { refused(answer, batch, now) };
    Delivered { status: Some(answer.status.as_u16()), ..delivered }
}

fn returned(body: &[u8], batch: &Batch) -> Delivered {
    let read = |said: Said| Ok((said.strange_ids(batch), said.report()?));
    let (strange_ids, report) = match Said::read(body).and_then(read) {
        Ok(read) => read,
        Err(reason) => return Delivered::misunderstood(format!("the reply cannot be understood: {reason}")),
    };
    let error = (report.ending == Ending::Failed).then(|| "the reply says that the batch failed".to_owned());
    Delivered { report, hold: None, alone: Vec::new(), strange_ids, status: None, error, why: Failure::Threw }
}

fn refused(answer: &Answer, batch: &Batch, now: Timestamp) -> Delivered {
    // What is no verdict, like the page of a proxy, is passed over.
    let said = Said::read(&answer.body).unwrap_or_default();
    let strange_ids = said.strange_ids(batch);
    let hold = match answer.status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => retry_after(&answer.headers, now),
        _ => None,
    };
    let told = if answer.status.is_redirection() {
        format!("the reply is a redirect ({}), and those are not followed", answer.status)
    } else {
        format!("the reply is {}", answer.status)
    };
    let report = Report { ending: Ending::Failed, implicit_delay: hold, ..said.explicit() };
    let error = Some(told);
    Delivered { report, hold, alone: Vec::new(), strange_ids, status: None, error, why: Failure::Status }
}

/// How long the target wants nothing: seconds, or until a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number are more seconds than any delay has.
        return Some(clamped_delay(text.parse().unwrap_or(f64::INFINITY)));
    }
    let until = date::parse_http_date(text)?;
    // Rounded up: not a moment before that date.
    Some(clamped_delay(until.since(now).as_secs_f64().ceil()))
}

/// A verdict as it is written. All of it is optional.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    acks: Option<Vec<String>>,
    retries: Option<Vec<Retry>>,
    ack_all: Option<bool>,
    retry_all: RetryAll,
    outcome: Option<String>,
}

#[derive(Deserialize)]
struct Retry {
    id: String,
    #[serde(default)]
    delay_seconds: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RetryAll {
    Plainly(bool),
    With {
        #[serde(default)]
        delay_seconds: Option<f64>,
    },
    Null,
}

impl Default for RetryAll {
    fn default() -> Self {
        Self::Plainly(false)
    }
}

impl Said {
    fn read(body: &[u8]) -> Result<Self, String> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err("it is not a JSON object".to_owned());
        }
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }

    /// The ids it names that are not of the batch: they settle nothing.
    fn strange_ids(&self, batch: &Batch) -> Option<StrangeIds> {
        let known: HashSet<MessageId> = batch.messages.iter().map(|leased| leased.message.id).collect();
        let retries = self.retries.iter().flatten().map(|retry| &retry.id);
        let named = self.acks.iter().flatten().chain(retries);
        let mut strange = named.filter(|id| message_id(id).is_none_or(|id| !known.contains(&id)));
        let example = strange.next()?.chars().take(EXAMPLE_CHARS_MAX).collect();
        Some(StrangeIds { count: strange.count().saturating_add(1), example })
    }

    /// What it says of single messages.
    fn explicit(self) -> Report {
        let acks: HashSet<MessageId> = self.acks.iter().flatten().filter_map(|id| message_id(id)).collect();
        let retries: HashMap<MessageId, Option<Duration>> = self
            .retries
            .iter()
            .flatten()
            .filter_map(|retry| Some((message_id(&retry.id)?, retry.delay_seconds.map(clamped_delay))))
            .collect();
        Report { acks, retries, ..Report::returned() }
    }

    fn report(self) -> Result<Report, String> {
        let retry_all = match &self.retry_all {
            RetryAll::Plainly(false) | RetryAll::Null => None,
            RetryAll::Plainly(true) => Some(None),
            RetryAll::With { delay_seconds } => Some(delay_seconds.map(clamped_delay)),
        };
        let ack_all = self.ack_all.unwrap_or_default();
        if ack_all && retry_all.is_some() {
            return Err("it has both ack_all and retry_all".to_owned());
        }
        let ending = match self.outcome.as_deref() {
            None | Some("ok") => Ending::Returned,
            Some("exception") => Ending::Failed,
            Some(other) => return Err(format!("its outcome is neither ok nor exception: {other:?}")),
        };
        Ok(Report { ending, ack_all, retry_all, ..self.explicit() })
    }
}

/// The id in 32 hex digits. What is no id names no message.
fn message_id(text: &str) -> Option<MessageId> {
    hex::sixteen(text).map(MessageId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::{batch, leased};
    use crate::verdict::{Verdict, judge as verdict};
    use bytes::Bytes;
    use http::HeaderValue;
    use kew_core::ContentType;

    const A: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
    const B: &str = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
    const NOW: Timestamp = Timestamp(784_111_777_000);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn reply(status: u16, body: &str) -> Answer {
        let status = StatusCode::from_u16(status).expect("the status is between 100 and 999");
        Answer { status, headers: HeaderMap::new(), body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    /// What a reply means for a batch of A and B.
    fn judge(answer: &Answer, now: Timestamp) -> Delivered {
        let message = |id: &str| {
            let mut leased = leased(ContentType::Text, b"hi");
            leased.message.id = message_id(id).expect("the id has 32 hexadecimal digits");
            leased
        };
        super::judge(answer, &batch([A, B].map(message).into()), now)
    }

    /// What becomes of A and B, with a retry delay of five minutes.
    fn fates(delivered: &Delivered) -> [Verdict; 2] {
        [A, B].map(|id| {
            verdict(&delivered.report, &message_id(id).expect("the id has 32 hexadecimal digits"), secs(300))
        })
    }

    const DONE: Verdict = Verdict::Done;
    const fn again(seconds: u64) -> Verdict {
        Verdict::Retry(Duration::from_secs(seconds))
    }

    #[test]
    fn good_status_with_nothing_in_particular_acknowledges_everything() {
        for (status, body) in [
            (200, ""),
            (204, ""),
            (202, "{}"),
            (200, " \n"),
            (200, r#"{"outcome":"ok"}"#),
            (200, r#"{"outcome":null,"retry_all":null,"colour":"red"}"#),
        ] {
            let delivered = judge(&reply(status, body), NOW);
            assert_eq!(fates(&delivered), [DONE, DONE], "{status} {body}");
            assert_eq!((delivered.ending(), delivered.error), (Ending::Returned, None), "{body}");
        }
    }

    #[test]
    fn verdicts_are_read_message_by_message() {
        for (body, expected) in [
            (format!(r#"{{"acks":["{A}"],"outcome":"exception"}}"#), [DONE, again(300)]),
            (format!(r#"{{"retries":[{{"id":"{A}","delay_seconds":60}}]}}"#), [again(60), DONE]),
            (format!(r#"{{"retries":[{{"id":"{A}","delay_seconds":0}}]}}"#), [again(0), DONE]),
            (format!(r#"{{"retries":[{{"id":"{A}"}}]}}"#), [again(300), DONE]),
            (format!(r#"{{"retries":[{{"id":"{A}","delay_seconds":810000}}]}}"#), [again(86_400), DONE]),
            (format!(r#"{{"retries":[{{"id":"{A}","delay_seconds":-1}}]}}"#), [again(0), DONE]),
            (
                format!(r#"{{"acks":["{A}"],"retries":[{{"id":"{A}"}}],"retry_all":true}}"#),
                [DONE, again(300)],
            ),
            (format!(r#"{{"acks":["{A}"],"retry_all":{{"delay_seconds":7}}}}"#), [DONE, again(7)]),
            (
                format!(r#"{{"retries":[{{"id":"{A}"}}],"ack_all":true,"outcome":"exception"}}"#),
                [again(300), DONE],
            ),
            (r#"{"retry_all":{}}"#.to_owned(), [again(300), again(300)]),
            (
                format!(r#"{{"acks":["{}","unknown"],"retry_all":true}}"#, A.to_uppercase()),
                [DONE, again(300)],
            ),
        ] {
            assert_eq!(fates(&judge(&reply(200, &body), NOW)), expected, "{body}");
        }
    }

    #[test]
    fn ids_that_are_not_of_the_batch_are_counted_and_one_of_them_is_shown() {
        let other = "0c".repeat(16);
        let long = "é".repeat(1_000);
        for (body, expected) in [
            (String::new(), None),
            (format!(r#"{{"acks":["{A}"],"retries":[{{"id":"{}"}}]}}"#, B.to_uppercase()), None),
            (format!(r#"{{"acks":["{A}","{other}"]}}"#), Some((1, other.clone()))),
            (format!(r#"{{"acks":["","{other}"],"retries":[{{"id":"x"}}]}}"#), Some((3, String::new()))),
            (format!(r#"{{"retries":[{{"id":"{B}"}},{{"id":"{long}"}}]}}"#), Some((1, "é".repeat(64)))),
        ] {
            for status in [200, 500] {
                let found = judge(&reply(status, &body), NOW).strange_ids;
                assert_eq!(found.map(|ids| (ids.count, ids.example)), expected, "{status} {body}");
            }
        }
    }

    #[test]
    fn a_good_status_with_nonsense_is_a_failed_batch() {
        for body in [
            "ok",
            "[]",
            "null",
            "{",
            r#"{"acks":"all"}"#,
            r#"{"acks":[1]}"#,
            r#"{"retries":[{}]}"#,
            r#"{"retry_all":"yes"}"#,
            r#"{"ack_all":true,"retry_all":true}"#,
            r#"{"ack_all":true,"retry_all":{"delay_seconds":1}}"#,
            r#"{"outcome":"fine"}"#,
        ] {
            let delivered = judge(&reply(200, body), NOW);
            assert_eq!(fates(&delivered), [again(300), again(300)], "{body}");
            assert!(delivered.error.is_some(), "{body}");
        }
    }

    #[test]
    fn another_status_fails_the_batch_but_what_it_says_of_single_messages_holds() {
        for (status, body, expected) in [
            (500, String::new(), [again(300), again(300)]),
            (500, "<html>".to_owned(), [again(300), again(300)]),
            (404, "{}".to_owned(), [again(300), again(300)]),
            (500, format!(r#"{{"acks":["{A}"]}}"#), [DONE, again(300)]),
            (500, format!(r#"{{"retries":[{{"id":"{A}","delay_seconds":9}}]}}"#), [again(9), again(300)]),
            (500, r#"{"ack_all":true,"outcome":"ok"}"#.to_owned(), [again(300), again(300)]),
        ] {
            let delivered = judge(&reply(status, &body), NOW);
            assert_eq!(fates(&delivered), expected, "{status} {body}");
            assert_eq!((delivered.ending(), delivered.status), (Ending::Failed, Some(status)));
        }
    }

    #[test]
    fn redirects_are_failures_and_say_so() {
        for status in [301, 302, 303, 307, 308] {
            let delivered = judge(&reply(status, ""), NOW);
            assert_eq!(fates(&delivered), [again(300), again(300)]);
            assert!(delivered.error.is_some_and(|error| error.contains("not followed")));
        }
    }

    #[test]
    fn retry_after_of_busy_targets_replaces_the_retry_delay_and_holds_the_next_batch() {
        for (status, text, hold) in [
            (429, "7", Some(7)),
            (503, "0", Some(0)),
            (503, "99999999999999999999999", Some(86_400)),
            (429, "Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            (429, "Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            (429, "soon", None),
            (429, "-1", None),
            (500, "7", None),
        ] {
            let mut answer = reply(status, "");
            answer.headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            let delivered = judge(&answer, NOW);
            assert_eq!(delivered.hold, hold.map(secs), "{status} {text}");
            let expected = again(hold.unwrap_or(300));
            assert_eq!(fates(&delivered), [expected, expected], "{status} {text}");
        }
    }
}
