//! Why a request has no answer, and whether the other side may have done what it asks.

use std::io;

/// A request without an answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LinkError {
    /// The other side never had the whole request: it may be asked again, here or elsewhere.
    #[error("not sent: {0}")]
    NotSent(Why),
    /// The other side may have had the request and done it.
    #[error("sent, without an answer: {0}")]
    Unknown(Why),
}

/// What ended a request or a link.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Why {
    /// Nothing was heard from the other side for [`SILENCE_MAX`](super::limits::SILENCE_MAX).
    #[error("the other node is silent")]
    Silent,
    /// The other side closed the connection.
    #[error("the other node closed the connection")]
    Closed,
    /// This side ended the connection.
    #[error("this node ended the connection")]
    Ended,
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(io::ErrorKind),
    /// The other side broke a rule of the protocol.
    #[error("the other node broke the protocol: {0}")]
    Protocol(&'static str),
    /// This side asks no more on this link.
    #[error("this link is being left")]
    Leaving,
    /// As many requests are under way as may be.
    #[error("too many requests are under way to this node")]
    Full,
    /// The request is longer than [`PAYLOAD_MAX`](super::limits::PAYLOAD_MAX).
    #[error("the request has {bytes} bytes, more than may be sent")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The answer is longer than [`PAYLOAD_MAX`](super::limits::PAYLOAD_MAX).
    #[error("the answer is longer than may be sent")]
    AnswerTooLong,
    /// No node of this id is known.
    #[error("no such node is known")]
    NoSuchNode,
    /// No connection came about in time.
    #[error("no connection to the other node came about in time")]
    NotConnected,
    /// As many requests wait for a connection as may.
    #[error("too many requests wait for a connection to this node")]
    TooManyWaiting,
}

impl Why {
    /// Whether another link to the same node may do what this one could not.
    pub(super) fn is_of_the_link(&self) -> bool {
        match self {
            Self::Silent | Self::Closed | Self::Ended | Self::Io(_) | Self::Protocol(_) | Self::Leaving => {
                true
            }
            Self::Full
            | Self::TooLong { .. }
            | Self::AnswerTooLong
            | Self::NoSuchNode
            | Self::NotConnected
            | Self::TooManyWaiting => false,
        }
    }
}
