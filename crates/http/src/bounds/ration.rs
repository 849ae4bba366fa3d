//! One bound for the bytes of all bodies together, and smaller ones within it for senders who have proved nothing yet.
//!
//! A body that comes in pieces is counted from its first byte until its request is answered. A sender whose head proves
//! nothing shares a sixteenth with all others of that kind; one who names a known key, an eighth with everybody of the
//! same address, and three quarters with all of that kind. So a quarter is left to those who have proved who they are,
//! whatever others send.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// One address may hold so much of claimed bodies, however small the whole is: a body of the largest usual size.
const OF_ADDRESS_MIN: usize = 2 << 20;

/// How many bytes of bodies are held at the moment, by all listeners that share it.
#[derive(Clone, Debug, Default)]
pub struct Ration(Arc<Held>);

#[derive(Debug, Default)]
struct Held {
    all: AtomicUsize,
    unknown: AtomicUsize,
    claimed: AtomicUsize,
    /// Guards what each address holds of claimed bodies; who holds nothing is not in it.
    addresses: Mutex<HashMap<IpAddr, usize>>,
}

/// Whom a share is counted for, beside everybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sender {
    /// Somebody who has proved who they are.
    Known,
    /// Somebody at this address who names a known key.
    Claimed(IpAddr),
    /// Anybody.
    Unknown,
}

impl Sender {
    /// Senders at this address that name a known key. Of IPv6 the network counts: its addresses cost nothing.
    pub(crate) fn claimed(address: IpAddr) -> Self {
        Self::Claimed(network_of(address))
    }
}

/// Whom bounds for one sender count for: an IPv4 address, also one that is written as IPv6, or an IPv6 network of 64
/// bits, since the addresses of one cost nothing.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Ration {
    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }

    /// A share of nothing, to grow while all shares together stay within `bytes_max`.
    pub(crate) fn share(&self, bytes_max: usize) -> Share<'_> {
        Share { held: &self.0, sender: Sender::Known, bytes: 0, bytes_max }
    }
}

/// What one body holds; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    held: &'a Held,
    sender: Sender,
    bytes: usize,
    bytes_max: usize,
}

impl Share<'_> {
    /// From now on, and while it is still empty, the share is counted for this sender.
    pub(crate) fn count_for(&mut self, sender: Sender) {
        assert_eq!(self.bytes, 0, "a share is counted for one sender from its first byte on");
        self.sender = sender;
    }

    /// Takes this number of bytes more, unless that is too much.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let fits = take(&self.held.all, bytes) <= self.bytes_max;
        let may = match self.sender {
            Sender::Known => true,
            Sender::Unknown => take(&self.held.unknown, bytes) <= self.bytes_max / 16,
            Sender::Claimed(address) => {
                let of_address_max = (self.bytes_max / 8).max(OF_ADDRESS_MIN);
                let together = take(&self.held.claimed, bytes) <= self.bytes_max / 4 * 3;
                self.held.take_at(address, bytes) <= of_address_max && together
            }
        };
        fits && may
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        self.held.all.fetch_sub(self.bytes, Ordering::Relaxed);
        match self.sender {
            Sender::Known => {}
            Sender::Unknown => drop(self.held.unknown.fetch_sub(self.bytes, Ordering::Relaxed)),
            Sender::Claimed(address) => {
                self.held.claimed.fetch_sub(self.bytes, Ordering::Relaxed);
                self.held.give_back_at(address, self.bytes);
            }
        }
    }
}

fn take(held: &AtomicUsize, bytes: usize) -> usize {
    held.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
}

impl Held {
    fn take_at(&self, address: IpAddr, bytes: usize) -> usize {
        let mut addresses = self.addresses.lock();
        let held = addresses.entry(address).or_default();
        *held = held.saturating_add(bytes);
        *held
    }

    fn give_back_at(&self, address: IpAddr, bytes: usize) {
        if let Entry::Occupied(mut held) = self.addresses.lock().entry(address) {
            *held.get_mut() = held.get().saturating_sub(bytes);
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = 32 << 20;

    fn share(ration: &Ration, sender: Sender) -> Share<'_> {
        let mut share = ration.share(WHOLE);
        share.count_for(sender);
        share
    }

    fn at(address: &str) -> Sender {
        Sender::claimed(address.parse().expect("the address is an IP address"))
    }

    #[test]
    fn shares_grow_up_to_the_bound_together_and_give_back() {
        let ration = Ration::default();
        let (mut one, mut other) = (ration.share(10), ration.share(10));
        assert!(one.grow(6));
        assert!(other.grow(4));
        assert_eq!(ration.held(), 10);
        assert!(!other.grow(1), "that is one too many");
        drop(other);
        assert!(one.grow(4), "there is room again");
        drop(one);
        assert_eq!(ration.held(), 0);
    }

    #[test]
    fn the_unknown_have_a_sixteenth_together() {
        let ration = Ration::default();
        let (mut one, mut other) = (share(&ration, Sender::Unknown), share(&ration, Sender::Unknown));
        assert!(one.grow(WHOLE / 16 - 1));
        assert!(other.grow(1), "that is the last byte");
        assert!(!other.grow(1), "that is one too many");
        assert!(share(&ration, Sender::Known).grow(WHOLE / 16 * 15 - 1), "the rest is for others");
        drop(other);
        assert!(share(&ration, Sender::Unknown).grow(1), "there is room again");
    }

    #[test]
    fn who_names_a_key_has_an_eighth_with_others_of_the_address_and_three_quarters_with_all() {
        let ration = Ration::default();
        let mut held: Vec<Share<'_>> = (0..6)
            .map(|place| {
                let mut one = share(&ration, at(&format!("10.0.0.{place}")));
                assert!(one.grow(WHOLE / 8), "{place}");
                one
            })
            .collect();
        assert!(!share(&ration, at("10.0.0.0")).grow(1), "an address has an eighth");
        assert!(!share(&ration, at("10.0.0.9")).grow(1), "all have three quarters");
        assert!(share(&ration, Sender::Known).grow(WHOLE / 4), "the rest is for who is known");
        held.pop();
        assert!(!share(&ration, at("10.0.0.0")).grow(1), "the address has as much as before");
        assert!(share(&ration, at("10.0.0.9")).grow(WHOLE / 8));
        drop(held);
        assert_eq!((ration.held(), ration.0.addresses.lock().len()), (0, 0));
    }

    #[test]
    fn an_address_may_hold_a_large_body_however_small_the_whole_is() {
        let ration = Ration::default();
        let mut one = ration.share(4 << 20);
        one.count_for(at("10.0.0.1"));
        assert!(one.grow(OF_ADDRESS_MIN));
        assert!(!one.grow(1));
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }
}
