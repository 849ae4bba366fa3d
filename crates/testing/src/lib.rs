//! What tests of several crates share: only dev-dependencies name this crate.
//!
//! [`TestServer`] serves any front-end on a free port and [`TestClient`] speaks bytes to it. [`TestStore`] and
//! [`start_engine`] make what is below a front-end; [`Wrapped`] changes something of a store. Time stands at [`NOW`]
//! until a test moves it, and [`CountingEntropy`] counts, so every byte of a reply is known.

mod answer;
mod client;
mod engine;
mod fixed;
mod lent;
mod random;
mod server;
#[cfg(feature = "signer")]
mod signer;
mod upkeep;
mod wrapped;

pub use answer::Answer;
pub use client::TestClient;
pub use engine::{TestStore, advance, start_engine};
pub use fixed::{CountingEntropy, FixedClock, NOW};
pub use lent::{Lent, LentStore};
pub use random::Random;
pub use server::TestServer;
#[cfg(feature = "signer")]
pub use signer::{PlainRequest, SignableBody, TestSigner};
pub use upkeep::{UpkeepByCommits, small_log};
pub use wrapped::{Wrap, Wrapped};
