//! Who owns a shard: the epoch that fences old owners, and how long this node may answer.
//!
//! A node renews its row in `kew_node` twice a second (`node/members.rs`), and so its hold of each of its shards. It
//! answers for a shard only until the end it asked for at the last renewal that succeeded. That is counted from before
//! it was sent, and by a clock of its own that goes on while the machine is suspended (`steady.rs`); so it stops before
//! another node may take over by the database's clock. Taking over raises the epoch, and every write names its epoch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::PgError;
use crate::database::{Claimant, Database, Own, Session, Taking};
use crate::map::Node;
use crate::planted::{Planted, wall_clock_behind};
use crate::steady::Steady;

/// How long an owner that is not heard of stays owner.
pub const TENURE: Duration = Duration::from_millis(2_500);
/// How often an owner renews.
pub(crate) const RENEWAL: Duration = Duration::from_millis(500);
/// What an owner's tenure ends early by, for clocks that go at different speeds.
const MARGIN: Duration = Duration::from_millis(100);

/// An answer that took at most this long says the database's clock well: a new owner looks no further.
const QUICK_LOOK: Duration = Duration::from_millis(2);
/// How long a new owner hopes for an answer that quick.
const HOPES_FOR_QUICK: Duration = Duration::from_millis(250);
/// The slowest answer that a new owner begins with. Leases of the owner before it end early by less than this.
const SLOWEST_LOOK: Duration = Duration::from_millis(8);
/// How long a new owner waits for an answer that is quick enough. After that the quickest so far has to do: a shard
/// without a server is worse.
const LOOKS_AT_CLOCK: Duration = Duration::from_secs(1);
/// The pause before a look that failed is made again, in a new session.
const LOOK_RETRY: Duration = Duration::from_millis(20);

/// One node's hold of one shard.
pub struct Tenure {
    pub(crate) shard: i32,
    pub(crate) epoch: i64,
    /// How long it lasts from a renewal on: [`TENURE`], but in some tests.
    pub(crate) length: Duration,
    steady: Steady,
    /// What `steady` showed when this began.
    begun: Duration,
    /// Milliseconds after `begun` until which it may answer.
    until: AtomicU64,
    /// Set once: why it is over.
    over: OnceLock<String>,
    closed: AtomicBool,
    /// Milliseconds that the database's clock is ahead of `begun`'s, as far as answers have shown.
    clock: AtomicI64,
    /// Microseconds that the quickest of these answers took: by as much at most is `clock` too high.
    quickest: AtomicU64,
    /// How often this owner has claimed or released names.
    namings: AtomicU32,
    /// It only looks: nothing is written, and nothing is renewed.
    looks: bool,
    /// Why requests are refused although it is held: nothing can be written just now.
    refuses: Mutex<Option<String>>,
    /// Why the last renewal failed, if it did.
    not_renewed: Mutex<Option<String>>,
}

impl Tenure {
    fn new(shard: i32, epoch: i64, (steady, begun): (Steady, Duration), looks: bool) -> Self {
        Self {
            shard,
            epoch,
            length: TENURE,
            steady,
            begun,
            until: AtomicU64::new(0),
            over: OnceLock::new(),
            closed: AtomicBool::new(false),
            clock: AtomicI64::new(i64::MAX),
            quickest: AtomicU64::new(u64::MAX),
            namings: AtomicU32::new(0),
            looks,
            refuses: Mutex::default(),
            not_renewed: Mutex::default(),
        }
    }

    /// Looks at a shard that no node owns, without owning it.
    pub(crate) async fn look(session: &mut dyn Session, shard: i32, steady: Steady) -> Result<Self, PgError> {
        if let Some(node) = session.owner(shard).await? {
            return Err(PgError::Owned { shard, node });
        }
        let begun = steady.now();
        let tenure = Self::new(shard, 0, (steady, begun), true);
        tenure.look_at_clock(session).await?;
        Ok(tenure)
    }

    /// Takes a shard, if its owner has gone or was silent for too long. What it knows of the database's clock is as
    /// good as the answer was quick: [`Self::learn_clock`] is next.
    pub(crate) async fn take(
        session: &mut dyn Session,
        shard: i32,
        (node, length): (&Node, Duration),
        steady: Steady,
    ) -> Result<Self, PgError> {
        let sent = steady.now();
        let (epoch, clock) = match session.take(shard, node, length).await? {
            Taking::Taken { epoch, clock } => (epoch, clock),
            Taking::Owned(node) => return Err(PgError::Owned { shard, node }),
        };
        let tenure = Self { length, ..Self::new(shard, epoch, (steady, sent), false) };
        tenure.extend(sent);
        tenure.set_clock(sent, clock);
        Ok(tenure)
    }

    /// Looks at the database's clock until an answer was quick enough. A look that fails is made again in a new
    /// session: the shard is taken, and that is no reason to wait for it anew.
    pub(crate) async fn learn_clock(
        &self,
        mut session: Box<dyn Session>,
        database: &dyn Database,
    ) -> Result<(), PgError> {
        // Not from when it was sent: taking the shard may have waited for a lock.
        let begun = Instant::now();
        while !self.knows_clock(begun.elapsed()) {
            let left = LOOKS_AT_CLOCK.saturating_sub(begun.elapsed());
            let looked = tokio::time::timeout(left, self.look_at_clock(&mut *session)).await;
            if !matches!(looked, Ok(Ok(()))) {
                tokio::time::sleep(LOOK_RETRY).await;
                let left = LOOKS_AT_CLOCK.saturating_sub(begun.elapsed());
                if let Ok(Ok(another)) = tokio::time::timeout(left, database.connect()).await {
                    session = another;
                }
            }
        }
        // With a clock that is wrong by seconds leases would end early by seconds. This node may take the shard again.
        if self.quickest() > LOOKS_AT_CLOCK {
            return Err(PgError::Unreachable("the database's clock could not be read in time".to_owned()));
        }
        Ok(())
    }

    /// Whether a new owner may begin with what it knows of the database's clock, having looked for so long.
    fn knows_clock(&self, since: Duration) -> bool {
        let quickest = self.quickest();
        let is_enough = if since < HOPES_FOR_QUICK { QUICK_LOOK } else { SLOWEST_LOOK };
        let most = if Planted::SlowLooksDo.is_there() { HOPES_FOR_QUICK } else { LOOKS_AT_CLOCK };
        quickest <= is_enough || since >= most
    }

    fn quickest(&self) -> Duration {
        Duration::from_micros(self.quickest.load(Ordering::Acquire))
    }

    /// Whether no answer has been quick so far.
    pub(crate) fn wants_a_closer_look(&self) -> bool {
        self.quickest() > QUICK_LOOK
    }

    async fn look_at_clock(&self, session: &mut dyn Session) -> Result<(), PgError> {
        let asked = self.steady.now();
        let clock = session.clock().await?;
        self.set_clock(asked, clock);
        Ok(())
    }

    /// A renewal that was sent at this instant has succeeded.
    pub(crate) fn extend(&self, sent: Duration) {
        let sent = if Planted::TenureFromAnswer.is_there() { self.steady.now() } else { sent };
        let margin = if Planted::NoMargin.is_there() { Duration::ZERO } else { MARGIN };
        let until = (sent.saturating_sub(self.begun) + (self.length - margin)).as_millis();
        self.until.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    /// The database's clock showed this at some moment after `asked`, and before now.
    pub(crate) fn set_clock(&self, asked: Duration, clock: i64) {
        let begun = |reading: Duration| {
            i64::try_from(reading.saturating_sub(self.begun).as_millis()).unwrap_or(i64::MAX)
        };
        let (least, most) = (clock - begun(self.steady.now()), clock - begun(asked));
        self.clock.store(ahead(self.clock.load(Ordering::Acquire), least, most), Ordering::Release);
        let took = u64::try_from(self.steady.since(asked).as_micros()).unwrap_or(u64::MAX);
        self.quickest.fetch_min(took, Ordering::AcqRel);
    }

    /// Whether this node may answer for the shard.
    pub fn is_held(&self) -> bool {
        let mut now = u64::try_from(self.steady.since(self.begun).as_millis()).unwrap_or(u64::MAX);
        if Planted::WallClock.is_there() {
            now = now.saturating_sub(wall_clock_behind());
        }
        now < self.until.load(Ordering::Acquire) && self.check().is_ok()
    }

    /// Refuses requests for a reason, until it is called with `None`.
    pub(crate) fn refuse(&self, why: Option<&str>) {
        *self.refuses.lock() = why.map(ToOwned::to_owned);
    }

    /// Notes why the last renewal failed; `None` for one that succeeded.
    pub(crate) fn note_renewal(&self, failed: Option<&str>) {
        *self.not_renewed.lock() = failed.map(ToOwned::to_owned);
    }

    /// Why this node may not answer a request just now, if it may not.
    pub fn refusal(&self) -> Option<String> {
        if self.is_held_or_looks() {
            return self.refuses.lock().clone();
        }
        if self.closed.load(Ordering::Acquire) {
            return Some("this node has given its shard up".to_owned());
        }
        let why = self.not_renewed.lock().clone();
        let why = why.unwrap_or_else(|| "its database has not renewed that in time".to_owned());
        Some(format!("this node may not answer for its shard: {why}"))
    }

    /// Whether it may be read for: it is held, or only looks.
    pub(crate) fn is_held_or_looks(&self) -> bool {
        self.looks || self.is_held() || Planted::ReadsWithoutTenure.is_there()
    }

    /// What its writes name.
    pub(crate) fn own(&self) -> Own {
        Own { shard: self.shard, epoch: self.epoch }
    }

    /// This owner as it claims or releases names the next time.
    pub(crate) fn next_claimant(&self) -> Claimant {
        let before = self.namings.fetch_add(1, Ordering::Relaxed);
        Claimant::new(self.own(), if Planted::ActsNotCounted.is_there() { 0 } else { before })
    }

    /// The error of one that is over.
    pub(crate) fn fenced(&self) -> PgError {
        PgError::Fenced { shard: self.shard, epoch: self.epoch }
    }

    /// Milliseconds since 1970 by the database's clock.
    pub fn now_ms(&self) -> u64 {
        let passed = i64::try_from(self.steady.since(self.begun).as_millis()).unwrap_or(i64::MAX);
        u64::try_from(self.clock.load(Ordering::Acquire).saturating_add(passed)).unwrap_or(0)
    }

    /// Why it is over for good, if it is.
    pub fn over(&self) -> Option<&str> {
        self.over.get().map(String::as_str)
    }

    /// The epoch of this hold.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// It is over for good.
    pub(crate) fn end(&self, why: &str) {
        self.over.get_or_init(|| why.to_owned());
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Fails when nothing is to be done for this hold any more.
    pub(crate) fn check(&self) -> Result<(), PgError> {
        match self.over.get() {
            Some(_) => Err(self.fenced()),
            None if self.closed.load(Ordering::Acquire) => Err(PgError::Closed),
            None => Ok(()),
        }
    }

    /// Fails when nothing may be changed.
    pub(crate) fn may_change(&self) -> Result<(), PgError> {
        if self.looks {
            return Err(PgError::Database("the store is open to be looked at only".into()));
        }
        self.check()
    }
}

#[cfg(test)]
impl Tenure {
    /// One that only looks.
    pub(crate) fn of_test() -> Self {
        let steady = Steady::System;
        let begun = steady.now();
        Self::new(0, 0, (steady, begun), true)
    }
}

/// How far the database's clock is ahead, by an answer that leaves this span: a slow answer says little, and moves the
/// figure as little as it can. At first the most is taken, since a lease must not end early when the figure is mended.
fn ahead(before: i64, least: i64, most: i64) -> i64 {
    before.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::ahead;

    #[test]
    fn slow_answer_moves_the_clock_no_further_than_it_must() {
        let unknown = i64::MAX;
        assert_eq!(ahead(unknown, 1_000, 1_004), 1_004);
        assert_eq!(ahead(1_004, 1_001, 1_002), 1_002);
        // An answer after two seconds agrees with what is known.
        assert_eq!(ahead(1_002, -1_000, 1_003), 1_002);
        // The database's clock was set back by a minute.
        assert_eq!(ahead(1_002, -59_000, -58_998), -58_998);
        // Or ahead.
        assert_eq!(ahead(1_002, 61_000, 61_002), 61_000);
    }
}
