//! `kew serve`.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use kew_log_pg::Ending;

use crate::assemble::Server;
use crate::config::{self, Printed, ServeArgs, Settings, StoreChoice};
use crate::consumers::functions::{self, Beside};
use crate::consumers::workers;
use crate::exit;
use crate::greeting;
use crate::log::{Level, Log};
use crate::machine::SystemEntropy;
use crate::outlet::Outlet;
use crate::reports::refused::Refusing;
use crate::shutdown::Signals;
use crate::start_error::StartError;
use crate::store::undropped::Leftovers;
use crate::telemetry::{self, Report, TelemetrySettings};

/// How long the end waits for the reader of standard error.
const LOG_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Serves until a signal stops it.
pub(super) fn run(args: &ServeArgs) -> ExitCode {
    if args.print == Some(Printed::Strict) {
        return print_strict();
    }
    let read = config::check_variables(variables()).and_then(|()| Settings::read(args, &variable));
    let (settings, values) = match read {
        Ok(read) => read,
        Err(error) => return refused(&error),
    };
    if args.print.is_some() {
        return printed(&config::lines(&values, &settings));
    }
    // Before anything is opened.
    if settings.workers.run
        && let Err(error) = workers::program(settings.workers.program.as_deref())
    {
        return refused(&error);
    }
    serve(&settings)
}

/// Shows a configuration with new secrets. It must be whole: half of it would be no file to start with.
fn print_strict() -> ExitCode {
    match config::strict(getrandom::fill) {
        Ok(text) => printed(&text),
        Err(error) => unprinted(&format!("asking for random numbers: {error}")),
    }
}

/// Prints a whole text.
fn printed(text: &str) -> ExitCode {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => unprinted(&format!("writing to standard output: {error}")),
    }
}

fn unprinted(error: &str) -> ExitCode {
    // With a closed output the exit code says it all.
    let _told = writeln!(io::stderr().lock(), "error: {error}");
    ExitCode::FAILURE
}

fn serve(settings: &Settings) -> ExitCode {
    let log = Log::new(settings.server.log, settings.server.log_levels);
    let outlet: &'static Outlet = match Outlet::start(move |lines| log.line_of_dropped(lines)) {
        // Lines may be written until the program ends.
        Ok(outlet) => Box::leak(Box::new(outlet)),
        Err(error) => {
            let _told = writeln!(io::stderr().lock(), "error: starting the log: {error}");
            return ExitCode::FAILURE;
        }
    };
    let log = log.through(outlet);
    // A project that cannot run is an error before anything is opened.
    if let Some(root) = &settings.server.functions
        && let Err(error) = functions::read(root, Some("UseDevelopmentStorage=true"))
    {
        let _told = writeln!(io::stderr().lock(), "error: --functions: {error}");
        return ExitCode::from(exit::WRONG);
    }
    let log = match exported(log) {
        Ok(log) => log,
        Err(error) => {
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            return ExitCode::from(exit::WRONG);
        }
    };
    let mut looks = Looks::default();
    let code = loop {
        match serve_once(settings, log, &mut looks) {
            Ended::With(code) => break code,
            Ended::ToStartAgain => {}
        }
    };
    if let Some(exporter) = log.exporter() {
        exporter.stop();
    }
    outlet.flush(LOG_ENDS_WITHIN);
    code
}

/// Logs how the export goes; what is logged here is not exported.
fn tell_export(log: Log, report: Report<'_>) {
    match report {
        Report::OtherProtocol(protocol) => {
            let line =
                "OTEL_EXPORTER_OTLP_PROTOCOL names a protocol that is not spoken: http/json is used instead";
            log.tell(Level::Warn, line, &[("protocol", protocol)]);
        }
        Report::Fails { what, host, cause } => {
            let line = "the collector of telemetry takes no reports: they are lost";
            log.tell(Level::Warn, line, &[("what", what), ("host", host), ("cause", cause)]);
        }
        Report::Recovered { what } => {
            log.tell(Level::Info, "the collector of telemetry takes reports again", &[("what", what)]);
        }
    }
}

/// The log with what exports it, where the environment names a collector of telemetry.
fn exported(log: Log) -> Result<Log, String> {
    let settings = TelemetrySettings::read(&variable).map_err(|error| error.to_string())?;
    let Some(settings) = settings else { return Ok(log) };
    let entropy = SystemEntropy::new().map_err(|error| format!("asking for random numbers: {error}"))?;
    let exporter = telemetry::start(settings, Arc::new(entropy), move |report| tell_export(log, report));
    let exporter = exporter.map_err(|error| format!("starting the export of telemetry: {error}"))?;
    // Lines may be written until the program ends.
    Ok(log.exported_by(Some(Box::leak(Box::new(exporter)))))
}

/// What was logged of a store in PostgreSQL that cannot be used as it should: it may be started again and again.
#[derive(Default)]
struct Looks {
    refusing: Refusing,
    leftovers: Leftovers,
}

/// How one run of a server ended.
enum Ended {
    With(ExitCode),
    /// Its store has another owner by now: it stands by, and takes over when that one is gone.
    ToStartAgain,
}

fn serve_once(settings: &Settings, log: Log, looks: &mut Looks) -> Ended {
    let failed = |log, line: &str| Ended::With(failed(log, line));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(log, &format!("cannot start: {error}")),
    };
    let signals = runtime.block_on(async { Signals::listen() });
    let mut signals = match signals {
        Ok(signals) => signals,
        Err(cause) => {
            let error = StartError::Machine { doing: "listening for signals", cause };
            return failed(log, &error.to_string());
        }
    };
    let mut server = match started(settings, log, &runtime, &mut signals) {
        Ok(Some(server)) => server,
        Ok(None) => return Ended::With(ExitCode::SUCCESS),
        Err(error) => return failed(log, &error.to_string()),
    };
    let beside = match begin_beside(&server, settings, log) {
        Ok(beside) => beside,
        Err(error) => {
            let stopped = server.stop();
            return failed(log, &stopped.err().map_or(error.clone(), |also| format!("{error}; {also}")));
        }
    };
    // At a terminal what was logged of the start stands above it.
    flush(log);
    // The output may be closed: a closed standard output is no reason not to serve.
    let _greeted = io::stdout().lock().write_all(greeting::lines(&server, settings).as_bytes());
    let ended = server.ended();
    let why = runtime.block_on(async {
        tokio::select! {
            signal = signals.next() => Why::Signal(signal),
            () = ended => Why::LoopEnded,
            why = lost(&server, log, looks) => Why::Lost(why),
        }
    });
    let starts_again = matches!(why, Why::Lost(_));
    let result = stop(server, beside, runtime, (signals, log), || why.tell(log));
    match result {
        Ok(()) if starts_again => Ended::ToStartAgain,
        Ok(()) => Ended::With(ExitCode::SUCCESS),
        Err(error) if starts_again => {
            log.tell(Level::Warn, "what could not be stopped in order is left", &[("cause", &error)]);
            Ended::ToStartAgain
        }
        Err(error) => failed(log, &error),
    }
}

/// Writes the ports file, and starts the functions that run beside the server.
fn begin_beside(server: &Server, settings: &Settings, log: Log) -> Result<Option<Beside>, String> {
    if let Some(path) = &settings.server.ports_file {
        let written = server.bound.write(path);
        written.map_err(|error| format!("cannot write the ports file {}: {error}", path.display()))?;
    }
    let root = settings.server.functions.as_ref();
    root.map(|root| Beside::start(root, settings, &server.bound, log)).transpose()
}

/// Waits for lines of the log that wait for their reader, for a moment at most.
fn flush(log: Log) {
    log.outlet().inspect(|outlet| outlet.flush(LOG_ENDS_WITHIN));
}

/// Stops everything in order, and says why; a second signal ends the program at once, from before that is said.
fn stop(
    server: Server,
    beside: Option<Beside>,
    runtime: tokio::runtime::Runtime,
    (mut signals, log): (Signals, Log),
    tell: impl FnOnce(),
) -> Result<(), String> {
    let watch = runtime.handle().clone();
    let stop_at_once = watch.spawn(async move {
        signals.next_at_once().await;
        // What was logged last is what somebody will look for who was in a hurry.
        flush(log);
        std::process::exit(exit::AT_ONCE);
    });
    let (stopped, is_stopped) = tokio::sync::oneshot::channel::<()>();
    let watching = std::thread::spawn(move || {
        // Ends with the stop, or by a second signal before that.
        let _stopped = runtime.block_on(is_stopped);
    });
    tell();
    if let Some(beside) = beside {
        // While the server is there: what has been run must be deleted.
        beside.stop();
    }
    let result = server.stop();
    stop_at_once.abort();
    drop(stopped);
    // It panics only if the runtime does, which has been reported then.
    let _ended = watching.join();
    result
}

/// Why a server stops.
enum Why {
    Signal(&'static str),
    LoopEnded,
    Lost(String),
}

impl Why {
    fn tell(&self, log: Log) {
        match self {
            Self::Lost(why) => {
                let line = "the store has another owner or must be opened again; this node stops serving it and stands by";
                log.tell(Level::Warn, line, &[("cause", why)]);
            }
            Self::Signal(signal) => {
                log.tell(Level::Info, "stopping; a second signal stops at once", &[("signal", signal)]);
            }
            // A restart recovers what is durable; stopping says why.
            Self::LoopEnded => log.tell(Level::Error, "the event loop ended: stopping", &[]),
        }
    }
}

/// How often it is looked whether the store has another owner by now.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Returns when the store has another owner, and says meanwhile whether requests are refused.
async fn lost(server: &Server, log: Log, looks: &mut Looks) -> String {
    loop {
        looks.refusing.look(log, server.refusal());
        looks.leftovers.look(log, server.undropped());
        if let Some(why) = server.lost() {
            return why;
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

/// Starts the server; `None` when a signal came first, which ends a node that stands by.
fn started(
    settings: &Settings,
    log: Log,
    runtime: &tokio::runtime::Runtime,
    signals: &mut Signals,
) -> Result<Option<Server>, StartError> {
    let ending = Ending::default();
    if !matches!(settings.server.store, StoreChoice::Postgres(_)) {
        return Server::start(settings, log, &ending).map(Some);
    }
    let ending = &ending;
    std::thread::scope(|scope| {
        let (done, is_done) = tokio::sync::oneshot::channel();
        let starting = scope.spawn(move || {
            let server = Server::start(settings, log, ending);
            // The one who waits for it waits below.
            let _told = done.send(());
            server
        });
        let signal = runtime.block_on(async {
            tokio::select! {
                signal = signals.next() => Some(signal),
                _done = is_done => None,
            }
        });
        if let Some(signal) = signal {
            // What it has opened need not be closed, and it may wait for what never comes.
            let (given_up, is_given_up) = tokio::sync::oneshot::channel();
            scope.spawn(move || {
                ending.end();
                // The one who waits for it waits below.
                let _told = given_up.send(());
            });
            let is_at_once = runtime.block_on(async {
                tokio::select! {
                    () = signals.next_at_once() => true,
                    _given_up = is_given_up => false,
                }
            });
            log.tell(Level::Info, "stopped before the store was open", &[("signal", signal)]);
            flush(log);
            std::process::exit(if is_at_once { exit::AT_ONCE } else { 0 });
        }
        starting.join().map_or_else(|panic| std::panic::resume_unwind(panic), |server| server.map(Some))
    })
}

/// An environment variable, if it is set and is text.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All of them, whatever they hold.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

fn refused(error: &impl Display) -> ExitCode {
    // With a closed output the exit code says it all.
    let _told = writeln!(io::stderr().lock(), "error: {error}");
    ExitCode::from(exit::WRONG)
}

fn failed(log: Log, line: &str) -> ExitCode {
    log.tell(Level::Error, line, &[]);
    ExitCode::FAILURE
}
