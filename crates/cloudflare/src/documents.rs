//! What this dialect keeps with a queue beside its consumer: that it was made here, where it must stay, and when it was
//! last emptied.
//!
//! It is a JSON document of this room; one that cannot be read, which only another program can have written, counts as
//! one that says nothing.

use bytes::Bytes;
use kew_core::{DocumentKey, Queue, Timestamp};
use serde::{Deserialize, Serialize};

const OWNER: &str = "cloudflare";
const KEY: &str = "queue";

/// The document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    /// Whether the queue was made in this dialect, whose consumers drop what failed too often.
    pub(crate) made_here: bool,
    /// Where its data must stay; kept and shown, without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jurisdiction: Option<String>,
    /// When it was last emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) purged_at_ms: Option<u64>,
}

impl Document {
    /// Of a queue that is made here.
    pub(crate) fn of_new_queue(jurisdiction: Option<String>) -> Self {
        Self { made_here: true, jurisdiction, purged_at_ms: None }
    }

    /// A queue's document; of a queue that another dialect made, one that says nothing.
    pub(crate) fn of(queue: &Queue) -> Self {
        let json = queue.documents.get(&DocumentKey::new(OWNER, KEY));
        json.and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default()
    }

    /// When the queue was last emptied.
    pub(crate) fn purged_at(&self) -> Option<Timestamp> {
        self.purged_at_ms.map(Timestamp)
    }

    /// Its name and its bytes.
    pub(crate) fn write(&self) -> (DocumentKey, Bytes) {
        let json = serde_json::to_vec(self).expect("texts and numbers are JSON");
        (DocumentKey::new(OWNER, KEY), json.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_survives_its_bytes() {
        let document = Document { purged_at_ms: Some(7), ..Document::of_new_queue(Some("eu".into())) };
        let (_, json) = document.write();
        assert_eq!(serde_json::from_slice::<Document>(&json).ok(), Some(document));
    }
}
