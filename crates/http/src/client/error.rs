//! Why a request has no reply, by what its maker does about it.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

/// A request without a whole reply.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address is none that requests are made to.
    #[error("the address has no host, or is neither http nor https")]
    BadAddress,
    /// The host has no address that may be reached.
    #[error("{address} may not be reached from here")]
    OutOfReach {
        /// The address it has.
        address: IpAddr,
    },
    /// The host's name leads nowhere.
    #[error("cannot find {host}: {cause}")]
    NotFound {
        /// The name.
        host: String,
        /// Why not.
        cause: io::Error,
    },
    /// The connection was not accepted; nothing was sent.
    #[error("cannot connect to {place}: {cause}")]
    Refused {
        /// Where to.
        place: String,
        /// Why not.
        cause: io::Error,
    },
    /// The machine's certificates cannot be used.
    #[error("no certificates to trust: {0}")]
    Trust(String),
    /// A new connection broke before anything was sent on it.
    #[error("the connection broke before the request was sent: {}", told(.0))]
    Unsent(hyper::Error),
    /// The connection broke; whether the request was heard is unknown.
    #[error("the connection broke: {}", told(.0))]
    Broken(hyper::Error),
    /// The reply is longer than it may be.
    #[error("the reply has more than {max} bytes")]
    ReplyTooLong {
        /// The most bytes.
        max: usize,
    },
    /// Time is over; whether the request was heard is unknown.
    #[error("no whole reply within {after:?}")]
    TimedOut {
        /// The time there was.
        after: Duration,
    },
}

impl ClientError {
    /// Whether time was over, before the connection was there or after.
    pub fn is_out_of_time(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Refused { cause, .. } => cause.kind() == io::ErrorKind::TimedOut,
            Self::BadAddress
            | Self::OutOfReach { .. }
            | Self::NotFound { .. }
            | Self::Trust(_)
            | Self::Unsent(_)
            | Self::Broken(_)
            | Self::ReplyTooLong { .. } => false,
        }
    }

    /// Whether the other side was never reached: nothing of the request was sent, so nothing of it was done.
    pub fn is_unreached(&self) -> bool {
        match self {
            Self::BadAddress
            | Self::OutOfReach { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. }
            | Self::Trust(_)
            | Self::Unsent(_) => true,
            Self::Broken(_) | Self::ReplyTooLong { .. } | Self::TimedOut { .. } => false,
        }
    }
}

/// An error with what caused it: alone it says little.
fn told(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
