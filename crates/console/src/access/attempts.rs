//! A bound on wrong passwords: from one address, and for one user's name from anywhere.
//!
//! A key that had its share of wrong passwords waits; each minute gives one back. What is counted is bounded: past the
//! bound the key that has waited longest is forgotten.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Wrong passwords before a key waits.
const FREE: u32 = 10;
/// How long until one of them is forgotten.
const FORGOTTEN_EACH: Duration = Duration::from_secs(6);
/// Keys that are counted.
const KEYS_MAX: usize = 4_096;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Address(IpAddr),
    User(String),
}

#[derive(Clone, Copy)]
struct Count {
    wrong: u32,
    /// Up to when forgotten ones are taken off.
    since: Duration,
}

/// Wrong passwords lately. Instants are of a clock that cannot be set.
#[derive(Default)]
pub(crate) struct Attempts {
    counts: HashMap<Key, Count>,
}

impl Attempts {
    /// How long this address and this name must wait before another password is checked; `None` is not at all.
    pub(crate) fn wait(&mut self, address: IpAddr, user: &str, now: Duration) -> Option<Duration> {
        let keys = [Key::Address(address), Key::User(user.to_owned())];
        keys.into_iter().filter_map(|key| self.wait_of(&key, now)).max()
    }

    /// Notes a password that will be checked; [`Attempts::right`] takes it back.
    pub(crate) fn begin(&mut self, address: IpAddr, user: &str, now: Duration) {
        for key in [Key::Address(address), Key::User(user.to_owned())] {
            if !self.counts.contains_key(&key) && self.counts.len() >= KEYS_MAX {
                let oldest = self.counts.iter().min_by_key(|(_, count)| count.since);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    self.counts.remove(&oldest);
                }
            }
            let count = self.counts.entry(key).or_insert(Count { wrong: 0, since: now });
            count.wrong = count.wrong.saturating_add(1);
        }
    }

    /// The password was right: it does not count.
    pub(crate) fn right(&mut self, address: IpAddr, user: &str) {
        for key in [Key::Address(address), Key::User(user.to_owned())] {
            if let Some(count) = self.counts.get_mut(&key) {
                count.wrong = count.wrong.saturating_sub(1);
            }
        }
    }

    fn wait_of(&mut self, key: &Key, now: Duration) -> Option<Duration> {
        let count = self.counts.get_mut(key)?;
        let passed = now.saturating_sub(count.since);
        let forgotten = u32::try_from(passed.as_millis() / FORGOTTEN_EACH.as_millis()).unwrap_or(u32::MAX);
        count.wrong = count.wrong.saturating_sub(forgotten);
        count.since = count.since.saturating_add(FORGOTTEN_EACH.saturating_mul(forgotten));
        if count.wrong == 0 {
            self.counts.remove(key);
            return None;
        }
        (count.wrong >= FREE).then(|| FORGOTTEN_EACH.saturating_sub(now.saturating_sub(count.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_eleventh_wrong_password_waits_and_time_gives_one_back() {
        let mut attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.wait(HERE, "anna", at(100)), None);
            attempts.begin(HERE, "anna", at(100));
        }
        assert_eq!(attempts.wait(HERE, "anna", at(100)), Some(at(6)));
        assert_eq!(attempts.wait(HERE, "bert", at(101)), Some(at(5)), "the address waits");
        assert_eq!(attempts.wait(THERE, "anna", at(101)), Some(at(5)), "the name waits");
        assert_eq!(attempts.wait(THERE, "bert", at(101)), None);
        assert_eq!(attempts.wait(HERE, "anna", at(106)), None);
        attempts.begin(HERE, "anna", at(106));
        assert_eq!(attempts.wait(HERE, "anna", at(106)), Some(at(6)));
        assert_eq!(attempts.wait(HERE, "anna", at(1_000)), None, "all are forgotten");
        assert!(attempts.counts.is_empty());
    }

    #[test]
    fn right_passwords_do_not_count() {
        let mut attempts = Attempts::default();
        for _ in 0..100 {
            assert_eq!(attempts.wait(HERE, "anna", at(1)), None);
            attempts.begin(HERE, "anna", at(1));
            attempts.right(HERE, "anna");
        }
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let mut attempts = Attempts::default();
        for number in 0..10_000 {
            attempts.begin(HERE, &format!("user{number}"), at(1));
        }
        assert!(attempts.counts.len() <= KEYS_MAX);
    }
}
