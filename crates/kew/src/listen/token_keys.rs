//! The keys that verify bearer tokens, read again when their file changes, on a thread that may wait for a disk. Keys
//! that cannot be used leave those before in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use kew_azure::KeySet;
use kew_http::Drain;
use thiserror::Error;

use crate::log::{Level, Log};

/// How often it is looked whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why keys cannot be used.
#[derive(Debug, Error)]
#[error("the keys of [azure] bearer_keys in {} cannot be used: {cause}", path.display())]
pub struct TokenKeysError {
    path: PathBuf,
    cause: String,
}

/// A thread that looks after keys.
pub struct TokenKeysWatch {
    drain: Drain,
    thread: JoinHandle<io::Result<()>>,
}

impl TokenKeysWatch {
    /// Takes the keys in a file into `keys`, and looks after it from now on.
    pub fn start(path: PathBuf, keys: Arc<KeySet>, log: Log) -> Result<Self, TokenKeysError> {
        let failed = |cause| TokenKeysError { path: path.clone(), cause };
        let looked = look(&path);
        read(&path, &keys).map_err(failed)?;
        let drain = Drain::default();
        let ends = drain.closing();
        let followed = path.clone();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                tokio::select! {
                    () = ends => Ok(()),
                    () = follow(&followed, looked, &keys, log) => Ok(()),
                }
            })
        };
        let thread = std::thread::Builder::new().name("kew-token-keys".into()).spawn(run);
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        Ok(Self { drain, thread })
    }

    /// Ends the thread.
    pub fn stop(self) -> io::Result<()> {
        self.drain.close();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of token keys panicked")))
    }
}

/// How a file looks from outside.
fn look(path: &Path) -> Option<(u64, SystemTime)> {
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.len(), facts.modified().ok()?))
}

fn read(path: &Path, keys: &KeySet) -> Result<usize, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    keys.replace(&bytes).map_err(|error| error.to_string())
}

async fn follow(path: &Path, mut looked: Option<(u64, SystemTime)>, keys: &KeySet, log: Log) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = look(path);
        if now != looked {
            looked = now;
            tell(log, &path.display().to_string(), read(path, keys));
        }
    }
}

fn tell(log: Log, place: &str, read: Result<usize, String>) {
    match read {
        Ok(count) => {
            let count = count.to_string();
            log.tell(Level::Info, "keys of bearer tokens were read", &[("from", place), ("keys", &count)]);
        }
        Err(cause) => {
            let line = "keys of bearer tokens cannot be had; those before stay in use";
            log.tell(Level::Error, line, &[("from", place), ("cause", &cause)]);
        }
    }
}
