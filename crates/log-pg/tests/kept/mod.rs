//! Stores on a PostgreSQL of the test's own, as contracts and histories ask for them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use kew_core::{ShardCount, ShardId, Timestamp};
use kew_log_pg::server::{PgServer, name_in};
use kew_log_pg::{Founding, Node, PeerSecret, PgError, PgStore, Ready, node_id, own};
use kew_store::Store;
use kew_store::contract::model::SeededEntropy;
use kew_store::contract::{Ending, Factory};
use kew_store_log::{LogOptions, LogStore};
use kew_testing::{UpkeepByCommits, Wrapped};
use parking_lot::Mutex;

/// The server of this test program.
pub fn server() -> &'static PgServer {
    static SERVER: OnceLock<PgServer> = OnceLock::new();
    SERVER.get_or_init(|| PgServer::start(&["fsync=off", "full_page_writes=off"]).unwrap())
}

/// Forgets every owner, as time would.
pub fn forget_owners(url: &str) {
    server().psql(name_in(url), "DELETE FROM kew_node").unwrap();
}

/// Takes the shard of a database.
pub fn take(url: &str) -> Ready {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    own_first(url, run.into()).unwrap()
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

    fn start(&self, url: String) -> Arc<dyn Store> {
        let ready = take(&url);
        let tenure = Arc::clone(ready.disk.tenure());
        let entropy = Arc::new(SeededEntropy::new(self.starts.fetch_add(1, Ordering::Relaxed)));
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
        self.start(server().database().unwrap())
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
        forget_owners(&url);
        self.start(url)
    }
}
