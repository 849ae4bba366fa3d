//! One life of the handler's process: its environment, its output, its end.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use crate::log::{Level, Log};
use crate::project::Project;

/// How long a handler that was asked to end may take.
const END_WITHIN: Duration = Duration::from_secs(1);
/// Longer lines of output are cut.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A handler's process, in a group of its own.
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    /// Never written to: the guard notices when it closes.
    _pipe: Option<ChildStdin>,
    readers: Vec<JoinHandle<()>>,
    /// Where it is to listen.
    pub(super) port: u16,
}

impl Process {
    /// Starts the handler under a guard, which `launcher` and the handler's own command line make up together.
    pub(super) fn start(project: &Project, launcher: &[OsString], id: &str, log: &Log) -> io::Result<Self> {
        let port = free_port()?;
        let no_launcher = || io::Error::other("there is no program to start the handler with");
        let (guard, arguments) = launcher.split_first().ok_or_else(no_launcher)?;
        let mut command = Command::new(guard);
        command
            .args(arguments)
            .arg(&project.handler.executable)
            .args(&project.handler.arguments)
            .current_dir(&project.handler.directory)
            .envs(project.for_handler.iter().map(|(name, value)| (name, value)))
            .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
            .env("FUNCTIONS_HTTPWORKER_PORT", port.to_string())
            .env("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", id)
            .env("FUNCTIONS_HTTPWORKER_ID", id)
            .env("FUNCTIONS_APP_ROOT_PATH", &project.root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            readers.push(tokio::spawn(tell(out, Level::Info, log.clone())));
        }
        if let Some(err) = child.stderr.take() {
            readers.push(tokio::spawn(tell(err, Level::Error, log.clone())));
        }
        let pipe = child.stdin.take();
        Ok(Self { child, group, _pipe: pipe, readers, port })
    }

    /// Waits for its end; whatever it started ends with it.
    pub(super) async fn wait(&mut self) -> Option<i32> {
        let status = self.child.wait().await.ok();
        self.signal(Signal::KILL);
        // From now on the number may be somebody else's.
        self.group = None;
        status.and_then(|status| status.code())
    }

    /// Asks it to end, and ends it.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(END_WITHIN, self.child.wait()).await.is_err() {
            self.signal(Signal::KILL);
            let _ended = self.child.wait().await;
        }
        // Whatever it started and left behind.
        self.signal(Signal::KILL);
        self.group = None;
        self.finish().await;
    }

    /// Waits until its last lines are logged.
    pub(super) async fn finish(mut self) {
        for reader in self.readers.drain(..) {
            let _sent = tokio::time::timeout(END_WITHIN, reader).await;
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is empty has ended.
            let _sent = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// A port of this machine without a listener at present.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Tells each line of a handler's output.
async fn tell(output: impl AsyncRead + Unpin, level: Level, log: Log) {
    let mut lines = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A longer line is logged in pieces.
        match (&mut lines).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(line.get(..line.len().min(LINE_BYTES_MAX)).unwrap_or_default());
        let text = text.trim_end();
        if !text.is_empty() {
            log.tell(level, text, &[]);
        }
    }
}
