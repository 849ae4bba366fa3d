//! The Cloudflare front-end on a socket, and requests in JSON as its clients write them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kew_cloudflare::{Cloudflare, Settings};
use kew_core::{Clock, Entropy};
use kew_engine::{Engine, Options};
use kew_http::{Guard, Limits, Shared};
use kew_store::Store;
pub use kew_testing::{Answer, CountingEntropy};
use kew_testing::{TestServer, TestStore, advance, start_engine};
use serde_json::{Value, json};

/// Where everything of the default account is.
pub const ACCOUNT: &str = "/client/v4/accounts/00000000000000000000000000000000";

/// A Cloudflare front-end that serves, over the store that `KEW_TEST_STORE` names.
pub struct CloudflareServer {
    server: TestServer,
    /// What the front-end works with, for what other front-ends would do.
    pub engine: Arc<Engine>,
    /// Keeps the directory of the embedded store.
    _store: TestStore,
}

impl Deref for CloudflareServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

/// Settings over the queues that SQS shows without a region.
pub fn settings() -> Settings {
    Settings::open("us-east-1".into())
}

impl CloudflareServer {
    pub async fn open() -> Self {
        Self::with(settings(), Guard::strict()).await
    }

    pub async fn with(settings: Settings, guard: Guard) -> Self {
        Self::start(TestStore::from_environment(), settings, guard, Options::default()).await
    }

    /// Over a store of the test's own.
    pub async fn over(store: Arc<dyn Store>, settings: Settings, guard: Guard) -> Self {
        Self::start(TestStore::of(store), settings, guard, Options::default()).await
    }

    /// With this limit for the queues of an account.
    pub async fn with_queues_max(queues_max: u32) -> Self {
        let options = Options { queues_max, ..Options::default() };
        Self::start(TestStore::from_environment(), settings(), Guard::strict(), options).await
    }

    async fn start(store: TestStore, settings: Settings, guard: Guard, options: Options) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
        let engine = start_engine(&store, Arc::clone(&entropy), options).await;
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let limits = Limits { body_bytes_max: 2 << 20, ..Limits::default() };
        let shared = Shared::new(clock, entropy, limits);
        let cloudflare = Cloudflare::new(Arc::clone(&engine), settings);
        let server = TestServer::start(cloudflare, guard, shared).await;
        Self { server, engine, _store: store }
    }

    /// Moves time ahead, through everything that happens on the way.
    pub async fn advance(&self, seconds: u64) {
        advance(&self.engine, Duration::from_secs(seconds)).await;
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
        self.request((method, path), "127.0.0.1:9326", headers, body).await
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
        pulled["messages"].as_array().expect("a pull returns a list of messages").clone()
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
        self.metrics(queue).await["backlog_count"].as_u64().expect("the backlog count is a number")
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
    let [message] = <[Value; 1]>::try_from(messages).expect("a pull returns exactly one message");
    message
}

/// What the tests ask of a reply of Cloudflare.
pub trait CloudflareAnswer {
    fn json(&self) -> Value;

    /// The result of a success, in its envelope.
    fn result(&self) -> Value;

    /// A failure of this status and code, in its envelope; its text.
    fn is_error(&self, status: u16, code: u32) -> String;
}

impl CloudflareAnswer for Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    #[track_caller]
    fn result(&self) -> Value {
        let json = self.json();
        assert_eq!((self.status, &json["success"]), (200, &json!(true)), "{}", self.body);
        assert_eq!((&json["errors"], &json["messages"]), (&json!([]), &json!([])), "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        json["result"].clone()
    }

    #[track_caller]
    fn is_error(&self, status: u16, code: u32) -> String {
        let json = self.json();
        let error = &json["errors"][0];
        assert_eq!((self.status, &error["code"]), (status, &json!(code)), "{}", self.body);
        assert_eq!((&json["success"], &json["result"]), (&json!(false), &Value::Null), "{}", self.body);
        assert_eq!(json["messages"], json!([]));
        text(error, "message")
    }
}
