//! Bells: what rings for those who watch queues, and counts as work until it is answered.

use std::fmt;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use kew_core::QueueId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::busy::{Busy, Work};

/// What rings.
#[derive(Default)]
pub(crate) struct Bell {
    /// Guards what was heard since the last answer.
    heard: Mutex<Heard>,
    pub(crate) notify: Notify,
}

#[derive(Default)]
struct Heard {
    queues: HashSet<QueueId>,
    busy: Option<Busy>,
}

impl Bell {
    fn ring(&self, queue: QueueId, work: &Work) {
        let mut heard = self.heard.lock();
        heard.queues.insert(queue);
        if heard.busy.is_none() {
            heard.busy = Some(work.begin());
            drop(heard);
            self.notify.notify_one();
        }
    }

    pub(crate) fn take(&self) -> Option<(Vec<QueueId>, Busy)> {
        let mut heard = self.heard.lock();
        let busy = heard.busy.take()?;
        Some((heard.queues.drain().collect(), busy))
    }
}

/// All bells; part of the pass.
#[derive(Default)]
pub(crate) struct Watches {
    pub(crate) messages: HashMap<QueueId, Vec<Arc<Bell>>>,
    pub(crate) definitions: Vec<Arc<Bell>>,
}

impl Watches {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages may have become available in a queue.
    pub(crate) fn stirred(&self, queue: QueueId, work: &Work) {
        self.messages.get(&queue).into_iter().flatten().for_each(|bell| bell.ring(queue, work));
    }

    /// A queue was made, changed or deleted.
    pub(crate) fn changed(&self, queue: QueueId, work: &Work) {
        self.definitions.iter().for_each(|bell| bell.ring(queue, work));
    }
}

impl fmt::Debug for Watches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watches").field("queues", &self.messages.len()).finish_non_exhaustive()
    }
}
