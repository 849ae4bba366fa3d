//! One queue's messages, and every way one of them can change.
//!
//! A message is in exactly one place: ready in [`Ready`], hidden for long in [`Far`], at rest in [`Fifo`], or, when it
//! is leased, hidden for a short while or back from either on a FIFO queue, an [`Entry`] with one alarm. Nothing here
//! decides a law; the steps do, and tell the book what became of a message.

mod browsing;
mod contents;
mod departures;
mod entering;
mod expiring;
mod finding;
mod image;
mod leasing;
mod oldest;
mod restoring;
mod time;

use std::sync::Arc;
use std::time::Duration;

use kew_core::rules::visibility::LeaseEnd;
use kew_core::{Counts, GroupId, MoveReason, Queue, QueueKey, Sequence, Timestamp, Traffic, rules};

use super::expired::Expired;
use super::groups::{Group, GroupSlot, Groups};
use super::item::{Entry, Item, Lease, OriginSlot};
pub(crate) use browsing::{Look, Looked};
use contents::MaybeContents;
pub(crate) use image::Image;

/// Messages hidden for a while that a queue keeps at hand before it puts them among the far ones.
const HIDDEN_AT_HAND: u64 = 1_024;

/// Messages at rest on a FIFO queue whose groups get their turns between those of other messages that show at the same
/// instant. The groups of further ones come when these are through.
const SHOWN_AMONG_OTHERS: usize = 4_096;

/// Messages outside of a backlog that are looked at one by one before much of it expires at once.
const BESIDE_MAX: usize = 1_000;

/// Entries that are looked at each time somebody asks for the oldest message.
const OLDEST_LOOKS: usize = 1_024;

/// A receive that may be repeated.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// When it was first answered.
    pub first_at: Timestamp,
    /// The messages it took.
    pub sequences: Vec<Sequence>,
}

/// An instant that a queue passes, and how much may be done at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The instant.
    pub at: Timestamp,
    /// The instant of the step.
    pub now: Timestamp,
    /// What was due elsewhere by then has been done.
    pub settled: Timestamp,
    /// The next instant something happens in another queue.
    pub elsewhere: Timestamp,
    /// The shelf's mark.
    pub mark: u64,
    /// Leases that are seen to at most.
    pub lapses_max: usize,
    /// Messages of a FIFO queue that are taken out at most because they are over.
    pub expired_max: usize,
}

/// What happened at one instant.
#[derive(Default, Debug)]
pub(crate) struct Happened {
    /// Messages with an entry whose time was over, and when it was.
    pub expired: Vec<(Timestamp, Item)>,
    /// The others whose time was over. They have left the queue and its figures, and are to be seen off in slices.
    pub expired_at_rest: Expired,
    /// FIFO: how many messages at rest are over that were not before.
    pub over: u64,
    /// FIFO: those of them that were taken out, with the instants at which they were over.
    pub gone: Vec<(Item, Timestamp)>,
    /// FIFO: the groups as they were when everything at rest expired, to be given back in slices.
    pub groups_left: Option<Groups>,
    /// Leases whose end came.
    pub ended: Vec<Ended>,
    /// How many of those were the last of their messages.
    pub exhausted: usize,
    /// Whether something may be leased now that could not before.
    pub freed: bool,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// When.
    pub at: Timestamp,
    /// Of which message.
    pub sequence: Sequence,
    /// When that may be leased again.
    pub visible_at: Timestamp,
    /// How it is recorded.
    pub ending: LeaseEnd,
    /// Whether the message was leased as often as allowed, and is not offered again.
    pub is_last: bool,
}

/// One queue's messages.
#[derive(Debug)]
pub(crate) struct Book {
    /// The queue's definition.
    pub queue: Arc<Queue>,
    /// The place of the next message that enters.
    pub next_sequence: u64,
    /// Raised when deduplication ids are forgotten.
    pub ids_epoch: u32,
    /// The instant this queue stands under in the list of what is due.
    pub registered: Timestamp,
    /// Whether a lease found less than it could because too many were running.
    pub limited: bool,
    /// Whether this queue stands among those changed since the last checkpoint.
    pub changed: bool,
    /// Leases taken, and messages deleted by a receipt: counted since some moment, for figures.
    pub leased: u32,
    pub acked: u32,
    /// Messages whose time is over after this instant do not expire for now.
    expiry_through: Timestamp,
    held: MaybeContents,
}

/// When a message expires, if that is not held back; `NEVER` is not for now.
#[inline]
fn held_until(expires_at: Timestamp, through: Timestamp) -> Timestamp {
    if expires_at <= through { expires_at } else { Timestamp::NEVER }
}

impl Book {
    pub(crate) fn new(queue: Arc<Queue>) -> Self {
        let held = MaybeContents::nothing(queue.policy.kind);
        Self {
            queue,
            next_sequence: 1,
            ids_epoch: 0,
            registered: Timestamp::NEVER,
            limited: false,
            changed: false,
            leased: 0,
            acked: 0,
            expiry_through: Timestamp::NEVER,
            held,
        }
    }

    /// Gives back the room of what is not there any more, or need not be open.
    pub(crate) fn give_back_room(&mut self) {
        // What is undecided of messages that are gone is nothing.
        let departs = self.held.departures.first().is_some();
        let is_bare = self.held.repeatable.is_empty() && !departs && !self.has_over();
        if self.held.stored == 0 && is_bare {
            self.held.let_go();
        } else if let Some(fifo) = &mut self.held.fifo {
            fifo.settle();
        }
    }

    /// From now on messages expire whose time is over by `through`.
    pub(crate) fn expire_through(&mut self, through: Timestamp) {
        let earlier = std::mem::replace(&mut self.expiry_through, through);
        if through > earlier {
            // Their alarms may have left their expiry out.
            let retention = self.retention();
            let dies = |entry: &Entry| (earlier..=through).contains(&entry.item.expires_at(retention));
            let entries = self.held.entries.values().filter(|entry| dies(entry));
            let dying: Vec<Sequence> = entries.map(|entry| entry.item.sequence).collect();
            dying.into_iter().for_each(|sequence| self.set_alarm(sequence));
        }
    }

    fn retention(&self) -> Duration {
        self.queue.policy.retention
    }

    /// How many places were given to messages that entered.
    pub(crate) fn given(&self) -> u64 {
        self.next_sequence.saturating_sub(1)
    }

    /// What came and went. Places are given to what enters, so they count it.
    pub(crate) fn traffic(&self) -> Traffic {
        // The low bits: each count begins anew after its greatest value.
        let sent = (self.given() & u64::from(u32::MAX)) as u32;
        Traffic { sent, leased: self.leased, acked: self.acked }
    }

    /// Leases running.
    pub(crate) fn in_flight(&self) -> u64 {
        self.held.in_flight - self.held.ends.over()
    }

    /// Whether leases are over that were not seen to.
    #[inline]
    pub(crate) fn has_ended_leases(&self) -> bool {
        self.held.ends.over() > 0
    }

    /// Whether this lease is running: not over, and not waiting to be seen to.
    fn is_running(&self, lease: &Lease) -> bool {
        !self.held.ends.is_over(lease.until)
    }

    /// The figures.
    pub(crate) fn counts(&mut self, now: Timestamp) -> Counts {
        Counts { oldest_sent_at: self.oldest_known(now), ..self.numbers() }
    }

    /// How many messages there are.
    pub(crate) fn stored(&self) -> u64 {
        self.held.stored
    }

    /// The figures that are kept, and so without the oldest message.
    pub(crate) fn numbers(&self) -> Counts {
        Counts {
            visible: self.visible(),
            in_flight: self.in_flight(),
            delayed: self.delayed(),
            body_bytes: self.held.body_bytes,
            oldest_sent_at: None,
        }
    }

    /// Messages that may be leased now, or wait behind a locked group.
    pub(crate) fn visible(&self) -> u64 {
        self.held.stored - self.in_flight() - self.delayed()
    }

    fn delayed(&self) -> u64 {
        let rest = self.held.fifo.as_ref().map_or(0, |fifo| fifo.delayed());
        self.held.delayed + (self.held.far.len() - self.held.far.shown()) + rest
    }

    /// When the oldest message was sent; with many entries, as it was known within the last second, and with very many
    /// perhaps an earlier instant, as [`Oldest`](oldest::Oldest) says.
    fn oldest_known(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.held.entries.len() <= OLDEST_LOOKS {
            return self.oldest_sent_at();
        }
        if now.since(self.held.oldest.0) >= Duration::from_secs(1) {
            let held = &mut *self.held;
            let entries = held.oldest_entry.look(&held.entries);
            self.held.oldest = (now, self.oldest_beside(entries));
        }
        self.held.oldest.1
    }

    /// When the oldest message was sent. Looks at every entry, and at the front of everything that is in order.
    fn oldest_sent_at(&self) -> Option<Timestamp> {
        let sent = self.held.entries.values().map(|entry| entry.item.sent_at);
        self.oldest_beside(sent.fold(Timestamp::NEVER, Timestamp::min))
    }

    /// The same where the oldest entry's message was sent then.
    fn oldest_beside(&self, entries: Timestamp) -> Option<Timestamp> {
        let entries = Some(entries).filter(|sent_at| *sent_at != Timestamp::NEVER);
        let rest = self.held.fifo.as_ref().and_then(|fifo| fifo.oldest()).map(|(_, sent_at)| sent_at);
        [entries, rest, self.held.ready.oldest_sent_at(), self.held.far.oldest_sent_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The slot of a group, made when it is new, as [`Item::group`] has it.
    pub(crate) fn group(&mut self, group: Option<&GroupId>) -> Option<GroupSlot> {
        group.map(|group| self.held.groups.slot(group))
    }

    /// The slot of a group that has messages.
    pub(crate) fn group_slot(&self, group: &GroupId) -> Option<GroupSlot> {
        self.held.groups.find(group)
    }

    /// The slot of an origin, made when it is new.
    pub(crate) fn origin(&mut self, queue: &QueueKey, reason: MoveReason) -> OriginSlot {
        let known = self.held.origins.iter().position(|(key, why)| key == queue && *why == reason);
        let slot = known.unwrap_or_else(|| {
            self.held.origins.push((queue.clone(), reason));
            self.held.origins.len() - 1
        });
        OriginSlot::at(slot as u32)
    }

    /// The origin in a slot.
    pub(crate) fn origin_of(&self, item: &Item) -> Option<&(QueueKey, MoveReason)> {
        self.held.origins.get(item.origin?.index())
    }

    /// Whether a group holds too many of the leases.
    pub(crate) fn has_noisy_leases(&self, group: GroupSlot) -> bool {
        let group = self.held.groups.get(group);
        group.is_some_and(|group| self.are_leases_noisy(group))
    }

    /// Whether it holds too many of the stored messages.
    pub(crate) fn has_noisy_backlog(&self, group: GroupSlot) -> bool {
        let group = self.held.groups.get(group);
        group.is_some_and(|group| self.is_backlog_noisy(group))
    }

    fn are_leases_noisy(&self, group: &Group) -> bool {
        rules::fairness::is_noisy(u64::from(group.leased), self.held.in_flight)
    }

    fn is_backlog_noisy(&self, group: &Group) -> bool {
        rules::fairness::is_noisy(u64::from(group.messages), self.held.stored)
    }

    /// Whether a long look for a quiet group was in vain lately; each answer counts as a choice.
    pub(crate) fn has_looked_in_vain(&mut self) -> bool {
        let held = &mut *self.held;
        let has_looked = held.blind_choices > 0;
        held.blind_choices = held.blind_choices.saturating_sub(1);
        has_looked
    }

    /// Chooses without looking for a while.
    pub(crate) fn look_again_after(&mut self, choices: u32) {
        self.held.blind_choices = choices;
    }

    /// Whether every message that is not leased belongs to a noisy group. Then it is no use to look for a quiet one.
    pub(crate) fn is_all_noise(&self) -> bool {
        let groups = &self.held.groups;
        let by_leases = groups.busiest().take_while(|group| self.are_leases_noisy(group));
        let by_backlog = groups.most_crowded(self.held.stored);
        let by_backlog =
            by_backlog.filter(|group| self.is_backlog_noisy(group) && !self.are_leases_noisy(group));
        let waiting: u64 =
            by_leases.chain(by_backlog).map(|group| u64::from(group.messages - group.leased)).sum();
        waiting == self.held.stored - self.held.in_flight
    }
}

#[cfg(test)]
impl Book {
    /// The book of a queue with these settings.
    pub(crate) fn of(policy: kew_core::Policy) -> Self {
        let queue = Queue {
            id: kew_core::QueueId(1),
            key: QueueKey::new(kew_core::AccountId(0), "r", "q"),
            policy,
            documents: Default::default(),
            version: 1,
            created_at: Timestamp::ZERO,
            modified_at: Timestamp::ZERO,
        };
        Self::new(Arc::new(queue))
    }
}

#[cfg(test)]
impl Moment {
    /// The only thing that happens, at its instant.
    pub(crate) fn alone(at: Timestamp) -> Self {
        let (max, elsewhere) = (usize::MAX, Timestamp::NEVER);
        Self { at, now: at, settled: at, elsewhere, mark: 0, lapses_max: max, expired_max: max }
    }
}
