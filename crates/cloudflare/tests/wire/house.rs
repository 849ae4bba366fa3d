//! A whole front-end on a socket, and a client that asks it in JSON.
//!
//! The store below is the in-memory one, or with `KEW_TEST_STORE=log` the embedded one on a directory of its own. Time
//! stands and is moved by hand ([`House::advance`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_cloudflare::{Cloudflare, Settings};
use kew_core::{Clock, Entropy, Timestamp};
use kew_engine::{ClockKind, Engine, Options, TimeSource};
use kew_http::{Guard, Limits, Listener, Shared};
use kew_store::{MemoryStore, Store};
use kew_store_log::{LogOptions, LogStore, RealDisk, SegmentOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// 2026-01-01, and it stays that until a test moves it.
pub const NOW: Timestamp = Timestamp(1_767_225_600_000);
/// Where everything of the default account is.
pub const ACCOUNT: &str = "/client/v4/accounts/00000000000000000000000000000000";

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
    address: String,
    /// What the front-end works with, for what other front-ends would do.
    pub engine: Arc<Engine>,
    /// Where the embedded store is, as long as the house stands.
    _directory: Option<TempDir>,
}

/// Settings over the queues that SQS shows without a region.
pub fn settings() -> Settings {
    Settings::open("us-east-1".into())
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
        Self::with(settings(), Guard::strict()).await
    }

    pub async fn with(settings: Settings, guard: Guard) -> Self {
        let (store, directory) = store();
        Self { _directory: directory, ..Self::over(store, settings, guard).await }
    }

    /// The same over a store of one's own.
    pub async fn over(store: Arc<dyn Store>, settings: Settings, guard: Guard) -> Self {
        Self::run(store, settings, guard, Options::default()).await
    }

    /// Where an account has at most so many queues.
    pub async fn with_queues_max(queues_max: u32) -> Self {
        let (store, directory) = store();
        let options = Options { queues_max, ..Options::default() };
        Self { _directory: directory, ..Self::run(store, settings(), Guard::strict(), options).await }
    }

    async fn run(store: Arc<dyn Store>, settings: Settings, guard: Guard, options: Options) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(Counting::default());
        let options = Options { clock: ClockKind::Virtual, ..options };
        let engine = Engine::start(store, Arc::new(Standing), Arc::clone(&entropy), options);
        let engine = engine.await.expect("an empty store opens");
        let timers = Arc::clone(&engine);
        tokio::spawn(async move { timers.run_timers().await });
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = socket.local_addr().expect("it is bound").to_string();
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let limits = Limits { body_bytes_max: 2 << 20, ..Limits::default() };
        let shared = Shared::new(clock, entropy, limits);
        let cloudflare = Cloudflare::new(Arc::clone(&engine), settings);
        let listener = Listener::new(cloudflare, guard, &shared);
        tokio::spawn(listener.accept(socket));
        Self { address, engine, _directory: None }
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, seconds: u64) {
        self.engine.advance(Duration::from_secs(seconds)).await.expect("the clock is virtual");
    }

    /// A request within the account.
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        self.raw(method, &format!("{ACCOUNT}{path}"), &[], body.as_bytes()).await
    }

    /// The same with a body in pieces of JSON.
    pub async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.ask(method, path, &body.to_string()).await
    }

    /// Any request.
    pub async fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.push_str("Host: 127.0.0.1:9326\r\n");
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
        stream.write_all(&bytes).await.expect("it reads");
        let mut read = Vec::new();
        loop {
            if let Some(answer) = Answer::whole(&read) {
                return answer;
            }
            let more = stream.read_buf(&mut read).await.expect("it answers");
            assert!(more > 0, "the connection ended: {}", String::from_utf8_lossy(&read));
        }
    }

    /// A queue that is not there yet; its path.
    pub async fn queue(&self, name: &str) -> String {
        self.queue_with(name, json!({})).await
    }

    /// The same with these settings.
    pub async fn queue_with(&self, name: &str, settings: Value) -> String {
        let made = self.call("POST", "/queues", json!({ "queue_name": name, "settings": settings })).await;
        format!("/queues/{}", text(&made.result(), "queue_id"))
    }

    /// A queue that can be pulled from; its path.
    pub async fn pulled(&self, name: &str, settings: Value) -> String {
        let queue = self.queue(name).await;
        self.consume(&queue, json!({ "type": "http_pull", "settings": settings })).await;
        queue
    }

    /// Gives a queue its consumer; the consumer.
    pub async fn consume(&self, queue: &str, consumer: Value) -> Value {
        self.call("POST", &format!("{queue}/consumers"), consumer).await.result()
    }

    /// The path of a queue by its name.
    pub async fn path(&self, name: &str) -> Option<String> {
        let found = self.ask("GET", &format!("/queues?name={name}"), "").await.result();
        Some(format!("/queues/{}", found.get(0)?["queue_id"].as_str()?))
    }

    /// Publishes a text with these further members.
    pub async fn push(&self, queue: &str, text: &str, further: Value) -> Answer {
        let mut message = json!({ "body": text, "content_type": "text" });
        if let (Value::Object(message), Value::Object(further)) = (&mut message, further) {
            message.extend(further);
        }
        self.call("POST", &format!("{queue}/messages"), message).await
    }

    /// Pulls with these members; the messages.
    pub async fn pull(&self, queue: &str, members: Value) -> Vec<Value> {
        let pulled = self.call("POST", &format!("{queue}/messages/pull"), members).await.result();
        pulled["messages"].as_array().expect("there is a list").clone()
    }

    /// Pulls up to a hundred; their bodies.
    pub async fn bodies(&self, queue: &str) -> Vec<String> {
        bodies(&self.pull(queue, json!({ "batch_size": 100 })).await)
    }

    /// Settles leases; the result.
    pub async fn settle(&self, queue: &str, members: Value) -> Value {
        self.call("POST", &format!("{queue}/messages/ack"), members).await.result()
    }

    /// The figures of a queue.
    pub async fn metrics(&self, queue: &str) -> Value {
        self.ask("GET", &format!("{queue}/metrics"), "").await.result()
    }

    /// How many messages of a queue are not acknowledged.
    pub async fn backlog(&self, queue: &str) -> u64 {
        self.metrics(queue).await["backlog_count"].as_u64().expect("it is a number")
    }
}

/// The bodies of messages.
pub fn bodies(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| text(message, "body")).collect()
}

/// A member that is text.
#[track_caller]
pub fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

/// The only message of a pull.
#[track_caller]
pub fn only(messages: Vec<Value>) -> Value {
    let [message] = <[Value; 1]>::try_from(messages).expect("there is one");
    message
}

/// A reply, taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// What stands behind the status.
    pub reason: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    fn whole(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let mut status = lines.next()?.splitn(3, ' ').skip(1);
        let (code, reason) = (status.next()?.parse().ok()?, status.next().unwrap_or_default().to_owned());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, length)| length.parse().expect("lengths are numbers"));
        (body.len() == length).then(|| Self { status: code, reason, headers, body: body.to_owned() })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The result of a success, in its envelope.
    #[track_caller]
    pub fn result(&self) -> Value {
        let json = self.json();
        assert_eq!((self.status, &json["success"]), (200, &json!(true)), "{}", self.body);
        assert_eq!((&json["errors"], &json["messages"]), (&json!([]), &json!([])), "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        json["result"].clone()
    }

    /// A failure of this status and code, in its envelope; its text.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: u32) -> String {
        let json = self.json();
        let told = &json["errors"][0];
        assert_eq!((self.status, &told["code"]), (status, &json!(code)), "{}", self.body);
        assert_eq!((&json["success"], &json["result"]), (&json!(false), &Value::Null), "{}", self.body);
        assert_eq!(json["messages"], json!([]));
        text(told, "message")
    }
}
