//! Azure Queue Storage from the other side: what a client of it says, signed, and what the answers mean.
//!
//! Nothing here does I/O. A [`Call`] is an operation in the service's words, an [`Endpoint`] (read from a connection
//! string) makes a request of it and signs it, [`read`] takes answers apart. The trigger host is such a client.

mod call;
mod connection_string;
mod endpoint;
pub mod read;

pub use call::Call;
pub use connection_string::ConnectionStringError;
pub use endpoint::{Credential, Endpoint, Stamp, WAITED_HEADER};
pub use read::QueueMessage;

pub use crate::limits::WAIT_HEADER;

use crate::limits;

/// Whether a queue may have this name.
pub fn is_queue_name(name: &str) -> bool {
    limits::is_queue_name(name)
}
