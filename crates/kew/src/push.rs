//! The thread of push consumers: a runtime of its own, so that no target, however slow, is felt by those who send.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use kew_console::PushAttempt;
use kew_core::Entropy;
use kew_engine::Engine;
use kew_http::Drain;
use kew_http::client::Reach;
use kew_push::verdict::Ending;
use kew_push::workers::Workers;
use kew_push::{Attempt, Attempts, Dispatcher, Notice, Settings};

use crate::bind::Bound;
use crate::config::{Auth, Settings as AllSettings};
use crate::log::{Level, Log};
use crate::machine::SystemClock;
use crate::workers;

/// Push consumers that are served.
pub struct Pushes {
    /// What came of their batches.
    pub attempts: Arc<Attempts>,
    stop: Drain,
    thread: JoinHandle<io::Result<()>>,
}

/// What Workers need of the rest.
pub struct WorkersWanted<'a> {
    /// Where they reach their queues.
    pub bound: &'a Bound,
    /// What they are let in with there.
    pub token: Arc<str>,
    /// Where whoever uploads them finds them.
    pub place: &'a OnceLock<Arc<Workers>>,
}

impl Pushes {
    /// Starts the thread.
    pub fn start(
        engine: Arc<Engine>,
        settings: &AllSettings,
        entropy: Arc<dyn Entropy>,
        workers: WorkersWanted<'_>,
        log: Log,
    ) -> Result<Self, String> {
        let stop = Drain::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|cause| cause.to_string())?;
        let workers = if settings.workers.run {
            let WorkersWanted { bound, token, place } = workers;
            let loading =
                workers::load(Arc::clone(&engine), settings, bound, (Arc::clone(&entropy), token), log);
            let loaded = Arc::new(runtime.block_on(loading)?);
            // The first to be put there stays; there is no other.
            let _there = place.set(Arc::clone(&loaded));
            Some(loaded)
        } else {
            None
        };
        let dispatcher = Dispatcher::new(engine, of(settings, entropy, log), workers.clone(), stop.clone());
        let attempts = Arc::clone(dispatcher.attempts());
        let run = move || {
            runtime.block_on(async {
                dispatcher.run().await;
                if let Some(workers) = workers {
                    workers.shut_down().await;
                }
            });
            Ok(())
        };
        let thread = std::thread::Builder::new().name("kew-push".into()).spawn(run);
        let thread = thread.map_err(|cause| cause.to_string())?;
        Ok(Self { attempts, stop, thread })
    }

    /// Takes no new batches from now on.
    pub fn begin_to_stop(&self) {
        self.stop.close();
    }

    /// Waits until the batches under way have ended, within bounds.
    pub fn join(self) -> io::Result<()> {
        self.stop.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of push consumers panicked")))
    }
}

/// Counts batches by how they ended.
pub fn counted(attempts: &Attempts) -> [(&'static str, u64); 2] {
    [Ending::Returned, Ending::Failed].map(|ending| (word(ending), attempts.count(ending)))
}

/// The latest batches, as the console shows them.
pub fn latest(attempts: &Attempts) -> Vec<PushAttempt> {
    attempts.latest().iter().map(|attempt| shown(attempt)).collect()
}

fn shown(attempt: &Attempt) -> PushAttempt {
    PushAttempt {
        at: attempt.at,
        queue: attempt.queue.clone(),
        consumer: attempt.consumer.to_string(),
        target: attempt.target.clone(),
        batch: attempt.batch.clone(),
        messages: attempt.messages,
        acked: attempt.acked,
        outcome: word(attempt.ending),
        took: attempt.took,
        status: attempt.status,
        error: attempt.error.clone(),
    }
}

fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Returned => "ok",
        Ending::Failed => "failed",
    }
}

fn of(settings: &AllSettings, entropy: Arc<dyn Entropy>, log: Log) -> Settings {
    // Whoever may name a webhook in open mode is at this machine anyway; an account of many is not.
    let private = settings.push.private_addresses.unwrap_or(settings.server.auth == Auth::Open);
    Settings {
        reach: if private { Reach::Private } else { Reach::Public },
        batches_max: settings.push.batches_max,
        in_flight_max: settings.limits.in_flight_max,
        clock: Arc::new(SystemClock),
        entropy,
        notices: Arc::new(move |notice| tell(log, &notice)),
    }
}

fn tell(log: Log, notice: &Notice) {
    match notice {
        Notice::BatchFailed(attempt) => {
            let (messages, acked) = (attempt.messages.to_string(), attempt.acked.to_string());
            let fields = [
                ("queue", &*attempt.queue.name),
                ("batch", attempt.batch.as_str()),
                ("messages", messages.as_str()),
                ("acked", acked.as_str()),
                ("cause", attempt.error.as_deref().unwrap_or("unknown")),
            ];
            log.tell(Level::Warn, "a consumer failed a batch", &fields);
        }
        Notice::LeaseFailed(queue, error) => {
            let fields = [("queue", &*queue.name), ("cause", &*error.to_string())];
            log.tell(Level::Error, "a batch could not be leased", &fields);
        }
        Notice::SettleFailed(queue, error) => {
            let fields = [("queue", &*queue.name), ("cause", &*error.to_string())];
            let line = "the verdict on a batch could not be written; it comes again after the next start";
            log.tell(Level::Error, line, &fields);
        }
        Notice::ReleaseFailed(error) => {
            let line = "messages an earlier start was pushing could not be released; nothing is pushed until they are";
            log.tell(Level::Error, line, &[("cause", &*error.to_string())]);
        }
        Notice::CutOff { batches } => {
            let line = "consumers did not finish in time; their batches come again after the next start";
            log.tell(Level::Warn, line, &[("batches", &*batches.to_string())]);
        }
    }
}
