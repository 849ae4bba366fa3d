//! A clock that steps back ends no lease and shows no message early.

use std::sync::Arc;
use std::time::Duration;

use kew_core::{Command, NewMessage, Policy, Timestamp};
use kew_store::Store;
use kew_store_log::{Found, LogStore, SimDisk};

use crate::small_store::{Asked, START, entropy, options};

const HOUR: Duration = Duration::from_secs(3_600);
const LEASE: Duration = Duration::from_secs(30);

fn opened(disk: &SimDisk, now: Timestamp) -> Asked {
    Asked::of(LogStore::open(Arc::new(disk.clone()), options(), entropy(1), now).unwrap().0)
}

#[test]
fn no_lease_ends_early_when_the_clock_steps_back_while_running() {
    let mut asked = opened(&SimDisk::new(), START);
    let queue = asked.queue("plain", Policy::standard());
    asked.send(queue, "once");
    assert_eq!(asked.lease(queue, 1).len(), 1);
    let leased_at = asked.now;
    for now in [leased_at.minus(HOUR), Timestamp(0), leased_at.plus(LEASE).minus(Duration::from_millis(1))] {
        asked.now = now;
        assert!(asked.lease(queue, 1).is_empty(), "at {now:?}");
    }
    asked.now = leased_at.plus(LEASE);
    assert_eq!(asked.lease(queue, 1).len(), 1, "offered from the very instant its lease ends");
    assert!(asked.lease(queue, 1).is_empty());
}

#[test]
fn no_lease_ends_early_when_the_clock_stepped_back_before_a_start() {
    let disk = SimDisk::new();
    let asked = opened(&disk, START);
    let queue = asked.queue("plain", Policy::standard());
    asked.send(queue, "leased");
    let delayed = NewMessage { delay: Some(LEASE), ..asked.message("delayed") };
    asked.try_send(queue, delayed).unwrap();
    assert_eq!(asked.lease(queue, 1).len(), 1);
    let leased_at = asked.now;
    drop(asked);
    // The machine's clock lost an hour while the store was down.
    for (round, found) in [Found::Kept, Found::Kept].into_iter().enumerate() {
        let mut again = opened(&disk.reopen(round as u64, found), leased_at.minus(HOUR));
        assert_eq!(again.store.newest_instant(), leased_at);
        again.now = leased_at.minus(HOUR);
        assert!(again.lease(queue, 2).is_empty());
        again.now = leased_at.plus(LEASE).minus(Duration::from_millis(1));
        assert!(again.lease(queue, 2).is_empty());
        again.now = leased_at.plus(LEASE);
        assert_eq!(again.lease(queue, 2).len(), 2);
    }
}

#[test]
fn time_that_passed_without_a_change_counts_after_a_clean_stop() {
    let disk = SimDisk::new();
    let mut asked = opened(&disk, START);
    let queue = asked.queue("plain", Policy::standard());
    asked.later(HOUR);
    asked.ask(Command::Counts(queue));
    asked.store.close().unwrap();
    drop(asked);
    let again = opened(&disk.snapshot(), START);
    assert_eq!(again.store.newest_instant(), START.plus(HOUR));
}
