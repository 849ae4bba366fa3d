//! HTTP/1.0 and 1.1 as a server speaks it, in a state machine of our own.
//!
//! `head` turns bytes into a request's head and says how its body is framed; `chunks` takes chunks apart; `body` reads
//! a body within its bounds; `reply` writes; `conversation` does one after the other for as long as a connection lasts.
//! The grammar of lines is the crate `httparse`'s. Why this is here: `docs/decisions/0012-http1-of-our-own.md`.

mod body;
mod chunks;
mod conversation;
mod head;
mod reply;

pub(crate) use conversation::{Spoken, speak};
