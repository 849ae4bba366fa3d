//! Who owns a shard: the epoch that fences old owners, and how long this node may answer.
//!
//! An owner renews its row in `kew_node` twice a second. It answers only until the end it asked for at the last renewal
//! that succeeded, counted from before that was sent and by its own monotonic clock; so it stops before another node
//! may take over by the database's clock. Taking over raises the epoch, and every write names its epoch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::Client;

use crate::PgError;

/// How long an owner that is not heard of stays owner.
pub const TENURE: Duration = Duration::from_millis(2_500);
/// How often an owner renews.
pub(crate) const RENEWAL: Duration = Duration::from_millis(500);
/// What an owner's tenure ends early by, for clocks that go at different speeds.
const MARGIN: Duration = Duration::from_millis(100);

/// How often a new owner looks at the database's clock: the quickest answer tells it best.
const LOOKS_AT_CLOCK: usize = 4;
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// One node's hold of one shard.
pub struct Tenure {
    pub(crate) shard: i32,
    pub(crate) epoch: i64,
    /// Names this run of the node.
    pub(crate) node: String,
    /// The node's name, for people.
    name: String,
    begun: Instant,
    /// Milliseconds after `begun` until which it may answer.
    until: AtomicU64,
    /// Set once: why it is over.
    over: OnceLock<String>,
    closed: AtomicBool,
    /// Milliseconds that the database's clock is ahead of `begun`'s, as far as answers have shown.
    clock: AtomicI64,
    /// It only looks: nothing is written, and nothing is renewed.
    looks: bool,
    /// Why requests are refused although it is held: nothing can be written just now.
    refuses: Mutex<Option<String>>,
}

impl Tenure {
    fn new(shard: i32, epoch: i64, node: String, name: &str, looks: bool) -> Self {
        Self {
            shard,
            epoch,
            node,
            name: name.to_owned(),
            begun: Instant::now(),
            until: AtomicU64::new(0),
            over: OnceLock::new(),
            closed: AtomicBool::new(false),
            clock: AtomicI64::new(i64::MAX),
            looks,
            refuses: Mutex::default(),
        }
    }

    /// Looks at a shard that nobody owns, without owning it.
    pub(crate) async fn look(client: &Client, shard: i32) -> Result<Self, PgError> {
        if let Some(node) = owner(client, shard).await? {
            return Err(PgError::Owned { shard, node });
        }
        let tenure = Self::new(shard, 0, String::new(), "", true);
        let (asked, clock) = (Instant::now(), client.query_one(CLOCK, &[]).await?.get(0));
        tenure.set_clock(asked, clock);
        Ok(tenure)
    }

    /// Takes a shard, if its owner has gone or was silent for too long.
    pub(crate) async fn take(
        client: &mut Client,
        shard: i32,
        name: &str,
        node: String,
    ) -> Result<Self, PgError> {
        if let Some(node) = owner(client, shard).await? {
            return Err(PgError::Owned { shard, node });
        }
        let sent = Instant::now();
        let transaction = client.transaction().await?;
        let seen = transaction
            .query_one("SELECT epoch, node FROM kew_shard WHERE id = $1 FOR UPDATE", &[&shard])
            .await?;
        let (seen, before): (i64, String) = (seen.get(0), seen.get(1));
        if let Some(node) = owner(transaction.client(), shard).await? {
            return Err(PgError::Owned { shard, node });
        }
        let epoch = seen + 1;
        let take = "UPDATE kew_shard SET epoch = $2, node = $3, taken_at = clock_timestamp() WHERE id = $1";
        transaction.execute(take, &[&shard, &epoch, &node]).await?;
        transaction.execute("DELETE FROM kew_node WHERE id = $1", &[&before]).await?;
        let tenure = Self::new(shard, epoch, node, name, false);
        tenure.renew_on(transaction.client(), sent).await?;
        transaction.commit().await?;
        for _ in 0..LOOKS_AT_CLOCK {
            let (asked, clock) = (Instant::now(), client.query_one(CLOCK, &[]).await?.get(0));
            tenure.set_clock(asked, clock);
        }
        Ok(tenure)
    }

    /// Renews the tenure. What it says counts from before it was sent.
    pub(crate) async fn renew(&self, client: &Client) -> Result<(), PgError> {
        let sent = Instant::now();
        self.renew_on(client, sent).await
    }

    async fn renew_on(&self, client: &Client, sent: Instant) -> Result<(), PgError> {
        let renew = "WITH renewed AS (
                INSERT INTO kew_node (id, name, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
                ON CONFLICT (id) DO UPDATE SET until = excluded.until)
            SELECT epoch, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM kew_shard WHERE id = $4";
        let length = TENURE.as_millis() as f64;
        let asked = Instant::now();
        let row = client.query_one(renew, &[&self.node, &self.name, &length, &self.shard]).await?;
        let (epoch, clock): (i64, i64) = (row.get(0), row.get(1));
        if epoch != self.epoch && !(epoch < self.epoch && self.until.load(Ordering::Acquire) == 0) {
            let fenced = PgError::Fenced { shard: self.shard, epoch: self.epoch };
            self.end(&fenced.to_string());
            return Err(fenced);
        }
        self.set_clock(asked, clock);
        let until = sent.duration_since(self.begun).as_millis() + (TENURE - MARGIN).as_millis();
        self.until.fetch_max(u64::try_from(until).unwrap_or(u64::MAX), Ordering::AcqRel);
        Ok(())
    }

    /// The database's clock showed this at some moment after `asked`, and before now.
    fn set_clock(&self, asked: Instant, clock: i64) {
        let begun = |instant: Instant| {
            i64::try_from(instant.duration_since(self.begun).as_millis()).unwrap_or(i64::MAX)
        };
        let (least, most) = (clock - begun(Instant::now()), clock - begun(asked));
        self.clock.store(ahead(self.clock.load(Ordering::Acquire), least, most), Ordering::Release);
    }

    /// Gives the shard away: the next node may take it at once.
    pub(crate) async fn give_up(&self, client: &Client) -> Result<(), PgError> {
        client.execute("DELETE FROM kew_node WHERE id = $1", &[&self.node]).await?;
        Ok(())
    }

    /// Whether this node may answer for the shard.
    pub fn is_held(&self) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        now < self.until.load(Ordering::Acquire) && self.over.get().is_none()
    }

    /// Refuses requests for a reason, until it is called with `None`.
    pub(crate) fn refuse(&self, why: Option<String>) {
        *self.refuses.lock() = why;
    }

    /// Why this node may not answer a request just now, if it may not.
    pub fn refusal(&self) -> Option<String> {
        if self.is_held() {
            return self.refuses.lock().clone();
        }
        Some("this node may not answer for its shard: its database has not renewed that in time".to_owned())
    }

    /// Milliseconds since 1970 by the database's clock.
    pub fn now_ms(&self) -> u64 {
        let passed = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
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
            Some(_) => Err(PgError::Fenced { shard: self.shard, epoch: self.epoch }),
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

/// How far the database's clock is ahead, by an answer that leaves this span: a slow answer says little, and moves the
/// figure as little as it can. At first the most is taken, since a lease must not end early when the figure is mended.
fn ahead(before: i64, least: i64, most: i64) -> i64 {
    before.clamp(least, most)
}

/// The node that owns a shard by the database's clock.
async fn owner(client: &Client, shard: i32) -> Result<Option<String>, PgError> {
    let owner = "SELECT kew_node.name FROM kew_shard JOIN kew_node ON kew_node.id = kew_shard.node
        WHERE kew_shard.id = $1 AND kew_node.until > clock_timestamp()";
    Ok(client.query_opt(owner, &[&shard]).await?.map(|row| row.get(0)))
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
