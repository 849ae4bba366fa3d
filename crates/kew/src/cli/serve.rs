//! `kew serve`.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::assemble::Server;
use crate::config::{self, ConfigError, Printed, ServeArgs, Settings};
use crate::functions::{self, Beside};
use crate::greeting;
use crate::log::{Level, Log};
use crate::shutdown::Signals;
use crate::start_error::StartError;

/// What a program killed by Ctrl-C leaves behind.
const EXIT_AT_ONCE: i32 = 130;
/// Asked wrongly.
const EXIT_WRONG: u8 = 2;

/// Serves until it is told to stop.
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
        // A closed standard output is nobody who could be told.
        let _shown = io::stdout().lock().write_all(config::lines(&values, &settings.accounts).as_bytes());
        return ExitCode::SUCCESS;
    }
    serve(&settings)
}

/// Shows a configuration with new secrets. It must be whole: half of it would be no file to start with.
fn print_strict() -> ExitCode {
    let written = match config::strict(getrandom::fill) {
        Ok(text) => io::stdout().lock().write_all(text.as_bytes()),
        Err(error) => Err(io::Error::other(format!("asking for random numbers: {error}"))),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody listens the exit code says it all.
            let _told = writeln!(io::stderr().lock(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(settings: &Settings) -> ExitCode {
    let log = Log::new(settings.server.log);
    // A project that cannot run is told before anything is opened.
    if let Some(root) = &settings.server.functions
        && let Err(error) = functions::read(root, Some("UseDevelopmentStorage=true"))
    {
        let _told = writeln!(io::stderr().lock(), "error: --functions: {error}");
        return ExitCode::from(EXIT_WRONG);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(log, &format!("cannot start: {error}")),
    };
    let server = match runtime.block_on(async { Signals::listen() }) {
        Ok(signals) => Server::start(settings, log).map(|server| (server, signals)),
        Err(cause) => Err(StartError::Machine { doing: "listening for signals", cause }),
    };
    let (mut server, mut signals) = match server {
        Ok(server) => server,
        Err(error) => return failed(log, &error.to_string()),
    };
    if let Some(path) = &settings.server.ports_file
        && let Err(error) = server.bound.write(path)
    {
        let stopped = server.stop();
        let line = format!("cannot write the ports file {}: {error}", path.display());
        return failed(log, &stopped.err().map_or(line.clone(), |also| format!("{line}; {also}")));
    }
    let beside =
        settings.server.functions.as_ref().map(|root| Beside::start(root, settings, &server.bound, log));
    let beside = match beside.transpose() {
        Ok(beside) => beside,
        Err(error) => {
            let stopped = server.stop();
            return failed(log, &stopped.err().map_or(error.clone(), |also| format!("{error}; {also}")));
        }
    };
    // Nobody has to read it: a closed standard output is no reason not to serve.
    let _greeted = io::stdout().lock().write_all(greeting::lines(&server, settings).as_bytes());
    let ended = server.ended();
    let signal = runtime.block_on(async {
        tokio::select! {
            signal = signals.next() => Some(signal),
            () = ended => None,
        }
    });
    match signal {
        Some(signal) => {
            log.tell(Level::Info, "stopping; a second signal stops at once", &[("signal", signal)]);
        }
        // A restart recovers what is durable; stopping says why.
        None => log.tell(Level::Error, "the event loop ended: stopping", &[]),
    }
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        std::process::exit(EXIT_AT_ONCE);
    });
    if let Some(beside) = beside {
        // While the server is there: what has been run must be deleted.
        beside.stop();
    }
    match server.stop() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(log, &error),
    }
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

fn refused(error: &ConfigError) -> ExitCode {
    // Where nobody listens the exit code says it all.
    let _told = writeln!(io::stderr().lock(), "error: {error}");
    ExitCode::from(EXIT_WRONG)
}

fn failed(log: Log, line: &str) -> ExitCode {
    log.tell(Level::Error, line, &[]);
    ExitCode::FAILURE
}
