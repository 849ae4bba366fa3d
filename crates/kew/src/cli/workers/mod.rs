//! `kew workers dev`: a project on a running Kew, deployed again whenever a file changes.

mod api;
mod bundle;
mod deploy;
mod jsonc;
mod project;
mod watch;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::shutdown::Signals;
use api::Api;
use deploy::Settings;
use project::Project;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Where it is noted which settings were written to which server, beside the configuration.
const NOTES: &str = ".kew-workers.json";

/// What `kew workers` may be told.
#[derive(Args, Debug)]
pub(super) struct WorkersArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Bundle a Worker, upload it to a running Kew, and again whenever a file changes
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
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    match runtime.block_on(dev(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

async fn dev(args: &DevArgs) -> Result<(), String> {
    let config = project::find(args.config.as_deref())?;
    let api = Api::new(&args.cloudflare, &args.account, &args.token)?;
    let mut signals = Signals::listen().map_err(|error| error.to_string())?;
    if args.once {
        return once(args, &api, &config).await.1;
    }
    loop {
        let (main, deployed) = once(args, &api, &config).await;
        if let Err(error) = deployed {
            told(&format!("not deployed: {error}"));
        }
        let seen = watch::look(&config, main.as_deref());
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

/// One deployment; the main module's source, as soon as it is known.
async fn once(args: &DevArgs, api: &Api, config: &Path) -> (Option<PathBuf>, Result<(), String>) {
    let read = std::fs::read_to_string(config)
        .map_err(|error| format!("{}: {error}", config.display()))
        .and_then(|text| Ok((Project::read(config, &text)?, text)));
    let (project, text) = match read {
        Ok(read) => read,
        Err(error) => return (None, Err(error)),
    };
    if !project.ignored.is_empty() {
        told(&format!("without meaning here: {}", project.ignored.join(", ")));
    }
    let deployed = bring(args, api, config, &project, &text).await;
    (Some(project.main), deployed)
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
    // Nobody has to read it.
    let _told = writeln!(io::stdout().lock(), "{line}");
}

fn failed(error: &str) -> ExitCode {
    let _told = writeln!(io::stderr().lock(), "kew workers dev: {error}");
    ExitCode::FAILURE
}
