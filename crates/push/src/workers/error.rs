//! Why a change to a Worker did not happen.

use kew_engine::EngineError;
use thiserror::Error;

use super::child::StartError;
use super::script::ScriptError;

/// A change to a Worker that did not happen.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// There is no such Worker.
    #[error("there is no Worker {0:?}")]
    NotFound(String),
    /// It has no such version.
    #[error("there is no version {0:?}")]
    VersionNotFound(String),
    /// It has no such secret.
    #[error("there is no secret {0:?}")]
    SecretNotFound(String),
    /// A cron trigger that is none.
    #[error("{0:?} is no cron expression")]
    Cron(String),
    /// It cannot be taken as it is.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// It sends to a queue that is not there.
    #[error("binding of queue {0:?}: there is no such queue")]
    QueueNotFound(String),
    /// The runtime does not run it; its words.
    #[error(transparent)]
    NotStarted(#[from] StartError),
    /// It could not be kept.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Kew is ending.
    #[error("the server is shutting down")]
    ShuttingDown,
}
