//! How many messages a queue holds, in the two spellings there are: over REST, and to a producer binding.

use kew_core::Counts;
use serde_json::{Value, json};

/// What is not acknowledged: waiting, delayed or in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Metrics {
    pub(crate) backlog_count: u64,
    backlog_bytes: u64,
    /// Zero when there is none.
    oldest_message_ms: u64,
    delayed_count: u64,
}

impl Metrics {
    /// The figures of these counts.
    pub(crate) fn of(counts: &Counts) -> Self {
        Self {
            backlog_count: counts.stored(),
            backlog_bytes: counts.body_bytes,
            oldest_message_ms: counts.oldest_sent_at.map_or(0, |at| at.0),
            delayed_count: counts.delayed,
        }
    }

    /// Over REST, beside a result.
    pub(crate) fn push_rest(&self, body: &mut Vec<u8>) {
        let Self { backlog_count, backlog_bytes, oldest_message_ms, .. } = self;
        body.extend_from_slice(
            format!(
                r#"{{"backlog_count":{backlog_count},"backlog_bytes":{backlog_bytes},"oldest_message_timestamp_ms":{oldest_message_ms}}}"#
            )
            .as_bytes(),
        );
    }

    /// Over REST, asked for: with how many are delayed, which is ours.
    pub(crate) fn rest(&self) -> Value {
        json!({
            "backlog_count": self.backlog_count,
            "backlog_bytes": self.backlog_bytes,
            "oldest_message_timestamp_ms": self.oldest_message_ms,
            "delayed_count": self.delayed_count,
        })
    }

    /// To a producer binding.
    pub(crate) fn binding(&self) -> Value {
        json!({
            "backlogCount": self.backlog_count,
            "backlogBytes": self.backlog_bytes,
            "oldestMessageTimestamp": self.oldest_message_ms,
        })
    }
}
