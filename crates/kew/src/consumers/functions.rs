//! The queue-trigger host as this program runs it: alone, or beside the server on a thread of its own.

use std::ffi::OsString;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;
use kew_engine::ClockKind;
use kew_functions::{HostClock, HostError, HostOptions, Project, ProjectError};

use tokio::sync::oneshot;

use crate::bind::Bound;
use crate::config::Settings;
use crate::credentials;
use crate::listen::Dialect;
use crate::log::{Area, Level, Log};
use crate::machine::{SystemClock, SystemEntropy};

/// How long runs may take to end by default.
pub const DRAIN_WITHIN: Duration = Duration::from_secs(30);

/// The words that make this program guard a handler: hidden from the help, since only the host says them.
const GUARD: [&str; 3] = ["functions", "guard", "--"];

/// The project in `root`, under this program's environment.
pub fn read(root: &Path, storage: Option<&str>) -> Result<Project, ProjectError> {
    // What is no text is no setting.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Project::read(root, &environment, storage, processors)
}

/// How the host goes about it.
pub struct Manner {
    /// Whose time it is.
    pub clock: HostClock,
    /// Chance.
    pub entropy: Arc<SystemEntropy>,
    /// Where lines go.
    pub log: Log,
    /// How long runs may take to end.
    pub drain_within: Duration,
    /// Whether a Kew server is asked to hold polls.
    pub waits: bool,
}

/// Runs a project until `stop` returns.
pub async fn host(
    project: Project,
    manner: Manner,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), HostError> {
    let log = manner.log;
    let options = HostOptions {
        launcher: launcher(),
        clock: manner.clock,
        machine: Arc::new(SystemClock),
        entropy: manner.entropy,
        log: Arc::new(move |at: Timestamp, level, line: &str, fields: &[(&str, &str)]| {
            log.tell_at(at, level_of(level), line, fields);
        }),
        drain_within: manner.drain_within,
        waits: manner.waits,
    };
    kew_functions::run(project, options, ready, stop).await
}

fn level_of(level: kew_functions::Level) -> Level {
    match level {
        kew_functions::Level::Debug => Level::Debug,
        kew_functions::Level::Info => Level::Info,
        kew_functions::Level::Warn => Level::Warn,
        kew_functions::Level::Error => Level::Error,
    }
}

/// This program, guarding. By its process where the system shows that: the file may have been replaced meanwhile.
fn launcher() -> Vec<OsString> {
    let own = Path::new("/proc/self/exe");
    let program = if own.exists() { Some(own.to_owned()) } else { std::env::current_exe().ok() };
    let program = program.map_or_else(|| OsString::from("kew"), std::path::PathBuf::into_os_string);
    std::iter::once(program).chain(GUARD.map(OsString::from)).collect()
}

/// A host beside the server.
pub struct Beside {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Beside {
    /// Runs the project in `root` against the server that is bound here.
    pub fn start(root: &Path, settings: &Settings, bound: &Bound, log: Log) -> Result<Self, String> {
        let storage = storage(settings, bound);
        let project = read(root, storage.as_deref()).map_err(|error| error.to_string())?;
        let entropy =
            SystemEntropy::new().map_err(|error| format!("cannot ask for random numbers: {error}"))?;
        let entropy = Arc::new(entropy);
        let clock = (settings.server.clock == ClockKind::Virtual).then(|| admin(settings, bound)).flatten();
        let token = settings.admin_token.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start the functions host: {error}"))?;
        let (stop, stopped) = oneshot::channel();
        let run = async move {
            let clock = match clock {
                Some(address) => {
                    let token = token.as_ref().map(|token| token.0.as_str());
                    kew_functions::follow(&address, token, &*entropy)
                        .await
                        .map_err(|error| error.to_string())?
                }
                None => HostClock::system(Arc::new(SystemClock)),
            };
            let log = log.of(Area::Functions);
            let manner = Manner { clock, entropy, log, drain_within: DRAIN_WITHIN, waits: true };
            let lines = project.lines();
            let ready = || {
                for line in &lines {
                    log.tell(Level::Info, &format!("function {line}"), &[]);
                }
            };
            let stop = async {
                // Gone, it tells the same.
                let _told = stopped.await;
            };
            host(project, manner, ready, stop).await.map_err(|error| error.to_string())
        };
        let thread = std::thread::Builder::new().name("functions".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(run) {
                log.tell(
                    Level::Error,
                    &format!("the functions host has ended, the server goes on: {error}"),
                    &[],
                );
            }
        });
        let thread = thread.map_err(|error| format!("cannot start the functions host: {error}"))?;
        Ok(Self { stop, thread })
    }

    /// Lets runs end. The server must still be there.
    pub fn stop(self) {
        // It may have ended by itself.
        let _told = self.stop.send(());
        let _ended = self.thread.join();
    }
}

/// The connection string of this server, which takes the place of the development account's.
fn storage(settings: &Settings, bound: &Bound) -> Option<String> {
    let own = bound.dialects.iter().find(|(dialect, _)| *dialect == Dialect::Azure);
    let own = own.map(|(_, address)| (*address, settings.tls.azure.is_some()));
    let (address, secure) =
        own.or_else(|| bound.also.first().map(|address| (*address, settings.tls.also.is_some())))?;
    let account = credentials::azure(settings).into_iter().next()?;
    let (name, key) = (&account.name, STANDARD.encode(account.keys.first()?));
    let base = base(address, secure);
    Some(format!("AccountName={name};AccountKey={key};QueueEndpoint={base}/{name}"))
}

fn admin(settings: &Settings, bound: &Bound) -> Option<String> {
    bound.admin.map(|address| base(address, settings.tls.admin.is_some()))
}

/// A server that is bound to all addresses is reached on this machine.
fn base(mut address: SocketAddr, secure: bool) -> String {
    if address.ip().is_unspecified() {
        let own =
            if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
        address.set_ip(own);
    }
    format!("{}://{address}", if secure { "https" } else { "http" })
}
