//! What an operator asks beside messages: groups and their locks, deduplication ids, and what happened lately. Each
//! answer is one bounded slice.

use kew_core::command::{FirstSend, Groups, Note, Trace, Traced};
use kew_core::outcome::{First, GroupLock, GroupPage, SeenGroup, Trail};
use kew_core::rules::dedup::{self, Identity};
use kew_core::{EventKind, GroupId, MessageId, Outcome, RuleError, Text, Timestamp};

use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::shelf::{Shelf, Stored};

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn groups(&mut self, command: &Groups) -> Result<Outcome, StoreError> {
        let book = self.books.get(&command.queue).ok_or(RuleError::QueueNotFound)?;
        let (found, next) = book.look_at_groups(command);
        let mut groups = Vec::with_capacity(found.len());
        for group in found {
            let lock = match group.lock {
                None => None,
                Some((item, until)) => {
                    let id = match self.shelf.fetch(item.sequence, item.place()) {
                        Ok(Stored { id, .. }) => id,
                        Err(StoreError::Damaged { .. }) => MessageId([0; 16]),
                        Err(error) => return Err(error),
                    };
                    Some(GroupLock { sequence: item.sequence, id, until })
                }
            };
            groups.push(SeenGroup { group: GroupId(Text::from(group.name)), waiting: group.waiting, lock });
        }
        Ok(Outcome::Groups(GroupPage { groups, next }))
    }

    pub(in crate::ledger) fn first_send(
        &mut self,
        now: Timestamp,
        command: &FirstSend,
    ) -> Result<Outcome, StoreError> {
        let book = self.book(command.queue)?;
        let (queue, epoch) = (book.queue.clone(), book.ids_epoch);
        let identity = Identity { group: command.group.clone(), id: command.id.clone() };
        let hash = self.identity_hash(&queue, epoch, &identity);
        let first = match self.put_away(now, Some(hash))? {
            Some(away) => Some(away),
            None => self.sends.find(hash, now),
        };
        Ok(Outcome::FirstSend(first.map(|first| First {
            id: first.id,
            sequence: first.sequence,
            until: first.at.plus(dedup::WINDOW),
        })))
    }

    /// Kept in memory only: the history is best effort.
    pub(in crate::ledger) fn note_failures(
        &mut self,
        now: Timestamp,
        command: &Note,
    ) -> Result<Outcome, StoreError> {
        self.book(command.queue)?;
        for (sequence, why, detail) in &command.failures {
            let kind = EventKind::Failed { why: *why, detail: detail.clone() };
            self.history.push(now, command.queue, *sequence, kind);
        }
        Ok(Outcome::Done)
    }

    pub(in crate::ledger) fn trace(&self, command: &Trace) -> Trail {
        let mut trail = self.history.trace(command);
        if let (Traced::Places(places), None) = (&command.what, command.before) {
            // Deaths that are not in the history yet are the newest.
            let unseen = places.iter().filter_map(|(queue, sequence)| self.end_to_be_seen(*queue, *sequence));
            trail.events.splice(0..0, unseen);
        }
        trail
    }
}
