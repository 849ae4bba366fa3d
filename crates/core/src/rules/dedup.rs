//! Deduplication: one message per id and window, whatever became of the first.

use std::time::Duration;

use crate::{
    DeduplicationId, DeduplicationScope, GroupId, NewMessage, Queue, QueueKind, RuleError, Timestamp,
};

/// How long after the first accepted send an id is remembered.
pub const WINDOW: Duration = Duration::from_secs(300);

/// Whether a send `now` repeats one first accepted at `first_at`.
pub fn is_repeat(first_at: Timestamp, now: Timestamp) -> bool {
    now < first_at.plus(WINDOW)
}

/// What identifies a send, within its scope.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The group, where ids count for each group alone.
    pub group: Option<GroupId>,
    /// The id.
    pub id: DeduplicationId,
}

/// The identity of a message for this kind of queue: its own id over the body's hash.
///
/// Standard queues have none; FIFO queues demand one, and a group.
pub fn identity(kind: QueueKind, message: &NewMessage) -> Result<Option<Identity>, RuleError> {
    let QueueKind::Fifo { scope, by_content } = kind else {
        return match message.deduplication {
            Some(_) => Err(RuleError::DeduplicationNotAllowed),
            None => Ok(None),
        };
    };
    let group = message.group.as_ref().ok_or(RuleError::GroupMissing)?;
    let hash = message.content_hash.as_ref().filter(|_| by_content);
    let id = message.deduplication.as_ref().or(hash).cloned().ok_or(RuleError::DeduplicationMissing)?;
    let group = (scope == DeduplicationScope::Group).then(|| group.clone());
    Ok(Some(Identity { group, id }))
}

/// The identity that a message would have had in a queue's other scope, while sends from before a change of settings
/// may still count: an id that was used before keeps what it counted for then.
///
/// So a send in a group repeats one from when ids counted for the whole queue, in whatever group that was; and after a
/// change back, one of its own group.
pub fn identity_before(
    queue: &Queue,
    message: &NewMessage,
    own: &Identity,
    now: Timestamp,
) -> Option<Identity> {
    let has_changed = queue.version > 1 && is_repeat(queue.modified_at, now);
    has_changed.then(|| {
        let group = if own.group.is_some() { None } else { message.group.clone() };
        Identity { group, id: own.id.clone() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageId, Text};

    fn fifo(scope: DeduplicationScope, by_content: bool) -> QueueKind {
        QueueKind::Fifo { scope, by_content }
    }

    fn message(group: Option<&str>, own: Option<&str>, hash: Option<&str>) -> NewMessage {
        let id = |text: &str| DeduplicationId(Text::from(text));
        NewMessage {
            group: group.map(|group| GroupId(Text::from(group))),
            deduplication: own.map(id),
            content_hash: hash.map(id),
            ..NewMessage::text(MessageId::default(), "x")
        }
    }

    #[test]
    fn window_closes_five_minutes_after_the_first_send() {
        assert!(is_repeat(Timestamp(1_000), Timestamp(300_999)));
        assert!(!is_repeat(Timestamp(1_000), Timestamp(301_000)));
    }

    #[test]
    fn own_id_wins_over_the_hash() -> Result<(), RuleError> {
        let kind = fifo(DeduplicationScope::Queue, true);
        let found =
            identity(kind, &message(Some("g"), Some("own"), Some("hash")))?.map(|identity| identity.id);
        assert_eq!(found, Some(DeduplicationId(Text::from("own"))));
        let found = identity(kind, &message(Some("g"), None, Some("hash")))?.map(|identity| identity.id);
        assert_eq!(found, Some(DeduplicationId(Text::from("hash"))));
        Ok(())
    }

    #[test]
    fn hash_counts_only_where_the_queue_allows_it() {
        let kind = fifo(DeduplicationScope::Queue, false);
        let refused = identity(kind, &message(Some("g"), None, Some("hash")));
        assert_eq!(refused, Err(RuleError::DeduplicationMissing));
    }

    #[test]
    fn fifo_demands_a_group_and_standard_refuses_an_id() {
        let kind = fifo(DeduplicationScope::Queue, false);
        assert_eq!(identity(kind, &message(None, Some("own"), None)), Err(RuleError::GroupMissing));
        let refused = identity(QueueKind::Standard, &message(None, Some("own"), None));
        assert_eq!(refused, Err(RuleError::DeduplicationNotAllowed));
        assert_eq!(identity(QueueKind::Standard, &message(Some("g"), None, None)), Ok(None));
    }

    #[test]
    fn group_scope_tells_equal_ids_of_two_groups_apart() {
        let kind = fifo(DeduplicationScope::Group, false);
        let one = identity(kind, &message(Some("g1"), Some("id"), None));
        let two = identity(kind, &message(Some("g2"), Some("id"), None));
        assert_ne!(one, two);
        let kind = fifo(DeduplicationScope::Queue, false);
        let one = identity(kind, &message(Some("g1"), Some("id"), None));
        let two = identity(kind, &message(Some("g2"), Some("id"), None));
        assert_eq!(one, two);
    }
}
