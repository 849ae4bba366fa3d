//! One `workerd` process: started, heard, ended.
//!
//! Its directory holds what it was started from and goes with it. Secrets are in its environment alone, which holds
//! nothing else. It dies with Kew: the launcher sees to that where the system can.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use thiserror::Error;
use tokio::process::{Child as Process, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::exceptions::Exceptions;
use super::files::{self, CONFIGURATION, Surroundings, secret_variable};
use super::output::{Line, Said, lines};
use super::script::Script;

/// A child that does not listen by then will not.
const START_WITHIN: Duration = Duration::from_secs(10);
/// A child that was asked to end and has not by then is killed.
const END_WITHIN: Duration = Duration::from_secs(30);
/// The most that is kept of what a child says before it listens.
const WORDS_MAX: usize = 20;

/// Maximum bytes of them in an error.
const REPORTED_BYTES_MAX: usize = 16 << 10;

/// What the names of their directories begin with.
const PREFIX: &str = "worker-";

/// How children are started.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The `workerd` program.
    pub program: PathBuf,
    /// A program and its first arguments that run what follows and let it die with its parent; empty starts `workerd`
    /// itself.
    pub launcher: Vec<OsString>,
    /// Where the directories of children are made.
    pub directory: PathBuf,
}

/// A Worker that did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Its files could not be written, or the program could not be run.
    #[error("cannot start {program}: {cause}")]
    NotRun {
        /// The program.
        program: String,
        /// Why not.
        cause: io::Error,
    },
    /// The runtime refused it, in its own words.
    #[error("{0}")]
    Refused(String),
    /// It never listened.
    #[error("the Worker did not begin to listen within {} seconds: what it does at its top level takes too long, or the machine is too busy", START_WITHIN.as_secs())]
    TooSlow,
}

/// A child that listens.
pub(super) struct Child {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// What its shim asks for.
    pub(super) token: String,
    /// Heard by the task that waits for the process, because only that knows whether its number is still its own.
    signals: mpsc::UnboundedSender<Signal>,
    /// True once it has ended and all it said was heard.
    ended: watch::Receiver<bool>,
}

/// What to start.
pub(super) struct Plan<'a> {
    pub(super) script: &'a Script,
    /// Names and texts.
    pub(super) secrets: &'a [(String, String)],
    pub(super) surroundings: Surroundings<'a>,
}

/// Makes a directory for one child. Notes carry a token, and scripts are their owners': no other user of the machine
/// reads them.
fn private_directory(runtime: &Runtime) -> io::Result<tempfile::TempDir> {
    DirBuilder::new().recursive(true).mode(0o700).create(&runtime.directory)?;
    let mut directory = tempfile::Builder::new();
    directory.prefix(PREFIX).permissions(Permissions::from_mode(0o700)).tempdir_in(&runtime.directory)
}

impl Child {
    /// Starts a Worker and waits until it listens. Whatever it says later is handed to `hear`.
    pub(super) async fn start(
        runtime: &Runtime,
        plan: Plan<'_>,
        hear: impl Fn(Line) + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let not_run = |cause| StartError::NotRun { program: runtime.program.display().to_string(), cause };
        let directory = private_directory(runtime).map_err(not_run)?;
        let names: Vec<&str> = plan.secrets.iter().map(|(name, _)| name.as_str()).collect();
        files::write(directory.path(), plan.script, &names, &plan.surroundings).map_err(not_run)?;
        let mut process = command(runtime)
            .current_dir(directory.path())
            .env(files::DISPATCH_TOKEN, plan.surroundings.dispatch_token)
            .envs(plan.secrets.iter().enumerate().map(|(at, (_, text))| (secret_variable(at), text)))
            .spawn()
            .map_err(not_run)?;
        let token = format!("{} ", plan.surroundings.note_token);
        let (heard, listens, words) = ears(&mut process, token, hear);
        let (tell, ended) = watch::channel(false);
        let (signals, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            attend(&mut process, asked).await;
            let _heard = tokio::join!(heard.0, heard.1);
            drop(directory);
            // No receiver may be left.
            let _sent = tell.send(true);
        });
        // Dropped while it waits, as everywhere else, it takes the process along.
        let mut child = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token: plan.surroundings.dispatch_token.to_owned(),
            signals,
            ended,
        };
        match tokio::time::timeout(START_WITHIN, listens).await {
            Ok(Ok(port)) => {
                child.address.set_port(port);
                Ok(child)
            }
            Ok(Err(_)) => {
                child.kill();
                child.end().await;
                Err(StartError::Refused(told(&words.lock())))
            }
            Err(_) => Err(StartError::TooSlow),
        }
    }

    /// Waits for its end, until all it said was heard.
    pub(super) async fn end(&self) {
        let mut ended = self.ended.clone();
        // Without a keeper it has ended too.
        let _ended = ended.wait_for(|ended| *ended).await;
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks it to end when its handlers have, and sees to it that it does.
    pub(super) async fn finish(&self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(END_WITHIN, self.end()).await.is_err() {
            self.kill();
            self.end().await;
        }
    }

    /// Whether it has ended by now.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    fn signal(&self, signal: Signal) {
        // Without anybody to hear it, it has ended.
        let _sent = self.signals.send(signal);
    }
}

/// Waits for the end of a process, and hands on signals until then. Both in one task: a number that was given back to
/// the system, which may give it to anybody, is never signalled.
async fn attend(process: &mut Process, mut asked: mpsc::UnboundedReceiver<Signal>) {
    loop {
        tokio::select! {
            biased;
            // How it ended is of no use: what it said about it was heard.
            _ended = process.wait() => return,
            Some(signal) = asked.recv() => {
                if let Some(pid) = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
                    // It may have ended this moment, and waits to be waited for.
                    let _sent = kill_process(pid, signal);
                }
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Removes the directories of children of an earlier start that was killed: they died with it.
pub(super) fn remove_left_behind(runtime: &Runtime) {
    let Ok(entries) = std::fs::read_dir(&runtime.directory) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            // A directory that cannot be removed does no harm.
            let _removed = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn command(runtime: &Runtime) -> Command {
    let mut command = match runtime.launcher.split_first() {
        Some((launcher, arguments)) => {
            let mut command = Command::new(launcher);
            command.args(arguments).arg(&runtime.program);
            command
        }
        None => Command::new(&runtime.program),
    };
    command
        .args([
            "serve",
            "--experimental",
            "--verbose",
            "--control-fd=1",
            "--socket-addr=dispatch=127.0.0.1:0",
        ])
        .arg(CONFIGURATION)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        // A terminal's Ctrl-C is for Kew, which lets handlers finish first.
        .process_group(0);
    command
}

type Words = Arc<Mutex<Vec<Said>>>;

/// Hears both outputs of a process: tasks that end with them, the port when the child prints it, and the first words.
fn ears(
    process: &mut Process,
    token: String,
    hear: impl Fn(Line) + Send + Sync + 'static,
) -> ((JoinHandle<()>, JoinHandle<()>), oneshot::Receiver<u16>, Words) {
    let (tell, listens) = oneshot::channel();
    let words = Words::default();
    let hear = Arc::new(hear);
    let mut tell = Some(tell);
    let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
    let ear = |words: &Words| {
        let (hear, words, token) = (Arc::clone(&hear), Arc::clone(words), token.clone());
        let mut exceptions = Exceptions::default();
        move |line: &[u8]| -> Option<u16> {
            match exceptions.sift(Line::read(line, &token)?)? {
                Line::Listens(port) => return Some(port),
                Line::Said(said) | Line::OfRuntime(said) => {
                    let mut words = words.lock();
                    if words.len() < WORDS_MAX {
                        words.push(said.clone());
                    }
                    drop(words);
                    hear(Line::Said(said));
                }
                noted @ Line::Noted(_) => hear(noted),
            }
            None
        }
    };
    let (mut out, mut err) = (ear(&words), ear(&words));
    let out = tokio::spawn(async move {
        let Some(stdout) = stdout else { return };
        lines(stdout, |line| {
            if let Some(port) = out(line)
                && let Some(tell) = tell.take()
            {
                // The start may have been given up.
                let _sent = tell.send(port);
            }
        })
        .await;
    });
    let err = tokio::spawn(async move {
        let Some(stderr) = stderr else { return };
        lines(stderr, |line| _ = err(line)).await;
    });
    ((out, err), listens, words)
}

/// The runtime's own reasons; those about the user's code come first.
fn told(words: &[Said]) -> String {
    let mut told = all_told(words);
    told.truncate(told.floor_char_boundary(REPORTED_BYTES_MAX));
    told
}

fn all_told(words: &[Said]) -> String {
    let reasons: Vec<&str> = words
        .iter()
        .filter(|said| said.level == "error")
        .map(|said| said.text.strip_prefix("service user: ").unwrap_or(&said.text))
        .collect();
    match reasons.as_slice() {
        [] => match words.last() {
            Some(said) => said.text.clone(),
            None => "the runtime ended without a word".to_owned(),
        },
        reasons => reasons.join("\n"),
    }
}
