//! A whole front-end on a socket, and a client that speaks bytes.
//!
//! The store below is the in-memory one, or with `KEW_TEST_STORE=log` the embedded one on a directory of its own. Time
//! stands and is moved by hand ([`House::advance`]); chance counts. So every byte of a reply is known, over either
//! store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{
    AccountId, Clock, DeduplicationId, Entropy, GroupId, NewMessage, Policy, Queue, QueueKey, Timestamp,
};
use kew_engine::{ClockKind, Engine, Options, TimeSource};
use kew_http::{Drain, Guard, Limits, Listener, Shared};
use kew_sqs::{Settings, Sqs};
use kew_store::{MemoryStore, Store};
use kew_store_log::{LogOptions, LogStore, RealDisk, SegmentOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2026-01-01, and it stays that.
pub const NOW: Timestamp = Timestamp(1_767_225_600_000);

/// Chance that counts: every number once, in order.
#[derive(Default)]
pub struct Counting(AtomicU64);

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
    /// What the front-end works with, for what other front-ends would do.
    pub engine: Arc<Engine>,
    /// Where the embedded store is, as long as the house stands.
    _directory: Option<TempDir>,
}

/// The store the run asks for.
fn store() -> (Arc<dyn Store>, Option<TempDir>) {
    let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
    match std::env::var("KEW_TEST_STORE").as_deref() {
        Err(_) | Ok("memory") => (Arc::new(MemoryStore::new(entropy)), None),
        Ok("log") => {
            let directory = tempfile::tempdir().expect("there is room for a directory");
            let disk = RealDisk::open(directory.path()).expect("it can be used");
            let segments = SegmentOptions { first_bytes: 64 << 10, ..SegmentOptions::default() };
            let options = LogOptions { segments, ..LogOptions::default() };
            let opened = LogStore::open(Arc::new(disk), options, entropy, NOW);
            let (store, _) = opened.expect("an empty directory opens");
            (Arc::new(store), Some(directory))
        }
        Ok(other) => panic!("KEW_TEST_STORE is memory or log, not {other}"),
    }
}

impl House {
    pub async fn open() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let (store, directory) = store();
        Self { _directory: directory, ..Self::over(store, settings).await }
    }

    /// Over a store of the test's own.
    pub async fn over(store: Arc<dyn Store>, settings: Settings) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let options = Options { clock: ClockKind::Virtual, ..Options::default() };
        let engine = Engine::start(store, Arc::new(Standing), Arc::clone(&entropy), options);
        let engine = engine.await.expect("an empty store opens");
        let (timers, moves) = (Arc::clone(&engine), Arc::clone(&engine));
        tokio::spawn(async move { timers.run_timers().await });
        tokio::spawn(async move { moves.run_moves().await });
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound").to_string();
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let limits = Limits { body_bytes_max: 2 << 20, ..Limits::default() };
        let shared = Shared::new(clock, entropy, limits);
        let guard = Guard::open().with_hosts(["kew.test".to_owned()]).with_origins(&settings.cors_origins);
        let guard = settings.url_style.guard(guard);
        let sqs = Sqs::new(Arc::clone(&engine), settings);
        let listener = Listener::new(sqs, guard, &shared);
        tokio::spawn(listener.accept(socket));
        Self { address, drain: shared.drain, engine, _directory: None }
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, by: Duration) {
        self.engine.advance(by).await.expect("the clock is virtual");
    }

    /// The present instant, in milliseconds.
    pub fn now(&self) -> u64 {
        self.engine.now().0
    }

    /// A queue with these settings, however SQS would word them.
    pub async fn queue(&self, name: &str, policy: Policy) -> Arc<Queue> {
        let key = QueueKey::new(AccountId(0), "us-east-1", name);
        let create = CreateQueue { key, policy, documents: Vec::new() };
        self.engine.create_queue(create).await.expect("the name is free")
    }

    /// Sends a message of a FIFO queue; false when it counts as sent already.
    pub async fn send_to_group(&self, queue: &str, group: &str, deduplication: &str) -> bool {
        let key = QueueKey::new(AccountId(0), "us-east-1", queue);
        let queue = self.engine.queue(&key).expect("it is there").id;
        let message = NewMessage {
            group: Some(GroupId(group.into())),
            deduplication: Some(DeduplicationId(deduplication.into())),
            ..NewMessage::text(self.engine.message_id(), "x")
        };
        let sent = self
            .engine
            .send(Send { queue, messages: vec![message], receipts: FirstReceipts::Untold })
            .await
            .expect("it is sent");
        !sent.first().expect("one was sent").duplicate
    }

    /// Waits until so many receives wait for messages.
    pub async fn until_waiting(&self, receives: u64) {
        while self.engine.stats().waiting_receives.value() != receives {
            tokio::task::yield_now().await;
        }
    }

    /// One action, as an SDK asks for it; its reply.
    pub async fn ask(&self, action: &str, body: &str) -> Answer {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: kew.test\r\nX-Amz-Target: AmazonSQS.{action}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes()).await
    }

    /// The same with a body in pieces of JSON.
    pub async fn call(&self, action: &str, body: Value) -> Answer {
        self.ask(action, &body.to_string()).await
    }

    /// A message sent with these further members; its answer.
    pub async fn send_to(&self, queue: &str, body: &str, further: Value) -> Answer {
        self.call("SendMessage", with(json!({"QueueUrl": queue, "MessageBody": body}), further)).await
    }

    /// A receive with these further members; its answer.
    pub async fn receive(&self, queue: &str, further: Value) -> Answer {
        self.call("ReceiveMessage", with(json!({"QueueUrl": queue}), further)).await
    }

    /// A deletion by this handle; its answer.
    pub async fn delete(&self, queue: &str, handle: &str) -> Answer {
        self.call("DeleteMessage", json!({"QueueUrl": queue, "ReceiptHandle": handle})).await
    }

    /// A change of visibility by this handle; its answer.
    pub async fn change(&self, queue: &str, handle: &str, seconds: i64) -> Answer {
        let members = json!({"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": seconds});
        self.call("ChangeMessageVisibility", members).await
    }

    /// One action over the Query protocol, as a form sent to `/`.
    pub async fn query(&self, form: &str) -> Answer {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: kew.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
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

fn with(mut members: Value, further: Value) -> Value {
    if let (Value::Object(members), Value::Object(further)) = (&mut members, further) {
        members.extend(further);
    }
    members
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

    /// The result as JSON; of an action without one, null.
    pub fn json(&self) -> Value {
        match self.ok() {
            "" => Value::Null,
            body => serde_json::from_str(body).expect("it is JSON"),
        }
    }

    /// The messages of a receive.
    pub fn messages(&self) -> Vec<Value> {
        self.json().get("Messages").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// The receipt handles of a receive's messages.
    pub fn handles(&self) -> Vec<String> {
        let handle = |message: &Value| message["ReceiptHandle"].as_str().expect("each has one").to_owned();
        self.messages().iter().map(handle).collect()
    }

    /// The bodies of a receive's messages.
    pub fn bodies(&self) -> Vec<String> {
        let body = |message: &Value| message["Body"].as_str().expect("each has a body").to_owned();
        self.messages().iter().map(body).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|header| header.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The first member of this name anywhere in the body.
    pub fn text(&self, name: &str) -> String {
        let found = self.ok().split(&format!("\"{name}\":\"")).nth(1).and_then(|rest| rest.split('"').next());
        found.unwrap_or_else(|| panic!("no {name} in {}", self.body)).to_owned()
    }

    /// An `InvalidParameterValue` that says this.
    #[track_caller]
    pub fn is_invalid(&self, message: &str) {
        let kind = "com.amazon.coral.service#InvalidParameterValueException";
        self.is_error(400, kind, "InvalidParameterValue;Sender", message);
    }

    /// Status, `__type`, `x-amzn-query-error` and message of an error.
    #[track_caller]
    pub fn is_error(&self, status: u16, kind: &str, query: &str, message: &str) {
        let body = format!(r#"{{"__type":"{kind}","message":{}}}"#, json!(message));
        assert_eq!((self.status, self.body.as_str()), (status, body.as_str()));
        assert_eq!(self.header("x-amzn-query-error"), Some(query));
        assert_eq!(self.header("content-type"), Some("application/x-amz-json-1.0"));
    }
}
