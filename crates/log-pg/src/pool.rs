//! Connections of one node to its database, and the thread that drives them.
//!
//! One thread runs all connections. Others ask it for work and wait: file operations are tried again while the database
//! cannot be reached, until the shard is lost or closed. They are made so that doing one twice changes nothing.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::{Client, Config, Statement};

use crate::PgError;
use crate::tenure::Tenure;
use crate::tls::Tls;

/// Connections for reading and for file operations.
const CONNECTIONS: usize = 4;
/// The pause before an operation is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How long a connection may take to be made, if the URL does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as broken, if the URL does not say.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// One connection, with the statements that were prepared on it.
pub(crate) struct Connection {
    pub client: Client,
    prepared: HashMap<Arc<str>, Statement>,
}

impl Connection {
    /// Connects, to the first host of the URL that takes writes.
    pub(crate) async fn open(target: &Target) -> Result<Self, PgError> {
        let (client, connection) = target.config.connect(target.tls.clone()).await?;
        tokio::spawn(async move {
            // Its failure shows in the statement that is under way, and in the next.
            let _ended = connection.await;
        });
        Ok(Self { client, prepared: HashMap::new() })
    }

    /// The statement of a text, prepared once.
    pub(crate) async fn statement(&mut self, text: &Arc<str>) -> Result<Statement, PgError> {
        if let Some(statement) = self.prepared.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        self.prepared.insert(Arc::clone(text), statement.clone());
        Ok(statement)
    }

    /// Forgets a statement whose table is gone.
    pub(crate) fn forget(&mut self, text: &str) {
        self.prepared.remove(text);
    }
}

/// The database of a URL, and how it is reached.
#[derive(Clone)]
pub(crate) struct Target {
    config: Config,
    tls: Tls,
}

/// Reads a URL, with defaults for what it does not say.
pub(crate) fn target(url: &str) -> Result<Target, PgError> {
    let (url, tls) = Tls::of(url)?;
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        PgError::Url(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
    })?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    if config.get_application_name().is_none() {
        config.application_name("kew");
    }
    config.ssl_mode(tls.mode);
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(Target { config, tls })
}

/// The thread that drives all connections.
pub(crate) struct Driver {
    pub handle: Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub fn start() -> Result<Self, PgError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PgError::Database(format!("starting a runtime: {error}")))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("kew-postgres".into()).spawn(move || {
            // Ended by its owner, also by the owner's end.
            let _stopped = runtime.block_on(stopped);
        });
        let thread = thread.map_err(|error| PgError::Database(format!("starting a thread: {error}")))?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs on the driver's thread; waits here.
    pub fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (give, take) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // The one who asked waits, or is gone.
            let _given = give.send(work.await);
        });
        take.recv().ok()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _stopped = stop.send(());
        }
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported by itself.
            let _ended = thread.join();
        }
    }
}

/// Work on a connection.
pub(crate) type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, PgError>> + Send + 'a>>;

/// Connections that are made when they are needed and replaced when they fail.
pub(crate) struct Pool {
    target: Target,
    slots: Vec<Mutex<Option<Connection>>>,
    next: AtomicUsize,
    tenure: Arc<Tenure>,
}

impl Pool {
    pub fn new(target: Target, tenure: Arc<Tenure>) -> Self {
        let slots = (0..CONNECTIONS).map(|_| Mutex::new(None)).collect();
        Self { target, slots, next: AtomicUsize::new(0), tenure }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Does work on a connection, again and again while the database cannot be reached.
    pub async fn work<T>(
        &self,
        patience: Duration,
        work: impl for<'a> Fn(&'a mut Connection) -> Working<'a, T>,
    ) -> Result<T, PgError> {
        let begun = Instant::now();
        loop {
            self.tenure.check()?;
            let error = match self.try_once(&work).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if !error.may_pass() || begun.elapsed() > patience {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_once<T>(
        &self,
        work: &impl for<'a> Fn(&'a mut Connection) -> Working<'a, T>,
    ) -> Result<T, PgError> {
        let mut slot = self.slot().await;
        let mut connection = match slot.take() {
            Some(connection) if !connection.client.is_closed() => connection,
            _ => Connection::open(&self.target).await?,
        };
        let done = work(&mut connection).await;
        // One that failed may be in the middle of a transaction.
        if done.is_ok() {
            *slot = Some(connection);
        }
        done
    }

    /// A free connection, or the next one's turn.
    async fn slot(&self) -> tokio::sync::MutexGuard<'_, Option<Connection>> {
        for slot in &self.slots {
            if let Ok(free) = slot.try_lock() {
                return free;
            }
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        self.slots[next].lock().await
    }
}
