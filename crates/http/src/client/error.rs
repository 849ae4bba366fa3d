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
    /// Nobody took the connection; nothing was sent.
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
    /// Whether the other side was never reached, so that there is no use in hurrying back.
    pub fn is_unreached(&self) -> bool {
        match self {
            Self::OutOfReach { .. } | Self::NotFound { .. } | Self::Refused { .. } | Self::Trust(_) => true,
            Self::BadAddress | Self::Broken(_) | Self::ReplyTooLong { .. } | Self::TimedOut { .. } => false,
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
