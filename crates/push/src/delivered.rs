//! What comes back from where a batch was brought.

use std::time::Duration;

use kew_core::event::Words;
use kew_core::{Failure, MessageId};

use crate::batch::Batch;
use crate::notice::StrangeIds;
use crate::verdict::{Ending, Report};

/// Maximum bytes of the text about a failure.
const ERROR_CHARS_MAX: usize = 500;

/// What came of bringing a batch somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Delivered {
    /// What was said of the messages.
    pub(crate) report: Report,
    /// How long the target wants nothing more, in engine time.
    pub(crate) hold: Option<Duration>,
    /// Messages to bring one by one next time: one of them may have failed the others.
    pub(crate) alone: Vec<MessageId>,
    /// Ids in the verdict that are not of the batch, if there are any.
    pub(crate) strange_ids: Option<StrangeIds>,
    /// The status of the reply, where there was one.
    pub(crate) status: Option<u16>,
    /// What went wrong, for people.
    pub(crate) error: Option<String>,
    /// What kind of failure it is, where neither the status nor what the target asked for says so.
    pub(crate) why: Failure,
}

impl Delivered {
    /// A failed batch of which nothing is known to be done.
    pub(crate) fn failed(error: String) -> Self {
        // It may quote what the target said, and is remembered.
        let error = error.chars().take(ERROR_CHARS_MAX).collect();
        Self {
            report: Report::failed(),
            hold: None,
            alone: Vec::new(),
            strange_ids: None,
            status: None,
            error: Some(error),
            why: Failure::Threw,
        }
    }

    /// The target did not answer in time.
    pub(crate) fn timed_out(error: String) -> Self {
        Self { why: Failure::TimedOut, ..Self::failed(error) }
    }

    /// What the target answered is no answer.
    pub(crate) fn misunderstood(error: String) -> Self {
        Self { why: Failure::BadReply, ..Self::failed(error) }
    }

    /// The target could not be reached, and heard of nothing.
    pub(crate) fn unreached(error: String) -> Self {
        let failed = Self::failed(error);
        Self { report: Report { ending: Ending::Unreached, ..failed.report }, ..failed }
    }

    /// The same, when any one message of the batch is why: each comes alone next time. One that was alone is why, and
    /// stays so.
    pub(crate) fn apart(mut self, batch: &Batch) -> Self {
        self.alone = batch.messages.iter().map(|leased| leased.message.id).collect();
        self
    }

    /// Why a message of the batch is delivered again, for the history.
    pub(crate) fn failure_of(&self, id: &MessageId) -> (Failure, Words) {
        let report = &self.report;
        let words = || Words::new(self.error.as_deref().unwrap_or_default());
        let is_asked_for = report.retries.contains_key(id) || report.retry_all.is_some();
        match (report.ending, self.status) {
            (Ending::Unreached, _) => (Failure::Unreachable, words()),
            _ if is_asked_for => (Failure::Retried, Words::default()),
            (_, Some(status)) if !(200..300).contains(&status) => {
                (Failure::Status, Words::new(&status.to_string()))
            }
            (_, _) => (self.why, words()),
        }
    }

    pub(crate) fn ending(&self) -> Ending {
        self.report.ending
    }
}

#[cfg(test)]
mod tests {
    use kew_core::ContentType;

    use super::*;
    use crate::batch::tests::{batch, leased};

    #[test]
    fn messages_come_apart_next_time_and_one_that_was_alone_stays_so() {
        let message = |id: u8| {
            let mut leased = leased(ContentType::Json, b"x");
            leased.message.id = MessageId([id; 16]);
            leased
        };
        let apart = |ids: &[u8]| {
            let batch = batch(ids.iter().copied().map(message).collect());
            Delivered::failed("it was too deep".to_owned()).apart(&batch).alone
        };
        assert_eq!(apart(&[1, 2]), [MessageId([1; 16]), MessageId([2; 16])]);
        assert_eq!(apart(&[1]), [MessageId([1; 16])]);
    }
}
