//! Sessions for reading and for file operations, made when they are needed and replaced when they fail.
//!
//! An operation is tried again while the database cannot be reached, until its patience ends or the shard is lost or
//! closed. Operations are made so that doing one twice changes nothing. One whose statement hangs, though the server
//! lives, is given up with its connection when its patience ends.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use crate::PgError;
use crate::database::{Asked, Database, NO_ANSWER, Session};
use crate::tenure::Tenure;

/// Sessions of a pool.
const SESSIONS: usize = 4;
/// The pause before an operation is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How long one try may take: its connection may lead nowhere, while a new one would not.
const TRY_MAX: Duration = Duration::from_secs(20);
/// How long a client waits for a read.
const READ_MAX: Duration = Duration::from_secs(5);

/// Sessions of one node.
pub(crate) struct Pool {
    database: Arc<dyn Database>,
    slots: Vec<Mutex<Option<Box<dyn Session>>>>,
    next: AtomicUsize,
}

/// Who an operation is for: a hold of a shard, with the operations that are under way for it.
pub(crate) struct Holder {
    pub tenure: Arc<Tenure>,
    /// When each began, and whether it is one on files, which no client's read waits for. By a number of its own.
    under_way: parking_lot::Mutex<BTreeMap<u64, (Instant, bool)>>,
    next: AtomicU64,
}

/// An operation is under way while this lives.
struct UnderWay<'a>(&'a Holder, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.lock().remove(&self.1);
    }
}

impl Holder {
    pub fn new(tenure: Arc<Tenure>) -> Self {
        Self { tenure, under_way: parking_lot::Mutex::default(), next: AtomicU64::new(0) }
    }

    fn begin(&self, is_on_files: bool) -> UnderWay<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.under_way.lock().insert(number, (Instant::now(), is_on_files));
        UnderWay(self, number)
    }

    /// How long an operation has been under way, at most, with the wait for a session.
    pub fn longest_statement(&self) -> Duration {
        let under_way = self.under_way.lock();
        under_way.values().next().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// The same for operations on files, which steps that wait for a new file wait for. They wait for no read.
    pub fn longest_on_files(&self) -> Duration {
        let under_way = self.under_way.lock();
        let oldest = under_way.values().find(|(_, is_on_files)| *is_on_files);
        oldest.map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }
}

/// How long an operation is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// This long: it is work beside requests, which can wait.
    For(Duration),
    /// Once, for this long at most: it is tried again another time.
    Once(Duration),
    /// While this node may answer, and [`READ_MAX`] at most: a client waits for it.
    WhileHeld,
}

impl Patience {
    fn most(self) -> Duration {
        match self {
            Self::For(most) | Self::Once(most) => most,
            Self::WhileHeld => READ_MAX,
        }
    }
}

impl Pool {
    pub fn new(database: Arc<dyn Database>) -> Self {
        let slots = (0..SESSIONS).map(|_| Mutex::new(None)).collect();
        Self { database, slots, next: AtomicUsize::new(0) }
    }

    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Closes the connections of sessions that do nothing. The next operation makes one.
    pub fn close_idle(&self) {
        for slot in &self.slots {
            if let Ok(mut idle) = slot.try_lock() {
                drop(idle.take());
            }
        }
    }

    /// Does work in a session, again and again while the database cannot be reached. Without a holder it is for the
    /// node, whichever shards that holds.
    pub async fn work<T>(
        &self,
        holder: Option<&Holder>,
        patience: Patience,
        work: impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let until = Instant::now() + patience.most();
        let may_read = || holder.is_none_or(|holder| holder.tenure.is_held_or_looks());
        loop {
            holder.map_or(Ok(()), |holder| holder.tenure.check())?;
            let ends = until.min(Instant::now() + TRY_MAX);
            let under_way = holder.map(|holder| holder.begin(patience != Patience::WhileHeld));
            let tried = tokio::time::timeout_at(ends, self.try_once(&work));
            let tried = match patience {
                Patience::For(_) | Patience::Once(_) => tried.await,
                Patience::WhileHeld => while_held(may_read, tried).await,
            };
            drop(under_way);
            let error = match tried {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                Err(_elapsed) => PgError::Unreachable(NO_ANSWER.to_owned()),
            };
            let is_held = patience != Patience::WhileHeld || may_read();
            let is_over = matches!(patience, Patience::Once(_)) || Instant::now() >= until;
            if !error.may_pass() || is_over || !is_held {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_once<T>(
        &self,
        work: &impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let mut kept = self.slot().await;
        let mut session = match kept.take() {
            Some(session) if !session.is_closed() => session,
            _ => self.database.connect().await?,
        };
        let done = work(&mut *session).await;
        // One that failed may be in the middle of a transaction.
        if done.is_ok() {
            *kept = Some(session);
        }
        done
    }

    /// A free session, or the next one's turn.
    async fn slot(&self) -> MutexGuard<'_, Option<Box<dyn Session>>> {
        for slot in &self.slots {
            if let Ok(free) = slot.try_lock() {
                return free;
            }
        }
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len()];
        slot.lock().await
    }
}

/// Gives up when the tenure has ended meanwhile. The session is lost then, and nothing else is: what it does may be
/// done again.
async fn while_held<T>(
    may_read: impl Fn() -> bool,
    tried: impl Future<Output = Result<Result<T, PgError>, Elapsed>>,
) -> Result<Result<T, PgError>, Elapsed> {
    let ends = async {
        while may_read() {
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        biased;
        done = tried => done,
        () = ends => Ok(Err(PgError::Unreachable(NO_ANSWER.to_owned()))),
    }
}
