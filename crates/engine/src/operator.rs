//! What an operator does to one message and to a queue, and asks of both.
//!
//! A message is named by a receipt as a look gives it. An act that its state does not allow is refused by the laws:
//! [`RuleError::LeaseEnded`] where it is not leased, [`RuleError::NotDelayed`] where it is not delayed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{
    Ack, Documents, Extend, Extension, FirstSend, Groups, Note, Promote, Release, Trace, Traced, UpdateQueue,
};
use kew_core::event::{Tag, Words};
use kew_core::outcome::{Extended, First, GroupPage, Trail};
use kew_core::{
    DeduplicationId, Event, EventKind, Failure, GroupId, LeaseToken, MessageId, Policy, Queue, QueueId,
    ReceiptRule, RuleError, Sequence, Timestamp, WhenFree, ask, own,
};

use crate::{Engine, EngineError};

/// Events that one step looks at: well below a millisecond.
const EVENTS_AT_ONCE: u32 = 20_000;
/// Looks through events of a queue for the holders of leases: what was leased longer ago than 200 000 events has none.
const HOLDER_LOOKS: u32 = 10;
/// Messages that one timeline leads through: a message may be moved to and fro.
const PLACES_MAX: usize = 32;
/// Events of one timeline, the newest ones.
const TIMELINE_MAX: usize = 1_000;

impl Engine {
    /// Deletes a message, whatever it is doing, also out of its turn.
    pub async fn delete_message(&self, token: LeaseToken) -> Result<(), EngineError> {
        let ack = Ack { queue: token.queue, receipt: ReceiptRule::OutOfTurn, tokens: vec![token] };
        one(self.ack(ack).await?)
    }

    /// Ends the lease of a message now; says when it shows.
    pub async fn release_message(&self, token: LeaseToken) -> Result<Timestamp, EngineError> {
        let entries = vec![(token, Duration::ZERO)];
        one(self.release(Release { queue: token.queue, receipt: ReceiptRule::OutOfTurn, entries }).await?)
    }

    /// Gives the lease of a message another end, counted from now; says when that is.
    pub async fn extend_message(
        &self,
        token: LeaseToken,
        length: Duration,
    ) -> Result<Timestamp, EngineError> {
        let extend = Extend {
            queue: token.queue,
            receipt: ReceiptRule::OutOfTurn,
            when_free: WhenFree::Ignore,
            renew: false,
            entries: vec![Extension { token, length, content: None }],
        };
        match one(self.extend(extend).await?)? {
            Extended::Until { until, .. } => Ok(until),
            Extended::Free => Err(RuleError::LeaseEnded.into()),
        }
    }

    /// Ends the delay of a message now.
    pub async fn promote_message(&self, token: LeaseToken) -> Result<(), EngineError> {
        one(self.answer::<ask::Promote>(Promote { queue: token.queue, tokens: vec![token] }).await?)
    }

    /// Stops the deliveries of a queue in every dialect, or lets them go on. Sends are taken either way.
    pub async fn set_paused(&self, queue: QueueId, paused: bool) -> Result<Arc<Queue>, EngineError> {
        loop {
            let known = self.queue_by_id(queue).ok_or(RuleError::QueueNotFound)?;
            if known.policy.paused == paused {
                return Ok(known);
            }
            let update = UpdateQueue {
                queue,
                if_version: Some(known.version),
                policy: Some(Policy { paused, ..known.policy.clone() }),
                documents: Vec::new(),
                rename: None,
            };
            match self.update_queue(update).await {
                // Another change came between the look and the step, and is kept.
                Err(EngineError::Rule(RuleError::VersionChanged)) => tokio::task::yield_now().await,
                answer => return answer,
            }
        }
    }

    /// Remembers in the history why the consumer of messages failed, before what becomes of them is settled.
    pub async fn note_failures(
        &self,
        queue: QueueId,
        failures: Vec<(Sequence, Failure, Words)>,
    ) -> Result<(), EngineError> {
        self.answer::<ask::Note>(Note { queue, failures }).await
    }

    /// When the store was made by an import, if it was.
    pub async fn imported_at(&self) -> Result<Option<Timestamp>, EngineError> {
        let own = Documents { account: own::OWN_ACCOUNT, owner: own::OWNER.into() };
        let found = self.answer::<ask::Documents>(own).await?;
        let imported = found.iter().find(|(key, _)| *key == own::imported());
        Ok(imported.and_then(|(_, bytes)| own::read_imported(bytes)))
    }

    /// A page of a queue's groups, and what locks each.
    pub async fn groups(&self, groups: Groups) -> Result<GroupPage, EngineError> {
        self.answer::<ask::Groups>(groups).await
    }

    /// The first send of a deduplication id, while its window is open.
    pub async fn first_send(
        &self,
        queue: QueueId,
        id: DeduplicationId,
        group: Option<GroupId>,
    ) -> Result<Option<First>, EngineError> {
        self.answer::<ask::FirstSend>(FirstSend { queue, id, group }).await
    }

    /// Where the message of this id was sent to, if that is remembered: its queue, and its place there.
    pub async fn sent_to(&self, id: MessageId) -> Result<Option<(QueueId, Sequence)>, EngineError> {
        let mut before = None;
        loop {
            let Trail { events, next } = self.trace(Traced::Id(id), before).await?;
            if let Some(event) = events.first() {
                return Ok(Some((event.queue, event.sequence)));
            }
            let Some(next) = next else { return Ok(None) };
            before = Some(next);
        }
    }

    /// What happened to a message, oldest first, as far as it is remembered: also in the queues it came from and in
    /// those it went to, and after it is gone.
    pub async fn timeline(&self, queue: QueueId, sequence: Sequence) -> Result<Vec<Event>, EngineError> {
        let mut places = BTreeSet::from([(queue, sequence)]);
        loop {
            let events = self.events_of(&places).await?;
            let before = places.len();
            places.extend(events.iter().flat_map(links));
            // Whatever is found by a further look is another message's where a trail is this long.
            if places.len() == before || before >= PLACES_MAX {
                return Ok(without_purges_of_others(events));
            }
        }
    }

    async fn events_of(&self, places: &BTreeSet<(QueueId, Sequence)>) -> Result<Vec<Event>, EngineError> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let what = Traced::Places(places.iter().take(PLACES_MAX).copied().collect());
            let Trail { events, next } = self.trace(what, before).await?;
            found.extend(events);
            if next.is_none() || found.len() >= TIMELINE_MAX {
                break;
            }
            before = next;
            tokio::task::yield_now().await;
        }
        found.truncate(TIMELINE_MAX);
        found.reverse();
        // Each shard tells its own, one after the other.
        found.sort_by_key(|event| event.at);
        Ok(found)
    }

    /// What happened in a queue lately, oldest first, as far as it is remembered: the latest `max` events.
    pub async fn latest_events(&self, queue: QueueId, max: usize) -> Result<Vec<Event>, EngineError> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let Trail { events, next } = self.trace(Traced::Queue(queue), before).await?;
            found.extend(events);
            if next.is_none() || found.len() >= max {
                break;
            }
            before = next;
            tokio::task::yield_now().await;
        }
        found.truncate(max);
        found.reverse();
        Ok(found)
    }

    /// Who took the running leases of these messages of a queue, as far as the latest events of the history say; each
    /// is given with the instant at which its lease was taken, if that is known.
    pub async fn holders(
        &self,
        queue: QueueId,
        mut leased: BTreeMap<Sequence, Option<Timestamp>>,
    ) -> Result<BTreeMap<Sequence, Tag>, EngineError> {
        let (mut found, mut before) = (BTreeMap::new(), None);
        for _ in 0..HOLDER_LOOKS {
            let Some(oldest) = leased.values().map(|since| since.unwrap_or_default()).min() else { break };
            let Trail { events, next } = self.trace(Traced::Queue(queue), before).await?;
            let is_behind = events.last().is_some_and(|event| event.at < oldest);
            for event in events {
                if let EventKind::Leased { by, .. } = event.kind
                    && leased.remove(&event.sequence).is_some()
                {
                    found.insert(event.sequence, by);
                }
            }
            if is_behind || next.is_none() {
                break;
            }
            before = next;
            tokio::task::yield_now().await;
        }
        Ok(found)
    }

    async fn trace(&self, what: Traced, before: Option<u64>) -> Result<Trail, EngineError> {
        self.answer::<ask::Trace>(Trace { what, before, look_max: EVENTS_AT_ONCE }).await
    }
}

/// A purge is one event for all messages of its queue. It ended those that were there, and none that had left before
/// or came later.
fn without_purges_of_others(mut events: Vec<Event>) -> Vec<Event> {
    let mut there = BTreeSet::new();
    events.retain(|event| {
        let held = there.len();
        match event.kind {
            EventKind::Purged => there.retain(|(queue, sequence)| !event.purges(*queue, *sequence)),
            _ if event.is_end() => {
                there.remove(&(event.queue, event.sequence));
            }
            _ => {
                there.insert((event.queue, event.sequence));
            }
        }
        event.kind != EventKind::Purged || there.len() < held
    });
    events
}

/// The other messages that an event leads to.
fn links(event: &Event) -> impl Iterator<Item = (QueueId, Sequence)> + use<> {
    let here = (event.queue, event.sequence);
    let moved = event.moved_to().map(|to| [to, here]);
    let came = event.came_from().map(|from| [from, here]);
    moved.into_iter().chain(came).flatten()
}

/// The answer to the one entry that was asked for.
fn one<T>(answers: Vec<Result<T, RuleError>>) -> Result<T, EngineError> {
    let answer = answers.into_iter().next().expect("a step answers each of its entries");
    answer.map_err(EngineError::from)
}
