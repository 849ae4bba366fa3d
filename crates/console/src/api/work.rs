//! Work that may wait for a lock of the engine: it is done on threads that may wait, a bounded number at once, so that
//! health checks on the admin thread never stand behind it.

use std::sync::Arc;

use kew_engine::EngineError;
use kew_http::{Reply, StatusCode};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::board::Running;
use crate::error::{ApiError, answer};

/// Requests that work at once.
const AT_ONCE: usize = 16;
/// Requests that wait for their turn; more are refused.
const WAITING_MAX: usize = 256;

/// The turns.
pub(crate) struct Work {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            places: Arc::new(Semaphore::new(AT_ONCE + WAITING_MAX)),
        }
    }
}

impl Work {
    /// Does work on a thread that may wait.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>>,
    {
        let busy = || ApiError::unavailable("too many requests are being answered: try again").retry_after(1);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy())?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| busy())?;
        let done = tokio::task::spawn_blocking(move || {
            let done = Handle::current().block_on(work());
            drop((turn, place));
            done
        });
        done.await.unwrap_or_else(|_| Err(ApiError::unavailable("the server is stopping")))
    }
}

/// Writes a reply that may be large on a thread that may be busy.
pub(super) async fn render(body: impl FnOnce() -> Value + Send + 'static) -> Result<Reply, ApiError> {
    let written = tokio::task::spawn_blocking(move || answer(StatusCode::OK, &body()));
    written.await.map_err(|_| ApiError::unavailable("the server is stopping"))
}

/// Work that may wait long for messages happens on the engine's own loop, and ends with its request.
pub(super) async fn wait_at_home<T: Send + 'static>(
    running: &Running,
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, ApiError> {
    let mut waiting = EndsWithAsker(running.home.spawn(work));
    match (&mut waiting.0).await {
        Ok(done) => done.map_err(ApiError::from),
        Err(_) => Err(ApiError::unavailable("the server is stopping")),
    }
}

/// A task that is aborted when its request is dropped.
struct EndsWithAsker<T>(JoinHandle<T>);

impl<T> Drop for EndsWithAsker<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
