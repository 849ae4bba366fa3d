//! The keys that verify bearer tokens, read again when they change, on a thread that may wait for a disk or a network.
//!
//! A file is read when it looks different. A URL is asked once an hour, and sooner when a token names a key that is not
//! there: issuers show a new key before they sign with it, but this server need not have been up then. Keys that cannot
//! be had leave those before in use.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use kew_azure::KeySet;
use kew_http::client::{Client, ClientSettings, Outgoing};
use kew_http::{Drain, HeaderMap, Method, StatusCode};
use thiserror::Error;
use tokio::time::Instant;

use crate::config::KeySource;
use crate::log::{Level, Log};

/// How often it is looked whether there is something to do.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a URL is asked.
const ASK_EVERY: Duration = Duration::from_secs(3_600);
/// How soon it is asked again when a key is missing, or it did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// A key set is a few kilobytes.
const BYTES_MAX: usize = 1 << 20;

/// Why keys cannot be used.
#[derive(Debug, Error)]
#[error("the keys of [azure] bearer_keys in {place} cannot be used: {cause}")]
pub struct TokenKeysError {
    place: String,
    cause: String,
}

/// A thread that looks after keys.
pub struct TokenKeysWatch {
    drain: Drain,
    thread: JoinHandle<io::Result<()>>,
}

impl TokenKeysWatch {
    /// Takes the keys of `source` into `keys`, and looks after them from now on. A file has to be there; a server that
    /// is behind a URL may be down for a while.
    pub fn start(source: KeySource, keys: Arc<KeySet>, log: Log) -> Result<Self, TokenKeysError> {
        let place = place(&source);
        let failed = |cause: String| TokenKeysError { place: place.clone(), cause };
        let looked = match &source {
            KeySource::File(path) => {
                let looked = look(path);
                read(path, &keys).map_err(failed)?;
                looked
            }
            KeySource::Url(_) => None,
        };
        let drain = Drain::default();
        let ends = drain.closing();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let watch = async {
                    match source {
                        KeySource::File(path) => follow_file(&path, looked, &keys, log).await,
                        KeySource::Url(url) => follow_url(&url, &keys, log).await,
                    }
                };
                tokio::select! {
                    () = ends => {}
                    () = watch => {}
                }
                Ok(())
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

fn place(source: &KeySource) -> String {
    match source {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Url(url) => url.clone(),
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

async fn follow_file(path: &Path, mut looked: Option<(u64, SystemTime)>, keys: &KeySet, log: Log) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = look(path);
        if now != looked {
            looked = now;
            tell(log, &path.display().to_string(), read(path, keys));
        }
    }
}

async fn follow_url(url: &str, keys: &KeySet, log: Log) {
    let client = Client::new(ClientSettings { reply_bytes_max: BYTES_MAX, ..ClientSettings::default() });
    loop {
        let asked = Instant::now();
        let fetched = fetch(&client, url).await;
        let got = fetched.and_then(|bytes| keys.replace(&bytes).map_err(|error| error.to_string()));
        let next = asked + if got.is_ok() { ASK_EVERY } else { ASK_AGAIN };
        tell(log, url, got);
        // What was missed so far is what these keys were asked for.
        let _answered = keys.was_missed();
        while Instant::now() < next && !(asked.elapsed() >= ASK_AGAIN && keys.was_missed()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

async fn fetch(client: &Client, url: &str) -> Result<Bytes, String> {
    let uri = url.parse().map_err(|error| format!("{error}"))?;
    let ask = Outgoing { method: Method::GET, uri, headers: HeaderMap::new(), body: Bytes::new() };
    let answer = client.exchange(ask, ASK_AGAIN).await.map_err(|error| error.to_string())?;
    if answer.status == StatusCode::OK {
        Ok(answer.body)
    } else {
        Err(format!("it answers {}", answer.status))
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
