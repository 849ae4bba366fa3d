//! Sending.

use kew_core::command::{FirstReceipts, Send};
use kew_core::outcome::Sent;
use kew_core::rules::dedup::Identity;
use kew_core::rules::{dedup, delay, retention};
use kew_core::{NewMessage, Outcome, Queue, Sequence, Timestamp};
use smallvec::SmallVec;

use crate::StoreError;
use crate::ledger::Ledger;
use crate::ledger::change::{self, Change};
use crate::ledger::dedup::{First, put_away_entry};
use crate::ledger::shelf::Shelf;

/// Room a message takes on the shelf beside its body, annotations, group and deduplication id.
pub(super) const MESSAGE_BYTES: u64 = 160;

/// A message that passed the checks.
struct Checked<'a> {
    message: &'a NewMessage,
    identity: Option<Identity>,
    /// What that is remembered under.
    hash: Option<u128>,
    /// What it would have been remembered under before a change of the queue's settings.
    hash_before: Option<u128>,
    visible_at: Timestamp,
    /// Its first send, if that was put away.
    away: Option<First>,
    /// The same under what it would have been remembered under before; its own counts first.
    away_before: Option<First>,
}

impl<S: Shelf> Ledger<S> {
    pub(in crate::ledger) fn send(&mut self, now: Timestamp, command: &Send) -> Result<Outcome, StoreError> {
        let book = self.book(command.queue)?;
        let (queue, epoch, mut next) = (book.queue.clone(), book.ids_epoch, book.next_sequence);
        let mut checked: SmallVec<[Checked<'_>; 1]> = SmallVec::with_capacity(command.messages.len());
        for message in &command.messages {
            let identity = dedup::identity(queue.policy.kind, message)?;
            let visible_at = now.plus(delay::of_new_message(message.delay, &queue.policy)?);
            let hash_of = |identity: &Identity| self.identity_hash(&queue, epoch, identity);
            let hash = identity.as_ref().map(hash_of);
            let before = identity.as_ref().and_then(|own| dedup::identity_before(&queue, message, own, now));
            let hash_before = before.as_ref().map(hash_of);
            checked.push(Checked {
                message,
                identity,
                hash,
                hash_before,
                visible_at,
                away: None,
                away_before: None,
            });
        }
        let is_fifo = queue.policy.kind.is_fifo();
        if is_fifo {
            self.room_for_ids(now, checked.len())?;
        }
        self.shelf.room(command.messages.iter().map(shelf_bytes).sum())?;
        if is_fifo {
            self.find_put_away(now, &mut checked)?;
        }
        let mut sent = Vec::with_capacity(checked.len());
        for checked in &checked {
            let one = self.send_one(now, &queue, checked, Sequence(next));
            next += u64::from(!one.duplicate);
            sent.push(one);
        }
        if command.receipts == FirstReceipts::Told {
            for sent in &mut sent {
                let nonce = self.key.first_nonce(queue.id, sent.sequence);
                sent.token = Some(self.key.seal(queue.id, sent.sequence, nonce));
            }
        }
        Ok(Outcome::Sent(sent))
    }

    /// Whether that many deduplication ids more may be remembered.
    fn room_for_ids(&mut self, now: Timestamp, more: usize) -> Result<(), StoreError> {
        self.sends.forget_closed(now);
        if self.sends.len() + more > self.bounds.deduplication_ids_max {
            return Err(StoreError::Overloaded { what: "the number of deduplication ids remembered" });
        }
        Ok(())
    }

    /// Finds the first sends of messages that were put away.
    fn find_put_away(&mut self, now: Timestamp, checked: &mut [Checked<'_>]) -> Result<(), StoreError> {
        for checked in checked {
            checked.away = self.put_away(now, checked.hash)?;
            if checked.away.is_none() {
                checked.away_before = self.put_away(now, checked.hash_before)?;
            }
        }
        Ok(())
    }

    /// Sends one message to the place `sequence`, or finds its first send.
    fn send_one(&mut self, now: Timestamp, queue: &Queue, checked: &Checked<'_>, sequence: Sequence) -> Sent {
        let here = |hash: Option<u128>| hash.and_then(|identity| self.sends.find(identity, now));
        let own = checked.away.or_else(|| here(checked.hash));
        let before = || checked.away_before.or_else(|| here(checked.hash_before));
        if let Some(first) = own.or_else(before) {
            self.history.count_deduplicated(queue.id);
            return Sent {
                id: first.id,
                sequence: first.sequence,
                sent_at: now,
                visible_at: now,
                expires_at: None,
                token: None,
                duplicate: true,
            };
        }
        let message = checked.message;
        let sent = change::Sent {
            queue: queue.id,
            sequence,
            id: message.id,
            content: &message.content,
            group: message.group.as_ref(),
            deduplication: checked.identity.as_ref().map(|identity| &identity.id),
            identity: checked.hash,
            visible_at: checked.visible_at,
            rank: delay::rank(message.returns, now, checked.visible_at),
            expiry: message.expiry,
            origin: None,
        };
        self.enact(now, &Change::Sent(sent));
        self.history.count_sent();
        Sent {
            id: message.id,
            sequence,
            sent_at: now,
            visible_at: checked.visible_at,
            expires_at: retention::expires_at(now, message.expiry, queue.policy.retention),
            token: None,
            duplicate: false,
        }
    }

    /// The first send of a message that was put away, if its window is open. Read before anything changes: reading may
    /// fail.
    pub(super) fn put_away(
        &mut self,
        now: Timestamp,
        hash: Option<u128>,
    ) -> Result<Option<First>, StoreError> {
        let Some(identity) = hash else { return Ok(None) };
        for (generation, places) in self.sends.places_away(identity) {
            for place in places {
                let entry = put_away_entry(&self.shelf.recall(generation, place)?);
                if let Some((_, first)) =
                    entry.filter(|(other, first)| *other == identity && dedup::is_repeat(first.at, now))
                {
                    return Ok(Some(first));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn next_sequence(&self, queue: &Queue) -> Sequence {
        Sequence(self.books.get(&queue.id).map_or(1, |book| book.next_sequence))
    }

    /// The hash an identity is remembered under. A purge begins a new epoch, so it forgets all of a queue's at once.
    pub(super) fn identity_hash(&self, queue: &Queue, epoch: u32, identity: &Identity) -> u128 {
        let group = identity.group.as_ref().map_or(&[][..], |group| group.0.as_bytes());
        let scope = [u8::from(identity.group.is_some())];
        let id = identity.id.0.as_bytes();
        self.key.hash(&[&queue.id.0.to_le_bytes(), &epoch.to_le_bytes(), &scope, group, id])
    }
}

fn shelf_bytes(message: &NewMessage) -> u64 {
    let text = |text: Option<&kew_core::Text>| text.map_or(0, |text| text.as_bytes().len());
    let texts = text(message.group.as_ref().map(|group| &group.0))
        + text(message.deduplication.as_ref().or(message.content_hash.as_ref()).map(|id| &id.0));
    (message.content.body.len() + message.content.annotations.len() + texts) as u64 + MESSAGE_BYTES
}
