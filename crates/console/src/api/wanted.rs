//! Which messages an operator asks for, in the words of the API: what the store knows of them, and what their bodies
//! hold.

use std::time::Duration;

use kew_core::command::{Browse, StateKind};
use kew_core::{GroupId, QueueId, Text, Timestamp};

use super::fields::Members;
use super::filter::Filter;
use crate::error::ApiError;

/// Messages that are wanted.
pub(super) struct Wanted {
    /// What the store is asked.
    pub(super) browse: Browse,
    /// What their bodies are asked.
    pub(super) filter: Filter,
}

impl Wanted {
    /// What parameters of a query, or members of a filter, ask for at this instant.
    pub(super) fn of(asked: &Members, queue: QueueId, now: Timestamp) -> Result<Self, ApiError> {
        let age = asked.whole("older_than_seconds").map(Duration::from_secs);
        let attempts = asked.whole("min_attempts").unwrap_or_default();
        let browse = Browse {
            state: state_kind(asked.text("state")),
            group: asked.text("group").map(|group| GroupId(Text::from(group))),
            attempts_min: u32::try_from(attempts).unwrap_or(u32::MAX),
            sent_through: age.map_or(Timestamp::NEVER, |age| now.minus(age)),
            ..Browse::of(queue, 1)
        };
        Ok(Self { browse, filter: Filter::new(asked.text("text"), asked.text("json"))? })
    }
}

fn state_kind(word: Option<&str>) -> Option<StateKind> {
    match word {
        Some("visible") => Some(StateKind::Visible),
        Some("in_flight") => Some(StateKind::InFlight),
        Some("delayed") => Some(StateKind::Delayed),
        _ => None,
    }
}
