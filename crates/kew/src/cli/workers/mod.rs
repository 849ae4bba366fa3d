//! `kew workers dev`: a project on a running Kew, deployed again whenever a file changes, with what its Worker says.

mod api;
mod bundle;
mod deploy;
mod follow;
mod jsonc;
mod project;
mod watch;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::exit;
use crate::shutdown::Signals;
use api::Api;
use deploy::Settings;
use follow::Follower;
use project::Project;
use watch::Look;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Where it is noted which settings were written to which server, beside the configuration.
const NOTES: &str = ".kew-workers.json";
/// It could not be done.
const EXIT_FAILED: u8 = 1;

/// The arguments of `kew workers`.
#[derive(Args, Debug)]
pub(super) struct WorkersArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Bundle a Worker, upload it to a running Kew, show what it says, and deploy again whenever a file changes
    Dev(DevArgs),
}

#[derive(Args, Debug)]
struct DevArgs {
    /// The project's configuration; otherwise wrangler.json, wrangler.jsonc or wrangler.toml here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where Kew serves the Cloudflare API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9326")]
    cloudflare: String,

    /// The token that is shown there; any will do on an open server
    #[arg(long, env = "CLOUDFLARE_API_TOKEN", hide_env_values = true, default_value = "dev")]
    token: String,

    /// The account; any will do on an open server
    #[arg(long, env = "CLOUDFLARE_ACCOUNT_ID", default_value = "00000000000000000000000000000000")]
    account: String,

    /// Deploy and end
    #[arg(long)]
    once: bool,
}

/// Does what was asked.
pub(super) fn run(args: &WorkersArgs) -> ExitCode {
    let Command::Dev(args) = &args.command;
    let config = match project::find(args.config.as_deref()) {
        Ok(config) => config,
        Err(error) => return failed(exit::WRONG, &error),
    };
    let api = match Api::new(&args.cloudflare, &args.account, &args.token) {
        Ok(api) => Arc::new(api),
        Err(error) => return failed(exit::WRONG, &error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(EXIT_FAILED, &error.to_string()),
    };
    match runtime.block_on(dev(args, &api, config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(EXIT_FAILED, &error),
    }
}

async fn dev(args: &DevArgs, api: &Arc<Api>, config: PathBuf) -> Result<(), String> {
    let mut signals = Signals::listen().map_err(|error| error.to_string())?;
    if args.once {
        let (project, text) = read(&config)?;
        return bring(args, api, &config, &project, &text).await;
    }
    let mut follower: Option<Follower> = None;
    loop {
        let (main, seen) = tokio::select! {
            _ = signals.next() => return Ok(()),
            looked = again(args, api, &config, &mut follower) => looked,
        };
        loop {
            tokio::select! {
                _ = signals.next() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if watch::look(&config, main.as_deref()) != seen {
                break;
            }
        }
    }
}

/// One deployment of several, its Worker followed from before it. Answers the main module's source, if that is known,
/// and how the files looked before any was read: what is saved meanwhile is deployed next.
async fn again(
    args: &DevArgs,
    api: &Arc<Api>,
    config: &Path,
    follower: &mut Option<Follower>,
) -> (Option<PathBuf>, Look) {
    let unread = watch::look(config, None);
    let (project, text) = match read(config) {
        Ok(read) => read,
        Err(error) => {
            told(&format!("not deployed: {error}"));
            return (None, unread);
        }
    };
    let seen = watch::look(config, Some(&project.main));
    if follower.as_ref().is_none_or(|follower| follower.name() != project.name) {
        *follower = Some(Follower::begin(api, &project.name, told).await);
    }
    if let Err(error) = bring(args, api, config, &project, &text).await {
        told(&format!("not deployed: {error}"));
    }
    (Some(project.main), seen)
}

/// The project and its configuration's text.
fn read(config: &Path) -> Result<(Project, String), String> {
    let text = std::fs::read_to_string(config).map_err(|error| format!("{}: {error}", config.display()))?;
    let project = Project::read(config, &text)?;
    if !project.ignored.is_empty() {
        told(&format!("without meaning here: {}", project.ignored.join(", ")));
    }
    Ok((project, text))
}

async fn bring(
    args: &DevArgs,
    api: &Api,
    config: &Path,
    project: &Project,
    text: &str,
) -> Result<(), String> {
    let module = bundle::bundle(&project.main)?;
    let notes = config.with_file_name(NOTES);
    let mut written = read_notes(&notes);
    let (server, digest) = (format!("{}/{}", args.cloudflare, args.account), digest(text));
    let is_known = written.get(&server).is_some_and(|known| known == digest.as_str());
    let settings = if is_known { Settings::Keep } else { Settings::Write };
    deploy::deploy(api, project, &module, settings, &|line| told(&line)).await?;
    if settings == Settings::Write {
        written.insert(server, digest.into());
        let json = Value::Object(written).to_string();
        std::fs::write(&notes, json).map_err(|error| format!("{}: {error}", notes.display()))?;
    }
    Ok(())
}

/// What was written where; nothing, when that cannot be read.
fn read_notes(path: &Path) -> Map<String, Value> {
    let json = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&json).unwrap_or_default()
}

fn digest(text: &str) -> String {
    let mut digits = Vec::new();
    kew_http::hex::push(&mut digits, &Sha256::digest(text.as_bytes()));
    digits.into_iter().map(char::from).collect()
}

fn told(line: &str) {
    // The output may be closed.
    let _told = writeln!(io::stdout().lock(), "{line}");
}

fn failed(code: u8, error: &str) -> ExitCode {
    let _told = writeln!(io::stderr().lock(), "kew workers dev: {error}");
    ExitCode::from(code)
}
