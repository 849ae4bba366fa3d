//! The queues of an account, asked one request at a time: each has a name of its own and a time limit.

mod error;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::{Call, QueueMessage, Stamp, read};
use kew_core::{Clock, Entropy};
use kew_http::RequestId;
use kew_http::client::{Answer, Client, ClientError, ClientSettings, Outgoing};

use crate::project::{Account, Token};

pub(crate) use error::{Fault, QueueError};

const GET: &str = "Get Messages";
/// [seed] The receive is guarded by a time limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(100);
/// The longest answer is that to Get Messages. Kew puts up to 8 MiB of texts into one, since other front-ends store
/// longer messages than this one does; 32 messages of the service's own 64 KiB are a quarter of that.
const TEXTS_BYTES_MAX: usize = 8 << 20;
/// What a character may become: `&quot;`.
const ESCAPED_BYTES_MAX: usize = 6;
/// Everything of a message but its text.
const AROUND_A_TEXT_BYTES: usize = 2 << 10;
const MESSAGES_MAX: usize = 32;
const REPLY_BYTES_MAX: usize = TEXTS_BYTES_MAX * ESCAPED_BYTES_MAX + MESSAGES_MAX * AROUND_A_TEXT_BYTES;
/// How long an answer to a poll that is given up may still be on its way.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(1);
/// Servers close connections that rest, some after five seconds.
const IDLE: Duration = Duration::from_secs(3);

/// Asks accounts for their queues.
pub(crate) struct Queues {
    client: Client,
    entropy: Arc<dyn Entropy>,
    /// The machine's time, which requests are dated by.
    machine: Arc<dyn Clock>,
}

/// What a received message is changed with.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) message: &'a str,
    pub(crate) receipt: &'a str,
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

    /// Receives messages and hides them from other receivers for this time.
    pub(crate) async fn receive(
        &self,
        account: &Account,
        queue: &str,
        max: u32,
        hidden: Duration,
    ) -> Result<Received, QueueError> {
        let id = self.id();
        let call = Call::get_messages(queue, max, hidden);
        let answer = self.ask_as(&id, account, queue, GET, &call, ANSWER_WITHIN).await?;
        received(&id, queue, &answer, false)
    }

    /// The same, held by the server until there are some or the wait is over; or given up when `stopped` returns:
    /// `None` when the server had sent nothing by then. What it had sent is hidden from everybody else, so it is
    /// brought.
    pub(crate) async fn receive_held(
        &self,
        account: &Account,
        queue: &str,
        max: u32,
        hidden: Duration,
        wait: Duration,
        stopped: impl Future<Output = ()>,
    ) -> Option<Result<Received, QueueError>> {
        let id = self.id();
        let call = Call::get_messages(queue, max, hidden).waiting(wait);
        let request = match self.request(&id, account, queue, GET, &call) {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        let answer = self.client.exchange_unless(request, ANSWER_WITHIN, stopped, GIVEN_UP_WITHIN).await?;
        let answer = read_answer(&id, account, queue, GET, answer);
        Some(answer.and_then(|answer| received(&id, queue, &answer, true)))
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
        held: Held<'_>,
    ) -> Result<(), QueueError> {
        let call = Call::delete_message(queue, held.message, held.receipt);
        self.ask(account, queue, "Delete Message", &call).await.map(drop)
    }

    /// Deletes a message that failed too often and was put into its poison queue.
    pub(crate) async fn delete_poison(
        &self,
        account: &Account,
        queue: &str,
        held: Held<'_>,
        poison: &str,
    ) -> Result<(), QueueError> {
        let call = Call::delete_message(queue, held.message, held.receipt).put_aside(poison);
        self.ask(account, queue, "Delete Message", &call).await.map(drop)
    }

    /// Hides a message for so long from now, and returns its new receipt, if all that is done within this time.
    pub(crate) async fn hide(
        &self,
        account: &Account,
        queue: &str,
        held: Held<'_>,
        hidden: Duration,
        within: Duration,
    ) -> Result<String, QueueError> {
        let call = Call::hide_message(queue, held.message, held.receipt, hidden);
        let answer = self.ask_as(&self.id(), account, queue, "Update Message", &call, within).await?;
        // A server that tells no new receipt has not changed it.
        Ok(read::receipt(&answer).unwrap_or(held.receipt).to_owned())
    }

    /// Hides a message whose handler failed for so long from now.
    pub(crate) async fn give_back(
        &self,
        account: &Account,
        queue: &str,
        held: Held<'_>,
        hidden: Duration,
        why: &str,
    ) -> Result<(), QueueError> {
        let call = Call::hide_message(queue, held.message, held.receipt, hidden).failing(why);
        self.ask(account, queue, "Update Message", &call).await.map(drop)
    }

    async fn ask(
        &self,
        account: &Account,
        queue: &str,
        operation: &'static str,
        call: &Call,
    ) -> Result<Answer, QueueError> {
        self.ask_as(&self.id(), account, queue, operation, call, ANSWER_WITHIN).await
    }

    async fn ask_as(
        &self,
        id: &str,
        account: &Account,
        queue: &str,
        operation: &'static str,
        call: &Call,
        within: Duration,
    ) -> Result<Answer, QueueError> {
        let request = self.request(id, account, queue, operation, call)?;
        read_answer(id, account, queue, operation, self.client.exchange(request, within).await)
    }

    fn request(
        &self,
        id: &str,
        account: &Account,
        queue: &str,
        operation: &'static str,
        call: &Call,
    ) -> Result<Outgoing, QueueError> {
        let failed = |fault| QueueError::new(operation, queue, id, fault);
        let token = token(account).map_err(|told| failed(Fault::NotLetIn(told)))?;
        let stamp = Stamp { now: self.machine.now(), id, token: token.as_deref() };
        account.endpoint.request(call, stamp).ok_or_else(|| {
            let told =
                "the request cannot be written: its token or address holds characters that are not allowed";
            failed(Fault::Refused { status: 0, told: told.to_owned() })
        })
    }

    fn id(&self) -> String {
        RequestId::from_chance(self.entropy.wide_bits()).to_string()
    }
}

fn read_answer(
    id: &str,
    account: &Account,
    queue: &str,
    operation: &'static str,
    answer: Result<Answer, ClientError>,
) -> Result<Answer, QueueError> {
    let failed = |fault| QueueError::new(operation, queue, id, fault);
    let answer = answer.map_err(|error| failed(Fault::of_client(&error)))?;
    account.note_server(read::is_of_kew(&answer));
    if answer.status.is_success() { Ok(answer) } else { Err(failed(Fault::of_answer(&answer, account))) }
}

fn received(id: &str, queue: &str, answer: &Answer, held: bool) -> Result<Received, QueueError> {
    let messages = read::messages(&answer.body).map_err(|told| {
        let told = format!("the answer is not one of a queue service: {told}");
        QueueError::new(GET, queue, id, Fault::Refused { status: answer.status.as_u16(), told })
    })?;
    Ok(Received { held, waited: read::has_waited(answer), messages })
}

/// The bearer token, for accounts that need one; else why there is none just now.
fn token(account: &Account) -> Result<Option<String>, String> {
    let path = match &account.token {
        None => return Ok(None),
        Some(Token::Given(token)) => return Ok(Some(token.clone())),
        Some(Token::File(path)) => path,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the token in {}: {error}", path.display()))?;
    let token = text.trim();
    if token.is_empty() || token.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(format!("the file {} holds no token; it must hold the token alone", path.display()));
    }
    Ok(Some(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::xml::Writer;

    #[test]
    fn no_character_becomes_longer_than_the_longest_answer_allows_for() {
        let length = |text: &str| {
            let mut document = Writer::new("");
            document.element("t", text);
            document.finish().len()
        };
        let around = length("x") - 1;
        for character in (1..0x300).filter_map(char::from_u32) {
            let escaped = length(&character.to_string()) - around;
            assert!(escaped <= ESCAPED_BYTES_MAX * character.len_utf8(), "{character:?}: {escaped}");
        }
    }
}
