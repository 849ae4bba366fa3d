//! What SQS keeps with a queue beside the settings that the laws look at, one document each.
//!
//! | key | bytes |
//! |---|---|
//! | `policy` | the access policy's text, as it was sent |
//! | `redrive-allow` | the RedriveAllowPolicy's text, as it was sent |
//! | `encryption` | a JSON object, see [`Encryption`] |
//! | `throughput` | `perMessageGroupId`, or no document |
//! | `tags`, `tags-more` | JSON objects of at most 25 tags each, in the order of their keys |
//!
//! Whatever is at its default has no document, so a plain queue has none at all.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use kew_core::{DocumentKey, Queue};
use serde::{Deserialize, Serialize};

/// A document's new bytes, or that it goes.
pub(crate) type Write = (DocumentKey, Option<Bytes>);

/// Tags by key.
pub(crate) type Tags = BTreeMap<String, String>;

/// Tags of one document: fifty of the longest would not fit into one.
const TAGS_PER_DOCUMENT: usize = 25;

/// The keys of our documents, made once.
struct Keys {
    policy: DocumentKey,
    redrive_allow: DocumentKey,
    encryption: DocumentKey,
    throughput: DocumentKey,
    tags: [DocumentKey; 2],
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let owner: Arc<str> = "sqs".into();
    let key = |key: &str| DocumentKey { owner: Arc::clone(&owner), key: key.into() };
    Keys {
        policy: key("policy"),
        redrive_allow: key("redrive-allow"),
        encryption: key("encryption"),
        throughput: key("throughput"),
        tags: [key("tags"), key("tags-more")],
    }
});

/// How a queue is encrypted, as far as its attributes say: no key service is ever asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Encryption {
    /// SqsManagedSseEnabled.
    pub(crate) managed: bool,
    /// KmsMasterKeyId.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// KmsDataKeyReusePeriodSeconds, once it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reuse_seconds: Option<u32>,
}

impl Encryption {
    /// KmsDataKeyReusePeriodSeconds of a queue on which it was never set.
    const REUSE_SECONDS: u32 = 300;

    /// The seconds that a key is reused for, set or not.
    pub(crate) fn reuse_in_force(&self) -> u32 {
        self.reuse_seconds.unwrap_or(Self::REUSE_SECONDS)
    }
}

impl Default for Encryption {
    fn default() -> Self {
        Self { managed: true, key: None, reuse_seconds: None }
    }
}

/// The access policy's text.
pub(crate) fn policy(queue: &Queue) -> Option<&str> {
    text(queue, &KEYS.policy)
}

/// Another access policy.
pub(crate) fn write_policy(text: Option<&str>) -> Write {
    write_text(&KEYS.policy, text)
}

/// The text that says which queues may send their dead letters here.
pub(crate) fn redrive_allow(queue: &Queue) -> Option<&str> {
    text(queue, &KEYS.redrive_allow)
}

/// Another such text.
pub(crate) fn write_redrive_allow(text: Option<&str>) -> Write {
    write_text(&KEYS.redrive_allow, text)
}

/// Whether FifoThroughputLimit is `perMessageGroupId`.
pub(crate) fn throughput_per_group(queue: &Queue) -> bool {
    text(queue, &KEYS.throughput).is_some()
}

/// Another FifoThroughputLimit.
pub(crate) fn write_throughput(per_group: bool) -> Write {
    write_text(&KEYS.throughput, per_group.then_some("perMessageGroupId"))
}

/// How the queue is encrypted.
pub(crate) fn encryption(queue: &Queue) -> Encryption {
    let text = text(queue, &KEYS.encryption);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Another encryption.
pub(crate) fn write_encryption(encryption: &Encryption) -> Write {
    let json = (*encryption != Encryption::default()).then(|| serde_json::json!(encryption).to_string());
    write_text(&KEYS.encryption, json.as_deref())
}

/// The queue's tags.
pub(crate) fn tags(queue: &Queue) -> Tags {
    let mut tags = Tags::new();
    for key in &KEYS.tags {
        if let Some(more) = text(queue, key).and_then(|text| serde_json::from_str::<Tags>(text).ok()) {
            tags.extend(more);
        }
    }
    tags
}

/// Other tags; at most fifty.
pub(crate) fn write_tags(tags: &Tags) -> [Write; 2] {
    let mut pairs = tags.iter();
    KEYS.tags.each_ref().map(|key| {
        let some: BTreeMap<_, _> = pairs.by_ref().take(TAGS_PER_DOCUMENT).collect();
        let json = (!some.is_empty()).then(|| serde_json::json!(some).to_string());
        write_text(key, json.as_deref())
    })
}

fn text<'a>(queue: &'a Queue, key: &DocumentKey) -> Option<&'a str> {
    if queue.documents.is_empty() {
        return None;
    }
    std::str::from_utf8(queue.documents.get(key)?).ok()
}

fn write_text(key: &DocumentKey, text: Option<&str>) -> Write {
    (key.clone(), text.map(|text| Bytes::copy_from_slice(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::queue::DOCUMENT_BYTES_MAX;
    use kew_core::{AccountId, Policy, QueueId, QueueKey, Timestamp};

    fn queue(writes: impl IntoIterator<Item = Write>) -> Queue {
        let documents = writes.into_iter().filter_map(|(key, bytes)| Some((key, bytes?)));
        Queue {
            id: QueueId(1),
            key: QueueKey::new(AccountId(0), "r", "q"),
            policy: Policy::standard(),
            documents: documents.collect(),
            version: 1,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        }
    }

    #[test]
    fn defaults_take_no_document() {
        let writes = [
            write_policy(None),
            write_redrive_allow(None),
            write_throughput(false),
            write_encryption(&Encryption::default()),
        ];
        let queue = queue(writes.into_iter().chain(write_tags(&Tags::new())));
        assert!(queue.documents.is_empty());
        assert_eq!(
            (policy(&queue), redrive_allow(&queue), throughput_per_group(&queue)),
            (None, None, false)
        );
        assert_eq!((encryption(&queue), tags(&queue)), (Encryption::default(), Tags::new()));
    }

    #[test]
    fn what_is_written_reads_back() {
        let other = Encryption { managed: false, key: Some("alias/k".to_owned()), reuse_seconds: Some(60) };
        let writes = [
            write_policy(Some("{}")),
            write_redrive_allow(Some("{ }")),
            write_throughput(true),
            write_encryption(&other),
        ];
        let queue = queue(writes);
        assert_eq!(
            (policy(&queue), redrive_allow(&queue), throughput_per_group(&queue)),
            (Some("{}"), Some("{ }"), true)
        );
        assert_eq!(encryption(&queue), other);
    }

    #[test]
    fn fifty_of_the_longest_tags_fit() {
        let longest =
            |number: usize| ("\u{10ffff}".repeat(126) + &format!("{number:02}"), "\u{1}".repeat(256));
        let all: Tags = (0..50).map(longest).collect();
        let writes = write_tags(&all);
        for (key, bytes) in &writes {
            assert!(bytes.as_ref().is_some_and(|bytes| bytes.len() <= DOCUMENT_BYTES_MAX), "{key:?}");
        }
        assert_eq!(tags(&queue(writes)), all);
    }
}
