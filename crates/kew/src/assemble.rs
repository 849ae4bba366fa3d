//! Puts the rooms together: the store that was chosen, under an engine, behind a listener.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kew_core::Entropy;
use kew_engine::{Notice, Options};
use kew_http::{Drain, Guard, Limits};
use kew_store::{MemoryStore, Store};
use kew_store_log::{Drive, LogError, LogOptions, LogStore, OpenReport, RealDisk};
use thiserror::Error;

use crate::config::{Address, DurabilityChoice, ServeArgs, StoreChoice};
use crate::listen::{EventLoop, Started};
use crate::log::{Level, Log};
use crate::machine::{self, SystemEntropy, SystemTimeSource};

/// Files that are not connections: segments, checkpoints, the loop's own.
const OTHER_FILES: u64 = 512;
const CONNECTIONS_MAX: u64 = 100_000;

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The settings do not go together.
    #[error("{0}")]
    Settings(String),
    /// The directory cannot be used.
    #[error("cannot use the directory {}: {cause}", path.display())]
    Directory {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Another server holds the directory.
    #[error("{} is in use by {holder}: two servers cannot share a directory; stop that one, or choose another with --store", path.display())]
    Locked {
        /// Which directory.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The store cannot be opened.
    #[error("cannot open the store in {}: {cause}", path.display())]
    Store {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        cause: LogError,
    },
    /// The address cannot be bound.
    #[error("cannot serve SQS at {address}: {cause}; choose another with --sqs")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// Why not.
        cause: std::io::Error,
    },
    /// The machine refused something else.
    #[error("{doing}: {cause}")]
    Machine {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        cause: std::io::Error,
    },
}

/// A server that runs.
pub struct Server {
    /// Where SQS is served.
    pub sqs: SocketAddr,
    /// How many connections may be open.
    pub connections_max: usize,
    kept: Option<(Arc<LogStore>, PathBuf)>,
    drain: Drain,
    running: Started,
    log: Log,
}

impl Server {
    /// Starts everything; when it returns, requests are served.
    pub fn start(serve: &ServeArgs, log: Log) -> Result<Self, StartError> {
        serve.check().map_err(StartError::Settings)?;
        let Address::At(address) = serve.sqs else {
            return Err(StartError::Settings("nothing to serve".to_owned()));
        };
        let connections = machine::raise_open_files().saturating_sub(OTHER_FILES).clamp(16, CONNECTIONS_MAX);
        let connections_max = usize::try_from(connections).unwrap_or(usize::MAX);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy::new().map_err(|error| {
            StartError::Machine { doing: "asking for random numbers", cause: std::io::Error::other(error) }
        })?);
        // The address first: a typing error there should not cost a recovery.
        let socket = TcpListener::bind(address).map_err(|cause| StartError::Bind { address, cause })?;
        let sqs = socket.local_addr().map_err(|cause| StartError::Bind { address, cause })?;
        let guard = if serve.insecure { Guard::open().with_any_host() } else { Guard::open() };
        let parts = Parts { entropy, socket, guard, connections_max, drain: Drain::default(), log };
        let (drain, kept, running) = match &serve.store {
            StoreChoice::Memory => {
                let store = Arc::new(MemoryStore::new(Arc::clone(&parts.entropy)));
                log.tell(
                    Level::Warn,
                    "messages are kept in memory only and are gone when the server stops",
                    &[],
                );
                (parts.drain.clone(), None, parts.run(store)?)
            }
            StoreChoice::Directory(path) => {
                let store = open(path, serve.durability, Arc::clone(&parts.entropy), log)?;
                let kept = Some((Arc::clone(&store), path.clone()));
                (parts.drain.clone(), kept, parts.run(store)?)
            }
        };
        Ok(Self { sqs, connections_max, kept, drain, running, log })
    }

    /// Where messages are kept, for people.
    pub fn store_line(&self) -> String {
        match &self.kept {
            Some((_, path)) => path.display().to_string(),
            None => "memory".to_owned(),
        }
    }

    /// Stops accepting, ends long polls, lets requests finish, and closes the store.
    pub fn stop(self) -> Result<(), String> {
        self.drain.close();
        self.running.engine.shutdown();
        self.running.join().map_err(|error| error.to_string())?;
        if let Some((store, path)) = self.kept {
            store.close().map_err(|error| format!("closing the store in {}: {error}", path.display()))?;
        }
        self.log.tell(Level::Info, "stopped", &[]);
        Ok(())
    }
}

/// What the event loop is made of, beside the store.
struct Parts {
    entropy: Arc<dyn Entropy>,
    socket: TcpListener,
    guard: Guard,
    connections_max: usize,
    drain: Drain,
    log: Log,
}

impl Parts {
    fn run<S: Store + 'static>(self, store: Arc<S>) -> Result<Started, StartError> {
        let log = self.log;
        let options = Options { notices: Arc::new(move |notice| tell(log, notice)), ..Options::default() };
        let failures = move |id: kew_http::RequestId, cause: &str| {
            log.tell(Level::Error, cause, &[("request", id.as_str())]);
        };
        let event_loop = EventLoop {
            store,
            source: Arc::new(SystemTimeSource::default()),
            entropy: self.entropy,
            options,
            sqs: kew_sqs::Settings { failures: Arc::new(failures), ..kew_sqs::Settings::default() },
            socket: self.socket,
            guard: self.guard,
            limits: Limits { connections_max: self.connections_max, ..Limits::default() },
            drain: self.drain,
        };
        event_loop.start().map_err(|cause| StartError::Machine { doing: "starting the event loop", cause })
    }
}

fn open(
    path: &Path,
    durability: DurabilityChoice,
    entropy: Arc<dyn Entropy>,
    log: Log,
) -> Result<Arc<LogStore>, StartError> {
    let disk =
        RealDisk::open(path).map_err(|cause| StartError::Directory { path: path.to_owned(), cause })?;
    let options = LogOptions { drive: Drive::Loop, durability: durability.into(), ..LogOptions::default() };
    let opened = LogStore::open(Arc::new(disk), options, entropy, machine::system_now());
    let (store, report) = opened.map_err(|cause| match cause {
        LogError::Locked { holder } => StartError::Locked { path: path.to_owned(), holder },
        cause => StartError::Store { path: path.to_owned(), cause },
    })?;
    tell_opening(log, &report, durability);
    Ok(Arc::new(store))
}

/// What opening found, as far as an operator should know.
fn tell_opening(log: Log, report: &OpenReport, durability: DurabilityChoice) {
    if report.created {
        log.tell(Level::Info, "a new store was made", &[]);
    } else if !report.clean {
        let batches = report.batches.to_string();
        log.tell(
            Level::Warn,
            "the last run was cut short; the store was recovered",
            &[("batches", &batches)],
        );
    }
    if let Some(tail) = &report.tail {
        let (offset, bytes) = (tail.offset.to_string(), tail.bytes_dropped.to_string());
        log.tell(
            Level::Warn,
            "an incomplete batch was cut off the journal's end; nothing in it was ever acknowledged as durable",
            &[("file", &tail.file), ("offset", &offset), ("bytes", &bytes), ("why", &tail.why)],
        );
    }
    if report.copy_on_write {
        log.tell(
            Level::Warn,
            "this file system copies on write: when it is full, a write that needs no new space elsewhere may fail here and stop the store",
            &[],
        );
    }
    if durability == DurabilityChoice::Os {
        log.tell(
            Level::Warn,
            "--durability os: a power cut may lose messages whose sends were acknowledged, and bring back deleted ones",
            &[],
        );
    }
}

fn tell(log: Log, notice: Notice) {
    match notice {
        Notice::ClockBehind { by } => {
            let by = format!("{by:?}");
            log.tell(
                Level::Warn,
                "the system clock is behind; engine time runs slower until they meet",
                &[("by", &by)],
            );
        }
        Notice::ClockMet => log.tell(Level::Info, "the system clock has caught up with engine time", &[]),
        Notice::ClockJumped { by } => {
            let by = format!("{by:?}");
            log.tell(
                Level::Warn,
                "the system clock leapt ahead, which counts as time that passed",
                &[("by", &by)],
            );
        }
        Notice::DueFailed(error) => {
            log.tell(Level::Error, "due work could not be done", &[("cause", &error.to_string())]);
        }
        Notice::MovesUnknown(error) => {
            log.tell(Level::Error, "running move tasks could not be found", &[("cause", &error.to_string())]);
        }
        Notice::MoveFailed(task, error) => {
            let fields = [("task", task.0.to_string()), ("cause", error.to_string())];
            let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
            log.tell(Level::Error, "a move task could not go on", &fields);
        }
    }
}
