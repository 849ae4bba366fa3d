//! The thread of push consumers: a runtime of its own, so that no target, however slow, is felt by those who send.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kew_console::{PushAttempt, PushCircuit, UpkeepReport};
use kew_core::{Entropy, QueueKey, Reports, Work};
use kew_engine::Engine;
use kew_http::Drain;
use kew_http::client::Reach;
use kew_push::verdict::Ending;
use kew_push::workers::{OtherNodes, Workers, WorkersSettings};
use kew_push::{Attempt, Attempts, Circuits, Dispatcher, Notice, OpenCircuit, Settings, StrangeIds, Traces};
use tokio::task::JoinSet;

use crate::bind::Bound;
use crate::config::{Auth, Settings as AllSettings};
use crate::consumers::workers;
use crate::log::{Level, Log};
use crate::machine::SystemClock;
use crate::telemetry::Exporter;

/// How often who waits for the end of batches looks.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// Push consumers that are served.
pub struct Pushes {
    /// What came of their batches.
    pub attempts: Arc<Attempts>,
    /// Those whose targets cannot be reached.
    pub circuits: Arc<Circuits>,
    /// Ends the batches.
    stop: Drain,
    have_ended: Arc<AtomicBool>,
    /// Ends the Workers, which are visited until then.
    workers_end: Drain,
    thread: JoinHandle<io::Result<()>>,
}

/// What Workers need of the rest.
pub struct WorkersWanted<'a> {
    /// Where they reach their queues.
    pub bound: &'a Bound,
    /// What they are let in with there.
    pub token: Arc<str>,
    /// Where uploads find them.
    pub place: Arc<OnceLock<Arc<Workers>>>,
    /// The other nodes, if there may be any.
    pub others: Option<Arc<dyn OtherNodes>>,
}

impl Pushes {
    /// Starts the thread, and returns when the Workers are loaded. Each engine is one of a shard of its own; Workers
    /// and their scripts are kept by the first.
    pub fn start(
        engines: &[Arc<Engine>],
        settings: &AllSettings,
        entropy: Arc<dyn Entropy>,
        workers: WorkersWanted<'_>,
        (log, upkeep): (Log, Arc<UpkeepReport>),
    ) -> Result<Self, String> {
        let (stop, workers_end, have_ended) = (Drain::default(), Drain::default(), Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|cause| cause.to_string())?;
        let WorkersWanted { bound, token, place, others } = workers;
        let wanted = settings.workers.run.then(|| workers::of(settings, bound, token, others, log));
        let pushing = Pushing {
            engines: engines.to_vec(),
            entropy: Arc::clone(&entropy),
            settings: of(settings, entropy, log, upkeep),
            workers: wanted.transpose()?,
            place,
            stop: stop.clone(),
            have_ended: Arc::clone(&have_ended),
            workers_end: workers_end.clone(),
        };
        let (tell, begun) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("kew-push".into());
        let thread = thread.spawn(move || runtime.block_on(pushing.run(&tell)));
        let thread = thread.map_err(|cause| cause.to_string())?;
        // Without a word it panicked.
        let begun = begun.recv().unwrap_or_else(|_| Err("the thread of push consumers panicked".to_owned()));
        match begun {
            Ok((attempts, circuits)) => {
                Ok(Self { attempts, circuits, stop, have_ended, workers_end, thread })
            }
            Err(error) => {
                // Its children end with it.
                let _ended = thread.join();
                Err(error)
            }
        }
    }

    /// Takes no new batches from now on.
    pub fn begin_to_stop(&self) {
        self.stop.close();
    }

    /// Waits until the batches under way have ended, this long at most. Workers are visited still.
    pub fn wait(&self, most: Duration) {
        let begun = Instant::now();
        let have_ended = || self.have_ended.load(Ordering::Acquire) || self.thread.is_finished();
        while !have_ended() && begun.elapsed() < most {
            std::thread::sleep(LOOKS_EVERY);
        }
    }

    /// Waits until the batches under way and the Workers have ended, within bounds.
    pub fn join(self) -> io::Result<()> {
        self.stop.close();
        self.workers_end.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of push consumers panicked")))
    }
}

/// What the thread works with.
struct Pushing {
    /// Never empty.
    engines: Vec<Arc<Engine>>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    /// None where Workers are not run.
    workers: Option<WorkersSettings>,
    place: Arc<OnceLock<Arc<Workers>>>,
    stop: Drain,
    have_ended: Arc<AtomicBool>,
    workers_end: Drain,
}

/// What is known of the thread when it has begun, or why it has not.
type Begun = Result<(Arc<Attempts>, Arc<Circuits>), String>;

impl Pushing {
    /// Loads the Workers, says that it did, and brings batches until the end. All of that is done by one thread: the
    /// system ends a Worker's process together with the thread that started it.
    async fn run(self, tell: &mpsc::SyncSender<Begun>) -> io::Result<()> {
        let Self { engines, entropy, settings, workers, place, stop, have_ended, workers_end } = self;
        let (engine, others) = engines.split_first().expect("a server has an engine");
        let workers = match workers {
            Some(wanted) => match workers::load(Arc::clone(engine), entropy, wanted).await {
                Ok(loaded) => Some(Arc::new(loaded)),
                Err(error) => {
                    // The one who starts the server waits for it.
                    let _sent = tell.send(Err(error));
                    return Ok(());
                }
            },
            None => None,
        };
        if let Some(workers) = &workers {
            // The first to be put there stays; there is no other.
            let _there = place.set(Arc::clone(workers));
        }
        let dispatcher = Dispatcher::new(Arc::clone(engine), settings, workers.clone(), stop);
        let mut beside: JoinSet<()> =
            others.iter().map(|engine| dispatcher.beside(Arc::clone(engine)).run()).collect();
        let figures = (Arc::clone(dispatcher.attempts()), Arc::clone(dispatcher.circuits()));
        // The one who starts the server waits for it.
        let _sent = tell.send(Ok(figures));
        dispatcher.run().await;
        while let Some(ended) = beside.join_next().await {
            ended.map_err(io::Error::other)?;
        }
        have_ended.store(true, Ordering::Release);
        if let Some(workers) = workers {
            workers_end.closing().await;
            workers.shut_down().await;
        }
        Ok(())
    }
}

/// Counts batches by how they ended.
pub fn counted(attempts: &Attempts) -> [(&'static str, u64); 3] {
    [Ending::Returned, Ending::Failed, Ending::Unreached].map(|ending| (word(ending), attempts.count(ending)))
}

/// The latest batches, as the console shows them.
pub fn latest(attempts: &Attempts) -> Vec<PushAttempt> {
    attempts.latest().iter().map(|attempt| shown(attempt)).collect()
}

/// Consumers that cannot be reached, as the console shows them.
pub fn open(circuits: &Circuits) -> Vec<PushCircuit> {
    circuits.open().iter().map(|open| shown_circuit(open)).collect()
}

fn shown_circuit(open: &OpenCircuit) -> PushCircuit {
    PushCircuit {
        queue: open.queue.clone(),
        consumer: open.consumer.to_string(),
        target: open.target.clone(),
        since: open.since,
        tries: open.tries,
        pause: open.pause,
        error: open.error.clone(),
    }
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
        Ending::Unreached => "unreached",
    }
}

fn of(settings: &AllSettings, entropy: Arc<dyn Entropy>, log: Log, upkeep: Arc<UpkeepReport>) -> Settings {
    // Clients that may name a webhook in open mode are at this machine anyway; an account of many is not.
    let private = settings.push.private_addresses.unwrap_or(settings.server.auth == Auth::Open);
    Settings {
        reach: if private { Reach::Private } else { Reach::Public },
        batches_max: settings.push.batches_max,
        in_flight_max: settings.limits.in_flight_max,
        clock: Arc::new(SystemClock),
        entropy,
        traces: Traces {
            of: Arc::new(kew_sqs::trace_of),
            record: log.exporter().is_some_and(Exporter::has_traces),
        },
        brought: Arc::new(move |attempt| tell_brought(log, attempt)),
        notices: Arc::new(move |notice| tell(log, &*upkeep, &notice)),
    }
}

/// Notes a batch that was brought: its span, and a line for who looks for something.
fn tell_brought(log: Log, attempt: &Attempt) {
    if let Some(exporter) = log.exporter() {
        exporter.brought(attempt);
    }
    if !log.is_asked_for(Level::Debug) {
        return;
    }
    let (messages, acked) = (attempt.messages.to_string(), attempt.acked.to_string());
    let duration = format!("{:.3}", attempt.took.as_secs_f64() * 1_000.0);
    let status = attempt.status.map(|status| status.to_string()).unwrap_or_default();
    let fields = [
        ("queue", &*attempt.queue.name),
        ("target", attempt.target.as_str()),
        ("batch", attempt.batch.as_str()),
        ("outcome", word(attempt.ending)),
        ("status", status.as_str()),
        ("messages", messages.as_str()),
        ("acked", acked.as_str()),
        ("duration_ms", duration.as_str()),
    ];
    log.tell(Level::Debug, "a batch was brought to a consumer", &fields);
}

/// Logs a notice. Repeated refusals of the store are logged at the rate of the upkeep report.
fn tell(log: Log, upkeep: &dyn Reports, notice: &Notice) {
    match notice {
        Notice::BatchFailed(attempt) => log_failed_batch(log, attempt),
        Notice::Unreached(open) => {
            let fields = [
                ("queue", &*open.queue.name),
                ("target", open.target.as_str()),
                ("cause", open.error.as_str()),
            ];
            let line = "a consumer cannot be reached; its messages wait, and no attempt is counted";
            log.tell(Level::Warn, line, &fields);
        }
        Notice::ReachedAgain(open) => log_closed(log, "a consumer can be reached again", open),
        Notice::GoneUnreached(open) => {
            log_closed(log, "a consumer that cannot be reached was removed, or has another target", open);
        }
        Notice::StrangeIds { queue, batch, ids } => log_strange_ids(log, (queue, batch), ids),
        // The looks of the console tell it of every message that leaves so, by whichever dialect it was leased.
        Notice::GivenUp { .. } => {}
        Notice::LeaseFailed(queue, error) => {
            upkeep.failed(Work::Push, &format!("leasing a batch of {}: {error}", queue.name));
        }
        Notice::SettleFailed(queue, error) => {
            let fields = [("queue", &*queue.name), ("cause", &*error.to_string())];
            let line =
                "the verdict on a batch could not be written yet; until it can, its messages stay in flight";
            log.tell(Level::Error, line, &fields);
            upkeep.failed(Work::Push, &format!("settling a batch of {}: {error}", queue.name));
        }
        Notice::ReleaseFailed(error) => {
            let what = "releasing what an earlier start was pushing; nothing is pushed until then";
            upkeep.failed(Work::Push, &format!("{what}: {error}"));
        }
        Notice::CutOff { batches } => {
            let line = "consumers did not finish in time; their batches come again after the next start";
            log.tell(Level::Warn, line, &[("batches", &*batches.to_string())]);
        }
    }
}

fn log_closed(log: Log, line: &str, open: &OpenCircuit) {
    let tries = open.tries.to_string();
    let fields =
        [("queue", &*open.queue.name), ("target", open.target.as_str()), ("tries_in_vain", tries.as_str())];
    log.tell(Level::Info, line, &fields);
}

fn log_failed_batch(log: Log, attempt: &Attempt) {
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

fn log_strange_ids(log: Log, (queue, batch): (&QueueKey, &str), ids: &StrangeIds) {
    let count = ids.count.to_string();
    let fields =
        [("queue", &*queue.name), ("batch", batch), ("ids", count.as_str()), ("first", ids.example.as_str())];
    let line = "a verdict names messages that are not of its batch; those ids count for nothing";
    log.tell(Level::Warn, line, &fields);
}
