//! Drops the tables of files that were removed, beside everything else: somebody may read one of them for hours, such
//! as `pg_dump`, and nothing waits for that. What cannot be dropped now is tried again, one table at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::{PATIENCE, REMOVED, Shared};
use crate::PgError;
use crate::database::Change;
use crate::pool::Patience;

/// How long one try may take, with a connection for it. It waits for readers no longer than `postgres/mod.rs` says.
const TRY_MAX: Duration = Duration::from_secs(5);
/// The pause before what could not be dropped is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Tables that cannot be dropped just now. They take space.
#[derive(Clone, Debug)]
pub struct Undropped {
    /// How many.
    pub tables: usize,
    /// How long that has been so.
    pub lasts: Duration,
    /// Why the last try failed.
    pub cause: String,
}

/// Since when tries fail, and why the last one did.
pub(super) struct Failing {
    since: Instant,
    cause: String,
}

/// Drops what was removed, also by earlier owners, for as long as the log is open.
pub(super) async fn drop_removed(shared: Weak<Shared>) {
    let mut knows_earlier = false;
    loop {
        let rings = {
            let Some(shared) = shared.upgrade() else { return };
            if shared.tenure.check().is_err() {
                return;
            }
            if !knows_earlier {
                knows_earlier = shared.find_removed().await;
            }
            if shared.drop_some().await && knows_earlier {
                Some(Arc::clone(&shared.unneeded_rings))
            } else {
                None
            }
        };
        match rings {
            Some(rings) => rings.notified().await,
            None => tokio::time::sleep(AGAIN_AFTER).await,
        }
    }
}

impl Shared {
    /// Notes the files that were removed before this was opened. False when they are not known.
    async fn find_removed(&self) -> bool {
        let shard = self.tenure.shard;
        let Ok(files) =
            self.home.pool.work(Some(&self.holder), PATIENCE, move |session| session.files(shard)).await
        else {
            return false;
        };
        let removed = files.into_iter().filter(|(_, name)| name.starts_with(REMOVED));
        let mut unneeded = self.unneeded.lock();
        for (id, _) in removed {
            if !unneeded.contains(&id) {
                unneeded.push(id);
            }
        }
        true
    }

    /// Drops files that are not needed, until one cannot be dropped: that one is the last of the next round. True when
    /// none is left.
    async fn drop_some(&self) -> bool {
        let mut ids = std::mem::take(&mut *self.unneeded.lock()).into_iter();
        let mut busy = Vec::new();
        let mut failed = None;
        for id in ids.by_ref() {
            // A row that came after its table would be refused, and the shard lost.
            if !(self.journal.forget(id, 0) && self.bulk.forget(id, 0)) {
                busy.push(id);
                continue;
            }
            if let Err(error) = self.drop_one(id).await {
                busy.push(id);
                failed = Some(error.to_string());
                break;
            }
        }
        self.note_drops(failed);
        let mut unneeded = self.unneeded.lock();
        unneeded.extend(ids);
        unneeded.extend(busy);
        unneeded.is_empty()
    }

    async fn drop_one(&self, id: i64) -> Result<bool, PgError> {
        let (own, change) = (self.tenure.own(), Arc::new(Change::Drop { id }));
        let work = self.home.pool.work(Some(&self.holder), Patience::Once(TRY_MAX), move |session| {
            let change = Arc::clone(&change);
            Box::pin(async move { session.change(own, &change).await })
        });
        work.await
    }

    fn note_drops(&self, failed: Option<String>) {
        let mut failing = self.drops_fail.lock();
        *failing = failed.map(|cause| {
            let since = failing.as_ref().map_or_else(Instant::now, |failing| failing.since);
            Failing { since, cause }
        });
    }

    /// What cannot be dropped just now.
    pub fn undropped(&self) -> Option<Undropped> {
        let failing = self.drops_fail.lock();
        let failing = failing.as_ref()?;
        let tables = self.unneeded.lock().len();
        Some(Undropped { tables, lasts: failing.since.elapsed(), cause: failing.cause.clone() })
    }

    /// A file has neither a name nor a handle.
    pub(super) fn unneeded(&self, id: i64) {
        self.unneeded.lock().push(id);
        self.unneeded_rings.notify_one();
    }
}
