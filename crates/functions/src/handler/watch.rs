//! Starts the handler, waits until it answers, starts it again when it ends, and gives up after three failures.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_core::Entropy;
use kew_http::client::{Client, ClientError, ClientSettings, Outgoing};
use kew_http::{HeaderMap, Method, RequestId, Uri};
use tokio::sync::watch;

use super::health::{Handler, Health, Life};
use super::process::Process;
use super::rest::Rest;
use crate::log::Log;
use crate::project::Project;
use crate::stop::Stopped;

/// How often a handler that starts is asked whether it answers, and for how long.
const ASK_EVERY: Duration = Duration::from_millis(25);
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Failures further apart do not belong together.
const FAILURES_WITHIN: Duration = Duration::from_secs(30 * 60);
const FAILURES_MAX: usize = 3;
/// The longest reply of a handler.
const REPLY_BYTES_MAX: usize = 100 << 20;
/// Handlers close connections that rest, some after five seconds.
const IDLE: Duration = Duration::from_secs(2);

/// Keeps the handler running.
pub(crate) struct Supervisor {
    project: Arc<Project>,
    launcher: Vec<OsString>,
    entropy: Arc<dyn Entropy>,
    log: Log,
    client: Client,
    health: watch::Sender<Health>,
    /// The last life in which a run took too long: it is to end.
    overdue: watch::Receiver<u64>,
}

/// Why a life ended.
enum End {
    /// By itself, with this code.
    Exited(Option<i32>),
    /// It did not answer in time.
    Silent,
    /// It could not be started.
    NotStarted,
    /// A run took too long in it.
    Overdue,
    /// The host stops.
    Stopped,
}

impl Supervisor {
    pub(crate) fn new(
        project: Arc<Project>,
        launcher: Vec<OsString>,
        entropy: Arc<dyn Entropy>,
        log: Log,
    ) -> (Self, Handler) {
        let (health, listens) = watch::channel(Health::Starts);
        let settings =
            ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, idle: IDLE, ..ClientSettings::default() };
        let (tells, overdue) = watch::channel(0);
        let handler = Handler::new(Client::new(settings), listens, tells);
        let client = Client::new(ClientSettings { idle_max: 0, ..settings });
        (Self { project, launcher, entropy, log, client, health, overdue }, handler)
    }

    /// Runs until the host stops, or until the handler failed too often: then false.
    pub(crate) async fn run(self, stopped: Stopped) -> bool {
        let mut failures: Vec<Instant> = Vec::new();
        let mut rest = Rest::default();
        for number in 1.. {
            let begun = Instant::now();
            let (end, answered) = self.live(number, &stopped).await;
            if matches!(end, End::Stopped) || stopped.is_told() {
                break;
            }
            self.health.send_replace(Health::Starts);
            match end {
                // One that answered and then ended of its own will has not failed.
                End::Exited(Some(0)) if answered => {
                    self.rest(rest.after(begun.elapsed()), &stopped).await;
                    continue;
                }
                End::Overdue => continue,
                _ => {}
            }
            if failures.last().is_some_and(|last| last.elapsed() > FAILURES_WITHIN) {
                failures.clear();
            }
            failures.push(Instant::now());
            self.tell(&end);
            if failures.len() >= FAILURES_MAX {
                self.log.error("Exceeded http worker restart retry count. Shutting down Functions Host");
                self.health.send_replace(Health::Gone);
                return false;
            }
        }
        self.health.send_replace(Health::Gone);
        true
    }

    async fn rest(&self, rest: Duration, stopped: &Stopped) {
        let then = if rest.is_zero() { String::new() } else { format!(" after a rest of {rest:?}") };
        self.log.warn(&format!("the handler exited with code 0; it is started again{then}"));
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = stopped.wait() => {}
        }
    }

    fn tell(&self, end: &End) {
        match end {
            End::Exited(Some(code)) => self.log.error(&format!("the handler exited with code {code}")),
            End::Exited(None) => self.log.error("the handler was killed"),
            End::Silent | End::NotStarted | End::Overdue | End::Stopped => {}
        }
    }

    /// One process, from its start to its end, and whether it ever answered.
    async fn live(&self, number: u64, stopped: &Stopped) -> (End, bool) {
        let id = RequestId::from_chance(self.entropy.wide_bits()).to_string();
        let mut process = match Process::start(&self.project, &self.launcher, &id, &self.log) {
            Ok(process) => process,
            Err(error) => {
                self.log.error(&format!("cannot start the handler: {error}"));
                return (End::NotStarted, false);
            }
        };
        let port = process.port;
        let ended = tokio::select! {
            code = process.wait() => Some(End::Exited(code)),
            () = stopped.wait() => Some(End::Stopped),
            answers = self.answers(port) => (!answers).then_some(End::Silent),
        };
        let answered = ended.is_none();
        let end = match ended {
            Some(end) => end,
            None => {
                self.health.send_replace(Health::Answers(Life { number, port }));
                tokio::select! {
                    code = process.wait() => End::Exited(code),
                    () = stopped.wait() => End::Stopped,
                    () = self.is_overdue(number) => End::Overdue,
                }
            }
        };
        self.health.send_replace(Health::Ends);
        match end {
            End::Exited(_) => process.finish().await,
            End::Silent => {
                self.log.error(&format!(
                    "the handler did not answer on 127.0.0.1:{port} within {} s; it must listen at the port in the variable FUNCTIONS_CUSTOMHANDLER_PORT",
                    READY_WITHIN.as_secs()
                ));
                process.stop().await;
            }
            End::Overdue => {
                self.log.warn("A function timeout has occurred. The handler is ended and started again, since the run would go on in it; other runs in it fail");
                process.stop().await;
            }
            End::Stopped | End::NotStarted => process.stop().await,
        }
        (end, answered)
    }

    /// Returns when a run took too long in this life.
    async fn is_overdue(&self, number: u64) {
        let mut overdue = self.overdue.clone();
        if overdue.wait_for(|last| *last >= number).await.is_err() {
            // It gets no more calls.
            std::future::pending::<()>().await;
        }
    }

    /// Asks until there is any answer at all.
    async fn answers(&self, port: u16) -> bool {
        let Ok(uri) = format!("http://127.0.0.1:{port}/").parse::<Uri>() else { return false };
        let begun = Instant::now();
        while begun.elapsed() < READY_WITHIN {
            let (headers, body) = (HeaderMap::new(), Bytes::new());
            let asked = Outgoing { method: Method::GET, uri: uri.clone(), headers, body };
            let left = READY_WITHIN.saturating_sub(begun.elapsed());
            // An answer that is too long is one.
            match self.client.exchange(asked, left).await {
                Ok(_) | Err(ClientError::ReplyTooLong { .. }) => return true,
                Err(_) => tokio::time::sleep(ASK_EVERY).await,
            }
        }
        false
    }
}
