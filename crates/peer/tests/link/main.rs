//! The connection between two nodes, as its users see it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asks;
mod cut;
mod flow;
mod handshake;
mod leave;
mod measure;
mod peers;
mod pulse;
mod stress;
mod support;
