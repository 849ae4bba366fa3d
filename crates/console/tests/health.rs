//! Health, whatever the store does.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kew_console::{Board, Console, InFlightLimits, Running, Settings};
use kew_core::command::CreateQueue;
use kew_core::{AccountId, Command, Entropy, Policy, QueueKey, Timestamp};
use kew_engine::{Engine, Options, TimeSource};
use kew_http::{Guard, Handler, HeaderValue, Headers, Method, Reply, Request, RequestId, StatusCode};
use kew_store::{MemoryStore, Store, StoreError, Submission};

/// A store that can be held up, and that can have failed.
struct Troubled {
    store: MemoryStore,
    /// Counting waits for it.
    held: Mutex<()>,
    failed: Mutex<bool>,
}

impl Store for Troubled {
    fn step(&self, now: Timestamp, command: &Command) -> Submission {
        let _held: Option<MutexGuard<'_, ()>> =
            matches!(command, Command::Counts(_)).then(|| self.held.lock().expect("nobody panics"));
        self.store.step(now, command)
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.store.next_due()
    }

    fn newest_instant(&self) -> Timestamp {
        self.store.newest_instant()
    }

    fn health(&self) -> Result<(), StoreError> {
        match *self.failed.lock().expect("nobody panics") {
            true => Err(StoreError::FailStopped { cause: "the disk is gone".into() }),
            false => Ok(()),
        }
    }
}

struct Same;

impl TimeSource for Same {
    fn system(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

impl Entropy for Same {
    fn bits(&self) -> u64 {
        1
    }

    fn wide_bits(&self) -> u128 {
        1
    }
}

async fn console(store: &Arc<Troubled>) -> (Arc<Console>, Arc<Board>) {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let engine = Engine::start(store, Arc::new(Same), Arc::new(Same), Options::default()).await;
    let engine = engine.expect("it starts");
    let create = CreateQueue {
        key: QueueKey::new(AccountId(0), "us-east-1", "orders"),
        policy: Policy::standard(),
        documents: Default::default(),
    };
    engine.create_queue(create).await.expect("it is made");
    let board = Arc::new(Board::default());
    let settings = Settings {
        token: None,
        guard: Guard::open(),
        metrics_queues: 10,
        in_flight_limits: InFlightLimits { standard: 1, fifo: 1 },
        durations: Arc::default(),
        store_syncs: Arc::default(),
        version: "0",
    };
    let console = Arc::new(Console::new(Arc::clone(&board), settings));
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE, "it is starting");
    let home = tokio::runtime::Handle::current();
    let push_attempts = Box::new(|| [("ok", 2), ("failed", 1)]);
    let latest_pushes = Box::new(Vec::new);
    board.serving(Running { engine, home, push_attempts, latest_pushes, store_bytes: None });
    (console, board)
}

async fn ask(console: &Console, path: &'static str) -> Reply {
    let mut headers = Headers::default();
    headers.insert(kew_http::header::HOST, HeaderValue::from_static("localhost"));
    let request = Request {
        method: Method::GET,
        uri: path.parse().expect("it is a path"),
        headers,
        body: Default::default(),
        id: RequestId::from_chance(0),
        received_at: Timestamp::ZERO,
        peer: ([127, 0, 0, 1], 1).into(),
        secure: false,
    };
    console.answer(&request).await
}

fn store() -> Arc<Troubled> {
    Arc::new(Troubled {
        store: MemoryStore::new(Arc::new(Same)),
        held: Mutex::new(()),
        failed: Mutex::new(false),
    })
}

// One thread for all tasks, as the program has it: whoever blocks it blocks everything.
#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "for so long the store hangs, on another thread")]
async fn a_store_that_hangs_makes_no_health_check_late() {
    let store = store();
    let (console, _board) = console(&store).await;
    let held = store.held.lock().expect("nobody panics");
    let scraping = Arc::clone(&console);
    let scrape = tokio::spawn(async move { ask(&scraping, "/metrics").await });
    tokio::task::yield_now().await;
    assert_eq!(ask(&console, "/livez").await.status, StatusCode::OK);
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::OK);
    assert!(!scrape.is_finished());
    drop(held);
    assert_eq!(scrape.await.expect("it ends").status, StatusCode::OK);
}

#[tokio::test]
async fn a_server_that_failed_or_stops_is_not_ready_and_says_why() {
    let store = store();
    let (console, board) = console(&store).await;
    assert_eq!(ask(&console, "/readyz").await.status, StatusCode::OK);
    *store.failed.lock().expect("nobody panics") = true;
    let reply = ask(&console, "/readyz").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(reply.body, "not ready: the store stopped: the disk is gone\n");
    board.stopping();
    assert_eq!(ask(&console, "/readyz").await.body, "not ready: stopping\n");
    assert_eq!(ask(&console, "/livez").await.status, StatusCode::OK);
}
