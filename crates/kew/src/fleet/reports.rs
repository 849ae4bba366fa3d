//! How the work of a shard's store goes, while this node owns the shard.

use std::collections::BTreeSet;
use std::sync::Arc;

use kew_core::{Reports, Timestamp, Work};
use kew_log_pg::Tenure;
use parking_lot::Mutex;

/// Passes on what the store of a shard reports. What fails because another node owns the shard is no failure, and what
/// was failing when the shard left this node fails here no more.
pub(super) struct ShardReports {
    whole: Arc<dyn Reports>,
    tenure: Arc<Tenure>,
    /// Guards what fails, and whether the shard is still kept.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    failing: BTreeSet<Work>,
    is_ended: bool,
}

impl ShardReports {
    pub fn new(whole: Arc<dyn Reports>, tenure: Arc<Tenure>) -> Self {
        Self { whole, tenure, state: Mutex::default() }
    }

    /// The shard left this node.
    pub fn end(&self) {
        let failing = {
            let mut state = self.state.lock();
            state.is_ended = true;
            std::mem::take(&mut state.failing)
        };
        failing.into_iter().for_each(|work| self.whole.succeeded(work));
    }
}

impl Reports for ShardReports {
    fn succeeded(&self, work: Work) {
        self.state.lock().failing.remove(&work);
        self.whole.succeeded(work);
    }

    fn failed(&self, work: Work, cause: &str) {
        {
            let mut state = self.state.lock();
            if state.is_ended || self.tenure.over().is_some() {
                return;
            }
            state.failing.insert(work);
        }
        self.whole.failed(work, cause);
    }

    fn damaged(&self, file: &str, offset: u64, what: &str) {
        self.whole.damaged(file, offset, what);
    }

    fn scrubbed(&self, bytes: u64) {
        self.whole.scrubbed(bytes);
    }

    fn scrub_ended(&self, at: Timestamp) {
        self.whole.scrub_ended(at);
    }
}
