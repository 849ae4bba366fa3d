//! Work that may wait for a lock of the engine: it is done on threads that may wait, a bounded number at once, so that
//! health checks on the admin thread never stand behind it.

use std::sync::Arc;

use kew_http::{Reply, StatusCode};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::board::Running;
use crate::error::{ApiError, answer};

/// Requests that work at once.
const AT_ONCE: usize = 16;
/// Replies with whole messages that are made at once: each may take some tens of megabytes until it is written.
const LARGE_AT_ONCE: usize = 4;
/// Requests that wait for their turn; more are refused.
const WAITING_MAX: usize = 256;

/// A bounded number of turns, and of requests that wait for one.
pub(crate) struct Turns {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

/// A turn, until it is dropped.
#[must_use]
pub(crate) struct Turn(
    #[expect(dead_code, reason = "they are given back when it is dropped")] [OwnedSemaphorePermit; 2],
);

impl Turns {
    fn new(at_once: usize) -> Self {
        let places = Arc::new(Semaphore::new(at_once + WAITING_MAX));
        Self { turns: Arc::new(Semaphore::new(at_once)), places }
    }

    /// Turns of those who make a reply with whole messages.
    pub(crate) fn of_large_replies() -> Self {
        Self::new(LARGE_AT_ONCE)
    }

    /// Waits for a turn; refuses where too many wait.
    pub(crate) async fn next(&self) -> Result<Turn, ApiError> {
        let busy = || ApiError::unavailable("too many requests are being answered: try again").retry_after(1);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy())?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| busy())?;
        Ok(Turn([place, turn]))
    }
}

/// The turns of the API.
pub(crate) struct Work {
    turns: Turns,
    /// Of those who make a reply with whole messages.
    pub(super) large: Turns,
}

impl Default for Work {
    fn default() -> Self {
        Self { turns: Turns::new(AT_ONCE), large: Turns::of_large_replies() }
    }
}

impl Work {
    /// Does work on a thread that may wait.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>>,
    {
        let turn = self.turns.next().await?;
        let done = tokio::task::spawn_blocking(move || {
            let done = Handle::current().block_on(work());
            drop(turn);
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
pub(super) async fn wait_at_home<T: Send + 'static, E: Send + 'static>(
    running: &Running,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, ApiError>
where
    ApiError: From<E>,
{
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn large_replies_are_made_a_few_at_once_and_a_bounded_number_wait() {
        let turns = Turns::of_large_replies();
        let mut taken = Vec::new();
        for _ in 0..LARGE_AT_ONCE {
            taken.push(turns.next().await.expect("fewer than LARGE_AT_ONCE turns are taken"));
        }
        let mut cx = Context::from_waker(Waker::noop());
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(turns.next())).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().poll(&mut cx).is_pending()));
        let refused = turns.next().await.map(drop).map_err(|error| error.code());
        assert_eq!(refused, Err("unavailable"));
        taken.pop();
        assert!(waiting[0].as_mut().poll(&mut cx).is_ready(), "the first in line has the turn that is free");
        assert!(pin!(turns.next()).poll(&mut cx).is_pending());
    }
}
