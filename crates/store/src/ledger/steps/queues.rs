//! Making, changing and deleting queues, and their documents.

use std::sync::Arc;

use bytes::Bytes;
use kew_core::command::{CreateQueue, DeleteQueue, Documents, PutDocuments, UpdateQueue};
use kew_core::queue::DOCUMENT_BYTES_MAX;
use kew_core::{DeadLetterAction, DocumentKey, Outcome, Queue, QueueId, QueueKey, RuleError, Timestamp};

use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::change::Change;
use crate::ledger::shelf::Shelf;

/// Room a definition may take on the shelf beside its documents.
const DEFINITION_BYTES: u64 = 4_096;

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn create_queue(
        &mut self,
        now: Timestamp,
        command: CreateQueue,
    ) -> Result<Outcome, StoreError> {
        if let Some(queue) = self.named(&command.key) {
            return Err(RuleError::QueueExists(queue.clone()).into());
        }
        let bytes = documents_bytes(command.documents.iter().map(|(_, bytes)| bytes))?;
        self.shelf.room(bytes + DEFINITION_BYTES)?;
        let queue = Arc::new(Queue {
            id: QueueId(self.place.number_from(self.next_queue.0)),
            key: self.regions.share(command.key),
            policy: command.policy,
            documents: command.documents.into_iter().collect(),
            version: 1,
            created_at: now,
            modified_at: now,
        });
        self.set_queue(now, queue.clone());
        Ok(Outcome::Queue(queue))
    }

    pub(in crate::ledger) fn update_queue(
        &mut self,
        now: Timestamp,
        command: UpdateQueue,
    ) -> Result<Outcome, StoreError> {
        let queue = self.checked_version(command.queue, command.if_version)?;
        if let Some(policy) = &command.policy
            && policy.kind.is_fifo() != queue.policy.kind.is_fifo()
        {
            return Err(RuleError::KindChange.into());
        }
        if let Some(taken) =
            command.rename.as_ref().and_then(|key| self.named(key)).filter(|taken| taken.id != queue.id)
        {
            return Err(RuleError::QueueExists(taken.clone()).into());
        }
        let bytes = documents_bytes(command.documents.iter().filter_map(|(_, bytes)| bytes.as_ref()))?;
        let kept: u64 = queue.documents.values().map(|bytes| bytes.len() as u64).sum();
        self.shelf.room(
            bytes + kept + DEFINITION_BYTES + self.following_bytes(&queue.key, command.rename.as_ref()),
        )?;
        let mut documents = queue.documents.clone();
        apply_documents(&mut documents, command.documents);
        let old_key = queue.key.clone();
        let new = Arc::new(Queue {
            id: queue.id,
            key: command.rename.unwrap_or_else(|| queue.key.clone()),
            policy: command.policy.unwrap_or_else(|| queue.policy.clone()),
            documents,
            version: queue.version + 1,
            created_at: queue.created_at,
            modified_at: now,
        });
        self.set_queue(now, new.clone());
        if new.key != old_key {
            self.follow_rename(now, new.id, &old_key, &new.key);
        }
        Ok(Outcome::Queue(self.book(new.id)?.queue.clone()))
    }

    /// Room for the definitions of queues whose rules follow a rename.
    fn following_bytes(&self, old: &QueueKey, rename: Option<&QueueKey>) -> u64 {
        if rename.is_none_or(|new| new == old) {
            return 0;
        }
        let following =
            self.books.values().map(|book| &book.queue).filter(|queue| target_of(queue) == Some(old));
        let documents =
            |queue: &Arc<Queue>| queue.documents.values().map(|bytes| bytes.len() as u64).sum::<u64>();
        following.map(|queue| documents(queue) + DEFINITION_BYTES).sum()
    }

    /// Every rule that names a queue follows it to its new name.
    fn follow_rename(&mut self, now: Timestamp, renamed: QueueId, old: &QueueKey, new: &QueueKey) {
        let mut following: Vec<Arc<Queue>> = self
            .books
            .values()
            .map(|book| &book.queue)
            .filter(|queue| target_of(queue) == Some(old))
            .cloned()
            .collect();
        following.sort_unstable_by_key(|queue| queue.id);
        for queue in following {
            let mut changed = Queue::clone(&queue);
            if let Some(rule) = &mut changed.policy.dead_letters {
                rule.then = DeadLetterAction::MoveTo(new.clone());
            }
            changed.version += u64::from(queue.id != renamed);
            changed.modified_at = now;
            self.set_queue(now, Arc::new(changed));
        }
    }

    fn set_queue(&mut self, now: Timestamp, queue: Arc<Queue>) {
        self.enact(now, &Change::QueueSet(queue));
    }

    pub(in crate::ledger) fn delete_queue(
        &mut self,
        now: Timestamp,
        command: &DeleteQueue,
    ) -> Result<Outcome, StoreError> {
        let queue = self.checked_version(command.queue, command.if_version)?.id;
        let messages = self.book(queue)?.stored();
        self.enact(now, &Change::QueueDeleted(queue));
        Ok(Outcome::QueueDeleted(messages))
    }

    fn checked_version(&self, queue: QueueId, if_version: Option<u64>) -> Result<Arc<Queue>, RuleError> {
        let queue = self.book(queue)?.queue.clone();
        match if_version {
            Some(version) if version != queue.version => Err(RuleError::VersionChanged),
            _ => Ok(queue),
        }
    }

    pub(in crate::ledger) fn queues(&self) -> Outcome {
        let is_shown = |queue: &&Arc<Queue>| !self.outboxes.contains(&queue.id);
        let all = self.books.values().map(|book| &book.queue);
        let mut queues: Vec<Arc<Queue>> = all.filter(is_shown).cloned().collect();
        queues.sort_unstable_by_key(|queue| queue.id);
        Outcome::Queues(queues)
    }

    pub(in crate::ledger) fn put_documents(
        &mut self,
        now: Timestamp,
        command: &PutDocuments,
    ) -> Result<Outcome, StoreError> {
        let bytes = documents_bytes(command.documents.iter().filter_map(|(_, bytes)| bytes.as_ref()))?;
        if let Some((key, expected)) = &command.if_is
            && self.documents.get(&(command.account, key.clone())) != expected.as_ref()
        {
            return Err(RuleError::VersionChanged.into());
        }
        self.shelf.room(bytes + DEFINITION_BYTES)?;
        for (key, bytes) in &command.documents {
            let change =
                Change::DocumentSet { account: command.account, key: key.clone(), bytes: bytes.clone() };
            self.enact(now, &change);
        }
        Ok(Outcome::Done)
    }

    pub(in crate::ledger) fn documents(&self, command: &Documents) -> Outcome {
        let first = (command.account, DocumentKey { owner: command.owner.clone(), key: "".into() });
        let owned = self
            .documents
            .range(first..)
            .take_while(|((account, key), _)| *account == command.account && key.owner == command.owner);
        Outcome::Documents(owned.map(|((_, key), bytes)| (key.clone(), bytes.clone())).collect())
    }
}

/// The queue a queue's dead letters go to.
fn target_of(queue: &Queue) -> Option<&QueueKey> {
    match &queue.policy.dead_letters.as_deref()?.then {
        DeadLetterAction::MoveTo(key) => Some(key),
        DeadLetterAction::Drop => None,
    }
}

fn documents_bytes<'a>(documents: impl Iterator<Item = &'a Bytes>) -> Result<u64, RuleError> {
    let mut sum = 0;
    for bytes in documents {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(RuleError::DocumentTooLarge { max: DOCUMENT_BYTES_MAX });
        }
        sum += bytes.len() as u64;
    }
    Ok(sum)
}

fn apply_documents(
    documents: &mut std::collections::BTreeMap<DocumentKey, Bytes>,
    changes: Vec<(DocumentKey, Option<Bytes>)>,
) {
    for (key, bytes) in changes {
        match bytes {
            Some(bytes) => documents.insert(key, bytes),
            None => documents.remove(&key),
        };
    }
}
