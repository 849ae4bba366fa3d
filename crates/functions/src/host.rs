//! The host: a project's handler and listeners, from the start to the end.

use std::ffi::OsString;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Clock, Entropy};
use tokio::task::JoinSet;

use crate::clock::HostClock;
use crate::handler::Supervisor;
use crate::listener::{Listener, Listening};
use crate::log::{Log, Sink};
use crate::project::Project;
use crate::queue::Queues;
use crate::shared::Shared;
use crate::stop::{Stop, Stopped};
use crate::wakes::Wakes;

/// What a host is made of beside its project.
pub struct HostOptions {
    /// The program that runs [`crate::run_guard`] with the arguments it is given: the first of these, after the others.
    pub launcher: Vec<OsString>,
    /// The host's time.
    pub clock: HostClock,
    /// The machine's time, which requests are dated by.
    pub machine: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Where lines go.
    pub log: Arc<Sink>,
    /// How long runs may take to end after the host began to stop.
    pub drain_within: Duration,
    /// Whether a Kew server is asked to hold polls until there are messages.
    pub waits: bool,
}

/// Why a host ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// The handler failed too often.
    #[error("the handler failed three times; what it said is in the log above")]
    Handler,
    /// No function can be listened for any more.
    #[error("no function is left to listen for; why is in the log above")]
    Listeners,
    /// Runs were abandoned: they took longer than the host had.
    #[error(
        "the time to stop was over before every run had ended; their messages are received again when their invisible time is over"
    )]
    Abandoned,
}

/// Runs the functions of a project until `stop` returns. `ready` is called when the handler answers for the first time.
pub async fn run(
    project: Project,
    options: HostOptions,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), HostError> {
    let log = Log { sink: options.log, clock: options.clock.clone() };
    project.warnings.iter().for_each(|warning| log.warn(warning));
    project.faults.iter().for_each(|fault| log.error(fault));
    let project = Arc::new(project);
    let (supervisor, handler) =
        Supervisor::new(Arc::clone(&project), options.launcher, Arc::clone(&options.entropy), log.clone());
    let shared = Arc::new(Shared {
        queues: Queues::new(Arc::clone(&options.entropy), options.machine),
        handler,
        settings: project.queues.clone(),
        run_within: project.run_within,
        clock: options.clock,
        entropy: options.entropy,
        log: log.clone(),
        wakes: Wakes::default(),
        waits: options.waits,
    });
    let (listeners_end, listeners_stopped) = Stop::new();
    let (handler_ends, handler_stopped) = Stop::new();
    let mut supervising = tokio::spawn(supervisor.run(handler_stopped));
    let mut listeners = listen(&project, &shared, &listeners_stopped);
    tokio::pin!(stop);
    let ended = tokio::select! {
        () = &mut stop => Ok(()),
        ended = watch(&shared, ready, &mut listeners, &log) => ended,
        // Only a handler that failed too often ends unasked.
        _ = &mut supervising => Err(HostError::Handler),
    };
    listeners_end.tell();
    let drained = tokio::time::timeout(options.drain_within, drain(&mut listeners, &log)).await.is_ok();
    listeners.shutdown().await;
    handler_ends.tell();
    if !supervising.is_finished() {
        // It ends with the handler, which is given a second.
        let _ended = supervising.await;
    }
    match ended {
        Ok(()) if !drained => Err(HostError::Abandoned),
        ended => ended,
    }
}

/// A listener for each function, with the names of the function and its queue.
type Listeners = JoinSet<(String, String, Listening)>;

fn listen(project: &Project, shared: &Arc<Shared>, stopped: &Stopped) -> Listeners {
    let mut listeners = JoinSet::new();
    for function in &project.functions {
        let (name, queue) = (function.name.clone(), function.trigger.queue.clone());
        let listener = Listener::new(Arc::clone(shared), Arc::clone(function));
        let listening = listener.listen(stopped.clone());
        listeners.spawn(async move { (name, queue, listening.await) });
    }
    listeners
}

/// Waits until all have ended.
async fn drain(listeners: &mut Listeners, log: &Log) {
    while let Some(ended) = listeners.join_next().await {
        if let Ok((name, queue, Err(error))) = ended {
            log.error(&refused(&name, &queue, &error));
        }
    }
}

/// Returns when there is nothing left to listen for.
async fn watch(
    shared: &Shared,
    ready: impl FnOnce(),
    listeners: &mut Listeners,
    log: &Log,
) -> Result<(), HostError> {
    if !shared.handler.answers().await {
        // The watch of the handler reports it.
        return std::future::pending().await;
    }
    ready();
    while let Some(ended) = listeners.join_next().await {
        match ended {
            Ok((name, queue, Err(error))) => log.error(&refused(&name, &queue, &error)),
            Ok((_, _, Ok(()))) => return std::future::pending().await,
            Err(error) => log.error(&format!("a listener failed: {error}")),
        }
    }
    Err(HostError::Listeners)
}

fn refused(name: &str, queue: &str, error: &crate::queue::QueueError) -> String {
    format!("The listener for function 'Functions.{name}' on queue '{queue}' was unable to go on: {error}")
}
