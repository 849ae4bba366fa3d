//! A bound on wrong passwords from one network: an IPv4 address, or an IPv6 network of 64 bits.
//!
//! A network that had its share of wrong passwords waits; each six seconds give one back. A user's name is never
//! counted over all networks: then anybody could lock that user out. Within a network all names share one count, so a
//! count for each would bound nothing more. What is counted is bounded: past the bound the network that has waited
//! longest is forgotten.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use kew_http::network_of;

/// Wrong passwords before a network waits.
const FREE: u32 = 10;
/// How long until one of them is forgotten.
const FORGOTTEN_EACH: Duration = Duration::from_secs(6);
/// Networks that are counted.
const NETWORKS_MAX: usize = 4_096;

#[derive(Clone, Copy)]
struct Count {
    wrong: u32,
    /// Up to when forgotten ones are taken off.
    since: Duration,
}

/// Wrong passwords lately. Instants are of a clock that cannot be set.
#[derive(Default)]
pub(crate) struct Attempts {
    counts: HashMap<IpAddr, Count>,
}

impl Attempts {
    /// How long this address must wait before another password is checked; `None` is not at all.
    pub(crate) fn wait(&mut self, address: IpAddr, now: Duration) -> Option<Duration> {
        let network = network_of(address);
        let count = self.counts.get_mut(&network)?;
        let passed = now.saturating_sub(count.since);
        let forgotten = u32::try_from(passed.as_millis() / FORGOTTEN_EACH.as_millis()).unwrap_or(u32::MAX);
        count.wrong = count.wrong.saturating_sub(forgotten);
        count.since = count.since.saturating_add(FORGOTTEN_EACH.saturating_mul(forgotten));
        if count.wrong == 0 {
            self.counts.remove(&network);
            return None;
        }
        (count.wrong >= FREE).then(|| FORGOTTEN_EACH.saturating_sub(now.saturating_sub(count.since)))
    }

    /// Notes a password that will be checked; [`Attempts::right`] takes it back.
    pub(crate) fn begin(&mut self, address: IpAddr, now: Duration) {
        let network = network_of(address);
        if !self.counts.contains_key(&network) && self.counts.len() >= NETWORKS_MAX {
            let oldest = self.counts.iter().min_by_key(|(_, count)| count.since);
            if let Some(oldest) = oldest.map(|(network, _)| *network) {
                self.counts.remove(&oldest);
            }
        }
        let count = self.counts.entry(network).or_insert(Count { wrong: 0, since: now });
        count.wrong = count.wrong.saturating_add(1);
    }

    /// The password was right: it does not count.
    pub(crate) fn right(&mut self, address: IpAddr) {
        if let Some(count) = self.counts.get_mut(&network_of(address)) {
            count.wrong = count.wrong.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_eleventh_wrong_password_of_a_network_waits_and_time_gives_one_back() {
        let mut attempts = Attempts::default();
        for _ in 0..FREE {
            assert_eq!(attempts.wait(HERE, at(100)), None);
            attempts.begin(HERE, at(100));
        }
        assert_eq!(attempts.wait(HERE, at(100)), Some(at(6)));
        assert_eq!(attempts.wait(THERE, at(101)), None, "another network does not wait");
        assert_eq!(attempts.wait(HERE, at(106)), None);
        attempts.begin(HERE, at(106));
        assert_eq!(attempts.wait(HERE, at(106)), Some(at(6)));
        assert_eq!(attempts.wait(HERE, at(1_000)), None, "all are forgotten");
        assert!(attempts.counts.is_empty());
    }

    #[test]
    fn addresses_of_one_network_are_counted_together() {
        let mut attempts = Attempts::default();
        for last in 0..10 {
            attempts.begin(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, last, 0, 0, last).into(), at(1));
            attempts.begin(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().into(), at(1));
        }
        assert!(attempts.wait(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9).into(), at(1)).is_some());
        assert!(attempts.wait(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0).into(), at(1)).is_none());
        assert!(attempts.wait(THERE, at(1)).is_some(), "it is the address written as IPv6");
    }

    #[test]
    fn right_passwords_do_not_count() {
        let mut attempts = Attempts::default();
        for _ in 0..100 {
            assert_eq!(attempts.wait(HERE, at(1)), None);
            attempts.begin(HERE, at(1));
            attempts.right(HERE);
        }
    }

    #[test]
    fn what_is_counted_is_bounded() {
        let mut attempts = Attempts::default();
        for number in 0..10_000 {
            attempts.begin(Ipv4Addr::from_bits(number).into(), at(1));
        }
        assert_eq!(attempts.counts.len(), NETWORKS_MAX);
    }
}
