//! What becomes of each message of a batch: the rules, in their order, as a pure function.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kew_core::MessageId;

use crate::limits::RETRY_DELAY_SECONDS;

/// What a target said about a batch, or what is known of it when it said nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// How the invocation ended.
    pub ending: Ending,
    /// Messages that were acknowledged one by one.
    pub acks: HashSet<MessageId>,
    /// Messages to deliver again, each with its own delay if it has one.
    pub retries: HashMap<MessageId, Option<Duration>>,
    /// Whether the batch was acknowledged as a whole.
    pub ack_all: bool,
    /// Whether the batch is to be delivered again as a whole, and with which delay if it has one.
    pub retry_all: Option<Option<Duration>>,
    /// What takes the place of the consumer's retry delay for messages without a verdict of their own.
    pub implicit_delay: Option<Duration>,
}

/// How an invocation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ending {
    /// It returned.
    Returned,
    /// It threw, timed out, crashed, or was never heard of again.
    #[default]
    Failed,
    /// It never began: the target could not be reached, and nothing of the request was sent.
    Unreached,
}

/// What becomes of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is done.
    Done,
    /// It is delivered again after this delay, if it may be.
    Retry(Duration),
}

impl Report {
    /// Everything is done.
    pub fn returned() -> Self {
        Self { ending: Ending::Returned, ..Self::default() }
    }

    /// Nothing is known to be done.
    pub fn failed() -> Self {
        Self::default()
    }
}

/// What becomes of message `id`: the first rule that speaks of it holds.
///
/// An acknowledgement holds also when the invocation failed afterwards. A retry of one message that names no delay is
/// not covered by the delay of a retry of all.
pub fn judge(report: &Report, id: &MessageId, retry_delay: Duration) -> Verdict {
    if report.acks.contains(id) {
        return Verdict::Done;
    }
    if let Some(delay) = report.retries.get(id) {
        return Verdict::Retry(delay.unwrap_or(retry_delay));
    }
    if report.ack_all {
        return Verdict::Done;
    }
    if let Some(delay) = report.retry_all {
        return Verdict::Retry(delay.unwrap_or(retry_delay));
    }
    match report.ending {
        Ending::Returned => Verdict::Done,
        Ending::Failed | Ending::Unreached => Verdict::Retry(report.implicit_delay.unwrap_or(retry_delay)),
    }
}

/// A delay as a target wrote it: whole seconds within what a delay may be. A reply cannot be refused, and a
/// back-off that grows past the longest delay means the longest.
pub fn clamped_delay(seconds: f64) -> Duration {
    let longest = f64::from(RETRY_DELAY_SECONDS.max);
    // What is no number counts as none.
    let seconds = if seconds.is_nan() { 0.0 } else { seconds.clamp(0.0, longest) };
    Duration::from_secs_f64(seconds.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MessageId = MessageId([1; 16]);
    const OTHER: MessageId = MessageId([2; 16]);
    const DELAY: Duration = Duration::from_secs(300);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn verdict(report: &Report) -> Verdict {
        judge(report, &ID, DELAY)
    }

    fn acked() -> HashSet<MessageId> {
        HashSet::from([ID])
    }

    fn retried(delay: Option<Duration>) -> HashMap<MessageId, Option<Duration>> {
        HashMap::from([(ID, delay)])
    }

    #[test]
    fn rule_1_an_explicit_ack_holds_whatever_else_was_said_and_however_it_ended() {
        let report = Report {
            acks: acked(),
            retries: retried(Some(secs(9))),
            retry_all: Some(Some(secs(60))),
            ..Report::failed()
        };
        assert_eq!(verdict(&report), Verdict::Done);
        assert_eq!(verdict(&Report { acks: acked(), ..Report::returned() }), Verdict::Done);
    }

    #[test]
    fn rule_2_an_explicit_retry_holds_before_anything_said_of_the_batch() {
        let report = Report { retries: retried(Some(secs(9))), ack_all: true, ..Report::returned() };
        assert_eq!(verdict(&report), Verdict::Retry(secs(9)));
        let zero = Report { retries: retried(Some(Duration::ZERO)), ..Report::failed() };
        assert_eq!(verdict(&zero), Verdict::Retry(Duration::ZERO), "0 is a delay and no lack of one");
    }

    #[test]
    fn rule_2_an_explicit_retry_without_a_delay_takes_the_consumers_and_not_the_batchs() {
        let report = Report { retries: retried(None), retry_all: Some(Some(secs(60))), ..Report::returned() };
        assert_eq!(verdict(&report), Verdict::Retry(DELAY));
    }

    #[test]
    fn rule_3_ack_all_holds_although_the_handler_threw_later() {
        let report = Report { ack_all: true, ..Report::failed() };
        assert_eq!(verdict(&report), Verdict::Done);
    }

    #[test]
    fn rule_4_retry_all_holds_although_the_handler_returned() {
        let with = |delay| Report { retry_all: Some(delay), ..Report::returned() };
        assert_eq!(verdict(&with(Some(secs(60)))), Verdict::Retry(secs(60)));
        assert_eq!(verdict(&with(Some(Duration::ZERO))), Verdict::Retry(Duration::ZERO));
        assert_eq!(verdict(&with(None)), Verdict::Retry(DELAY));
    }

    #[test]
    fn rule_5_a_handler_that_returns_acknowledges_what_it_did_not_speak_of() {
        let report = Report {
            acks: HashSet::from([OTHER]),
            retries: HashMap::from([(OTHER, None)]),
            ..Report::returned()
        };
        assert_eq!(verdict(&report), Verdict::Done);
    }

    #[test]
    fn rule_6_what_a_failed_handler_did_not_speak_of_is_retried_with_the_consumers_delay() {
        let report = Report { acks: HashSet::from([OTHER]), ..Report::failed() };
        assert_eq!(verdict(&report), Verdict::Retry(DELAY));
        assert_eq!(judge(&report, &OTHER, DELAY), Verdict::Done);
    }

    #[test]
    fn delay_a_target_asks_for_replaces_the_consumers_for_implicit_retries_only() {
        let report = Report {
            retries: HashMap::from([(OTHER, None)]),
            implicit_delay: Some(secs(7)),
            ..Report::failed()
        };
        assert_eq!(verdict(&report), Verdict::Retry(secs(7)));
        assert_eq!(judge(&report, &OTHER, DELAY), Verdict::Retry(DELAY));
    }

    #[test]
    fn exponential_back_off_is_clamped_and_not_treated_as_a_failure() {
        let back_off = |attempts: i32| clamped_delay(30_f64.powi(attempts));
        assert_eq!([1, 2, 3, 4].map(back_off), [30, 900, 27_000, 86_400].map(secs));
        for (written, seconds) in
            [(-5.0, 0), (0.0, 0), (2.9, 2), (86_400.0, 86_400), (86_401.0, 86_400), (1e300, 86_400)]
        {
            assert_eq!(clamped_delay(written), secs(seconds), "{written}");
        }
        assert_eq!(clamped_delay(f64::NAN), secs(0));
        assert_eq!(clamped_delay(f64::INFINITY), secs(86_400));
        assert_eq!(clamped_delay(f64::NEG_INFINITY), secs(0));
    }
}
