//! How requests of one protocol look and what their replies say: all that scenarios need to know of a dialect.

use super::Fault;
use super::client::Reply;

/// A queue to be made.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) name: String,
    pub(super) fifo: bool,
    /// How long a received message is hidden.
    pub(super) lease_seconds: u32,
}

/// A message to be sent.
pub(super) struct Outgoing<'a> {
    pub(super) body: &'a str,
    /// Its FIFO group and deduplication id.
    pub(super) fifo: Option<(u32, u64)>,
}

/// A message that was received.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) body: String,
    pub(super) receipt: String,
}

/// One protocol.
pub(super) trait Dialect {
    /// The most messages one request sends or deletes.
    fn batch_max(&self) -> u32;
    /// Whether a receive can wait.
    fn waits(&self) -> bool {
        false
    }
    /// The request that makes a queue, or finds it.
    fn create(&self, queue: &Queue) -> Vec<u8>;
    /// What the reply to that tells, and the request that completes the queue, where there is one.
    fn created(&self, _: &Queue, _: &Reply<'_>) -> Result<Option<Vec<u8>>, Fault> {
        Ok(None)
    }
    /// The request that deletes it.
    fn remove(&self, queue: &Queue) -> Vec<u8>;
    /// The request that sends these messages, one or up to ten.
    fn send(&self, queue: &Queue, messages: &[Outgoing<'_>]) -> Vec<u8>;
    /// The request that receives up to this number of messages and waits this number of seconds.
    fn receive(&self, queue: &Queue, max: u32, wait_seconds: u32) -> Vec<u8>;
    /// The messages in a reply to that.
    fn received(&self, reply: &Reply<'_>) -> Result<Vec<Received>, Fault>;
    /// The request that deletes these messages.
    fn delete(&self, queue: &Queue, messages: &[Received]) -> Vec<u8>;
    /// The request that asks how many messages are stored.
    fn count(&self, queue: &Queue) -> Vec<u8>;
    /// The figure in the reply to that.
    fn counted(&self, reply: &Reply<'_>) -> Result<u64, Fault>;
    /// Refuses the reply of a request for `count` messages that did not do all it was asked.
    fn check(&self, reply: &Reply<'_>, count: usize) -> Result<(), Fault>;
}

/// Refuses a status other than success.
pub(super) fn check_status(reply: &Reply<'_>) -> Result<(), Fault> {
    if (200..300).contains(&reply.status) {
        return Ok(());
    }
    let text: String = String::from_utf8_lossy(reply.body).chars().take(400).collect();
    Err(format!("status {}: {text}", reply.status).into())
}
