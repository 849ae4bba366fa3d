//! A configuration that is not accepted.

use thiserror::Error;

/// What is wrong with the settings: which, where they were written, and what is allowed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{sentence}")]
pub struct ConfigError {
    sentence: String,
}

impl ConfigError {
    /// The error that says so.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into() }
    }
}
