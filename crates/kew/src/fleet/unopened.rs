//! Shards that cannot be opened. Each is tried twice a second; the log says so when that begins, and once a minute.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kew_core::ShardId;

/// The time between two lines about one shard.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// What was logged of them.
#[derive(Default)]
pub(super) struct Unopened(BTreeMap<ShardId, Tried>);

struct Tried {
    logged_at: Instant,
    /// Tries since then.
    times: u64,
}

impl Unopened {
    /// A shard could not be opened. If that is to be logged: how often it was tried since the last line.
    pub fn failed(&mut self, shard: ShardId, now: Instant) -> Option<u64> {
        let Some(tried) = self.0.get_mut(&shard) else {
            self.0.insert(shard, Tried { logged_at: now, times: 0 });
            return Some(1);
        };
        tried.times += 1;
        if now.duration_since(tried.logged_at) < LOGGED_EVERY {
            return None;
        }
        tried.logged_at = now;
        Some(std::mem::take(&mut tried.times))
    }

    /// A shard was opened.
    pub fn ended(&mut self, shard: ShardId) {
        self.0.remove(&shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_that_is_tried_again_and_again_is_logged_once_a_minute_until_it_is_opened() {
        let (mut unopened, begun) = (Unopened::default(), Instant::now());
        let at = |millis| begun + Duration::from_millis(millis);
        let (one, other) = (ShardId(0), ShardId(1));
        let lines: Vec<(u64, u64)> =
            (0..360).filter_map(|number| Some((number, unopened.failed(one, at(number * 500))?))).collect();
        assert_eq!(lines, [(0, 1), (120, 120), (240, 120)]);
        assert_eq!(unopened.failed(other, at(180_000)), Some(1));
        unopened.ended(one);
        assert_eq!(unopened.failed(one, at(180_500)), Some(1), "it was opened in between");
    }
}
