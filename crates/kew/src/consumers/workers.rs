//! How Workers are run here: which program, where its files are, where its sends go, and what is logged of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kew_core::{AccountId, Entropy};
use kew_engine::Engine;
use kew_push::workers::{OtherNodes, Runtime, WorkerNotice, Workers, WorkersSettings};

use crate::bind::Bound;
use crate::config::{Settings, StoreChoice};
use crate::credentials;
use crate::listen::Dialect;
use crate::log::{Level, Log};

/// What runs a program that dies with us ([`crate::cli`]).
pub const LAUNCH: &str = "launch-with-parent";

/// The Workers that were left in the store, each of them started; by the thread they shall live on.
pub async fn load(
    engine: Arc<Engine>,
    entropy: Arc<dyn Entropy>,
    settings: WorkersSettings,
) -> Result<Workers, String> {
    Workers::load(engine, entropy, settings)
        .await
        .map_err(|error| format!("cannot read the Workers that are kept: {error}"))
}

/// How they are run.
pub fn of(
    settings: &Settings,
    bound: &Bound,
    token: Arc<str>,
    others: Option<Arc<dyn OtherNodes>>,
    log: Log,
) -> Result<WorkersSettings, String> {
    let accounts = credentials::cloudflare(settings);
    let own =
        std::env::current_exe().map_err(|cause| format!("cannot find this program's own file: {cause}"))?;
    Ok(WorkersSettings {
        runtime: Runtime {
            program: program(settings.workers.program.as_deref())?,
            launcher: vec![own.into(), LAUNCH.into(), std::process::id().to_string().into()],
            directory: directory(&settings.server.store),
        },
        producers: producers(settings, bound)?,
        producer_token: token,
        outbound: settings.workers.outbound,
        wall_limit: settings.workers.wall_limit,
        accounts: accounts.into_iter().map(|account| (account.id, account.name)).collect(),
        region: settings.sqs.region.as_str().into(),
        others,
        notices: Arc::new(move |_: AccountId, name: &str, notice| tell(log, name, &notice)),
    })
}

/// The runtime's program: the one that is named, or the one on the path.
pub fn program(named: Option<&Path>) -> Result<PathBuf, String> {
    const GET_IT: &str = "npm install @cloudflare/workerd-linux-64 brings it (bin/workerd in the package)";
    if let Some(named) = named {
        let found = std::path::absolute(named).ok().filter(|program| program.is_file());
        return found.ok_or_else(|| format!("--workerd {} is not a file; {GET_IT}", named.display()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("workerd")).find(|program| program.is_file());
    found.ok_or_else(|| format!("--workers on needs the program workerd, which is not on the path: name it with --workerd; {GET_IT}"))
}

/// Beside what is kept, or where the system keeps what is not.
fn directory(store: &StoreChoice) -> PathBuf {
    match store {
        StoreChoice::Directory(path) => path.join("workers"),
        StoreChoice::Memory | StoreChoice::Postgres(_) => {
            std::env::temp_dir().join(format!("kew-workers-{}", std::process::id()))
        }
    }
}

/// Where Workers reach their queues: the listener that speaks their protocol.
fn producers(settings: &Settings, bound: &Bound) -> Result<SocketAddr, String> {
    if settings.tls.cloudflare.is_some() {
        return Err("--workers on needs a --cloudflare listener without TLS: Workers send to their queues through it in plain HTTP, on this machine".to_owned());
    }
    let own = bound.dialects.iter().find(|(dialect, _)| *dialect == Dialect::Cloudflare);
    let mut address = own
        .map(|(_, address)| *address)
        .ok_or("--workers on needs a listener: give --cloudflare an address")?;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Ok(address)
}

fn tell(log: Log, name: &str, notice: &WorkerNotice) {
    let worker = ("worker", name);
    match notice {
        WorkerNotice::Said(said) => {
            let level = match said.level.as_str() {
                "error" | "fatal" => Level::Error,
                "warn" | "warning" => Level::Warn,
                _ => Level::Info,
            };
            // A field, because its text is anybody's: fields are escaped.
            log.tell(level, "a Worker said", &[worker, ("text", &said.text)]);
        }
        WorkerNotice::Ended => {
            log.tell(
                Level::Warn,
                "a Worker's process ended, or answered nothing and was killed; it is started again",
                &[worker],
            );
        }
        WorkerNotice::NotStarted(cause) => {
            log.tell(
                Level::Error,
                "a Worker could not be started; its queues wait",
                &[worker, ("cause", cause)],
            );
        }
    }
}
