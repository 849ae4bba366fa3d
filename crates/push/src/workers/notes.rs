//! What handlers said of their messages while they ran, in case their invocation never reports it.
//!
//! The runtime has rules for calls that contradict each other; they are applied to notes in the same order, so that an
//! invocation that is lost is judged as one that reported would have been.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kew_core::MessageId;
use kew_http::hex;
use serde::Deserialize;

use crate::verdict::{Report, clamped_delay};

/// One call of a handler, as our module writes it.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Note {
    /// The first message of the batch it was made in.
    pub(super) batch: String,
    ack: Option<String>,
    retry: Option<String>,
    ack_all: bool,
    retry_all: bool,
    delay: Option<f64>,
    /// What the handler threw, in words.
    threw: Option<String>,
    /// Said once, of no batch: whether there is a queue handler.
    pub(super) handler: Option<bool>,
}

/// All that was noted of one invocation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Notes {
    acks: HashSet<MessageId>,
    retries: HashMap<MessageId, Option<Duration>>,
    ack_all: bool,
    retry_all: Option<Option<Duration>>,
    threw: Option<String>,
}

impl Notes {
    /// What the handler threw, if it said so.
    pub(super) fn threw(&self) -> Option<&str> {
        self.threw.as_deref().filter(|threw| !threw.trim().is_empty())
    }

    /// Adds one.
    pub(super) fn take(&mut self, note: &Note) {
        let delay = note.delay.map(clamped_delay);
        if note.threw.is_some() {
            self.threw.clone_from(&note.threw);
        }
        if let Some(id) = note.ack.as_deref().and_then(message_id) {
            // The first call of a message stands, and nothing is acknowledged alone after a retry of all.
            if self.retry_all.is_none() && !self.ack_all && !self.retries.contains_key(&id) {
                self.acks.insert(id);
            }
        }
        if let Some(id) = note.retry.as_deref().and_then(message_id) {
            // A second retry replaces the delay of the first, and one after a retry of all is its message's own.
            if !self.ack_all && !self.acks.contains(&id) {
                self.retries.insert(id, delay);
            }
        }
        if note.ack_all && self.retry_all.is_none() {
            self.ack_all = true;
        }
        if note.retry_all && !self.ack_all {
            self.retry_all = Some(delay);
        }
    }

    /// What they say of an invocation that was lost.
    pub(super) fn report(self) -> Report {
        let Self { acks, retries, ack_all, retry_all, threw: _ } = self;
        Report { acks, retries, ack_all, retry_all, ..Report::failed() }
    }
}

/// A message's id from its 32 hex digits.
pub(super) fn message_id(text: &str) -> Option<MessageId> {
    hex::sixteen(text).map(MessageId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Verdict, judge};

    const ID: MessageId = MessageId([0xab; 16]);

    fn noted(calls: &[&str]) -> Verdict {
        let mut notes = Notes::default();
        for call in calls {
            let (name, delay) =
                call.split_once(' ').map_or((*call, None), |(name, delay)| (name, Some(delay)));
            let id = "ab".repeat(16);
            let mut note = match name {
                "ack" => serde_json::json!({ "ack": id }),
                "retry" => serde_json::json!({ "retry": id }),
                "ackAll" => serde_json::json!({ "ackAll": true }),
                "retryAll" => serde_json::json!({ "retryAll": true }),
                other => panic!("{other} is no call"),
            };
            if let Some(delay) = delay {
                note["delay"] = delay.parse::<f64>().expect("a delay is a number").into();
            }
            notes.take(&serde_json::from_value(note).expect("the note has all fields"));
        }
        judge(&notes.report(), &ID, Duration::from_secs(7))
    }

    #[test]
    fn calls_that_contradict_each_other_are_judged_as_the_runtime_judges_them() {
        let again = |seconds| Verdict::Retry(Duration::from_secs(seconds));
        for (calls, verdict) in [
            (&[][..], again(7)),
            (&["ack"], Verdict::Done),
            (&["retry"], again(7)),
            (&["retry 5"], again(5)),
            (&["retry 0"], again(0)),
            (&["ack", "retry 5"], Verdict::Done),
            (&["retry 5", "ack"], again(5)),
            (&["ack", "retryAll 9"], Verdict::Done),
            (&["retry 5", "ackAll"], again(5)),
            (&["retry 5", "retryAll 9"], again(5)),
            (&["ackAll", "retryAll 9"], Verdict::Done),
            (&["retryAll 9", "ackAll"], again(9)),
            (&["retryAll 9", "ack"], again(9)),
            (&["retryAll 9", "retry 1"], again(1)),
            (&["ackAll", "retry 1"], Verdict::Done),
            (&["retry 5", "retry 6"], again(6)),
            (&["retry 5", "retry"], again(7)),
            (&["retryAll"], again(7)),
            (&["retry -5"], again(0)),
            (&["retry 1000000"], again(86_400)),
        ] {
            assert_eq!(noted(calls), verdict, "{calls:?}");
        }
    }

    #[test]
    fn ids_that_are_none_are_passed_over() {
        for id in ["", "ab", "zz", &"g".repeat(32), &"a".repeat(33)] {
            assert_eq!(message_id(id), None, "{id}");
        }
        assert_eq!(message_id(&"AB".repeat(16)), Some(ID));
    }
}
