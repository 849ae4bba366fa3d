//! The queues of an account, asked one request at a time: each has a name of its own and a time limit.

mod error;

use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::{Call, QueueMessage, Stamp, read};
use kew_core::{Clock, Entropy};
use kew_http::RequestId;
use kew_http::client::{Answer, Client, ClientSettings};

use crate::project::{Account, Token};

pub(crate) use error::{Fault, QueueError};

/// [seed] The receive is guarded by a time limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(100);
/// The longest answer: 32 messages of 64 KiB, each character escaped.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// Servers close connections that rest, some after five seconds.
const IDLE: Duration = Duration::from_secs(3);

/// Asks accounts for their queues.
pub(crate) struct Queues {
    client: Client,
    entropy: Arc<dyn Entropy>,
    /// The machine's time, which requests are dated by.
    machine: Arc<dyn Clock>,
}

/// What Get Messages brought.
pub(crate) struct Received {
    pub(crate) messages: Vec<QueueMessage>,
    /// Whether the server may have held the request until there were some.
    pub(crate) held: bool,
    /// Whether the server held the request to the end of the wait: there is no need to pause before the next.
    pub(crate) waited: bool,
}

impl Queues {
    pub(crate) fn new(entropy: Arc<dyn Entropy>, machine: Arc<dyn Clock>) -> Self {
        let settings =
            ClientSettings { reply_bytes_max: REPLY_BYTES_MAX, idle: IDLE, ..ClientSettings::default() };
        Self { client: Client::new(settings), entropy, machine }
    }

    /// Whether the queue is there.
    pub(crate) async fn exists(&self, account: &Account, queue: &str) -> Result<(), QueueError> {
        self.ask(account, queue, "Get Queue Metadata", &Call::queue_metadata(queue)).await.map(drop)
    }

    /// Receives up to `max` messages. A server that knows how is asked to wait for some.
    pub(crate) async fn receive(
        &self,
        account: &Account,
        queue: &str,
        max: u32,
        hidden: Duration,
        wait: Option<Duration>,
    ) -> Result<Received, QueueError> {
        const OPERATION: &str = "Get Messages";
        let call = Call::get_messages(queue, max, hidden);
        let call = match wait {
            Some(wait) => call.waiting(wait),
            None => call,
        };
        let id = self.id();
        let answer = self.ask_as(&id, account, queue, OPERATION, &call).await?;
        let messages = read::messages(&answer.body).map_err(|told| {
            let told = format!("the answer is not one of a queue service: {told}");
            QueueError::new(OPERATION, queue, &id, Fault::Refused { status: answer.status.as_u16(), told })
        })?;
        Ok(Received { held: wait.is_some(), waited: read::has_waited(&answer), messages })
    }

    /// Puts a message into a queue, which is made if it is not there.
    pub(crate) async fn put(&self, account: &Account, queue: &str, text: &str) -> Result<(), QueueError> {
        const OPERATION: &str = "Put Message";
        let call = Call::put_message(queue, text);
        match self.ask(account, queue, OPERATION, &call).await {
            Err(error) if error.fault == Fault::QueueNotFound => {
                self.ask(account, queue, "Create Queue", &Call::create_queue(queue)).await?;
                self.ask(account, queue, OPERATION, &call).await.map(drop)
            }
            put => put.map(drop),
        }
    }

    /// Deletes a message.
    pub(crate) async fn delete(
        &self,
        account: &Account,
        queue: &str,
        message: &str,
        receipt: &str,
    ) -> Result<(), QueueError> {
        let call = Call::delete_message(queue, message, receipt);
        self.ask(account, queue, "Delete Message", &call).await.map(drop)
    }

    /// Hides a message for so long from now, and returns its new receipt.
    pub(crate) async fn hide(
        &self,
        account: &Account,
        queue: &str,
        message: &str,
        receipt: &str,
        hidden: Duration,
    ) -> Result<String, QueueError> {
        let call = Call::hide_message(queue, message, receipt, hidden);
        let answer = self.ask(account, queue, "Update Message", &call).await?;
        // A server that tells no new receipt has not changed it.
        Ok(read::receipt(&answer).unwrap_or(receipt).to_owned())
    }

    async fn ask(
        &self,
        account: &Account,
        queue: &str,
        operation: &'static str,
        call: &Call,
    ) -> Result<Answer, QueueError> {
        self.ask_as(&self.id(), account, queue, operation, call).await
    }

    async fn ask_as(
        &self,
        id: &str,
        account: &Account,
        queue: &str,
        operation: &'static str,
        call: &Call,
    ) -> Result<Answer, QueueError> {
        let failed = |fault| QueueError::new(operation, queue, id, fault);
        let token = token(account).map_err(|told| failed(Fault::Refused { status: 0, told }))?;
        let stamp = Stamp { now: self.machine.now(), id, token: token.as_deref() };
        let request = account.endpoint.request(call, stamp).ok_or_else(|| {
            let told =
                "the request cannot be written: its token or address holds characters that are not allowed";
            failed(Fault::Refused { status: 0, told: told.to_owned() })
        })?;
        let answer = self
            .client
            .exchange(request, ANSWER_WITHIN)
            .await
            .map_err(|error| failed(Fault::of_client(&error)))?;
        account.note_server(read::is_of_kew(&answer));
        if answer.status.is_success() { Ok(answer) } else { Err(failed(Fault::of_answer(&answer, account))) }
    }

    fn id(&self) -> String {
        RequestId::from_chance(self.entropy.wide_bits()).to_string()
    }
}

fn token(account: &Account) -> Result<Option<String>, String> {
    match &account.token {
        None => Ok(None),
        Some(Token::Given(token)) => Ok(Some(token.clone())),
        Some(Token::File(path)) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read the token in {}: {error}", path.display()))?;
            Ok(Some(text.trim().to_owned()))
        }
    }
}
