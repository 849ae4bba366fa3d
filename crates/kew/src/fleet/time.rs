//! The time of a fleet: the clock of its first database, carried on by this machine's between two looks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use kew_core::Timestamp;
use kew_engine::TimeSource;
use kew_log_pg::{Membership, PgNode};
use tokio::sync::watch;

use crate::machine::SystemTimeSource;

/// The slowest answer that a node begins with, as an owner of a shard does.
const QUICK_LOOK: Duration = Duration::from_millis(8);
/// How long it waits for one: maps are read twice a second.
const LOOKS_FOR: Duration = Duration::from_millis(1_750);
const LOOKS_AGAIN: Duration = Duration::from_millis(10);

/// The clock of the database.
pub struct FleetTime {
    /// Milliseconds that it is ahead of this machine's steady clock.
    ahead: Arc<AtomicI64>,
}

impl FleetTime {
    /// The clock of the first database of a node's store; it may take a moment to learn it well. Runs a thread for as
    /// long as the node lives.
    pub(super) fn following(node: &PgNode) -> Self {
        let ahead = Arc::new(AtomicI64::new(i64::MAX));
        let mut memberships = node.subscribe(0);
        let note = {
            let ahead = Arc::clone(&ahead);
            move |map: &kew_log_pg::Map| {
                let now = steady_ms();
                let asked = now - i64::try_from(map.read_at.elapsed().as_millis()).unwrap_or(0);
                // A slow answer says little, and moves the figure as little as it can.
                let (least, most) = (map.clock_ms - now, map.clock_ms - asked);
                let next = ahead.load(Ordering::Acquire).clamp(least, most);
                ahead.store(next, Ordering::Release);
            }
        };
        let mut quickest = Duration::MAX;
        let mut look = move |memberships: &mut watch::Receiver<Membership>| {
            if let Some(map) = &memberships.borrow_and_update().map {
                note(map);
                quickest = quickest.min(map.took);
            }
            quickest
        };
        // What a slow answer says is ahead, and leases would end early by it.
        let begun = Instant::now();
        while look(&mut memberships) > QUICK_LOOK && begun.elapsed() < LOOKS_FOR {
            std::thread::sleep(LOOKS_AGAIN);
        }
        let follow = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
            runtime.block_on(async {
                while memberships.changed().await.is_ok() {
                    let _quickest = look(&mut memberships);
                }
            });
        };
        // Without it time goes on by this machine's clock alone.
        let _follows = std::thread::Builder::new().name("kew-time".into()).spawn(follow);
        Self { ahead }
    }
}

fn steady_ms() -> i64 {
    i64::try_from(SystemTimeSource.steady().as_millis()).unwrap_or(i64::MAX)
}

impl TimeSource for FleetTime {
    fn system(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Acquire);
        Timestamp(u64::try_from(steady_ms().saturating_add(ahead)).unwrap_or(0))
    }

    fn steady(&self) -> Duration {
        SystemTimeSource.steady()
    }
}
