//! Watches: whoever leases by itself is rung when messages may have become available, or when a queue was changed.
//!
//! A waiting receive is one lease for one asker; a watch is for those who decide for themselves when to lease. A ring
//! counts as work until it is answered, so that the virtual clock waits for what comes of it.

use std::fmt;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use kew_core::QueueId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Engine;
use crate::busy::{Busy, Work};

/// What rings.
#[derive(Default)]
pub(crate) struct Bell {
    /// Guards what was heard since the last answer.
    heard: Mutex<Heard>,
    notify: Notify,
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

    fn take(&self) -> Option<(Vec<QueueId>, Busy)> {
        let mut heard = self.heard.lock();
        let busy = heard.busy.take()?;
        Some((heard.queues.drain().collect(), busy))
    }
}

/// All bells; part of the pass.
#[derive(Default)]
pub(crate) struct Watches {
    messages: HashMap<QueueId, Vec<Arc<Bell>>>,
    definitions: Vec<Arc<Bell>>,
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

/// Rings when messages may have become available in one queue. Dropping it ends the watch.
pub struct MessageWatch {
    engine: Arc<Engine>,
    queue: QueueId,
    bell: Arc<Bell>,
}

/// Rings when queues were made, changed or deleted. Dropping it ends the watch.
pub struct DefinitionWatch {
    engine: Arc<Engine>,
    bell: Arc<Bell>,
}

impl Engine {
    /// Watches for messages of a queue from now on.
    pub fn watch_messages(self: &Arc<Self>, queue: QueueId) -> MessageWatch {
        let bell = Arc::<Bell>::default();
        self.pass().watches.messages.entry(queue).or_default().push(Arc::clone(&bell));
        MessageWatch { engine: Arc::clone(self), queue, bell }
    }

    /// Watches for changes of queues from now on.
    pub fn watch_definitions(self: &Arc<Self>) -> DefinitionWatch {
        let bell = Arc::<Bell>::default();
        self.pass().watches.definitions.push(Arc::clone(&bell));
        DefinitionWatch { engine: Arc::clone(self), bell }
    }
}

impl MessageWatch {
    /// Returns at the next ring, or at once when it rang since the last.
    pub async fn rung(&self) -> Busy {
        loop {
            if let Some((_, busy)) = self.bell.take() {
                return busy;
            }
            self.bell.notify.notified().await;
        }
    }
}

impl DefinitionWatch {
    /// Returns at the next ring, or at once when it rang since the last, with the queues it rang for.
    pub async fn rung(&self) -> (Vec<QueueId>, Busy) {
        loop {
            if let Some(heard) = self.bell.take() {
                return heard;
            }
            self.bell.notify.notified().await;
        }
    }
}

impl Drop for MessageWatch {
    fn drop(&mut self) {
        let mut pass = self.engine.pass();
        if let Some(bells) = pass.watches.messages.get_mut(&self.queue) {
            bells.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
            if bells.is_empty() {
                pass.watches.messages.remove(&self.queue);
            }
        }
    }
}

impl Drop for DefinitionWatch {
    fn drop(&mut self) {
        self.engine.pass().watches.definitions.retain(|bell| !Arc::ptr_eq(bell, &self.bell));
    }
}

impl fmt::Debug for MessageWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageWatch").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl fmt::Debug for DefinitionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DefinitionWatch")
    }
}
