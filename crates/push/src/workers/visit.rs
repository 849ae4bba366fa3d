//! Visits: requests to a Worker's own address, for its `fetch` handler.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use kew_core::AccountId;
use kew_http::client::{Answer, ClientError};
use thiserror::Error;

use super::{LOOKS_AGAIN, WAITS_FOR, Workers};

/// The most bytes of a reply's body: with [`VISITS_MAX`] of them under way 128 MiB of a Worker.
pub const VISIT_REPLY_BYTES_MAX: usize = 2 << 20;
/// How long a handler may take.
pub(super) const VISIT_WITHIN: Duration = Duration::from_secs(60);
/// Visits of one Worker at a time.
pub(super) const VISITS_MAX: usize = 64;

/// Tells the shim what is visited.
pub(super) const ADDRESS: HeaderName = HeaderName::from_static("x-kew-address");
/// The shim's word that the handler threw, or that there is none.
pub(super) const THREW: HeaderName = HeaderName::from_static("x-kew-threw");

/// A request for a Worker's `fetch` handler.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Its method.
    pub method: Method,
    /// What is asked for, as the visitor wrote it: absolute.
    pub address: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why a visit has no reply of its handler.
#[derive(Debug, Error)]
pub enum VisitError {
    /// There is no such Worker.
    #[error("there is no Worker {0:?} here")]
    NotFound(String),
    /// It is not running now.
    #[error("the Worker is not running: try again")]
    NotRunning,
    /// It has as many visitors as it may have.
    #[error("the Worker answers {VISITS_MAX} requests at a time: try again")]
    Busy,
    /// Its code has no `fetch` handler.
    #[error("the Worker has no fetch handler")]
    NoHandler,
    /// Its handler threw.
    #[error("the Worker threw an exception; its log says which")]
    Threw,
    /// Its reply is too long.
    #[error("the Worker's reply has more than {VISIT_REPLY_BYTES_MAX} bytes")]
    TooLong,
    /// It took too long.
    #[error("the Worker did not answer within {} seconds", VISIT_WITHIN.as_secs())]
    OutOfTime,
    /// Its process ended meanwhile.
    #[error("the Worker's process ended while it answered")]
    Ended,
}

impl From<ClientError> for VisitError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::ReplyTooLong { .. } => Self::TooLong,
            error if error.is_out_of_time() => Self::OutOfTime,
            error if error.is_unreached() => Self::NotRunning,
            _ => Self::Ended,
        }
    }
}

/// What the shim's reply means.
pub(super) fn judged(mut answer: Answer) -> Result<Answer, VisitError> {
    match answer.headers.remove(&THREW).as_ref().map(HeaderValue::as_bytes) {
        None => Ok(answer),
        Some(b"no handler") => Err(VisitError::NoHandler),
        Some(_) => Err(VisitError::Threw),
    }
}

impl Workers {
    /// Brings a request to a Worker's `fetch` handler. It waits while the Worker's process is being started: no handler
    /// has seen it then.
    pub async fn visit(&self, account: AccountId, name: &str, visit: Visit) -> Result<Answer, VisitError> {
        self.follow_in_time(account, name).await;
        let mut changed = self.watch();
        let mut patience = std::pin::pin!(tokio::time::sleep(WAITS_FOR));
        loop {
            let missing = || VisitError::NotFound(name.to_owned());
            let worker = self.shared.find(account, name).ok_or_else(missing)?;
            if let Some(live) = worker.live() {
                match live.visit(visit.clone()).await {
                    Err(VisitError::NotRunning) => {}
                    answer => return answer,
                }
            }
            tokio::select! {
                // Its sender lives as long as this.
                _changed = changed.changed() => {}
                // It may also be there and have had no place for one connection more.
                () = tokio::time::sleep(LOOKS_AGAIN) => {}
                () = self.ending.closing() => return Err(VisitError::NotRunning),
                () = &mut patience => return Err(VisitError::NotRunning),
            }
        }
    }
}
