//! A batch on its way: messages that were leased together, and what its target gets beside them.

use std::sync::Arc;
use std::time::Duration;

use kew_core::outcome::Leased;
use kew_core::{Counts, QueueKey};
use kew_http::hex;
use serde::Serialize;

use crate::traced::Traced;

/// Batches that are under way at the end get so long, and after them what else runs in Workers.
pub(crate) const FINISH_WITHIN: Duration = Duration::from_secs(30);

/// A batch of one queue's messages; never empty.
#[derive(Debug)]
pub struct Batch {
    /// Names this delivery, and no other.
    pub id: [u8; 16],
    /// The queue they are of.
    pub queue: QueueKey,
    /// The messages, leased.
    pub messages: Vec<Leased>,
    /// What the queue held when they were leased.
    pub counts: Counts,
    /// Its place in a trace, if it has one.
    pub trace: Option<Traced>,
}

impl Batch {
    /// Its id in 32 hex digits.
    pub fn id_text(&self) -> String {
        hex_text(&self.id)
    }

    /// What its target gets to know of the queue.
    pub(crate) fn metadata(&self) -> Metadata {
        let counts = &self.counts;
        let metrics = Metrics {
            backlog_count: counts.stored(),
            backlog_bytes: counts.body_bytes,
            oldest_message_timestamp: counts.oldest_sent_at.map_or(0, |at| at.0),
        };
        Metadata { metrics }
    }

    /// The queue's name.
    pub fn queue_name(&self) -> &Arc<str> {
        &self.queue.name
    }
}

/// What is sent beside the messages, by its names on the wire.
#[derive(Serialize)]
pub(crate) struct Metadata {
    metrics: Metrics,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    backlog_count: u64,
    backlog_bytes: u64,
    oldest_message_timestamp: u64,
}

/// Sixteen bytes as 32 hex digits.
pub(crate) fn hex_text(bytes: &[u8; 16]) -> String {
    hex::hash(bytes).iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bytes::Bytes;
    use kew_core::{
        AccountId, Content, ContentType, LeaseToken, MessageId, QueueId, Sequence, State, Timestamp,
    };

    pub(crate) fn leased(content_type: ContentType, body: &'static [u8]) -> Leased {
        let message = kew_core::Message {
            queue: QueueId(1),
            sequence: Sequence(1),
            id: MessageId([0xab; 16]),
            content: Content { content_type, body: Bytes::from_static(body), annotations: Bytes::new() },
            group: None,
            deduplication: None,
            sent_at: Timestamp(7),
            expires_at: None,
            attempts: 2,
            first_leased_at: None,
            origin: None,
            state: State::Ready,
        };
        let token = LeaseToken { queue: QueueId(1), sequence: Sequence(1), nonce: 1, mac: 1 };
        Leased { message, token, until: Timestamp::NEVER }
    }

    pub(crate) fn batch(messages: Vec<Leased>) -> Batch {
        let counts =
            Counts { visible: 2, body_bytes: 30, oldest_sent_at: Some(Timestamp(5)), ..Counts::default() };
        let queue = QueueKey::new(AccountId(0), "here", "orders");
        Batch { id: [0x0c; 16], queue, messages, counts, trace: None }
    }
}
