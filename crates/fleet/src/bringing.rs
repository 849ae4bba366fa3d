//! A shard that comes to this node: what is done to it before the first request reaches it.

use std::sync::Arc;
use std::time::Duration;

use kew_core::command::{ListMoves, ReleaseOwners};
use kew_core::rules::retention::ExpiryHold;
use kew_core::{Ask, Command, Outcome, QueueKey, ShardId, TaskState, Timestamp, ask};
use kew_engine::{Brought, Engine};
use kew_store::{Store, StoreError};

use crate::ahead::Ahead;
use crate::asking::away;
use crate::inner::Inner;
use crate::map::MapPart;

/// How long a shard waits for the comparison of its names that lie in another database than itself.
const COMPARES_WITHIN: Duration = Duration::from_secs(1);

/// A shard that is ready to be served.
pub(crate) struct Ready {
    /// Its store, as the fleet sees it.
    pub store: Arc<dyn Store>,
    /// What it brings along.
    pub brought: Brought,
    /// Whether its names were compared. Where they lie in a database that is silent that is done later.
    pub is_compared: bool,
}

/// What a shard brings along. Leases without an end that other nodes took end now: their holders serve it no more.
pub(crate) async fn bring(fleet: Arc<Inner>, shard: ShardId, store: Arc<dyn Store>) -> Result<Ready, String> {
    let engine = fleet.engine().ok_or_else(|| "the node ends".to_owned())?;
    // Before the clock is judged: should it leap meanwhile, these steps see nothing of it.
    let now = engine.now();
    let _held = hold_expiry(&engine, &*store);
    let store = Ahead::of(store, now);
    let queues = match taken::<ask::Queues>(&store, now, ()).await? {
        Outcome::Queues(queues) => queues,
        _ => Vec::new(),
    };
    let tasks = match taken::<ask::ListMoves>(&store, now, ListMoves { source: None }).await? {
        Outcome::Moves(tasks) => tasks,
        _ => Vec::new(),
    };
    taken::<ask::ReleaseOwners>(&store, now, ReleaseOwners { except: engine.owner() }).await?;
    let keys: Vec<QueueKey> = queues.iter().map(|queue| queue.key.clone()).collect();
    let mut is_compared = fleet.reaches_names_of(shard);
    if is_compared {
        let settled = fleet.names.settle(shard, keys);
        let settled = match fleet.has_names_elsewhere(shard) {
            true => tokio::time::timeout(COMPARES_WITHIN, settled).await.ok(),
            false => Some(settled.await),
        };
        is_compared = match settled {
            None => false,
            Some(Ok(())) => true,
            Some(Err(StoreError::Unavailable { .. })) if fleet.has_names_elsewhere(shard) => false,
            Some(Err(error)) => return Err(format!("its names could not be compared: {error}")),
        };
    }
    fleet.note_renames(shard, &queues);
    let tasks = tasks.into_iter().filter(|task| task.state == TaskState::Running).collect();
    Ok(Ready { store, brought: Brought { queues, tasks, hold: None }, is_compared })
}

impl Inner {
    /// Whether the names of a shard's queues lie in the shard's own database, or in one that is not silent. Names that
    /// no queue has any more stay with the shard until they are compared, which loses nothing: its queues have theirs.
    pub(crate) fn reaches_names_of(&self, shard: ShardId) -> bool {
        !self.has_names_elsewhere(shard) || self.map.read().parts().next().is_some_and(MapPart::is_fresh)
    }

    /// Whether the names of a shard's queues lie in another database than the shard.
    fn has_names_elsewhere(&self, shard: ShardId) -> bool {
        self.map.read().database_of(shard) > 0
    }

    /// Compares the names of a shard that is served already.
    pub(crate) async fn compare_names(&self, shard: ShardId) -> Result<(), StoreError> {
        let _one_at_a_time = self.directory.naming(shard).await;
        let Some((engine, store)) = self.engine().zip(self.places.here(shard)) else { return Ok(()) };
        if !self.reaches_names_of(shard) {
            return Err(away("the database of names does not answer"));
        }
        // None of them gets or loses its name while the shard's names are held.
        let queues = self.list(&engine, shard).await;
        // If it left meanwhile and came back, another owner may have made queues that are not in the list.
        if !self.places.here(shard).is_some_and(|now| Arc::ptr_eq(&now, &store)) {
            return Err(away("the shard has left this node"));
        }
        self.names.settle(shard, queues.values().map(|queue| queue.key.clone()).collect()).await
    }
}

/// Holds expiry of a shard that comes as it is to be held.
pub(crate) fn hold_expiry(engine: &Engine, store: &dyn Store) -> Option<ExpiryHold> {
    let (stored, newest) = (store.expiry_hold(), store.newest_instant());
    let hold = engine.hold_expiry_of_shard(stored, newest);
    if hold != stored {
        // At the newest instant: nothing between it and now has happened to the shard yet.
        drop(store.step(newest, &Command::HoldExpiry(hold)));
    }
    hold
}

/// Takes a step in a store that no engine stands on yet.
async fn taken<A: Ask>(store: &Arc<dyn Store>, now: Timestamp, input: A::Input) -> Result<Outcome, String> {
    let submission = store.step(now, &A::command(input));
    let committed = Arc::clone(store);
    // It may need a new segment, which takes a while. A failure shows in the answer.
    let _committed = tokio::task::spawn_blocking(move || committed.commit()).await;
    submission.await.map_err(|error| error.to_string())
}
