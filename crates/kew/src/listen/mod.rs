//! Where requests come in and where the event loop's commits happen.
//!
//! All dialects share one event loop on a thread of its own: connections, steps of the store and commits all happen
//! there, so that a request crosses no thread. What must never wait for a disk gets threads of its own.

mod admin;
mod also;
mod certificates;
mod commit;
mod dialect;
mod event_loop;
mod sharing;
mod token_keys;
mod welcome;

pub use admin::{Admin, AdminLoop};
pub use also::{KnownAccount, dialect_of};
pub use certificates::{CertificateWatch, Certificates};
pub use commit::Paced;
pub use dialect::{Dialect, Door, FrontEndSettings, FrontEnds, Serves};
pub use event_loop::{Begin, Beside, Entrance, EventLoop, Started};
pub use sharing::BACKLOG;
pub use token_keys::{TokenKeysError, TokenKeysWatch};
pub use welcome::AdminPlace;
