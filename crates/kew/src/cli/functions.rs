//! `kew functions`: hosts the queue-triggered functions of a project folder.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use kew_functions::{HostClock, Project};

use crate::config;
use crate::consumers::functions::{self, Manner};
use crate::exit;
use crate::log::{Area, Format, Level, Levels, Log};
use crate::machine::{SystemClock, SystemEntropy};
use crate::shutdown::Signals;

/// What may be done with functions.
#[derive(Subcommand, Debug)]
pub(super) enum FunctionsCommand {
    /// Run the functions of a project (host.json, */function.json) until SIGTERM or Ctrl-C
    Start(StartArgs),
    /// Run a program that ends when this one's input does
    #[command(hide = true)]
    Guard {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
}

/// The arguments of `kew functions start`.
#[derive(Args, Debug)]
pub(super) struct StartArgs {
    /// The project's folder: where host.json is
    #[arg(long, env = "KEW_FUNCTIONS_ROOT", value_name = "DIR", default_value = ".")]
    root: PathBuf,

    /// Follow the clock of a Kew server (kew serve --clock virtual) instead of the system's: its admin address
    #[arg(long, env = "KEW_FUNCTIONS_CLOCK", value_name = "URL", value_parser = admin_listener)]
    clock: Option<String>,

    /// The admin token of that server, where it has one
    #[arg(long, env = "KEW_ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    admin_token: Option<String>,

    /// Whether polls may wait at a Kew server until there are messages, or always pause in between as they must
    /// elsewhere
    #[arg(long, env = "KEW_FUNCTIONS_WAIT", value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    wait: String,

    /// How long runs may take to end after SIGTERM, in seconds; those that take longer are abandoned
    #[arg(long, env = "KEW_FUNCTIONS_DRAIN_SECONDS", value_name = "SECONDS", default_value_t = 30)]
    drain_seconds: u64,

    /// How standard error is written
    #[arg(long, env = "KEW_LOG", value_enum, default_value_t = Format::Text)]
    log: Format,
}

fn admin_listener(text: &str) -> Result<String, String> {
    let expected = "it must be the address of a Kew admin listener, such as http://127.0.0.1:9325";
    config::base_url(text).map_err(|_| expected.to_owned())
}

/// Does it.
pub(super) fn run(command: FunctionsCommand) -> ExitCode {
    match command {
        FunctionsCommand::Start(start) => serve(&start),
        FunctionsCommand::Guard { program } => {
            let code = kew_functions::run_guard(&program);
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
    }
}

fn serve(args: &StartArgs) -> ExitCode {
    let log = Log::new(args.log, Levels::default()).of(Area::Functions);
    let project = match functions::read(&args.root, None) {
        Ok(project) => project,
        Err(error) => {
            // With a closed output the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            return ExitCode::from(exit::WRONG);
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(log, &format!("cannot start: {error}")),
    };
    match runtime.block_on(host(args, project, log)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(log, &error),
    }
}

async fn host(args: &StartArgs, project: Project, log: Log) -> Result<(), String> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let entropy = SystemEntropy::new().map_err(|error| format!("cannot ask for random numbers: {error}"))?;
    let entropy = Arc::new(entropy);
    let clock = match &args.clock {
        Some(address) => kew_functions::follow(address, args.admin_token.as_deref(), &*entropy)
            .await
            .map_err(|error| format!("--clock: {error}"))?,
        None => HostClock::system(Arc::new(SystemClock)),
    };
    let manner = Manner {
        clock,
        entropy,
        log,
        drain_within: Duration::from_secs(args.drain_seconds),
        waits: args.wait == "on",
    };
    let lines = project.lines();
    let stop = async {
        let signal = signals.next().await;
        log.tell(
            Level::Info,
            "stopping when runs have ended; a second signal stops at once",
            &[("signal", signal)],
        );
        tokio::spawn(async move {
            signals.next_at_once().await;
            std::process::exit(exit::AT_ONCE);
        });
    };
    functions::host(project, manner, || greet(&lines), stop).await.map_err(|error| error.to_string())
}

/// What a person reads when the handler answers.
fn greet(lines: &[String]) {
    let mut text = String::from("Functions:\n");
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str("\nReady.\n");
    // The output may be closed.
    let _greeted = io::stdout().lock().write_all(text.as_bytes());
}

fn failed(log: Log, line: &str) -> ExitCode {
    log.tell(Level::Error, line, &[]);
    ExitCode::FAILURE
}
