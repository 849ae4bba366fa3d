//! What a store keeps about itself: documents and queues of an account that no user has.

use bytes::Bytes;

use crate::{AccountId, DocumentKey, Queue, QueueId, QueueKey, Timestamp};

/// Their account.
pub const OWN_ACCOUNT: AccountId = AccountId(u64::MAX);
/// Their owner.
pub const OWNER: &str = "store";

/// The owner of the documents of redrives by filter that run: one document a task, under the task's name.
pub const REDRIVES: &str = "redrives";

/// How far expiry is held after a leap of the clock.
pub fn expiry_hold() -> DocumentKey {
    DocumentKey::new(OWNER, "expiry-hold")
}

/// When the store was made by an import.
pub fn imported() -> DocumentKey {
    DocumentKey::new(OWNER, "imported")
}

/// The instant of an import as its document holds it.
pub fn write_imported(at: Timestamp) -> Bytes {
    Bytes::copy_from_slice(&at.0.to_be_bytes())
}

/// The instant in that document, if it is one.
pub fn read_imported(bytes: &[u8]) -> Option<Timestamp> {
    bytes.try_into().ok().map(|bytes| Timestamp(u64::from_be_bytes(bytes)))
}

/// What the name of an outbox begins with.
const OUTBOX: &str = "owed-to-";

/// The name of the queue in which a shard keeps messages for a queue of another shard.
pub fn outbox(target: QueueId) -> QueueKey {
    QueueKey::new(OWN_ACCOUNT, "", &format!("{OUTBOX}{}", target.0))
}

/// The queue that the messages of an outbox are for; `None` if a queue of this name is none.
pub fn owed_to(key: &QueueKey) -> Option<QueueId> {
    let number = (key.account == OWN_ACCOUNT).then(|| key.name.strip_prefix(OUTBOX))??;
    number.parse().ok().map(QueueId)
}

/// How an outbox names the queue that a message left: with its number, which stays when the queue is renamed.
pub fn left(queue: &Queue) -> QueueKey {
    let key = &queue.key;
    QueueKey::new(key.account, &key.region, &format!("{}/{}", queue.id.0, key.name))
}

/// The number and the name of that queue; `None` for a name that is none of an outbox.
pub fn read_left(key: &QueueKey) -> Option<(QueueId, QueueKey)> {
    let (number, name) = key.name.split_once('/')?;
    Some((QueueId(number.parse().ok()?), QueueKey::new(key.account, &key.region, name)))
}

/// The owner of the documents that say how far the messages of outboxes came into queues of a shard.
pub const CAME: &str = "came";

/// How far the messages of an outbox came into a queue. It outlives the queue, until the outbox is empty: what came is
/// not to come back.
pub fn came(target: QueueId, outbox: QueueId) -> DocumentKey {
    DocumentKey::new(CAME, &format!("{}/{}", target.0, outbox.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outbox_tells_whom_it_is_for() {
        assert_eq!(owed_to(&outbox(QueueId(19))), Some(QueueId(19)));
        assert_eq!(owed_to(&QueueKey::new(AccountId(1), "", "owed-to-19")), None);
        assert_eq!(owed_to(&QueueKey::new(OWN_ACCOUNT, "", "owed-to-x")), None);
    }
}
