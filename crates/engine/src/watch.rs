//! Watches: they ring when messages may have become available, or when a queue was changed.
//!
//! A waiting receive is one lease for one asker; a watch is for callers that decide for themselves when to lease. A
//! ring counts as work until it is answered, so that the virtual clock waits for what comes of it.

use std::fmt;
use std::sync::Arc;

use kew_core::QueueId;

use crate::Engine;
use crate::bells::Bell;
use crate::busy::Busy;

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
