//! Following the clock of a Kew server: each change is heard at once, and the server moves no further than to the next
//! instant at which something is due here, until that has been done.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::{Entropy, Timestamp};
use kew_http::client::{Answer, Client, ClientError, ClientSettings, Outgoing};
use kew_http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde::Deserialize;

use super::dial::Dial;
use super::{HostClock, Kind};

/// Longer than the server holds an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the server is left alone after it did not answer.
const PAUSE: Duration = Duration::from_millis(100);
/// The answer to a poll that was held leaves the server before the news of the instant it belongs to, and is here by
/// then. It is waited for only where the server says that it has answered somebody.
const HELD_ANSWER_WITHIN: Duration = Duration::from_millis(10);
/// Turns of the event loop in which answers that have arrived are read.
const TURNS_FOR_ANSWERS: u32 = 4;
/// What is due is done by then, or goes on while time does.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);

/// Why a clock cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// It is no address.
    #[error("{0} is no address of a Kew admin listener; expected http://HOST:PORT")]
    NoAddress(String),
    /// No server answers there.
    #[error("no answer from {address}: {cause}")]
    NoAnswer {
        /// Where.
        address: String,
        /// Why not.
        cause: ClientError,
    },
    /// Somebody answers something else.
    #[error("{address} shows no clock: {told}")]
    NoClock {
        /// Where.
        address: String,
        /// What was answered.
        told: String,
    },
}

/// What the server tells.
#[derive(Deserialize)]
pub(super) struct Shown {
    pub(super) now_ms: u64,
    pub(super) frozen: bool,
    /// Counts the changes of the clock; sent to its followers.
    #[serde(default)]
    change: u64,
    /// Whether the server may have answered requests at this change.
    #[serde(default)]
    answered: bool,
}

/// The clock of the server whose admin listener is at `address`. It is followed for as long as the runtime lives.
pub async fn follow(
    address: &str,
    token: Option<&str>,
    entropy: &dyn Entropy,
) -> Result<HostClock, FollowError> {
    let no_address = || FollowError::NoAddress(address.to_owned());
    let uri: Uri =
        format!("{}/api/v1/clock", address.trim_end_matches('/')).parse().map_err(|_| no_address())?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        return Err(no_address());
    }
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Some(token) = token {
        let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| no_address())?;
        headers.insert("authorization", value);
    }
    let source = Arc::new(Source { client: Client::new(ClientSettings::default()), uri, headers });
    let mut follower =
        Follower { source: Arc::clone(&source), id: format!("{:032x}", entropy.wide_bits()), change: 0 };
    let answer = follower.ask(None).await;
    let answer = answer.map_err(|cause| FollowError::NoAnswer { address: address.to_owned(), cause })?;
    let shown = read(&answer).map_err(|told| FollowError::NoClock { address: address.to_owned(), told })?;
    let dial = Dial::new(Timestamp(shown.now_ms), shown.frozen);
    follower.change = shown.change;
    tokio::spawn(follower.follow(Arc::clone(&dial)));
    Ok(HostClock(Kind::Followed(dial, source)))
}

/// The server's clock.
pub(super) struct Source {
    client: Client,
    uri: Uri,
    headers: HeaderMap,
}

impl Source {
    /// What it shows just now.
    pub(super) async fn read(&self) -> Option<Shown> {
        read(&self.ask(Method::GET, Bytes::new()).await.ok()?).ok()
    }

    async fn ask(&self, method: Method, body: Bytes) -> Result<Answer, ClientError> {
        let (uri, headers) = (self.uri.clone(), self.headers.clone());
        self.client.exchange(Outgoing { method, uri, headers, body }, ANSWER_WITHIN).await
    }
}

struct Follower {
    source: Arc<Source>,
    /// What the server knows this host by.
    id: String,
    /// The last change that was received.
    change: u64,
}

impl Follower {
    async fn follow(mut self, dial: Arc<Dial>) {
        // Held polls that had been answered at the last change.
        let mut answered = dial.answered();
        loop {
            dial.ring();
            settle(&dial).await;
            match self.hear(&dial).await {
                Some(shown) => {
                    dial.set(Timestamp(shown.now_ms), shown.frozen);
                    if self.change != shown.change && shown.answered {
                        answers(&dial, answered).await;
                    }
                    answered = dial.answered();
                    self.change = shown.change;
                }
                // A server that is started again goes on from where it was.
                None => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Waits for the next change of the clock, and rings what becomes due meanwhile.
    async fn hear(&self, dial: &Arc<Dial>) -> Option<Shown> {
        loop {
            let told = dial.first();
            let mut answer = pin!(self.ask(told));
            loop {
                tokio::select! {
                    answer = &mut answer => return read(&answer.ok()?).ok(),
                    () = tokio::time::sleep(dial.until_first().unwrap_or(ANSWER_WITHIN)) => dial.ring(),
                    () = dial.changed() => {}
                }
                // The server must not go past what is due now; one that stops too early only asks again.
                let first = dial.first();
                if first.is_some_and(|first| told.is_none_or(|told| first < told)) {
                    break;
                }
            }
        }
    }

    /// Says when something is due next and which change was the last heard of; answered at the next one.
    async fn ask(&self, due: Option<Timestamp>) -> Result<Answer, ClientError> {
        let due = due.map_or_else(|| "null".to_owned(), |due| due.0.to_string());
        let body =
            format!("{{\"follow\":{{\"id\":\"{}\",\"change\":{},\"due_ms\":{due}}}}}", self.id, self.change);
        self.source.ask(Method::POST, Bytes::from(body)).await
    }
}

/// Waits for a moment until the answer to a held poll is here, if none has come since the change before.
async fn answers(dial: &Dial, before: u64) {
    let answered = async {
        while dial.holds() && dial.answered() == before {
            dial.changed().await;
        }
    };
    let _none = tokio::time::timeout(HELD_ANSWER_WITHIN, answered).await;
    // Answers to other polls left the server together with it.
    for _turn in 0..TURNS_FOR_ANSWERS {
        tokio::task::yield_now().await;
    }
}

/// Waits until what was set off has been done.
async fn settle(dial: &Dial) {
    let settled = async {
        while dial.is_busy() {
            dial.changed().await;
        }
    };
    let _slow = tokio::time::timeout(SETTLED_WITHIN, settled).await;
}

fn read(answer: &Answer) -> Result<Shown, String> {
    if answer.status != StatusCode::OK {
        let text = String::from_utf8_lossy(&answer.body);
        return Err(format!("{} {}", answer.status.as_u16(), text.trim()));
    }
    serde_json::from_slice(&answer.body).map_err(|error| format!("its answer is not understood ({error})"))
}
