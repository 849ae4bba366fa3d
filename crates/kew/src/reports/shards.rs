//! The reports of several shards as those of one store: each failure says of which shard it is, and work has recovered
//! when it fails in none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kew_core::{Reports, ShardId, Timestamp, Work};
use kew_store_log::shard_folder;
use parking_lot::Mutex;

/// What fails in which shards, above the reports of the whole.
pub struct FailingShards {
    whole: Arc<dyn Reports>,
    /// Guards what is known of the shards.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failing: BTreeMap<Work, BTreeSet<ShardId>>,
    /// When each shard that is here was last looked at for damage from end to end.
    scrubbed: BTreeMap<ShardId, Option<Timestamp>>,
}

/// The reports of one of them.
pub struct OneOfShards {
    all: Arc<FailingShards>,
    shard: ShardId,
}

impl FailingShards {
    pub fn new(whole: Arc<dyn Reports>) -> Self {
        Self { whole, state: Mutex::default() }
    }

    /// Where a shard reports to.
    pub fn of(self: &Arc<Self>, shard: ShardId) -> OneOfShards {
        self.state.lock().scrubbed.insert(shard, None);
        OneOfShards { all: Arc::clone(self), shard }
    }
}

impl Reports for OneOfShards {
    fn succeeded(&self, work: Work) {
        let others_fail = {
            let mut state = self.all.state.lock();
            let others_fail = state.failing.get_mut(&work).is_some_and(|shards| {
                shards.remove(&self.shard);
                !shards.is_empty()
            });
            if !others_fail {
                state.failing.remove(&work);
            }
            others_fail
        };
        if !others_fail {
            self.all.whole.succeeded(work);
        }
    }

    fn failed(&self, work: Work, cause: &str) {
        self.all.state.lock().failing.entry(work).or_default().insert(self.shard);
        self.all.whole.failed(work, &format!("shard {}: {cause}", self.shard));
    }

    fn damaged(&self, file: &str, offset: u64, what: &str) {
        self.all.whole.damaged(&format!("{}/{file}", shard_folder(self.shard)), offset, what);
    }

    fn scrubbed(&self, bytes: u64) {
        self.all.whole.scrubbed(bytes);
    }

    /// The whole was looked at when the last of its shards was.
    fn scrub_ended(&self, at: Timestamp) {
        let oldest = {
            let mut state = self.all.state.lock();
            state.scrubbed.insert(self.shard, Some(at));
            state.scrubbed.values().copied().min().flatten()
        };
        if let Some(oldest) = oldest {
            self.all.whole.scrub_ended(oldest);
        }
    }
}

impl Drop for OneOfShards {
    fn drop(&mut self) {
        self.all.state.lock().scrubbed.remove(&self.shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Heard {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock())
        }
    }

    impl Reports for Heard {
        fn succeeded(&self, work: Work) {
            self.0.lock().push(format!("{} succeeded", work.name()));
        }

        fn failed(&self, work: Work, cause: &str) {
            self.0.lock().push(format!("{} failed: {cause}", work.name()));
        }

        fn damaged(&self, file: &str, offset: u64, what: &str) {
            self.0.lock().push(format!("{file} at {offset}: {what}"));
        }

        fn scrubbed(&self, bytes: u64) {
            self.0.lock().push(format!("{bytes} bytes"));
        }

        fn scrub_ended(&self, at: Timestamp) {
            self.0.lock().push(format!("scrubbed at {}", at.0));
        }
    }

    fn two() -> (Arc<Heard>, OneOfShards, OneOfShards) {
        let heard = Arc::new(Heard::default());
        let all = Arc::new(FailingShards::new(Arc::clone(&heard) as _));
        (heard, all.of(ShardId(0)), all.of(ShardId(1)))
    }

    #[test]
    fn work_has_recovered_when_it_fails_in_no_shard() {
        let (heard, one, two) = two();
        two.failed(Work::Checkpoint, "no space");
        one.succeeded(Work::Checkpoint);
        assert_eq!(heard.take(), ["checkpoint failed: shard 1: no space"]);
        one.succeeded(Work::Sweep);
        assert_eq!(heard.take(), ["sweep succeeded"]);
        one.failed(Work::Checkpoint, "no space");
        two.succeeded(Work::Checkpoint);
        assert_eq!(heard.take(), ["checkpoint failed: shard 0: no space"]);
        one.succeeded(Work::Checkpoint);
        assert_eq!(heard.take(), ["checkpoint succeeded"]);
    }

    #[test]
    fn damage_names_the_shard_s_folder_and_the_oldest_look_counts() {
        let (heard, one, two) = two();
        two.damaged("segments/1.log", 8, "checksum");
        assert_eq!(heard.take(), ["shard-0001/segments/1.log at 8: checksum"]);
        one.scrub_ended(Timestamp(5));
        assert_eq!(heard.take(), [""; 0], "the other has not been looked at yet");
        two.scrub_ended(Timestamp(9));
        one.scrub_ended(Timestamp(12));
        assert_eq!(heard.take(), ["scrubbed at 5", "scrubbed at 9"]);
        drop(two);
        one.scrub_ended(Timestamp(20));
        assert_eq!(heard.take(), ["scrubbed at 20"]);
    }
}
