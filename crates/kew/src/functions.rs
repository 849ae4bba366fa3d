//! The queue-trigger host as this program runs it: alone, or beside the server.

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kew_core::Timestamp;
use kew_functions::{HostClock, HostError, HostOptions, Project, ProjectError};

use crate::log::{Level, Log};
use crate::machine::{SystemClock, SystemEntropy};

/// The words that make this program guard a handler: hidden from the help, since only the host says them.
const GUARD: [&str; 3] = ["functions", "guard", "--"];

/// The project in `root`, under this program's environment.
pub fn read(root: &Path, storage: Option<&str>) -> Result<Project, ProjectError> {
    // What is no text is no setting.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Project::read(root, &environment, storage)
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
