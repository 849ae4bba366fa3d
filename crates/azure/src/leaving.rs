//! Names of deleted queues that stay in the way for a while, for those who test how their code waits for it.

use std::collections::HashMap;
use std::time::Duration;

use kew_core::{AccountId, Timestamp};
use parking_lot::Mutex;

/// Names kept at once; beyond that the oldest is let go early.
const NAMES_MAX: usize = 10_000;

/// The names, and until when each is held.
#[derive(Debug)]
pub(crate) struct Leaving {
    delay: Duration,
    /// Guards the names; held for one look.
    held: Mutex<HashMap<(AccountId, Box<str>), Timestamp>>,
}

impl Leaving {
    /// Holds names for `delay`; zero is not at all.
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, held: Mutex::default() }
    }

    /// A queue of this name was deleted.
    pub(crate) fn hold(&self, account: AccountId, name: &str, now: Timestamp) {
        if self.delay.is_zero() {
            return;
        }
        let mut held = self.held.lock();
        if held.len() >= NAMES_MAX {
            held.retain(|_, until| *until > now);
        }
        if held.len() >= NAMES_MAX
            && let Some(oldest) = held.iter().min_by_key(|(_, until)| **until).map(|(name, _)| name.clone())
        {
            held.remove(&oldest);
        }
        held.insert((account, name.into()), now.plus(self.delay));
    }

    /// Whether the name is still held.
    pub(crate) fn holds(&self, account: AccountId, name: &str, now: Timestamp) -> bool {
        !self.delay.is_zero()
            && self.held.lock().get(&(account, name.into())).is_some_and(|until| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_until_the_delay_is_over() {
        let leaving = Leaving::new(Duration::from_secs(30));
        let account = AccountId(1);
        leaving.hold(account, "abc", Timestamp(0));
        assert!(leaving.holds(account, "abc", Timestamp(29_999)));
        assert!(!leaving.holds(account, "abc", Timestamp(30_000)));
        assert!(!leaving.holds(AccountId(2), "abc", Timestamp(0)));
        let never = Leaving::new(Duration::ZERO);
        never.hold(account, "abc", Timestamp(0));
        assert!(!never.holds(account, "abc", Timestamp(0)));
    }
}
