//! A PostgreSQL for a run over that store: each Kew gets a database of its own. A program of `kew-log-pg` starts the
//! server, as for tests; it ends with this one.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The program's name among the examples.
pub const PROGRAM: &str = "kew-postgres";

/// A running server.
pub struct Databases {
    child: Child,
    /// Guards its input and output: a line is asked and answered at a time. Gone when it is to end.
    pipes: Mutex<Option<(ChildStdin, BufReader<ChildStdout>)>>,
}

impl Databases {
    /// Starts the server.
    pub fn start(program: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take().map(BufReader::new));
        Ok(Self { child, pipes: Mutex::new(pipes) })
    }

    /// The URL of a new database.
    pub fn url(&self) -> Result<String, String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (ask, answer) = pipes.as_mut().ok_or("PostgreSQL has ended")?;
        let mut line = String::new();
        let read = ask.write_all(b"\n").and_then(|()| answer.read_line(&mut line));
        read.map_err(|error| format!("PostgreSQL: {error}"))?;
        match line.trim() {
            "" => Err("PostgreSQL made no database".to_owned()),
            url => Ok(url.to_owned()),
        }
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        drop(self.pipes.lock().unwrap_or_else(PoisonError::into_inner).take());
        // It may have ended by itself.
        let _ended = self.child.wait();
    }
}
