//! A message as the ledger keeps it: where its content lies, and the few facts the laws need.

use std::num::NonZeroU32;
use std::time::Duration;

use kew_core::rules::visibility::LeaseEnd;
use kew_core::{Expiry, OwnerId, Return, Sequence, Text, Timestamp, rules};

use super::groups::GroupSlot;
use super::shelf::{Address, Place};
use crate::token::Sealed;

/// An instant, or none, in eight bytes: messages are held by the million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaybeInstant(Timestamp);

impl MaybeInstant {
    /// No instant.
    pub const NONE: Self = Self(Timestamp::NEVER);

    /// This instant.
    #[inline]
    pub fn at(instant: Timestamp) -> Self {
        Self(instant)
    }

    /// Whether there is one.
    #[inline]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The instant, if there is one.
    #[inline]
    pub fn get(self) -> Option<Timestamp> {
        self.is_some().then_some(self.0)
    }

    /// As it is written: the greatest number is none.
    pub(crate) fn number(self) -> u64 {
        self.0.0
    }

    /// What was written as this number.
    pub(crate) fn of_number(number: u64) -> Self {
        Self(Timestamp(number))
    }
}

impl From<Option<Timestamp>> for MaybeInstant {
    fn from(instant: Option<Timestamp>) -> Self {
        instant.map_or(Self::NONE, Self)
    }
}

/// A slot in a queue's table of origins. With or without one takes four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginSlot(NonZeroU32);

impl OriginSlot {
    /// The slot with this index, counted from zero.
    pub(crate) fn at(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    /// Its index, counted from zero.
    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// As messages are written with it: zero is no origin, and slots count from one.
    pub(crate) fn number_of(slot: Option<Self>) -> u32 {
        slot.map_or(0, |slot| slot.0.get())
    }

    /// The slot that was written as this number.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }
}

/// A message as the ledger keeps it. Small and copied about; its content stays on the shelf.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Item {
    /// Its place in the order of sends.
    pub sequence: Sequence,
    /// Where its content lies.
    pub address: Address,
    /// The bytes of the record its content lies in.
    pub record_bytes: u32,
    /// The length of its body.
    pub body_bytes: u32,
    /// What retention counts from.
    pub sent_at: Timestamp,
    /// Ready messages are offered by (rank, sequence).
    pub rank: Timestamp,
    /// When it shows. Zero where nothing hides it; for a message that enters a FIFO queue, zero says that the queue's
    /// delay does not apply.
    pub visible_at: Timestamp,
    /// How it expires.
    pub expiry: Expiry,
    /// Its group, if it has one.
    pub group: Option<GroupSlot>,
    /// How often it was leased.
    pub attempts: u32,
    /// When it was first leased.
    pub first_leased_at: MaybeInstant,
    /// Its newest receipt's nonce; zero is its send's own receipt.
    pub nonce: u64,
    /// When its last lease ended.
    pub lease_end: MaybeInstant,
    /// Where it came from, if it was moved.
    pub origin: Option<OriginSlot>,
    /// When it entered this queue, if it was moved from another.
    pub moved_at: Timestamp,
}

impl Item {
    /// Where its content lies.
    pub fn place(&self) -> Place {
        Place { address: self.address, bytes: self.record_bytes }
    }

    /// Its place among the ready ones.
    pub fn key(&self) -> (Timestamp, Sequence) {
        (self.rank, self.sequence)
    }

    /// When it expires under this retention; `NEVER` is never.
    pub fn expires_at(&self, retention: Duration) -> Timestamp {
        rules::retention::expires_at(self.sent_at, self.expiry, retention).unwrap_or(Timestamp::NEVER)
    }

    /// Whether it was leased, or given a new receipt, in this queue.
    pub fn has_nonce(&self) -> bool {
        self.nonce != 0
    }
}

/// What a message that is not simply at rest is doing.
#[derive(Clone, Debug)]
pub enum Hold {
    /// Nothing: it may be leased.
    Ready,
    /// Hidden until its `visible_at`.
    Delayed,
    /// Leased.
    Leased(Lease),
}

/// A running lease, with the terms it was taken on and what it took the place of.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Its end; `NEVER` while an owner keeps it.
    pub until: Timestamp,
    /// When the request that took it arrived.
    pub received_at: Timestamp,
    /// The longest it may last from there.
    pub cap: Option<Duration>,
    /// How long the message stays hidden if the lease ends by itself.
    pub lapse_delay: Duration,
    /// Where the message returns to.
    pub returns: Return,
    /// Who keeps it without an end.
    pub owner: Option<OwnerId>,
    /// The receive attempt it belongs to, while that may be repeated.
    pub attempt: Option<Text>,
    /// The receipt it was taken with, if it was sealed since the start: who brings the very same needs no checking by
    /// the key.
    pub sealed: Option<Sealed>,
    /// What to restore if the lease is withdrawn; `None` once it was changed.
    pub before: Option<Before>,
    /// How its end will be recorded. It is not stored: where it is not as usual, the lease ends at the instant at which
    /// that was decided, and a store that is opened in between records that it ran out.
    pub ending: LeaseEnd,
}

impl Lease {
    /// Whether its message shows again at this alarm of it, because the lease ends.
    #[inline]
    pub fn shows_at(&self, alarm: Timestamp) -> bool {
        alarm == self.until && self.lapse_delay.is_zero() && alarm != Timestamp::NEVER
    }
}

/// The facts a lease overwrote.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// The newest nonce before.
    pub nonce: u64,
    /// The first lease before.
    pub first_leased_at: MaybeInstant,
    /// The last lease's end before.
    pub lease_end: MaybeInstant,
}

/// A message that is leased, hidden for a short while, or back from either.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The message.
    pub item: Item,
    /// What it is doing.
    pub hold: Hold,
    /// Its one alarm: the next instant its state changes by itself, or `NEVER`.
    pub alarm: Timestamp,
}

impl Entry {
    /// When the message may next be offered, as things stand.
    pub fn visible_at(&self) -> Timestamp {
        match &self.hold {
            Hold::Ready => Timestamp::ZERO,
            Hold::Delayed => self.item.visible_at,
            Hold::Leased(lease) => lease.until,
        }
    }

    /// The receipt of its lease, if that was sealed since the start.
    pub fn sealed(&self) -> Option<Sealed> {
        match &self.hold {
            Hold::Leased(lease) => lease.sealed,
            Hold::Ready | Hold::Delayed => None,
        }
    }

    /// The end of its newest lease, running or over.
    pub fn lease_end(&self) -> Option<Timestamp> {
        match &self.hold {
            Hold::Leased(lease) => Some(lease.until),
            Hold::Ready | Hold::Delayed => self.item.lease_end.get(),
        }
    }
}
