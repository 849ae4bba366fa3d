//! Health, whatever the store does.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kew_console::{
    Attribute, Board, Console, InFlightLimits, MessageNotes, Running, Settings, StorePlace, UpkeepReport,
};
use kew_core::command::CreateQueue;
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{AccountId, Command, Policy, QueueKey, Reports, Timestamp, Work};
use kew_engine::{Engine, Options, TimeSource};
use kew_http::{
    Guard, Handler, HeaderValue, Headers, Method, Replies, Reply, Request, RequestId, StatusCode,
};
use kew_store::{MemoryStore, Store, StoreError, Submission};
use kew_testing::{CountingEntropy, FixedClock, Wrap, Wrapped};

/// Nothing here has attributes.
struct NoNotes;

impl MessageNotes for NoNotes {
    fn write(&self, _: &str, _: &[Attribute]) -> Result<bytes::Bytes, String> {
        Err("there are no attributes here".to_owned())
    }

    fn read(&self, _: &kew_core::Content) -> Vec<Attribute> {
        Vec::new()
    }
}

/// A store that can be held up, and that can have failed.
type Troubled = Wrapped<MemoryStore, Troubles>;

#[derive(Default)]
struct Troubles {
    /// Counting waits for it.
    held: Mutex<()>,
    failed: Mutex<bool>,
}

impl Wrap<MemoryStore> for Troubles {
    fn step(&self, store: &MemoryStore, now: Timestamp, command: &Command) -> Submission {
        let _held: Option<MutexGuard<'_, ()>> = matches!(command, Command::Counts(_))
            .then(|| self.held.lock().expect("no test thread panics while it holds the store"));
        store.step(now, command)
    }

    fn health(&self, _store: &MemoryStore) -> Result<(), StoreError> {
        match *self.failed.lock().expect("no test thread panics while it holds the failure") {
            true => Err(StoreError::FailStopped { cause: "the disk is gone".into() }),
            false => Ok(()),
        }
    }
}

async fn console(store: &Arc<Troubled>) -> (Arc<Console>, Arc<Board>) {
    console_with(store, Arc::new(UpkeepReport::new(Arc::new(FixedClock), drop))).await
}

async fn console_with(store: &Arc<Troubled>, upkeep: Arc<UpkeepReport>) -> (Arc<Console>, Arc<Board>) {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let engine =
        Engine::start(store, Arc::new(FixedClock), Arc::new(CountingEntropy::default()), Options::default())
            .await;
    let engine = engine.expect("an engine starts over the test's store");
    let create = CreateQueue {
        key: QueueKey::new(AccountId(0), "us-east-1", "orders"),
        policy: Policy::standard(),
        documents: Default::default(),
    };
    engine.create_queue(create).await.expect("the queue's name is free");
    let board = Arc::new(Board::default());
    let settings = Settings {
        undo_window: Duration::ZERO,
        token: None,
        users: Arc::default(),
        metrics_token: None,
        guard: Guard::open(),
        metrics_queues: 10,
        in_flight_limits: InFlightLimits { standard: 1, fifo: 1 },
        durations: Arc::default(),
        store_syncs: Arc::default(),
        upkeep,
        replies: Replies::new(1 << 20),
        dropped: Arc::default(),
        connections: Arc::default(),
        firing: Arc::default(),
        version: "0",
        account: AccountId(0),
        region: "us-east-1".into(),
        time: Arc::new(FixedClock),
        entropy: Arc::new(CountingEntropy::default()),
        audit: Arc::new(|_| {}),
        shown: Arc::default(),
        alarms: Arc::default(),
        news: Arc::new(|_| {}),
        notes: Arc::new(NoNotes),
    };
    let console = Arc::new(Console::new(Arc::clone(&board), settings));
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE, "it is starting");
    let home = tokio::runtime::Handle::current();
    let push_attempts = Box::new(|| [("ok", 2), ("failed", 1), ("unreached", 0)]);
    let latest_pushes = Box::new(Vec::new);
    let open_circuits = Box::new(Vec::new);
    let place = StorePlace {
        kind: "memory",
        text: "memory".to_owned(),
        owner: "here".to_owned(),
        epoch: 0,
        since: Timestamp::ZERO,
    };
    board.serving(Running {
        engine,
        others: Vec::new(),
        home,
        push_attempts,
        latest_pushes,
        open_circuits,
        disk: None,
        backups: None,
        fleet: None,
        store_bytes: None,
        place,
    });
    (console, board)
}

async fn ask(console: &Console, path: &'static str) -> Reply {
    ask_with(console, Method::GET, path, None).await
}

async fn ask_with(
    console: &Console,
    method: Method,
    path: &'static str,
    content_type: Option<&'static str>,
) -> Reply {
    let mut headers = Headers::default();
    if let Some(content_type) = content_type {
        headers.insert(kew_http::header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(kew_http::header::HOST, HeaderValue::from_static("localhost"));
    let request = Request {
        method,
        uri: path.parse().expect("the path is a URI"),
        headers,
        body: Default::default(),
        id: RequestId::from_chance(0),
        received_at: Timestamp::ZERO,
        peer: ([127, 0, 0, 1], 1).into(),
        secure: false,
        room: Default::default(),
    };
    console.answer(&request).await
}

fn store() -> Arc<Troubled> {
    Arc::new(Troubled {
        store: MemoryStore::new(Arc::new(CountingEntropy::default())),
        wrap: Troubles::default(),
    })
}

// One thread for all tasks, as the program has it: a task that blocks it blocks all others.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "for so long the store hangs, on another thread")]
async fn a_store_that_hangs_makes_no_health_check_late() {
    let store = store();
    let (console, _board) = console(&store).await;
    let held = store.wrap.held.lock().expect("no test thread panics while it holds the store");
    let scraping = Arc::clone(&console);
    let scrape = tokio::spawn(async move { ask(&scraping, "/metrics").await });
    tokio::task::yield_now().await;
    assert_eq!(ask(&console, "/livez").await.status, StatusCode::OK);
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::OK);
    assert!(!scrape.is_finished());
    drop(held);
    assert_eq!(scrape.await.expect("the scrape does not panic").status, StatusCode::OK);
}

#[tokio::test]
async fn a_server_that_failed_or_stops_is_not_ready_and_says_why() {
    let store = store();
    let (console, board) = console(&store).await;
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::OK);
    *store.wrap.failed.lock().expect("no test thread panics while it holds the failure") = true;
    let reply = ask(&console, "/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.body, "not ready: the store stopped: the disk is gone\n");
    board.stopping();
    assert_eq!(ask(&console, "/readyz").await.body, "not ready: stopping\n");
    assert_eq!(ask(&console, "/livez").await.status, StatusCode::OK);
}

/// A clock that a test sets.
#[derive(Default)]
struct Steady(Mutex<Duration>);

impl TimeSource for Steady {
    fn system(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn steady(&self) -> Duration {
        *self.0.lock().expect("no test thread panics while it holds the clock")
    }
}

#[tokio::test]
async fn upkeep_that_fails_shows_in_the_metrics_at_once_and_in_readyz_when_it_lasts() {
    let clock = Arc::new(Steady::default());
    let upkeep = Arc::new(UpkeepReport::new(clock.clone(), drop));
    let (console, _board) = console_with(&store(), upkeep.clone()).await;
    upkeep.failed(Work::Checkpoint, "no space left");
    upkeep.scrubbed(700);
    upkeep.scrubbed(77);
    upkeep.scrub_ended(Timestamp(1_700_000_000_999));
    let metrics = ask(&console, "/metrics").await.body;
    let metrics = String::from_utf8(metrics.to_vec()).expect("metrics are UTF-8");
    for line in [
        "kew_upkeep_failures_total{work=\"checkpoint\"} 1\n",
        "kew_upkeep_failing{work=\"checkpoint\"} 1\n",
        "kew_upkeep_failing{work=\"spare\"} 0\n",
        "kew_scrub_bytes_total 777\n",
        "kew_scrub_last_pass_timestamp_seconds 1700000000\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert_eq!(ask(&console, "/readyz").await.body, "ready\n");
    *clock.0.lock().expect("no test thread panics while it holds the clock") = Duration::from_secs(90);
    let reply = ask(&console, "/readyz").await;
    assert_eq!(reply.status, StatusCode::OK, "requests are served");
    assert_eq!(reply.body, "ready\ncheckpoint has failed for 90 seconds: no space left\n");
    upkeep.succeeded(Work::Checkpoint);
    assert_eq!(ask(&console, "/readyz").await.body, "ready\n");
}

#[tokio::test]
async fn expiry_that_a_leap_holds_is_reported_until_the_clock_is_confirmed() {
    let store = store();
    let hold = ExpiryHold { through: Timestamp(500), until: HoldEnd::Confirmed };
    drop(store.store.step(Timestamp(600), &Command::HoldExpiry(Some(hold))));
    let (console, _board) = console(&store).await;
    let text = |reply: &Reply| String::from_utf8_lossy(&reply.body).into_owned();
    let metric = async || text(&ask(&console, "/metrics").await).contains("kew_clock_leap_held 1\n");
    let ready = ask(&console, "/readyz").await;
    assert_eq!(ready.status, StatusCode::OK);
    let told = text(&ready);
    assert!(told.starts_with("ready\n") && told.contains("/api/v1/clock/confirm"), "{told}");
    assert!(metric().await);
    const CONFIRM: &str = "/api/v1/clock/confirm";
    const JSON: Option<&str> = Some("application/json");
    for (method, content_type, status) in [
        (Method::GET, JSON, StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, None, StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (Method::POST, Some("text/plain"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        assert_eq!(ask_with(&console, method, CONFIRM, content_type).await.status, status);
    }
    assert!(metric().await, "nothing was confirmed by that");
    for confirmed in ["{\"confirmed\":true}", "{\"confirmed\":false}"] {
        let reply = ask_with(&console, Method::POST, CONFIRM, JSON).await;
        assert_eq!((reply.status, text(&reply).as_str()), (StatusCode::OK, confirmed));
    }
    assert!(!metric().await);
    assert_eq!(ask(&console, "/readyz").await.body, "ready\n");
    assert_eq!(store.store.expiry_hold(), None);
}
