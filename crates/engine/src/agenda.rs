//! What the engine itself has to do and when: one sorted structure for the ends of waits and for sleepers.
//!
//! What messages have to do lies in the store, which says when the next of it is due.

use std::collections::BTreeMap;

use kew_core::{QueueId, Timestamp};
use tokio::sync::oneshot;

use crate::busy::Busy;

/// Counts up with each arrival: earlier arrivals have smaller numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Ticket(pub(crate) u64);

/// Something to do at an instant.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// A receive on this queue has waited long enough.
    WaitEnds(QueueId),
    /// Somebody wants to be woken.
    Wake(oneshot::Sender<Busy>),
}

/// Alarms by instant, and within one instant by arrival.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    alarms: BTreeMap<(Timestamp, Ticket), Alarm>,
}

impl Agenda {
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.alarms.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first alarm out when it is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Ticket, Alarm)> {
        self.first_at().filter(|at| *at <= now)?;
        self.alarms.pop_first().map(|((at, ticket), alarm)| (at, ticket, alarm))
    }

    pub(crate) fn set(&mut self, at: Timestamp, ticket: Ticket, alarm: Alarm) {
        self.alarms.insert((at, ticket), alarm);
    }

    pub(crate) fn cancel(&mut self, at: Timestamp, ticket: Ticket) {
        self.alarms.remove(&(at, ticket));
    }
}
