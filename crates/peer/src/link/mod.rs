//! One connection between two nodes, over which both ask and both answer.
//!
//! - [`Endpoint`] makes a connection of a stream of bytes: a handshake ([`handshake`]) finds a common version and
//!   proves that both sides know the fleet's secret.
//! - [`Link`] asks: many requests are under way at once, answers come in any order, a dropped request is cancelled.
//! - [`Serve`] answers what the other side asks.
//! - [`Connection`] is the future that reads, serves and writes. Who opened it polls it.
//! - [`Peers`] holds one link to each node of the fleet, and connects again when one ends.
//!
//! Requests and answers are opaque bytes here. Both sides of a link are equal once the handshake is done: what one node
//! wants to report to another, it asks it.

mod asks;
mod connection;
mod endpoint;
mod error;
mod figures;
mod frame;
mod handle;
pub mod handshake;
mod inbox;
pub mod limits;
mod node;
mod outbox;
mod peers;
mod pulse;
mod work;

pub use connection::{Connection, Serve, Serving};
pub use endpoint::Endpoint;
pub use error::{LinkError, Why};
pub use figures::Counted;
pub use handle::{Link, LinkId};
pub use handshake::{Binding, HandshakeError, Identity, Secret, Versions};
pub use node::{Node, NodeId};
pub use peers::{Address, Dial, Dialing, Opened, Peers, Refused, Stream, TcpDial};
