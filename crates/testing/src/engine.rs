//! A store and a running engine, below a front-end under test.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kew_core::Entropy;
use kew_engine::{ClockKind, Engine, Options};
use kew_store::{MemoryStore, Store};
use kew_store_log::{LogOptions, LogStore, RealDisk, SegmentOptions};
use tempfile::TempDir;

use crate::{CountingEntropy, FixedClock, NOW};

/// A store, and the directory of its files when it has one.
pub struct TestStore {
    /// The store itself.
    pub store: Arc<dyn Store>,
    directory: Option<TempDir>,
}

impl TestStore {
    /// An empty store in memory.
    pub fn memory() -> Self {
        Self::of(Arc::new(MemoryStore::new(Arc::new(CountingEntropy::default()))))
    }

    /// A store that the test made.
    pub fn of(store: Arc<dyn Store>) -> Self {
        Self { store, directory: None }
    }

    /// The empty store that `KEW_TEST_STORE` names: `memory`, which is the default, or `log`, the embedded one in a
    /// directory of its own.
    pub fn from_environment() -> Self {
        match std::env::var("KEW_TEST_STORE").as_deref() {
            Err(_) | Ok("memory") => Self::memory(),
            Ok("log") => Self::log(),
            Ok(other) => panic!("KEW_TEST_STORE is memory or log, not {other}"),
        }
    }

    fn log() -> Self {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let disk = RealDisk::open(directory.path()).expect("a new directory opens as a disk");
        let segments = SegmentOptions { first_bytes: 64 << 10, ..SegmentOptions::default() };
        let options = LogOptions { segments, ..LogOptions::default() };
        let entropy = Arc::new(CountingEntropy::default());
        let (store, _) =
            LogStore::open(Arc::new(disk), options, entropy, NOW).expect("an empty directory opens");
        Self { store: Arc::new(store), directory: Some(directory) }
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Starts an engine with a virtual clock at [`NOW`], with its timers and its moves of messages.
///
/// In a box that hides its type, or each test program would compile the engine's timers and moves again.
pub fn start_engine(
    store: &TestStore,
    entropy: Arc<dyn Entropy>,
    options: Options,
) -> Pin<Box<dyn Future<Output = Arc<Engine>> + Send>> {
    let store = Arc::clone(&store.store);
    Box::pin(async move {
        let options = Options { clock: ClockKind::Virtual, ..options };
        let engine = Engine::start(store, Arc::new(FixedClock), entropy, options).await;
        let engine = engine.expect("an engine starts over an empty store");
        let (timers, moves) = (Arc::clone(&engine), Arc::clone(&engine));
        tokio::spawn(async move { timers.run_timers().await });
        tokio::spawn(async move { moves.run_moves().await });
        engine
    })
}

/// Moves engine time ahead, through everything that is due on the way.
pub async fn advance(engine: &Engine, by: Duration) {
    engine.advance(by).await.expect("the clock of a test's engine is virtual");
}
