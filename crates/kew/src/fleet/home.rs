//! The shards of a fleet as they lie in PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kew_core::{Entropy, ShardId, ShardPlace};
use kew_fleet::{CopiedShard, Goes, Home, Kept};
use kew_log_pg::{PgDisk, PgError, PgMove, PgNode, PgStore};
use kew_store::token::TokenKey;
use kew_store_log::{LogOptions, LogStore};
use parking_lot::Mutex;

use super::reports::ShardReports;
use crate::config::PgUrl;
use crate::log::Log;
use crate::reports::shards::FailingShards;
use crate::store::kept::KeptStore;
use crate::store::opening;

/// How a shard's store is opened.
#[derive(Clone)]
pub struct Opens {
    /// Its settings; the place of the shard is put in.
    pub options: LogOptions,
    /// The chance that its ids come from.
    pub entropy: Arc<dyn Entropy>,
    /// What hears how its work beside requests goes.
    pub reports: Arc<FailingShards>,
    /// Where that is logged.
    pub log: Log,
}

/// The shards that this node owns, and how it takes others.
pub(super) struct PgHome {
    node: PgNode,
    url: PgUrl,
    opens: Opens,
    /// Guards the logs of the shards that this node owns; held for a moment.
    disks: Mutex<BTreeMap<ShardId, Taken>>,
}

/// The log of a shard, and when this node took it, by the database's clock.
type Taken = (PgDisk, u64);

impl PgHome {
    pub fn new(node: PgNode, url: PgUrl, opens: Opens) -> Self {
        Self { node, url, opens, disks: Mutex::default() }
    }

    /// The log of a shard that this node owns.
    pub fn disk(&self, shard: ShardId) -> Option<PgDisk> {
        self.taken(shard).map(|(disk, _)| disk)
    }

    /// The same, with when this node took it.
    pub fn taken(&self, shard: ShardId) -> Option<Taken> {
        self.disks.lock().get(&shard).cloned()
    }

    fn open(&self, shard: ShardId, disk: &PgDisk) -> Result<Arc<LogStore>, String> {
        let place = ShardPlace { shard, of: self.node.shards() };
        let key = disk.receipts_key().map(TokenKey);
        let options = LogOptions { place, key, ..self.opens.options };
        let (entropy, log) = (Arc::clone(&self.opens.entropy), self.opens.log);
        let opened = opening::open_postgres(disk, &self.url, options, entropy, log, |_| {});
        opened.map_err(|error| error.to_string())
    }
}

impl PgHome {
    /// Copies a shard to another database, while it is served.
    fn copy(
        &self,
        shard: ShardId,
        store: &LogStore,
        database: u16,
        goes_on: Arc<AtomicBool>,
    ) -> Result<CopiedShard, String> {
        let disk = self.disk(shard).ok_or("this node does not keep the shard any more")?;
        let is_wanted = Arc::new(move || goes_on.load(Ordering::Acquire));
        let said = |error: PgError| error.to_string();
        let mut moving = self.node.begin_move(&disk, database, is_wanted).map_err(said)?;
        // Closing writes another one, of what changes from now on. If this one fails, that one is longer.
        let _written = store.checkpoint();
        if let Err(error) = moving.copy_again() {
            moving.give_up();
            return Err(said(error));
        }
        let moving = Arc::new(Mutex::new(Some(moving)));
        let given_up = Arc::clone(&moving);
        Ok(CopiedShard {
            finish: Box::new(move || moving.lock().as_mut().map_or(Ok(()), PgMove::finish).map_err(said)),
            give_up: Box::new(move || {
                let moving = given_up.lock().take();
                if let Some(moving) = moving {
                    moving.give_up();
                }
            }),
        })
    }
}

/// What is closed when a shard leaves this node.
struct Closing {
    disks: Arc<PgHome>,
    shard: ShardId,
    /// `None` once it is closed.
    kept: Option<KeptStore>,
    reports: Arc<ShardReports>,
    log: Log,
}

impl Drop for Closing {
    fn drop(&mut self) {
        // One that came too late and is not closed: without the last handle of its log the shard is given up.
        if self.kept.is_some() {
            self.forget();
            self.reports.end();
        }
    }
}

impl Closing {
    fn forget(&self) {
        let disk = self.disks.disks.lock().remove(&self.shard);
        // Without the lock: this may wait.
        drop(disk);
    }

    fn close(mut self, goes: Goes) {
        let Some(kept) = self.kept.take() else { return };
        self.forget();
        // The store is left as it is then: the next owner recovers it.
        if let Err(cause) = kept.close_for(self.log, goes) {
            let line = "a shard could not be closed in order; its next owner recovers it";
            self.log.tell(crate::log::Level::Warn, line, &[("cause", &cause)]);
        }
        self.reports.end();
    }
}

/// The home as the fleet's contract has it.
pub(super) struct SharedHome(pub Arc<PgHome>);

impl Home for SharedHome {
    fn take(&self, shard: ShardId) -> Result<Option<Kept>, String> {
        let home = &self.0;
        let disk = match home.node.take(shard) {
            Ok(disk) => disk,
            // It is another node's, or was moved to another database a moment ago.
            Err(PgError::Owned { .. } | PgError::Elsewhere { .. }) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let taken_at = disk.tenure().now_ms();
        let store = match home.open(shard, &disk) {
            Ok(store) => store,
            Err(why) => {
                disk.give_up();
                return Err(why);
            }
        };
        let whole = Arc::new(home.opens.reports.of(shard));
        let reports = Arc::new(ShardReports::new(whole, Arc::clone(disk.tenure())));
        store.report_to(Arc::clone(&reports) as _);
        home.disks.lock().insert(shard, (disk.clone(), taken_at));
        let tenure = Arc::clone(disk.tenure());
        let kept = KeptStore { store: Arc::clone(&store), place: home.url.to_string(), owned: Some(disk) };
        let kept = Some(kept);
        let closing = Closing { disks: Arc::clone(home), shard, kept, reports, log: home.opens.log };
        let (watched, log, prepared) = (Arc::clone(&tenure), Arc::clone(&store), Arc::clone(&store));
        let (copies, copied) = (Arc::clone(home), Arc::clone(&store));
        Ok(Some(Kept {
            store: Arc::new(PgStore::new(store, tenure)),
            over: Box::new(move || {
                let over = watched.over().map(ToOwned::to_owned);
                over.or_else(|| kew_store::Store::health(&*log).err().map(|error| error.to_string()))
            }),
            prepare: Arc::new(move || {
                // Closing writes another one, of what changes from now on. If this one fails, that one is longer.
                let _written = prepared.checkpoint();
            }),
            copy_to: Arc::new(move |database, goes_on| copies.copy(shard, &copied, database, goes_on)),
            close: Box::new(move |goes| closing.close(goes)),
        }))
    }
}
