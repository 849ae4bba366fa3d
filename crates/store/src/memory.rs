//! The in-memory store: the ledger alone. Everything is forgotten at the end; nothing waits for a disk.

use std::sync::Arc;

use bytes::Bytes;
use kew_core::rules::retention::ExpiryHold;
use kew_core::{
    Command, Content, DeduplicationId, Departures, Entropy, GroupId, MessageId, QueueId, ShardPlace, Tally,
    Timestamp, Traffic, Waits,
};
use parking_lot::Mutex;

use crate::ledger::change::{Brought, Change};
use crate::ledger::dedup::PUT_AWAY_BYTES;
use crate::ledger::{Address, Bounds, Ledger, Made, Parted, Place, Shelf, Stored};
use crate::token::TokenKey;
use crate::{Elsewhere, Store, StoreError, Submission, Wait};

/// A store that forgets everything when it is dropped.
pub struct MemoryStore {
    /// Guards the whole book: a step is short and never waits.
    ledger: Mutex<Ledger<MemoryShelf>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self::with_bounds(entropy, Bounds::default())
    }

    /// An empty store with bounds of its own.
    pub fn with_bounds(entropy: Arc<dyn Entropy>, bounds: Bounds) -> Self {
        Self::shard(entropy, bounds, ShardPlace::ONLY)
    }

    /// An empty store that is one shard of several.
    pub fn shard(entropy: Arc<dyn Entropy>, bounds: Bounds, place: ShardPlace) -> Self {
        // There is nowhere to put older ids away.
        let bounds = Bounds { deduplication_ids_max: bounds.deduplication_ids, ..bounds };
        let key = TokenKey(entropy.wide_bits().to_be_bytes());
        Self { ledger: Mutex::new(Ledger::new(MemoryShelf::default(), key, entropy, bounds).at(place)) }
    }
}

impl Store for MemoryStore {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let mut ledger = self.ledger.lock();
        let result = ledger.step(now, command);
        let freed = ledger.take_freed();
        drop(ledger);
        Submission::new(result, Wait::Nothing, freed)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.ledger.lock().next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.ledger.lock().newest_instant()
    }

    fn expiry_hold(&self) -> Option<ExpiryHold> {
        self.ledger.lock().expiry_hold()
    }

    fn tally(&self) -> Tally {
        self.ledger.lock().tally()
    }

    fn tallies(&self, queues: &[QueueId]) -> Vec<Tally> {
        self.ledger.lock().tallies(queues)
    }

    fn waits(&self, queues: &[QueueId]) -> Vec<Waits> {
        self.ledger.lock().waits(queues)
    }

    fn take_departures(&self) -> Departures {
        self.ledger.lock().take_departures()
    }

    fn traffic(&self, queues: &[QueueId]) -> Vec<Traffic> {
        self.ledger.lock().traffic(queues)
    }

    fn know_others(&self, elsewhere: Arc<dyn Elsewhere>) {
        self.ledger.lock().know_others(elsewhere);
    }
}

/// Contents in memory, counted by the messages that rest on them.
#[derive(Default)]
pub(crate) struct MemoryShelf {
    contents: Parted<Address, (Stored, u32)>,
    last: u64,
    /// Whether there is no room for what happens by itself.
    #[cfg(test)]
    pub(crate) is_full: bool,
}

impl MemoryShelf {
    /// How many contents messages rest on.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.contents.len()
    }

    fn keep(
        &mut self,
        id: MessageId,
        content: &Content,
        group: Option<&GroupId>,
        deduplication: Option<&DeduplicationId>,
    ) -> Address {
        // Copied: a slice would keep the whole buffer it was read into.
        let content = Content {
            content_type: content.content_type,
            body: Bytes::copy_from_slice(&content.body),
            annotations: Bytes::copy_from_slice(&content.annotations),
        };
        let stored = Stored {
            id,
            content,
            group: group.map(|group| GroupId(group.0.detached())),
            deduplication: deduplication.map(|id| DeduplicationId(id.0.detached())),
        };
        self.last += 1;
        self.contents.insert(Address(self.last), (stored, 0));
        Address(self.last)
    }
}

impl Shelf for MemoryShelf {
    fn room(&mut self, _bytes: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn record(&mut self, _made: Made, change: &Change<'_>) -> Place {
        let address = match change {
            Change::Sent(sent) | Change::Brought(Brought { sent, .. }) => {
                self.keep(sent.id, sent.content, sent.group, sent.deduplication)
            }
            Change::Extended(extended) => extended.content.as_ref().map_or(Address::default(), |new| {
                self.keep(new.id, new.content, new.group, new.deduplication)
            }),
            _ => Address::default(),
        };
        Place { address, bytes: 0 }
    }

    fn has_room_for_due(&self, _bytes: u64) -> bool {
        #[cfg(test)]
        if self.is_full {
            return false;
        }
        true
    }

    fn read(&mut self, place: Place) -> Result<Stored, StoreError> {
        let kept = self.contents.get(&place.address).map(|(stored, _)| stored.clone());
        kept.ok_or_else(|| StoreError::Damaged { what: format!("no content at {}", place.address.0) })
    }

    fn recall(&mut self, generation: Timestamp, _place: u64) -> Result<[u8; PUT_AWAY_BYTES], StoreError> {
        Err(StoreError::Damaged { what: format!("no generation was put away at {}", generation.0) })
    }

    fn occupy(&mut self, place: Place) {
        if let Some((_, messages)) = self.contents.get_mut(&place.address) {
            *messages += 1;
        }
    }

    fn vacate(&mut self, place: Place) {
        if let Some((_, messages)) = self.contents.get_mut(&place.address) {
            *messages -= 1;
            if *messages == 0 {
                self.contents.remove(&place.address);
            }
        }
    }

    fn mark(&self) -> u64 {
        0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use kew_core::command::{CreateQueue, StartMove};
    use kew_core::{AccountId, Ask, Policy, QueueKey, ShardCount, ShardId, ask};

    use super::*;

    struct NoChance;

    impl Entropy for NoChance {
        fn bits(&self) -> u64 {
            0
        }
    }

    fn made(store: &MemoryStore, name: &str) -> QueueId {
        let key = QueueKey::new(AccountId(1), "r", name);
        let create = CreateQueue { key, policy: Policy::standard(), documents: Vec::new() };
        let made = store.step(Timestamp(1), &ask::CreateQueue::command(create));
        let Some(kew_core::Outcome::Queue(queue)) = made.peek() else { panic!("{name} was not made") };
        queue.id
    }

    #[test]
    fn queues_and_tasks_of_a_shard_are_numbered_by_it() {
        let of = ShardCount::new(16).unwrap();
        let place = ShardPlace { shard: ShardId(3), of };
        let store = MemoryStore::shard(Arc::new(NoChance), Bounds::default(), place);
        let (first, second) = (made(&store, "a"), made(&store, "b"));
        assert_eq!((first, second), (QueueId(3), QueueId(19)));
        let start = StartMove { source: second, destination: None, rate_max: None, running_max: 10 };
        let started = store.step(Timestamp(2), &ask::StartMove::command(start));
        let Some(kew_core::Outcome::Move(task)) = started.peek() else { panic!("no task was started") };
        assert_eq!(of.of_task(task.id), ShardId(3));
    }
}
