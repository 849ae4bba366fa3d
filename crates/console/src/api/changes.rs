//! Changes outlive the requests that ask for them: what has begun is finished and is in the audit log, whether or not
//! its client waits for the reply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_http::Request;
use tokio::sync::{Semaphore, oneshot};

use crate::error::ApiError;

/// Changes under way at once; more are refused.
const AT_ONCE: u32 = 1_024;
/// How long the end of the server waits for changes under way.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The changes under way.
#[derive(Clone)]
pub(crate) struct Changes(Arc<Semaphore>);

impl Default for Changes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE as usize)))
    }
}

impl Changes {
    /// Does a change in a task of its own. The change learns from [`Client`] that its request was dropped.
    pub(super) async fn run<T, F>(&self, change: impl FnOnce(Client) -> F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let busy = || ApiError::unavailable("too many changes are under way: try again").retry_after(1);
        let place = Arc::clone(&self.0).try_acquire_owned().map_err(|_| busy())?;
        // Dropped with this future, that is with the request.
        let (_asks, asked) = oneshot::channel();
        let change = change(Client(asked));
        let done = tokio::spawn(async move {
            let done = change.await;
            drop(place);
            done
        });
        done.await.map_err(|_| ApiError::unavailable("the server is stopping"))
    }

    /// Waits until none is under way. None begins after that.
    pub(crate) async fn end(&self) {
        let all = tokio::time::timeout(ENDS_WITHIN, self.0.acquire_many(AT_ONCE)).await;
        if let Ok(Ok(all)) = all {
            all.forget();
        }
    }
}

/// The client that waits for the reply to a change.
pub(super) struct Client(oneshot::Receiver<()>);

impl Client {
    /// Waits until the request is dropped: the client has hung up.
    pub(super) async fn gone(&mut self) {
        // Nothing is ever sent: it ends when the sender is dropped.
        let _dropped = (&mut self.0).await;
    }
}

/// A copy of a request that does not keep the read buffer of its connection.
pub(crate) fn copy_of(request: &Request) -> Request {
    Request {
        method: request.method.clone(),
        uri: request.uri.clone(),
        headers: request.headers.clone(),
        body: Bytes::copy_from_slice(&request.body),
        id: request.id,
        received_at: request.received_at,
        peer: request.peer,
        secure: request.secure,
        room: request.room.clone(),
    }
}
