//! How far a request is believed by its head alone, while its body is still on its way.
//!
//! A body that comes in pieces takes memory before its signature can be checked. So a front-end is asked first whom it
//! sees in the head; [`Ration`](crate::Ration) says how much of all bodies each kind of sender may hold.

use crate::refusal::Refusal;
use crate::reply::Reply;

/// What a head says of its sender.
#[derive(Debug)]
pub enum Standing {
    /// It proves who sent it, or no proof is asked for.
    Known,
    /// It names a key that is known. Whether the sender has the key shows only with the body.
    Claimed,
    /// It says nothing of its sender.
    Unknown,
    /// Whatever its body is, this is the reply. The body stays unread.
    Refused(Box<Reply>),
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// This room refuses it.
    By(Refusal),
    /// Its front-end has answered the head.
    With(Box<Reply>),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::By(refusal)
    }
}
