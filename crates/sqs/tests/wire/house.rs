//! A whole front-end on a socket, and a client that speaks bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Clock, Entropy, Timestamp};
use kew_engine::{Engine, Options, TimeSource};
use kew_http::{Drain, Guard, Limits, Listener, Shared};
use kew_sqs::{Settings, Sqs};
use kew_store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2026-01-01, and it stays that.
pub const NOW: Timestamp = Timestamp(1_767_225_600_000);

/// Chance that counts: every number once, in order.
#[derive(Default)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct Standing;

impl TimeSource for Standing {
    fn system(&self) -> Timestamp {
        NOW
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

/// A front-end that serves.
pub struct House {
    pub address: String,
    pub drain: Drain,
}

impl House {
    pub async fn open() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(Counting::default())));
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let engine = Engine::start(store, Arc::new(Standing), Arc::clone(&entropy), Options::default());
        let engine = engine.await.expect("an empty store opens");
        let timers = Arc::clone(&engine);
        tokio::spawn(async move { timers.run_timers().await });
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound").to_string();
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let limits = Limits { body_bytes_max: 2 << 20, ..Limits::default() };
        let shared = Shared::new(clock, entropy, limits);
        let guard = Guard::open().with_hosts(["kew.test".to_owned()]);
        let listener = Listener::new(Sqs::new(engine, settings), guard, &shared);
        tokio::spawn(listener.accept(socket));
        Self { address, drain: shared.drain }
    }

    /// One action, as an SDK asks for it; its reply.
    pub async fn ask(&self, action: &str, body: &str) -> Answer {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.{action}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes()).await
    }

    /// Bytes in, a reply out.
    pub async fn send(&self, bytes: &[u8]) -> Answer {
        Client::open(self).await.ask(bytes).await
    }

    /// A queue, and the receipt handle of a message sent and received there.
    pub async fn with_message(&self, queue: &str, body: &str) -> String {
        self.ask("CreateQueue", &format!(r#"{{"QueueName":"{queue}"}}"#)).await.ok();
        self.ask("SendMessage", &format!(r#"{{"QueueUrl":"{queue}","MessageBody":"{body}"}}"#)).await.ok();
        self.ask("ReceiveMessage", &format!(r#"{{"QueueUrl":"{queue}"}}"#)).await.text("ReceiptHandle")
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
}

impl Client {
    pub async fn open(house: &House) -> Self {
        Self { stream: TcpStream::connect(&house.address).await.expect("it listens") }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("it reads");
    }

    pub async fn ask(&mut self, bytes: &[u8]) -> Answer {
        self.write(bytes).await;
        self.read().await.expect("it answers")
    }

    /// The next reply, or `None` when the connection was closed.
    pub async fn read(&mut self) -> Option<Answer> {
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = Answer::whole(&bytes) {
                return Some(answer);
            }
            if self.stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// A reply, taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Without the date, sorted.
    pub headers: Vec<String>,
    pub body: String,
}

impl Answer {
    fn whole(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).expect("replies are text");
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers: Vec<String> = lines.map(str::to_owned).collect();
        let dates = headers.iter().filter(|header| header.starts_with("date: ")).count();
        assert!(dates == 1 || status != 200, "{headers:?}");
        headers.retain(|header| !header.starts_with("date: "));
        headers.sort();
        let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("lengths are numbers"));
        (body.len() == length).then(|| Self { status, headers, body: body.to_owned() })
    }

    pub fn ok(&self) -> &str {
        assert_eq!(self.status, 200, "{}", self.body);
        &self.body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|header| header.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The first member of this name anywhere in the body.
    pub fn text(&self, name: &str) -> String {
        let found = self.ok().split(&format!("\"{name}\":\"")).nth(1).and_then(|rest| rest.split('"').next());
        found.unwrap_or_else(|| panic!("no {name} in {}", self.body)).to_owned()
    }

    /// Status, `__type`, `x-amzn-query-error` and message of an error.
    #[track_caller]
    pub fn is_error(&self, status: u16, kind: &str, query: &str, message: &str) {
        let escaped = message.replace('"', "\\\"");
        let body = format!("{{\"__type\":\"{kind}\",\"message\":\"{escaped}\"}}");
        assert_eq!((self.status, self.body.as_str()), (status, body.as_str()));
        assert_eq!(self.header("x-amzn-query-error"), Some(query));
        assert_eq!(self.header("content-type"), Some("application/x-amz-json-1.0"));
    }
}
