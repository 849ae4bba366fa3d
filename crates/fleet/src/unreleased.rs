//! Names without queues that a shard of this node is still to release, and when that is tried next.

use std::collections::BTreeMap;
use std::time::Duration;

use kew_core::{QueueId, QueueKey, ShardId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The pause before it is tried again to release a name.
pub(crate) const RELEASES_AGAIN: Duration = Duration::from_millis(500);
/// The longest pause before it is tried again to release a name that could not be.
const FAILED_PAUSE_MAX: Duration = Duration::from_secs(8);
/// How often a name is released whose claim was not answered, in pauses that double: the last time after 256 s. Until
/// then the database may carry out the claim late.
const RELEASES_OF_LATE: u32 = 10;
/// Where this number of names is to be released, no further one is noted for that. Its shard's next owner releases it.
const LATE_MAX: usize = 1_000;

/// The names of all shards that are still to be released.
#[derive(Default)]
pub(crate) struct Unreleased {
    /// Guards them; held for a moment.
    names: Mutex<BTreeMap<(ShardId, QueueKey), Release>>,
}

/// A name that is still to be released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Release {
    /// The queue that had it, where rules of other shards may still name it so.
    pub(crate) renamed: Option<QueueId>,
    /// When it is tried next.
    due: Instant,
    /// How often it is released, and the pause after the next time.
    times: u32,
    pause: Duration,
}

impl Release {
    fn once(renamed: Option<QueueId>) -> Self {
        Self { renamed, due: Instant::now() + RELEASES_AGAIN, times: 1, pause: RELEASES_AGAIN }
    }
}

impl Unreleased {
    /// A name that a queue had is to be released.
    pub(crate) fn note(&self, shard: ShardId, key: QueueKey, renamed: Option<QueueId>) {
        let mut names = self.names.lock();
        let release = names.entry((shard, key)).or_insert_with(|| Release::once(renamed));
        release.renamed = renamed.or(release.renamed);
    }

    /// A claim was not answered: it may have been carried out, or may be yet.
    pub(crate) fn note_unanswered(&self, shard: ShardId, key: QueueKey) {
        let mut names = self.names.lock();
        if names.len() < LATE_MAX {
            let often = Release { times: RELEASES_OF_LATE, ..Release::once(None) };
            names.entry((shard, key)).or_insert(often);
        }
    }

    /// Takes the names out that are due.
    pub(crate) fn take_due(&self) -> Vec<((ShardId, QueueKey), Release)> {
        let now = Instant::now();
        self.names.lock().extract_if(.., |_, release| release.due <= now).collect()
    }

    /// A name was released: it is again, if its claim may still be carried out.
    pub(crate) fn released(&self, name: (ShardId, QueueKey), release: Release) {
        if release.times > 1 {
            let due = Instant::now() + release.pause;
            let next = Release { due, times: release.times - 1, pause: release.pause * 2, ..release };
            self.names.lock().entry(name).or_insert(next);
        }
    }

    /// A name could not be released: it is tried again, each time after a longer pause.
    pub(crate) fn failed(&self, name: (ShardId, QueueKey), release: Release) {
        let due = Instant::now() + release.pause.min(FAILED_PAUSE_MAX);
        let pause = release.pause.max(FAILED_PAUSE_MAX.min(2 * release.pause));
        self.names.lock().entry(name).or_insert(Release { due, pause, ..release });
    }
}
