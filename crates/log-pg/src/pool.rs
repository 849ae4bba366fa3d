//! Sessions for reading and for file operations, made when they are needed and replaced when they fail.
//!
//! An operation is tried again while the database cannot be reached, until its patience ends or the shard is lost or
//! closed. Operations are made so that doing one twice changes nothing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::PgError;
use crate::database::{Asked, Database, Session};
use crate::tenure::Tenure;

/// Sessions of a pool.
const SESSIONS: usize = 4;
/// The pause before an operation is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Sessions of one log.
pub(crate) struct Pool {
    database: Arc<dyn Database>,
    slots: Vec<Mutex<Option<Box<dyn Session>>>>,
    next: AtomicUsize,
    tenure: Arc<Tenure>,
}

/// How long an operation is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// This long: it is work beside requests, which can wait.
    For(Duration),
    /// While this node may answer: a client waits for it.
    WhileHeld,
}

impl Pool {
    pub fn new(database: Arc<dyn Database>, tenure: Arc<Tenure>) -> Self {
        let slots = (0..SESSIONS).map(|_| Mutex::new(None)).collect();
        Self { database, slots, next: AtomicUsize::new(0), tenure }
    }

    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Does work in a session, again and again while the database cannot be reached.
    pub async fn work<T>(
        &self,
        patience: Patience,
        work: impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let begun = Instant::now();
        loop {
            self.tenure.check()?;
            let error = match patience {
                Patience::For(_) => self.try_once(&work).await,
                Patience::WhileHeld => self.while_held(self.try_once(&work)).await,
            };
            let error = match error {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let goes_on = match patience {
                Patience::For(most) => begun.elapsed() <= most,
                Patience::WhileHeld => self.tenure.is_held_or_looks(),
            };
            if !error.may_pass() || !goes_on {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Gives up when the tenure has ended meanwhile. The session is lost then, and nothing else is: it only reads.
    async fn while_held<T>(&self, tried: impl Future<Output = Result<T, PgError>>) -> Result<T, PgError> {
        let ends = async {
            while self.tenure.is_held_or_looks() {
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::select! {
            biased;
            done = tried => done,
            () = ends => Err(PgError::Unreachable("the database does not answer".to_owned())),
        }
    }

    async fn try_once<T>(
        &self,
        work: &impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let mut slot = self.slot().await;
        let mut session = match slot.take() {
            Some(session) if !session.is_closed() => session,
            _ => self.database.connect().await?,
        };
        let done = work(&mut *session).await;
        // One that failed may be in the middle of a transaction.
        if done.is_ok() {
            *slot = Some(session);
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
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        self.slots[next].lock().await
    }
}
