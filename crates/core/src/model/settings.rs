//! Queues that come, change and go, and the documents kept with them and with accounts.

use bytes::Bytes;

use super::Model;
use super::queue::ModelQueue;
use crate::command::{CreateQueue, DeleteQueue, Documents, Purge, PutDocuments, UpdateQueue};
use crate::queue::DOCUMENT_BYTES_MAX;
use crate::{
    DeadLetterAction, DocumentKey, EventKind, Outcome, Queue, QueueId, QueueKey, RuleError, Timestamp,
};

impl Model {
    pub(super) fn create_queue(&mut self, now: Timestamp, create: CreateQueue) -> Result<Outcome, RuleError> {
        self.check_name_is_free(&create.key, None)?;
        check_sizes(create.documents.iter().map(|(_, bytes)| bytes))?;
        self.queues_made += 1;
        let queue = ModelQueue::new(Queue {
            id: QueueId(self.queues_made),
            key: create.key,
            policy: create.policy,
            documents: create.documents.into_iter().collect(),
            version: 1,
            created_at: now,
            modified_at: now,
        });
        let shown = queue.shown();
        self.queues.push(queue);
        Ok(Outcome::Queue(shown))
    }

    pub(super) fn update_queue(&mut self, now: Timestamp, update: UpdateQueue) -> Result<Outcome, RuleError> {
        let index = self.index(update.queue)?;
        let queue = &self.queues[index];
        check_version(queue, update.if_version)?;
        if update.policy.as_ref().is_some_and(|policy| policy.kind.is_fifo() != queue.is_fifo()) {
            return Err(RuleError::KindChange);
        }
        if let Some(name) = &update.rename {
            self.check_name_is_free(name, Some(update.queue))?;
        }
        check_sizes(update.documents.iter().filter_map(|(_, bytes)| bytes.as_ref()))?;

        let queue = &mut self.queues[index];
        let definition = &mut queue.definition;
        definition.policy = update.policy.unwrap_or_else(|| definition.policy.clone());
        for (key, bytes) in update.documents {
            match bytes {
                Some(bytes) => definition.documents.insert(key, bytes),
                None => definition.documents.remove(&key),
            };
        }
        definition.version += 1;
        definition.modified_at = now;
        queue.follow_delay(now);
        if let Some(name) = update.rename {
            let old = std::mem::replace(&mut queue.definition.key, name.clone());
            self.rewrite_rules(now, index, &old, &name);
        }
        Ok(Outcome::Queue(self.queues[index].shown()))
    }

    /// Rules that name a renamed queue follow it.
    fn rewrite_rules(&mut self, now: Timestamp, renamed: usize, old: &QueueKey, new: &QueueKey) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let rule = queue.definition.policy.dead_letters.as_deref_mut();
            let Some(rule) = rule.filter(|rule| rule.then == DeadLetterAction::MoveTo(old.clone())) else {
                continue;
            };
            rule.then = DeadLetterAction::MoveTo(new.clone());
            if index != renamed && old != new {
                queue.definition.version += 1;
                queue.definition.modified_at = now;
            }
        }
    }

    pub(super) fn delete_queue(&mut self, delete: DeleteQueue) -> Result<Outcome, RuleError> {
        let index = self.index(delete.queue)?;
        check_version(&self.queues[index], delete.if_version)?;
        let queue = self.queues.remove(index);
        Ok(Outcome::QueueDeleted(queue.messages.len() as u64))
    }

    pub(super) fn purge(&mut self, now: Timestamp, purge: Purge) -> Result<Outcome, RuleError> {
        let index = self.index(purge.queue)?;
        let queue = &mut self.queues[index];
        queue.remembered.clear();
        queue.attempts.clear();
        queue.rotation.clear();
        let purged = std::mem::take(&mut queue.messages);
        for held in &purged {
            self.note(now, index, held.sequence, EventKind::Purged);
        }
        Ok(Outcome::Purged(purged.len() as u64))
    }

    pub(super) fn put_documents(&mut self, put: PutDocuments) -> Result<Outcome, RuleError> {
        check_sizes(put.documents.iter().filter_map(|(_, bytes)| bytes.as_ref()))?;
        if let Some((key, expected)) = &put.if_is {
            let is_it = |(account, each, _): &&(_, _, _)| (*account, each) == (put.account, key);
            let found = self.documents.iter().find(is_it).map(|(_, _, bytes)| bytes);
            if found != expected.as_ref() {
                return Err(RuleError::VersionChanged);
            }
        }
        for (key, bytes) in put.documents {
            self.documents.retain(|(account, each, _)| (*account, each) != (put.account, &key));
            self.documents.extend(bytes.map(|bytes| (put.account, key, bytes)));
        }
        Ok(Outcome::Done)
    }

    pub(super) fn documents_of(&self, wanted: &Documents) -> Outcome {
        let of_owner = self
            .documents
            .iter()
            .filter(|(account, key, _)| (*account, &key.owner) == (wanted.account, &wanted.owner));
        let mut found: Vec<(DocumentKey, Bytes)> =
            of_owner.map(|(_, key, bytes)| (key.clone(), bytes.clone())).collect();
        found.sort();
        Outcome::Documents(found)
    }

    fn check_name_is_free(&self, name: &QueueKey, except: Option<QueueId>) -> Result<(), RuleError> {
        let holder = self.index_of_key(name).map(|index| &self.queues[index]);
        match holder.filter(|queue| Some(queue.id()) != except) {
            Some(queue) => Err(RuleError::QueueExists(queue.shown())),
            None => Ok(()),
        }
    }
}

fn check_version(queue: &ModelQueue, expected: Option<u64>) -> Result<(), RuleError> {
    match expected {
        Some(version) if version != queue.definition.version => Err(RuleError::VersionChanged),
        _ => Ok(()),
    }
}

fn check_sizes<'a>(mut documents: impl Iterator<Item = &'a Bytes>) -> Result<(), RuleError> {
    if documents.any(|bytes| bytes.len() > DOCUMENT_BYTES_MAX) {
        return Err(RuleError::DocumentTooLarge { max: DOCUMENT_BYTES_MAX });
    }
    Ok(())
}
