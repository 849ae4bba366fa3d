//! What the engine keeps between steps.

use std::time::Duration;

use kew_core::Timestamp;

use crate::agenda::{Agenda, Ticket};
use crate::bells::Watches;
use crate::lines::Waiters;

/// What the engine keeps between steps.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) waiters: Waiters,
    pub(crate) agenda: Agenda,
    pub(crate) watches: Watches,
    /// New waits are refused.
    pub(crate) closed: bool,
    /// The instant the timers will look at next.
    pub(crate) armed: Timestamp,
    /// The newest instant a step was taken at.
    pub(crate) stepped: Timestamp,
    /// When the time was last recorded for its own sake, on the steady clock.
    pub(crate) recorded: Duration,
    tickets: u64,
}

impl Default for Pass {
    fn default() -> Self {
        Self {
            waiters: Waiters::default(),
            agenda: Agenda::default(),
            watches: Watches::default(),
            closed: false,
            armed: Timestamp::NEVER,
            stepped: Timestamp::ZERO,
            recorded: Duration::ZERO,
            tickets: 0,
        }
    }
}

impl Pass {
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }
}
