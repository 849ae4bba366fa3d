//! The operations a client asks for: method, path, parameters, body.

use std::time::Duration;

use bytes::Bytes;
use kew_http::Method;
use kew_http::xml::Writer;

/// One operation, not yet addressed or signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub(super) method: Method,
    /// The path behind the account, its parts not yet encoded.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    /// How long the server may hold the request, where it knows how.
    pub(super) wait: Option<Duration>,
    /// Why the message is given back, for a server that keeps it.
    pub(super) failed: Option<String>,
    /// The queue that the message was put into before it is deleted, for a server that keeps that.
    pub(super) put_aside: Option<String>,
}

/// Characters of the reason for a failure: the history keeps the first sixteen bytes.
const FAILED_CHARS_MAX: usize = 16;

impl Call {
    fn new(method: Method, path: &[&str]) -> Self {
        let path = path.iter().map(|part| (*part).to_owned()).collect();
        Self {
            method,
            path,
            query: Vec::new(),
            body: Bytes::new(),
            wait: None,
            failed: None,
            put_aside: None,
        }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    /// Create Queue.
    pub fn create_queue(queue: &str) -> Self {
        Self::new(Method::PUT, &[queue])
    }

    /// Get Queue Metadata.
    pub fn queue_metadata(queue: &str) -> Self {
        Self::new(Method::GET, &[queue]).with("comp", "metadata")
    }

    /// Put Message, kept and shown as the service does when nothing is said.
    pub fn put_message(queue: &str, text: &str) -> Self {
        let mut document = Writer::new("");
        document.open("QueueMessage");
        document.element("MessageText", text);
        document.close("QueueMessage");
        Self { body: document.finish().into(), ..Self::new(Method::POST, &[queue, "messages"]) }
    }

    /// Get Messages.
    pub fn get_messages(queue: &str, max: u32, hidden: Duration) -> Self {
        Self::new(Method::GET, &[queue, "messages"])
            .with("numofmessages", max)
            .with("visibilitytimeout", hidden.as_secs())
    }

    /// The same, held by a server that knows how until there are messages or the time is over. Others answer at once.
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    /// The same of a message that failed too often and was put into this queue.
    pub fn put_aside(self, queue: &str) -> Self {
        Self { put_aside: Some(queue.to_owned()), ..self }
    }

    /// Delete Message.
    pub fn delete_message(queue: &str, id: &str, receipt: &str) -> Self {
        Self::new(Method::DELETE, &[queue, "messages", id]).with("popreceipt", receipt)
    }

    /// Update Message without a body: only how long it is hidden from now on.
    pub fn hide_message(queue: &str, id: &str, receipt: &str, hidden: Duration) -> Self {
        Self::new(Method::PUT, &[queue, "messages", id])
            .with("popreceipt", receipt)
            .with("visibilitytimeout", hidden.as_secs())
    }

    /// The same, because the message's handler failed in this way.
    pub fn failing(self, why: &str) -> Self {
        // Headers hold no other characters.
        let is_fit = |letter: char| letter == ' ' || letter.is_ascii_graphic();
        let why = why.chars().take(FAILED_CHARS_MAX).map(|letter| if is_fit(letter) { letter } else { '?' });
        Self { failed: Some(why.collect()), ..self }
    }
}
