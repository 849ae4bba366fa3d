//! Starts the handler, waits until it answers, starts it again when it ends, and gives up after three failures.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kew_core::Entropy;
use kew_http::client::{Answer, Client, ClientError, ClientSettings, Outgoing};
use kew_http::{HeaderMap, Method, RequestId, Uri};
use tokio::sync::watch;

use super::process::Process;
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

/// How the handler is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    /// It is being started.
    Starts,
    /// It answers at this port.
    Answers(u16),
    /// It is not started again.
    Gone,
}

/// The handler, as functions call it.
pub(crate) struct Handler {
    client: Client,
    health: watch::Receiver<Health>,
}

impl Handler {
    /// Waits until it answers; `None` when it never will.
    pub(crate) async fn port(&self) -> Option<u16> {
        let mut health = self.health.clone();
        let settled = health.wait_for(|health| *health != Health::Starts).await.ok()?;
        match *settled {
            Health::Answers(port) => Some(port),
            Health::Starts | Health::Gone => None,
        }
    }

    /// Asks it something.
    pub(crate) async fn ask(&self, outgoing: Outgoing, within: Duration) -> Result<Answer, ClientError> {
        self.client.exchange(outgoing, within).await
    }
}

/// Keeps the handler running.
pub(crate) struct Supervisor {
    project: Arc<Project>,
    launcher: Vec<OsString>,
    entropy: Arc<dyn Entropy>,
    log: Log,
    client: Client,
    health: watch::Sender<Health>,
}

/// Why a life ended.
enum End {
    /// By itself, with this code.
    Exited(Option<i32>),
    /// It did not answer in time.
    Silent,
    /// It could not be started.
    NotStarted,
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
        let handler = Handler { client: Client::new(settings), health: listens };
        let client = Client::new(ClientSettings { idle_max: 0, ..settings });
        (Self { project, launcher, entropy, log, client, health }, handler)
    }

    /// Runs until the host stops, or until the handler failed too often: then false.
    pub(crate) async fn run(self, stopped: Stopped) -> bool {
        let mut failures: Vec<Instant> = Vec::new();
        loop {
            let end = self.live(&stopped).await;
            if matches!(end, End::Stopped) || stopped.is_told() {
                self.health.send_replace(Health::Gone);
                return true;
            }
            let answered = matches!(*self.health.borrow(), Health::Answers(_));
            self.health.send_replace(Health::Starts);
            // One that answered and then ended of its own will has not failed.
            if matches!(end, End::Exited(Some(0))) && answered {
                self.log.warn("the handler exited with code 0; it is started again");
                continue;
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
    }

    fn tell(&self, end: &End) {
        match end {
            End::Exited(Some(code)) => self.log.error(&format!("the handler exited with code {code}")),
            End::Exited(None) => self.log.error("the handler was killed"),
            End::Silent | End::NotStarted | End::Stopped => {}
        }
    }

    /// One process, from its start to its end.
    async fn live(&self, stopped: &Stopped) -> End {
        let id = RequestId::from_chance(self.entropy.wide_bits()).to_string();
        let mut process = match Process::start(&self.project, &self.launcher, &id, &self.log) {
            Ok(process) => process,
            Err(error) => {
                self.log.error(&format!("cannot start the handler: {error}"));
                return End::NotStarted;
            }
        };
        let port = process.port;
        let ended = tokio::select! {
            code = process.wait() => Some(End::Exited(code)),
            () = stopped.wait() => Some(End::Stopped),
            answers = self.answers(port) => (!answers).then_some(End::Silent),
        };
        let end = match ended {
            Some(end) => end,
            None => {
                self.health.send_replace(Health::Answers(port));
                tokio::select! {
                    code = process.wait() => End::Exited(code),
                    () = stopped.wait() => End::Stopped,
                }
            }
        };
        match end {
            End::Exited(_) => process.finish().await,
            End::Silent => {
                self.log.error(&format!(
                    "the handler did not answer on 127.0.0.1:{port} within {} s; it must listen at the port in the variable FUNCTIONS_CUSTOMHANDLER_PORT",
                    READY_WITHIN.as_secs()
                ));
                process.stop().await;
            }
            End::Stopped | End::NotStarted => process.stop().await,
        }
        end
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
