//! `kew serve`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use crate::assemble::{Server, StartError};
use crate::config::ServeArgs;
use crate::log::{Level, Log};
use crate::shutdown::Signals;

/// What a program killed by Ctrl-C leaves behind.
const EXIT_AT_ONCE: i32 = 130;

/// Serves until it is told to stop.
pub(super) fn run(serve: &ServeArgs) -> ExitCode {
    let log = Log::new(serve.log);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(log, &format!("cannot start: {error}")),
    };
    let server = match runtime.block_on(async { Signals::listen() }) {
        Ok(signals) => Server::start(serve, log).map(|server| (server, signals)),
        Err(cause) => Err(StartError::Machine { doing: "listening for signals", cause }),
    };
    let (server, mut signals) = match server {
        Ok(server) => server,
        Err(error @ StartError::Settings(_)) => {
            failed(log, &error.to_string());
            return ExitCode::from(2);
        }
        Err(error) => return failed(log, &error.to_string()),
    };
    if let Some(path) = &serve.ports_file
        && let Err(error) = write_ports(path, server.sqs)
    {
        let stopped = server.stop();
        let line = format!("cannot write the ports file {}: {error}", path.display());
        return failed(log, &stopped.err().map_or(line.clone(), |also| format!("{line}; {also}")));
    }
    greet(&server);
    let signal = runtime.block_on(signals.next());
    log.tell(Level::Info, "stopping; a second signal stops at once", &[("signal", signal)]);
    std::thread::spawn(move || {
        runtime.block_on(signals.next());
        std::process::exit(EXIT_AT_ONCE);
    });
    match server.stop() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(log, &error),
    }
}

fn failed(log: Log, line: &str) -> ExitCode {
    log.tell(Level::Error, line, &[]);
    ExitCode::FAILURE
}

/// Whoever waits for the file never sees half of it.
fn write_ports(path: &Path, sqs: SocketAddr) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    std::fs::write(&beside, format!("{{\"sqs\":\"{sqs}\"}}\n"))?;
    std::fs::rename(&beside, path)
}

/// Nobody has to read it: a closed standard output is no reason not to serve.
fn greet(server: &Server) {
    let sqs = server.sqs;
    let _greeted = writeln!(
        io::stdout().lock(),
        "SQS    http://{sqs}   (any credentials, at most {} connections)
Store  {}

Try it:
  curl http://{sqs} -H 'X-Amz-Target: AmazonSQS.CreateQueue' -d '{{\"QueueName\":\"orders\"}}'
  curl http://{sqs} -H 'X-Amz-Target: AmazonSQS.SendMessage' -d '{{\"QueueUrl\":\"orders\",\"MessageBody\":\"hello\"}}'
  curl http://{sqs} -H 'X-Amz-Target: AmazonSQS.ReceiveMessage' -d '{{\"QueueUrl\":\"orders\"}}'

Ready.",
        server.connections_max,
        server.store_line(),
    );
}
