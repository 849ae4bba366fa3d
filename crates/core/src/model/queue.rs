//! One queue of the model: its messages in the order of their sends, and the few things it remembers beside them.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::dedup::{self, Identity};
use crate::rules::visibility::LeaseEnd;
use crate::rules::{attempts, delay, fairness, fifo, retention};
use crate::{
    Content, Counts, DeduplicationId, Expiry, GroupId, LeaseToken, Message, MessageId, NewMessage, Origin,
    OwnerId, Queue, QueueId, Return, Sequence, State, Text, Timestamp,
};

/// One queue.
#[derive(Debug)]
pub(super) struct ModelQueue {
    pub definition: Queue,
    pub last_sequence: u64,
    /// In the order of their sequences.
    pub messages: Vec<Held>,
    /// The groups of a FIFO queue that offer something, the next one to be served first.
    pub rotation: Vec<GroupId>,
    pub remembered: Vec<Remembered>,
    pub attempts: Vec<Attempt>,
}

/// One stored message.
#[derive(Debug)]
pub(super) struct Held {
    pub sequence: Sequence,
    pub id: MessageId,
    pub content: Content,
    pub group: Option<GroupId>,
    pub deduplication: Option<DeduplicationId>,
    pub sent_at: Timestamp,
    pub expiry: Expiry,
    pub attempts: u32,
    pub first_leased_at: Option<Timestamp>,
    pub origin: Option<Origin>,
    /// Ready messages of a standard queue are offered by (rank, sequence).
    pub rank: Timestamp,
    pub state: State,
    /// Whether a FIFO queue's own delay still decides when it shows.
    pub fresh: bool,
    /// Of its newest receipt.
    pub nonce: u64,
    /// When its newest lease ended or will end; `None` if it was never leased here.
    pub lease_end: Option<Timestamp>,
    /// Of its newest lease, running or over.
    pub terms: Option<Terms>,
    /// When it goes to the dead letters, if nothing comes between.
    pub leaves_at: Option<Timestamp>,
    /// What a withdrawal of its running lease restores; `None` once that lease was changed.
    pub before: Option<Before>,
}

/// What a lease was taken on.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub received_at: Timestamp,
    pub cap: Option<Duration>,
    pub lapse_delay: Duration,
    pub returns: Return,
    pub owner: Option<OwnerId>,
    /// How its end will be recorded.
    pub ending: LeaseEnd,
}

/// What a lease overwrote.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub first_leased_at: Option<Timestamp>,
    pub nonce: u64,
    pub lease_end: Option<Timestamp>,
    pub terms: Option<Terms>,
    pub fresh: bool,
}

/// A deduplication identity and the first send that used it.
#[derive(Debug)]
pub(super) struct Remembered {
    pub identity: Identity,
    pub first_at: Timestamp,
    pub id: MessageId,
    pub token: LeaseToken,
}

/// A receive that may be repeated.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub id: Text,
    pub first_at: Timestamp,
    pub leased: Vec<(Sequence, u64)>,
}

/// Where a group that begins to offer joins the rotation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Back,
    Front,
}

impl ModelQueue {
    pub fn new(definition: Queue) -> Self {
        Self {
            definition,
            last_sequence: 0,
            messages: Vec::new(),
            rotation: Vec::new(),
            remembered: Vec::new(),
            attempts: Vec::new(),
        }
    }

    pub fn id(&self) -> QueueId {
        self.definition.id
    }

    pub fn is_fifo(&self) -> bool {
        self.definition.policy.kind.is_fifo()
    }

    pub fn shown(&self) -> Arc<Queue> {
        Arc::new(self.definition.clone())
    }

    pub fn find(&self, sequence: Sequence) -> Option<&Held> {
        self.messages.iter().find(|held| held.sequence == sequence)
    }

    /// The message of this sequence, which is known to be stored.
    pub fn stored(&self, sequence: Sequence) -> &Held {
        self.find(sequence).unwrap_or_else(|| lost(sequence))
    }

    /// The same, to be changed.
    pub fn held(&mut self, sequence: Sequence) -> &mut Held {
        self.messages.iter_mut().find(|held| held.sequence == sequence).unwrap_or_else(|| lost(sequence))
    }

    pub fn token(&self, held: &Held) -> LeaseToken {
        LeaseToken { queue: self.id(), sequence: held.sequence, nonce: held.nonce, mac: 0 }
    }

    pub fn expires_at(&self, held: &Held) -> Option<Timestamp> {
        retention::expires_at(held.sent_at, held.expiry, self.definition.policy.retention)
    }

    pub fn message(&self, held: &Held) -> Message {
        Message {
            queue: self.id(),
            sequence: held.sequence,
            id: held.id,
            content: held.content.clone(),
            group: held.group.clone(),
            deduplication: held.deduplication.clone(),
            sent_at: held.sent_at,
            expires_at: self.expires_at(held),
            attempts: held.attempts,
            first_leased_at: held.first_leased_at,
            origin: held.origin.clone(),
            state: held.state,
        }
    }

    /// Adds a message behind all others.
    pub fn add(&mut self, held: Held) {
        let group = held.group.clone();
        self.messages.push(held);
        self.settle_group(group.as_ref(), Join::Back);
    }

    pub fn remove(&mut self, sequence: Sequence) -> Held {
        let place = self.messages.iter().position(|held| held.sequence == sequence);
        let place = place.unwrap_or_else(|| lost(sequence));
        let held = self.messages.remove(place);
        self.forget_attempt_of(sequence);
        self.settle_group(held.group.as_ref(), Join::Back);
        held
    }

    /// A receive can be repeated only while all its leases are as they were.
    pub fn forget_attempt_of(&mut self, sequence: Sequence) {
        self.attempts.retain(|attempt| attempt.leased.iter().all(|(leased, _)| *leased != sequence));
    }

    /// What a group of a FIFO queue offers: its messages from the head to the first that is leased or hidden.
    ///
    /// States are exact, because what is due has been done; so no instant makes one offerable that is not `Ready`.
    pub fn offered_of(&self, group: &GroupId) -> Vec<Sequence> {
        let of_group = || self.messages.iter().filter(|held| held.group.as_ref() == Some(group));
        let offered = fifo::offered(of_group().map(|held| held.state), Timestamp::ZERO);
        of_group().take(offered).map(|held| held.sequence).collect()
    }

    /// Puts a group into the rotation when it has begun to offer, and takes it out when it has stopped.
    pub fn settle_group(&mut self, group: Option<&GroupId>, join: Join) {
        let Some(group) = group.filter(|_| self.is_fifo()) else { return };
        let offers = !self.offered_of(group).is_empty();
        let standing = self.rotation.contains(group);
        match (offers, standing, join) {
            (true, false, Join::Back) => self.rotation.push(group.clone()),
            (true, false, Join::Front) => self.rotation.insert(0, group.clone()),
            (false, true, _) => self.rotation.retain(|each| each != group),
            (true, true, _) | (false, false, _) => {}
        }
    }

    /// The order of a standard queue: ready messages by (rank, sequence).
    pub fn ready(&self) -> Vec<Sequence> {
        let mut ready: Vec<_> = self.messages.iter().filter(|held| held.state == State::Ready).collect();
        ready.sort_by_key(|held| (held.rank, held.sequence));
        ready.iter().map(|held| held.sequence).collect()
    }

    /// Every message that is offered, in the order leases would take them.
    pub fn in_lease_order(&self) -> Vec<Sequence> {
        match self.is_fifo() {
            true => self.rotation.iter().flat_map(|group| self.offered_of(group)).collect(),
            false => self.ready(),
        }
    }

    pub fn leased(&self) -> impl Iterator<Item = &Held> {
        self.messages.iter().filter(|held| matches!(held.state, State::Leased { .. }))
    }

    /// Whether a message's group holds too many of the leases.
    pub fn is_of_group_with_noisy_leases(&self, sequence: Sequence) -> bool {
        self.is_of_group_that_holds_much(sequence, |held| matches!(held.state, State::Leased { .. }))
    }

    /// Whether it holds too many of the stored messages.
    pub fn is_of_group_with_noisy_backlog(&self, sequence: Sequence) -> bool {
        self.is_of_group_that_holds_much(sequence, |_| true)
    }

    fn is_of_group_that_holds_much(&self, sequence: Sequence, counts: impl Fn(&Held) -> bool) -> bool {
        let Some(group) = self.find(sequence).and_then(|held| held.group.as_ref()) else { return false };
        let counted = || self.messages.iter().filter(|held| counts(held));
        let of_group = counted().filter(|held| held.group.as_ref() == Some(group)).count();
        fairness::is_noisy(of_group as u64, counted().count() as u64)
    }

    /// Everything counted by looking at everything.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for held in &self.messages {
            match held.state {
                State::Ready => counts.visible += 1,
                State::Delayed { .. } => counts.delayed += 1,
                State::Leased { .. } => counts.in_flight += 1,
            }
            counts.body_bytes += held.body_bytes();
        }
        counts.oldest_sent_at = self.messages.iter().map(|held| held.sent_at).min();
        counts
    }

    /// When a FIFO queue's delay changed: fresh messages follow it at once, both ways, in the order of their sends.
    pub fn follow_delay(&mut self, now: Timestamp) {
        let policy = self.definition.policy.clone();
        if !policy.kind.is_fifo() {
            return;
        }
        let delay = delay::of_new_message(None, &policy).unwrap_or(policy.delay);
        let follows = |held: &&Held| held.fresh && !matches!(held.state, State::Leased { .. });
        for sequence in self.messages.iter().filter(follows).map(|held| held.sequence).collect::<Vec<_>>() {
            let held = self.held(sequence);
            held.show_at(held.sent_at.plus(delay), now);
            let group = held.group.clone();
            self.settle_group(group.as_ref(), Join::Back);
        }
    }

    /// The first send under this identity, if it is remembered.
    pub fn first_send(
        &mut self,
        now: Timestamp,
        message: &NewMessage,
        own: Option<&Identity>,
    ) -> Option<&Remembered> {
        self.remembered.retain(|remembered| dedup::is_repeat(remembered.first_at, now));
        let before = own.and_then(|own| dedup::identity_before(&self.definition, message, own, now));
        let known =
            |identity: &Identity| self.remembered.iter().find(|remembered| remembered.identity == *identity);
        own.and_then(known).or_else(|| before.as_ref().and_then(known))
    }

    /// Ends of the time ids are remembered.
    pub fn windows(&self) -> impl Iterator<Item = Timestamp> {
        let ids = self.remembered.iter().map(|remembered| remembered.first_at.plus(dedup::WINDOW));
        ids.chain(self.attempts.iter().map(|attempt| attempt.first_at.plus(attempts::WINDOW)))
    }

    /// What must hold between two steps.
    pub fn audit(&self) {
        assert!(self.messages.is_sorted_by_key(|held| held.sequence), "sequences rise");
        assert_eq!(self.counts().stored(), self.messages.len() as u64, "the counts add up to a full scan");
        for held in &self.messages {
            assert!(held.sequence.0 <= self.last_sequence, "every sequence was handed out");
            let leased = matches!(held.state, State::Leased { .. });
            assert!(leased || held.before.is_none(), "only a running lease can be withdrawn");
            let offers = held.group.as_ref().is_some_and(|group| !self.offered_of(group).is_empty());
            let standing = held.group.as_ref().is_some_and(|group| self.rotation.contains(group));
            assert!(
                !self.is_fifo() || offers == standing,
                "exactly the groups that offer stand in the rotation"
            );
        }
        for group in &self.rotation {
            assert_eq!(self.rotation.iter().filter(|each| *each == group).count(), 1, "a group stands once");
            assert!(!self.offered_of(group).is_empty(), "a group that stands offers");
        }
    }
}

impl Held {
    pub fn body_bytes(&self) -> u64 {
        self.content.body.len() as u64
    }

    /// Ready, or hidden until then.
    pub fn show_at(&mut self, visible_at: Timestamp, now: Timestamp) {
        self.state = if visible_at > now { State::Delayed { until: visible_at } } else { State::Ready };
    }
}

fn lost(sequence: Sequence) -> ! {
    panic!("the model lost message {sequence:?}")
}
