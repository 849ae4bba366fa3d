//! For tests: a queue service and a handler in one, whose every answer the test decides, and a listener that asks them.

use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::{Credential, Endpoint};
use kew_core::{Clock, Timestamp};
use kew_testing::CountingEntropy;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::HostClock;
use crate::handler::Handler;
use crate::log::Log;
use crate::project::{Account, DataType, Encoding, Function, QueueSettings, Token, Trigger};
use crate::queue::Queues;
use crate::shared::Shared;
use crate::wakes::Wakes;

/// What becomes of a request.
pub(crate) enum Act {
    /// It is answered.
    Answer(String),
    /// It is answered when its client says that it sends nothing more.
    AnswerAtTheEnd(String),
    /// It is answered after a while.
    AnswerAfter(Duration, String),
    /// It is not answered.
    Hold,
}

/// A request as it came in: when, and all of it.
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) text: String,
}

/// The event when a client closes its half of a connection.
pub(crate) const HUNG_UP: &str = "(nothing more is sent)";

/// A service that listens.
pub(crate) struct Service {
    pub(crate) port: u16,
    asked: mpsc::UnboundedReceiver<Asked>,
}

impl Service {
    /// Answers each request as `acts` says.
    pub(crate) async fn acting(acts: impl FnMut(&str) -> Act + Send + 'static) -> Self {
        Self::acting_at(0, acts).await
    }

    /// The same, at a port that somebody knows already.
    pub(crate) async fn acting_at(port: u16, acts: impl FnMut(&str) -> Act + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let (tells, asked) = mpsc::unbounded_channel();
        let acts = Arc::new(Mutex::new(acts));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acts, tells) = (Arc::clone(&acts), tells.clone());
                tokio::spawn(serve(stream, move |text| (acts.lock())(text), tells));
            }
        });
        Self { port, asked }
    }

    /// The next request that begins like this.
    pub(crate) async fn next(&mut self, beginning: &str) -> Asked {
        loop {
            let asked = self.asked.recv().await.expect("the service outlives its test");
            if asked.text.starts_with(beginning) {
                return asked;
            }
        }
    }

    /// What else came in so far.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.asked.try_recv().ok()).map(|asked| asked.text).collect()
    }

    /// A function on the queue `q` of this service, let in by `token` where that is given.
    pub(crate) fn function(&self, token: Option<Token>) -> Arc<Function> {
        let credential = if token.is_some() { Credential::Token } else { Credential::Key(b"key".to_vec()) };
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{}/acc", self.port), "acc", credential);
        let account = Account::new(endpoint.expect("the endpoint is a URL"), "Setting".into(), token);
        let (name, queue, poison) = ("item".into(), "q".into(), Some("q-poison".into()));
        let trigger = Trigger { name, queue, poison, account, data_type: DataType::Text, encoding: None };
        Arc::new(Function { name: "fn".into(), trigger, outputs: Vec::new() })
    }

    /// What listeners share, and the lines of their log. The service is the handler too.
    pub(crate) fn shared(&self) -> (Arc<Shared>, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&lines);
        let clock = HostClock::system(Arc::new(Passing(Instant::now())));
        let shared = Shared {
            queues: Queues::new(Arc::new(CountingEntropy::default()), Arc::new(Passing(Instant::now()))),
            handler: Handler::at(self.port),
            settings: QueueSettings {
                batch_size: 16,
                new_batch_threshold: 8,
                polling_interval_max: Duration::from_secs(60),
                dequeue_count_max: 5,
                visibility_timeout: Duration::ZERO,
                encoding: Encoding::None,
            },
            run_within: None,
            clock: clock.clone(),
            entropy: Arc::new(CountingEntropy::default()),
            log: Log { sink: Arc::new(move |_, _, line, _| told.lock().push(line.to_owned())), clock },
            wakes: Wakes::default(),
            waits: true,
        };
        (Arc::new(shared), lines)
    }
}

/// An account at a port of this machine.
pub(crate) fn account(port: u16, token: Option<Token>) -> Arc<Account> {
    let credential = if token.is_some() { Credential::Token } else { Credential::Key(b"key".to_vec()) };
    let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}/acc"), "acc", credential);
    Account::new(endpoint.expect("the endpoint is a URL"), "Setting".into(), token)
}

async fn serve(
    mut stream: TcpStream,
    mut acts: impl FnMut(&str) -> Act,
    tells: mpsc::UnboundedSender<Asked>,
) {
    let mut bytes = Vec::new();
    while let Some(text) = request(&mut stream, &mut bytes).await {
        let act = acts(&text);
        // The test may be over.
        let _sent = tells.send(Asked { at: Instant::now(), text });
        let answer = match act {
            Act::Answer(answer) => answer,
            Act::AnswerAtTheEnd(answer) => {
                let text = request(&mut stream, &mut bytes).await.unwrap_or_else(|| HUNG_UP.to_owned());
                let _sent = tells.send(Asked { at: Instant::now(), text });
                answer
            }
            Act::AnswerAfter(pause, answer) => {
                tokio::time::sleep(pause).await;
                answer
            }
            Act::Hold => std::future::pending().await,
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next whole request on a connection.
async fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let header =
                |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok();
            let length: usize = head.lines().find_map(header).unwrap_or_default();
            let whole = head.len() + 4 + length;
            if bytes.len() >= whole {
                let rest = bytes.split_off(whole);
                return String::from_utf8(std::mem::replace(bytes, rest)).ok();
            }
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// An answer with a body, by a server of this name.
pub(crate) fn answer(status: u16, server: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\nserver: {server}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The answer to Get Messages with one message that was received so often.
pub(crate) fn one_message(text: &str, count: u32) -> String {
    const DATE: &str = "Mon, 24 Apr 2023 12:41:09 GMT";
    format!(
        "<QueueMessagesList><QueueMessage><MessageId>m</MessageId><InsertionTime>{DATE}</InsertionTime>\
         <ExpirationTime>{DATE}</ExpirationTime><PopReceipt>r1</PopReceipt><TimeNextVisible>{DATE}</TimeNextVisible>\
         <DequeueCount>{count}</DequeueCount><MessageText>{text}</MessageText></QueueMessage></QueueMessagesList>"
    )
}

/// Time as the runtime has it.
struct Passing(Instant);

impl Clock for Passing {
    fn now(&self) -> Timestamp {
        Timestamp(1_893_456_000_000).plus(self.0.elapsed())
    }
}
