//! A console over a running engine, and requests to it.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_console::{
    AlarmRule, Attribute, AttributeValue, AuditEntry, Backups, Board, Console, DiskSpace, Fleet,
    InFlightLimits, MessageNotes, News, Role, Running, Settings, ShownSetting, StorePlace, UpkeepReport,
    User,
};
use kew_core::{AccountId, Content, Timestamp};
use kew_engine::{Engine, Options, TimeSource};
use kew_http::{
    Guard, Handler, HeaderName, HeaderValue, Headers, Method, Replies, Reply, Request, RequestId,
};
use kew_testing::{CountingEntropy, FixedClock, LentStore, TestStore, start_engine};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Attributes as JSON: a list of names, types, values, and whether a value is Base64.
#[derive(Default)]
pub struct TextNotes {
    /// What happens whenever attributes are read.
    on_read: Mutex<Option<OnRead>>,
}

type OnRead = Arc<dyn Fn() + Send + Sync>;

impl TextNotes {
    /// Calls this on the thread that reads attributes, each time.
    pub fn on_read(&self, call: impl Fn() + Send + Sync + 'static) {
        *self.on_read.lock() = Some(Arc::new(call));
    }
}

impl MessageNotes for TextNotes {
    fn write(&self, _: &str, attributes: &[Attribute]) -> Result<Bytes, String> {
        if attributes.iter().any(|attribute| attribute.name == "forbidden") {
            return Err("that one is forbidden".to_owned());
        }
        let one = |attribute: &Attribute| match &attribute.value {
            AttributeValue::Text(text) => json!([attribute.name, attribute.data_type, text, false]),
            AttributeValue::Binary(bytes) => {
                json!([attribute.name, attribute.data_type, STANDARD.encode(bytes), true])
            }
        };
        Ok(attributes.iter().map(one).collect::<Value>().to_string().into())
    }

    fn read(&self, content: &Content) -> Vec<Attribute> {
        let call = self.on_read.lock().clone();
        call.inspect(|call| call());
        if content.annotations.is_empty() {
            return Vec::new();
        }
        let all: Vec<(String, String, String, bool)> =
            serde_json::from_slice(&content.annotations).expect("annotations are the JSON that `write` made");
        let one = |(name, data_type, value, is_binary): (String, String, String, bool)| {
            let decoded = || STANDARD.decode(&value).expect("a binary value is the Base64 that `write` made");
            let value =
                if is_binary { AttributeValue::Binary(decoded()) } else { AttributeValue::Text(value) };
            Attribute { name, data_type, value }
        };
        all.into_iter().map(one).collect()
    }
}

/// A clock that stands where it is put.
#[derive(Default)]
pub struct Steady(pub Mutex<Duration>);

impl TimeSource for Steady {
    fn system(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn steady(&self) -> Duration {
        *self.0.lock()
    }
}

pub struct Rig {
    pub console: Console,
    pub engine: Arc<Engine>,
    /// The store, which a test may take away.
    pub store: Arc<LentStore>,
    pub clock: Arc<Steady>,
    pub audit: Arc<Mutex<Vec<AuditEntry>>>,
    /// What the looks reported.
    pub news: Arc<Mutex<Vec<News>>>,
    pub notes: Arc<TextNotes>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: Value,
}

impl Answer {
    /// The code of a refusal.
    pub fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> String {
        let value = self.headers.get(name).and_then(|value| value.text().map(str::to_owned));
        value.unwrap_or_default()
    }
}

pub const PASSWORD: &str = "correct horse";
pub const TOKEN: &str = "hush";

/// How the console is guarded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// Not at all.
    Open,
    /// By the token and two users: `anna` is an operator, `bert` may look.
    Strictly,
}

pub async fn open() -> Rig {
    rig(Guarded::Open).await
}

pub async fn rig(guarded: Guarded) -> Rig {
    rig_of(Parts { guarded, ..Parts::default() }).await
}

/// What a rig is made of.
pub struct Parts {
    pub guarded: Guarded,
    pub backups: Option<Arc<dyn Backups>>,
    pub fleet: Option<Arc<dyn Fleet>>,
    pub alarms: Vec<AlarmRule>,
    /// Queues with metrics of their own.
    pub metrics_queues: usize,
    /// An engine that an earlier console was over; a new one otherwise.
    pub engine: Option<Arc<Engine>>,
    pub undo_window: Duration,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            guarded: Guarded::Open,
            backups: None,
            fleet: None,
            alarms: Vec::new(),
            metrics_queues: 10,
            engine: None,
            undo_window: Duration::ZERO,
        }
    }
}

/// In a box that hides its type: a hundred tests would compile it again and again.
pub fn rig_of(parts: Parts) -> Pin<Box<dyn Future<Output = Rig> + Send>> {
    Box::pin(make(parts))
}

async fn make(parts: Parts) -> Rig {
    let Parts { guarded, backups, fleet, alarms, metrics_queues, engine, undo_window } = parts;
    let store = LentStore::new();
    let engine = match engine {
        Some(engine) => engine,
        None => {
            let entropy = Arc::new(CountingEntropy::default());
            start_engine(&TestStore::of(Arc::clone(&store) as _), entropy, Options::default()).await
        }
    };
    let (clock, audit) = (Arc::<Steady>::default(), Arc::<Mutex<Vec<AuditEntry>>>::default());
    let hash =
        kew_console::hash_password(PASSWORD.as_bytes(), 7).expect("the password has an allowed length");
    let user = |name, role| User::new(name, &hash, role).expect("the name and the hash are valid");
    let is_open = guarded == Guarded::Open;
    let users = [user("anna", Role::Operator), user("bert", Role::ReadOnly)];
    let heard = Arc::clone(&audit);
    let news = Arc::<Mutex<Vec<News>>>::default();
    let told = Arc::clone(&news);
    let notes = Arc::<TextNotes>::default();
    let secret = ShownSetting {
        section: "admin".to_owned(),
        key: "token".to_owned(),
        value: Some("********".to_owned()),
        origin: "default".to_owned(),
    };
    let settings = Settings {
        token: (!is_open).then(|| TOKEN.into()),
        users: if is_open { Arc::default() } else { users.as_slice().into() },
        metrics_token: None,
        guard: if is_open { Guard::open() } else { Guard::strict() },
        metrics_queues,
        in_flight_limits: InFlightLimits { standard: 100, fifo: 100 },
        durations: Arc::default(),
        store_syncs: Arc::default(),
        upkeep: Arc::new(UpkeepReport::new(Arc::new(FixedClock), drop)),
        replies: Replies::new(1 << 20),
        dropped: Arc::default(),
        connections: Arc::default(),
        firing: Arc::default(),
        version: "0",
        account: AccountId(0),
        region: "us-east-1".into(),
        time: Arc::clone(&clock) as Arc<dyn TimeSource>,
        entropy: Arc::new(CountingEntropy::default()),
        audit: Arc::new(move |entry| heard.lock().push(entry.clone())),
        shown: [secret].as_slice().into(),
        undo_window,
        alarms: alarms.as_slice().into(),
        news: Arc::new(move |news| told.lock().extend_from_slice(news)),
        notes: Arc::clone(&notes) as Arc<dyn MessageNotes>,
    };
    let board = Arc::new(Board::default());
    board.serving(Running {
        engine: Arc::clone(&engine),
        others: Vec::new(),
        home: tokio::runtime::Handle::current(),
        push_attempts: Box::new(|| [("ok", 0), ("failed", 0), ("unreached", 0)]),
        latest_pushes: Box::new(Vec::new),
        open_circuits: Box::new(Vec::new),
        disk: Some(Box::new(|| Some(DiskSpace { free: 25, all: 100 }))),
        backups,
        fleet,
        store_bytes: None,
        place: StorePlace {
            kind: "memory",
            text: "memory".to_owned(),
            owner: "here".to_owned(),
            epoch: 3,
            since: Timestamp(5),
        },
    });
    Rig { console: Console::new(board, settings), engine, store, clock, audit, news, notes }
}

impl Rig {
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.change("POST", path, body).await
    }

    pub async fn change(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, &[("content-type", "application/json")], body).await
    }

    /// A change that must succeed.
    pub async fn done(&self, method: &str, path: &str, body: &str) -> Value {
        let answer = self.change(method, path, body).await;
        assert!(answer.status < 300, "{method} {path} {body}: {answer:?}");
        answer.body
    }

    /// A request below `/api/v1`.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let reply = self.ask_at(&format!("/api/v1{path}"), method, headers, body).await;
        let read = serde_json::from_slice(&reply.body);
        Answer { status: reply.status.as_u16(), body: read.unwrap_or(Value::Null), headers: reply.headers }
    }

    pub async fn ask_at(&self, target: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.ask_from([127, 0, 0, 1].into(), (target, method), headers, body).await
    }

    /// The same from another address.
    pub async fn ask_from(
        &self,
        address: IpAddr,
        (target, method): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        let mut all = Headers::default();
        let host = ("host", "localhost:9325");
        let given = headers.iter().any(|(name, _)| *name == "host");
        for (name, value) in headers.iter().chain((!given).then_some(&host)) {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("the test names headers of HTTP");
            all.append(name, HeaderValue::from_str(value).expect("the test writes values of headers"));
        }
        let request = Request {
            method: Method::from_bytes(method.as_bytes()).expect("the test names methods of HTTP"),
            uri: target.parse().expect("the test writes targets of HTTP"),
            headers: all,
            body: Bytes::copy_from_slice(body.as_bytes()),
            id: RequestId::from_chance(0),
            received_at: Timestamp::ZERO,
            peer: (address, 1).into(),
            secure: false,
            room: Default::default(),
        };
        self.console.answer(&request).await
    }

    /// The metrics.
    pub async fn metrics(&self) -> String {
        let reply = self.ask_at("/metrics", "GET", &[], "").await;
        String::from_utf8(reply.body.to_vec()).expect("metrics are text")
    }

    /// Waits until the audit log has this number of entries.
    pub async fn until_audited(&self, entries: usize) {
        let noted = async {
            while self.audit.lock().len() < entries {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let noted = tokio::time::timeout(Duration::from_secs(30), noted).await;
        noted.unwrap_or_else(|_| panic!("{entries} entries are expected: {:?}", self.audited()));
    }

    /// The audit log, in short lines.
    pub fn audited(&self) -> Vec<String> {
        let line =
            |entry: &AuditEntry| format!("{} {} {} {}", entry.who, entry.action, entry.target, entry.outcome);
        self.audit.lock().iter().map(line).collect()
    }
}
