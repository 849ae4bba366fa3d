//! The process between the host and its handler, so that no handler outlives its host.
//!
//! It leads the handler's process group and holds the reading end of a pipe. However the host ends, the pipe ends with
//! it, and the guard kills the group, itself included. It passes the handler's exit code on.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Signal, getpid, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// The program could not be started.
const NOT_STARTED: i32 = 127;

/// Runs a program with arguments until it or the host ends, and returns the code to exit with.
pub fn run(program: &[OsString]) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(guard(program));
            // Somebody still reads from the pipe: that is not waited for.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            eprintln!("cannot start: {error}");
            NOT_STARTED
        }
    }
}

async fn guard(program: &[OsString]) -> i32 {
    // The whole group is asked to end; the guard stays until the handler did.
    let asked = signal(SignalKind::terminate());
    let Some((name, arguments)) = program.split_first() else { return NOT_STARTED };
    let child = Command::new(name).args(arguments).stdin(Stdio::null()).kill_on_drop(true).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            let name = name.to_string_lossy();
            eprintln!(
                "cannot start '{name}': {error}; set customHandler.description.defaultExecutablePath in host.json to a program in the project's folder or on the search path"
            );
            return NOT_STARTED;
        }
    };
    let code = tokio::select! {
        status = child.wait() => status.map_or(NOT_STARTED, exit_code),
        () = host_gone() => {
            // The signal reaches this process too, last of all.
            let _killed = kill_process_group(getpid(), Signal::KILL);
            NOT_STARTED
        }
    };
    drop(asked);
    code
}

/// Returns when the host's end of the pipe is closed.
async fn host_gone() {
    let mut pipe = tokio::io::stdin();
    let mut bytes = [0; 16];
    // The host never writes anything.
    while pipe.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// As shells have it: a signal's number above 128.
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(NOT_STARTED)
}
