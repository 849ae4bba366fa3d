//! Sessions for reading and for file operations, made when they are needed and replaced when they fail.
//!
//! An operation is tried again while the database cannot be reached, until its patience ends or the shard is lost or
//! closed. Operations are made so that doing one twice changes nothing. One whose statement hangs, though the server
//! lives, is given up with its connection when its patience ends.

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

/// Sessions of one log.
pub(crate) struct Pool {
    database: Arc<dyn Database>,
    slots: Vec<Slot>,
    next: AtomicUsize,
    tenure: Arc<Tenure>,
    begun: Instant,
}

/// Room for one session.
struct Slot {
    session: Mutex<Option<Box<dyn Session>>>,
    /// Milliseconds after the pool's begin at which its operation began; [`FREE`] without one.
    busy_since: AtomicU64,
    /// The same for an operation that a client's read does not wait for: one on files.
    files_since: AtomicU64,
}

/// No operation.
const FREE: u64 = u64::MAX;

/// An operation is under way in a slot while this lives.
struct Busy<'a>(&'a Slot);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy_since.store(FREE, Ordering::Release);
        self.0.files_since.store(FREE, Ordering::Release);
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
    pub fn new(database: Arc<dyn Database>, tenure: Arc<Tenure>) -> Self {
        let slot = |_| Slot {
            session: Mutex::new(None),
            busy_since: AtomicU64::new(FREE),
            files_since: AtomicU64::new(FREE),
        };
        let slots = (0..SESSIONS).map(slot).collect();
        Self { database, slots, next: AtomicUsize::new(0), tenure, begun: Instant::now() }
    }

    /// How long an operation has been under way, at most.
    pub fn longest_statement(&self) -> Duration {
        self.longest_of(|slot| &slot.busy_since)
    }

    /// The same for operations on files, which steps that wait for a new file wait for. They wait for no read.
    pub fn longest_on_files(&self) -> Duration {
        self.longest_of(|slot| &slot.files_since)
    }

    fn longest_of(&self, since: impl Fn(&Slot) -> &AtomicU64) -> Duration {
        let oldest = self.slots.iter().map(|slot| since(slot).load(Ordering::Acquire)).min();
        let oldest = oldest.filter(|oldest| *oldest != FREE).map(Duration::from_millis);
        oldest.map_or(Duration::ZERO, |oldest| self.begun.elapsed().saturating_sub(oldest))
    }

    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Closes the connections of sessions that do nothing. The next operation makes one.
    pub fn close_idle(&self) {
        for slot in &self.slots {
            if let Ok(mut idle) = slot.session.try_lock() {
                drop(idle.take());
            }
        }
    }

    /// Does work in a session, again and again while the database cannot be reached.
    pub async fn work<T>(
        &self,
        patience: Patience,
        work: impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let until = Instant::now() + patience.most();
        loop {
            self.tenure.check()?;
            let ends = until.min(Instant::now() + TRY_MAX);
            let tried = tokio::time::timeout_at(ends, self.try_once(patience, &work));
            let tried = match patience {
                Patience::For(_) | Patience::Once(_) => tried.await,
                Patience::WhileHeld => self.while_held(tried).await,
            };
            let error = match tried {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => error,
                Err(_elapsed) => PgError::Unreachable(NO_ANSWER.to_owned()),
            };
            let is_held = patience != Patience::WhileHeld || self.tenure.is_held_or_looks();
            let is_over = matches!(patience, Patience::Once(_)) || Instant::now() >= until;
            if !error.may_pass() || is_over || !is_held {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Gives up when the tenure has ended meanwhile. The session is lost then, and nothing else is: it only reads.
    async fn while_held<T>(
        &self,
        tried: impl Future<Output = Result<Result<T, PgError>, Elapsed>>,
    ) -> Result<Result<T, PgError>, Elapsed> {
        let ends = async {
            while self.tenure.is_held_or_looks() {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::select! {
            biased;
            done = tried => done,
            () = ends => Ok(Err(PgError::Unreachable(NO_ANSWER.to_owned()))),
        }
    }

    async fn try_once<T>(
        &self,
        patience: Patience,
        work: &impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let (slot, mut kept) = self.slot().await;
        let since = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(FREE);
        slot.busy_since.store(since, Ordering::Release);
        if patience != Patience::WhileHeld {
            slot.files_since.store(since, Ordering::Release);
        }
        let _busy = Busy(slot);
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
    async fn slot(&self) -> (&Slot, MutexGuard<'_, Option<Box<dyn Session>>>) {
        for slot in &self.slots {
            if let Ok(free) = slot.session.try_lock() {
                return (slot, free);
            }
        }
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len()];
        (slot, slot.session.lock().await)
    }
}
