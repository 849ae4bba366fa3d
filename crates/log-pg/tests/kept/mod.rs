//! Stores on a PostgreSQL of the test's own, as contracts and histories ask for them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kew_core::{AccountId, QueueKey, ShardCount, ShardId, Timestamp};
use kew_log_pg::server::{PgServer, name_in};
use kew_log_pg::{Founding, Node, PeerSecret, PgDisk, PgError, PgStore, Ready, node_id, own, own_for};
use kew_store::Store;
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store_log::{BatchMark, Disk, LogOptions, LogStore};
use kew_testing::{UpkeepByCommits, Wrapped};
use parking_lot::Mutex;

/// A machine that runs many tests may stand still for this long. Bounds of what takes seconds are longer by it.
pub const STALL: Duration = Duration::from_secs(5);
/// The tenure of stores that are to answer always: no stall ends it, and no test waits for its end.
const LONG_TENURE: Duration = Duration::from_secs(60);

/// The server of this test program.
pub fn server() -> &'static PgServer {
    static SERVER: OnceLock<PgServer> = OnceLock::new();
    SERVER.get_or_init(|| PgServer::start(&["fsync=off", "full_page_writes=off"]).unwrap())
}

/// A number of shards.
pub fn count(shards: u16) -> ShardCount {
    ShardCount::new(shards).unwrap()
}

/// Whether a shard was refused because another node has it.
pub fn is_owned<T>(taken: &Result<T, PgError>) -> bool {
    matches!(taken, Err(PgError::Owned { .. }))
}

/// Waits for 20 s at most, and says how long it took.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

/// Runs a task to its end.
pub fn block_on<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task)
}

/// Makes the first segment of a shard, durably.
pub fn write(disk: &PgDisk, bytes: &[u8]) {
    let file = disk.create("segments/1").unwrap();
    file.append(0, bytes, BatchMark { number: 1, must_sync: true }).unwrap();
    file.sync_data().unwrap();
}

/// The first three bytes of that segment.
pub fn read(disk: &PgDisk) -> Vec<u8> {
    let file = disk.open("segments/1").unwrap();
    let mut bytes = vec![0; 3];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// The key of a queue.
pub fn key(name: &str) -> QueueKey {
    QueueKey::new(AccountId(7), "here", name)
}

/// Calls `take` as if every owner had been silent for too long.
pub fn take_over<T>(url: &str, mut take: impl FnMut() -> Result<T, PgError>) -> T {
    let begun = Instant::now();
    loop {
        server().psql(name_in(url), "DELETE FROM kew_node").unwrap();
        match take() {
            Ok(taken) => return taken,
            // A renewal that was under way wrote the owner's row once more.
            Err(PgError::Owned { .. }) if begun.elapsed() < Duration::from_secs(60) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// A run of a node that no other one has.
fn next_run() -> u128 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed).into()
}

/// Takes the shard of a database, for a long tenure.
pub fn take(url: &str) -> Ready {
    own_long(url).unwrap()
}

/// The same for a database whose owner vanished.
pub fn take_from_vanished(url: &str) -> Ready {
    take_over(url, || own_long(url))
}

fn own_long(url: &str) -> Result<Ready, PgError> {
    let (node, begun) = (node(next_run()), Instant::now());
    loop {
        match own_for(LONG_TENURE, url, ShardId(0), &node, founding(ShardCount::ONE)) {
            // The server cuts a transaction in which nothing comes for 2 s, and a busy machine may stand still for so
            // long. A node tries again.
            Err(PgError::Unreachable(_)) if begun.elapsed() < LONG_TENURE => {}
            opened => return opened,
        }
    }
}

/// Takes the first shard of a database, or learns why it cannot be taken.
pub fn own_first(url: &str, run: u128) -> Result<Ready, PgError> {
    own(url, ShardId(0), &node(run), founding(ShardCount::ONE))
}

/// A run of a node.
pub fn node(run: u128) -> Node {
    Node::alone(&node_id("test", run), "test")
}

/// What a test makes a store with.
pub fn founding(shards: ShardCount) -> Founding {
    Founding { shards, secret: PeerSecret([7; 32]) }
}

/// A store that does its upkeep after every few commits.
type Kept = Wrapped<PgStore, UpkeepByCommits<PgStore>>;

/// Opens such stores, each in a database of its own.
pub struct OnPostgres {
    options: LogOptions,
    commits_per_upkeep: u32,
    newest: Mutex<Option<(String, Arc<Kept>)>>,
    starts: AtomicU64,
}

impl OnPostgres {
    pub fn new(options: LogOptions, commits_per_upkeep: u32) -> Self {
        Self { options, commits_per_upkeep, newest: Mutex::new(None), starts: AtomicU64::new(1) }
    }

    fn start(&self, url: String, ready: Ready) -> Arc<dyn Store> {
        let tenure = Arc::clone(ready.disk.tenure());
        let entropy = Arc::new(SeededEntropy::of_start(self.starts.fetch_add(1, Ordering::Relaxed)));
        let (store, _) = LogStore::open(Arc::new(ready.disk), self.options, entropy, Timestamp(0)).unwrap();
        let store = PgStore::new(Arc::new(store), tenure);
        let wrap = UpkeepByCommits::new(self.commits_per_upkeep, |store: &PgStore| store.log());
        let store = Arc::new(Kept { store, wrap });
        *self.newest.lock() = Some((url, store.clone()));
        store
    }

    /// Removes the database of a store that is over: thousands of them would fill the disk.
    fn remove_newest(&self) {
        let Some((url, newest)) = self.newest.lock().take() else { return };
        drop(newest);
        // Another test's failure may have ended the server.
        let _removed = server().psql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", name_in(&url)));
    }
}

impl Drop for OnPostgres {
    fn drop(&mut self) {
        self.remove_newest();
    }
}

impl Factory for OnPostgres {
    fn open(&self) -> Arc<dyn Store> {
        self.remove_newest();
        let url = server().database().unwrap();
        let ready = take(&url);
        self.start(url, ready)
    }

    fn remembers(&self) -> bool {
        true
    }

    fn reopen(&self, store: Arc<dyn Store>, ending: Ending) -> Arc<dyn Store> {
        let (url, newest) = self.newest.lock().take().unwrap();
        drop(store);
        if ending == Ending::Close {
            newest.store.log().close().unwrap();
        }
        drop(newest);
        let ready = take_from_vanished(&url);
        self.start(url, ready)
    }
}
