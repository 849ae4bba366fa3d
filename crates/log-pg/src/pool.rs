//! Sessions for reading and for file operations, made when they are needed and replaced when they fail.
//!
//! An operation is tried again while the database cannot be reached, until its patience ends or the shard is lost or
//! closed. Operations are made so that doing one twice changes nothing. One whose statement hangs, though the server
//! lives, is given up with its connection when its patience ends.
//!
//! Sessions are given out in turn. Reads that clients wait for never have all of them, and work beside requests never
//! has all of them either.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use crate::PgError;
use crate::database::{Asked, Database, NO_ANSWER, Session};
use crate::tenure::Tenure;

/// Sessions of a pool.
const SESSIONS: usize = 4;
/// Sessions that reads have at most, and those that work beside requests has at most.
const OF_A_KIND: usize = SESSIONS - 1;
/// The pause before an operation is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How long one try may take: its connection may lead nowhere, while a new one would not.
const TRY_MAX: Duration = Duration::from_secs(20);
/// How long a client waits for a read.
const READ_MAX: Duration = Duration::from_secs(5);

/// Sessions of one node.
pub(crate) struct Pool {
    database: Arc<dyn Database>,
    /// Guards sessions that do nothing, the one that was used last at the end.
    idle: Mutex<Vec<Box<dyn Session>>>,
    turns: Semaphore,
    reads: Semaphore,
    beside: Semaphore,
}

/// The right to use one session.
struct Turn<'a> {
    _of_kind: Option<SemaphorePermit<'a>>,
    _of_all: Option<SemaphorePermit<'a>>,
}

/// Who an operation is for: a hold of a shard, with the operations that are under way for it.
pub(crate) struct Holder {
    pub tenure: Arc<Tenure>,
    /// By a number of its own, in the order in which they were asked for.
    under_way: Mutex<BTreeMap<u64, Operation>>,
    next: AtomicU64,
    /// Why the last try failed, if it did.
    failing: Mutex<Option<String>>,
}

struct Operation {
    asked: Instant,
    /// When it got its session.
    begun: Option<Instant>,
    /// It is one on files, which no client's read waits for.
    is_on_files: bool,
}

impl Operation {
    /// How long it has had its session.
    fn took(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
    }
}

/// An operation is under way while this lives.
struct UnderWay<'a>(&'a Holder, u64);

impl UnderWay<'_> {
    /// It has its session.
    fn begin(&self) {
        if let Some(operation) = self.0.under_way.lock().get_mut(&self.1) {
            operation.begun = Some(Instant::now());
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.lock().remove(&self.1);
    }
}

impl Holder {
    pub fn new(tenure: Arc<Tenure>) -> Self {
        Self { tenure, under_way: Mutex::default(), next: AtomicU64::new(0), failing: Mutex::default() }
    }

    fn ask(&self, is_on_files: bool) -> UnderWay<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let operation = Operation { asked: Instant::now(), begun: None, is_on_files };
        self.under_way.lock().insert(number, operation);
        UnderWay(self, number)
    }

    /// Why operations fail and are tried again, if the last one did.
    pub fn failing(&self) -> Option<String> {
        self.failing.lock().clone()
    }

    /// How long an operation has been under way, at most. The wait for a session is not its own time.
    pub fn longest_statement(&self) -> Duration {
        self.under_way.lock().values().map(Operation::took).max().unwrap_or_default()
    }

    /// The same for operations on files, which steps that wait for a new file wait for. They wait for no read. One that
    /// waits for its session counts with half the time since it was asked for: those of other shards may hang.
    pub fn longest_on_files(&self) -> Duration {
        let under_way = self.under_way.lock();
        let on_files = under_way.values().filter(|operation| operation.is_on_files);
        let took = on_files.map(|operation| operation.took().max(operation.asked.elapsed() / 2));
        took.max().unwrap_or_default()
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
        Self {
            database,
            idle: Mutex::default(),
            turns: Semaphore::new(SESSIONS),
            reads: Semaphore::new(OF_A_KIND),
            beside: Semaphore::new(OF_A_KIND),
        }
    }

    pub fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Closes the connections of sessions that do nothing. The next operation makes one.
    pub fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        // Without the lock.
        drop(idle);
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
            let tried = tokio::time::timeout_at(ends, self.try_once(holder, patience, &work));
            let tried = match patience {
                Patience::For(_) | Patience::Once(_) => tried.await,
                Patience::WhileHeld => while_held(may_read, tried).await,
            };
            let tried = tried.unwrap_or_else(|_elapsed| Err(PgError::Unreachable(NO_ANSWER.to_owned())));
            if let Some(holder) = holder {
                *holder.failing.lock() = tried.as_ref().err().map(ToString::to_string);
            }
            let error = match tried {
                Ok(done) => return Ok(done),
                Err(error) => error,
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
        holder: Option<&Holder>,
        patience: Patience,
        work: &impl for<'a> Fn(&'a mut dyn Session) -> Asked<'a, T>,
    ) -> Result<T, PgError> {
        let is_read = patience == Patience::WhileHeld;
        let under_way = holder.map(|holder| holder.ask(!is_read));
        let _turn = self.turn(is_read).await;
        if let Some(under_way) = &under_way {
            under_way.begin();
        }
        let idle = self.idle.lock().pop().filter(|session| !session.is_closed());
        let mut session = match idle {
            Some(session) => session,
            None => self.database.connect().await?,
        };
        let done = work(&mut *session).await;
        // One that failed may be in the middle of a transaction.
        if done.is_ok() {
            self.idle.lock().push(session);
        }
        done
    }

    /// Waits for a session in turn. Semaphores are never closed.
    async fn turn(&self, is_read: bool) -> Turn<'_> {
        let of_kind = if is_read { &self.reads } else { &self.beside };
        let _of_kind = of_kind.acquire().await.ok();
        let _of_all = self.turns.acquire().await.ok();
        Turn { _of_kind, _of_all }
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// A database of no statements.
    struct NoDatabase;

    impl Database for NoDatabase {
        fn connect(&self) -> Asked<'_, Box<dyn Session>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reads_never_have_all_sessions_and_turns_are_given_in_order() {
        let pool = Arc::new(Pool::new(Arc::new(NoDatabase)));
        let mut reads = Vec::new();
        for _ in 0..OF_A_KIND {
            reads.push(pool.turn(true).await);
        }
        let waits = Duration::from_secs(1);
        assert!(tokio::time::timeout(waits, pool.turn(true)).await.is_err(), "one is left for files");
        let file = pool.turn(false).await;
        assert!(tokio::time::timeout(waits, pool.turn(false)).await.is_err(), "all are in use");
        let (order, mut came) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..3 {
            let (pool, order) = (Arc::clone(&pool), order.clone());
            tokio::spawn(async move {
                let turn = pool.turn(false).await;
                order.send(number).unwrap();
                drop(turn);
            });
            tokio::task::yield_now().await;
        }
        drop(file);
        for number in 0..3 {
            assert_eq!(came.recv().await, Some(number));
        }
        drop(reads);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_session_is_no_time_of_the_operation() {
        let pool = Arc::new(Pool::new(Arc::new(NoDatabase)));
        let holder = Arc::new(Holder::new(Arc::new(Tenure::of_test())));
        let taken: Vec<Turn<'_>> =
            vec![pool.turn(false).await, pool.turn(false).await, pool.turn(false).await];
        let (one, other) = (Arc::clone(&pool), Arc::clone(&holder));
        let waits = tokio::spawn(async move {
            let once = Patience::Once(Duration::from_secs(60));
            one.work(Some(&other), once, |session| session.clock()).await.map(drop)
        });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(holder.longest_statement(), Duration::ZERO);
        assert_eq!(
            holder.longest_on_files(),
            Duration::from_secs(5),
            "steps that wait for it are refused in the end"
        );
        drop(taken);
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(
            holder.longest_statement(),
            Duration::from_secs(6),
            "it has waited for a connection since then"
        );
        waits.abort();
    }
}
