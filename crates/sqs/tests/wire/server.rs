//! The SQS front-end on a socket, and requests as an SDK writes them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{CreateQueue, FirstReceipts, Send};
use kew_core::{AccountId, Clock, DeduplicationId, Entropy, GroupId, NewMessage, Policy, Queue, QueueKey};
use kew_engine::{Engine, Options};
use kew_http::{Guard, Limits, Shared};
use kew_sqs::{Settings, Sqs};
use kew_store::Store;
pub use kew_testing::{Answer, CountingEntropy, NOW};
use kew_testing::{TestServer, TestStore, advance, start_engine};
use serde_json::{Value, json};

/// An SQS front-end that serves, over the store that `KEW_TEST_STORE` names.
pub struct SqsServer {
    server: TestServer,
    /// What the front-end works with, for what other front-ends would do.
    pub engine: Arc<Engine>,
    /// Keeps the directory of the embedded store.
    _store: TestStore,
}

impl Deref for SqsServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl SqsServer {
    pub async fn open() -> Self {
        Self::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        Self::start(TestStore::from_environment(), settings).await
    }

    /// Over a store of the test's own.
    pub async fn over(store: Arc<dyn Store>, settings: Settings) -> Self {
        Self::start(TestStore::of(store), settings).await
    }

    async fn start(store: TestStore, settings: Settings) -> Self {
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
        let engine = start_engine(&store, Arc::clone(&entropy), Options::default()).await;
        let clock = Arc::clone(engine.clock()) as Arc<dyn Clock>;
        let limits = Limits { body_bytes_max: 2 << 20, ..Limits::default() };
        let shared = Shared::new(clock, entropy, limits);
        let guard = Guard::open().with_hosts(["kew.test".to_owned()]).with_origins(&settings.cors_origins);
        let guard = settings.url_style.guard(guard);
        let server = TestServer::start(Sqs::new(Arc::clone(&engine), settings), guard, shared).await;
        Self { server, engine, _store: store }
    }

    /// Moves time ahead, through everything that is due on the way.
    pub async fn advance(&self, by: Duration) {
        advance(&self.engine, by).await;
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
        let queue = self.engine.queue(&key).expect("the queue of the group exists").id;
        let message = NewMessage {
            group: Some(GroupId(group.into())),
            deduplication: Some(DeduplicationId(deduplication.into())),
            ..NewMessage::text(self.engine.message_id(), "x")
        };
        let sent = self
            .engine
            .send(Send { queue, messages: vec![message], receipts: FirstReceipts::Untold })
            .await
            .expect("the engine accepts a message of a group");
        !sent.first().expect("a send of one message has one result").duplicate
    }

    /// Waits until this number of receives wait for messages.
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

/// What the tests ask of a reply of SQS.
pub trait SqsAnswer {
    fn ok(&self) -> &str;

    /// The result as JSON; of an action without one, null.
    fn json(&self) -> Value;

    /// The messages of a receive.
    fn messages(&self) -> Vec<Value>;

    /// The receipt handles of a receive's messages.
    fn handles(&self) -> Vec<String>;

    /// The bodies of a receive's messages.
    fn bodies(&self) -> Vec<String>;

    /// The first member of this name anywhere in the body.
    fn text(&self, name: &str) -> String;

    /// An `InvalidParameterValue` that says this.
    fn is_invalid(&self, message: &str);

    /// Status, `__type`, `x-amzn-query-error` and message of an error.
    fn is_error(&self, status: u16, kind: &str, query: &str, message: &str);
}

impl SqsAnswer for Answer {
    fn ok(&self) -> &str {
        assert_eq!(self.status, 200, "{}", self.body);
        &self.body
    }

    fn json(&self) -> Value {
        match self.ok() {
            "" => Value::Null,
            body => serde_json::from_str(body).expect("a result of SQS is JSON"),
        }
    }

    fn messages(&self) -> Vec<Value> {
        self.json().get("Messages").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    fn handles(&self) -> Vec<String> {
        let handle = |message: &Value| message["ReceiptHandle"].as_str().expect("each has one").to_owned();
        self.messages().iter().map(handle).collect()
    }

    fn bodies(&self) -> Vec<String> {
        let body = |message: &Value| message["Body"].as_str().expect("each has a body").to_owned();
        self.messages().iter().map(body).collect()
    }

    fn text(&self, name: &str) -> String {
        let found = self.ok().split(&format!("\"{name}\":\"")).nth(1).and_then(|rest| rest.split('"').next());
        found.unwrap_or_else(|| panic!("no {name} in {}", self.body)).to_owned()
    }

    #[track_caller]
    fn is_invalid(&self, message: &str) {
        let kind = "com.amazon.coral.service#InvalidParameterValueException";
        self.is_error(400, kind, "InvalidParameterValue;Sender", message);
    }

    #[track_caller]
    fn is_error(&self, status: u16, kind: &str, query: &str, message: &str) {
        let body = format!(r#"{{"__type":"{kind}","message":{}}}"#, json!(message));
        assert_eq!((self.status, self.body.as_str()), (status, body.as_str()));
        assert_eq!(self.header("x-amzn-query-error"), Some(query));
        assert_eq!(self.header("content-type"), Some("application/x-amz-json-1.0"));
    }
}
