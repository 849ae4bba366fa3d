//! Names that a queue had before, for as long as rules of queues in other shards may name it so.
//!
//! They are written in the step that renames the queue. So the next owner of its shard knows which rules are still to
//! follow.

use bytes::Bytes;
use kew_core::{DocumentKey, Queue, QueueKey};

/// The document of the queue that holds them.
fn document() -> DocumentKey {
    DocumentKey::new("fleet", "renamed-from")
}

/// The names in the order of the renames.
pub(crate) fn names_before(queue: &Queue) -> Vec<QueueKey> {
    let text = queue.documents.get(&document()).map(|bytes| String::from_utf8_lossy(bytes));
    let names = text.as_deref().unwrap_or_default().lines();
    names.map(|name| QueueKey::new(queue.key.account, &queue.key.region, name)).collect()
}

/// What a queue's document is to hold.
pub(crate) fn change(names: &[QueueKey]) -> (DocumentKey, Option<Bytes>) {
    let lines: Vec<&str> = names.iter().map(|key| &*key.name).collect();
    (document(), (!lines.is_empty()).then(|| lines.join("\n").into()))
}
