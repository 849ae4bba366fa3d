//! How many connections each listener has and has turned away, for the metrics, and when that begins and ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Refusals have ended when there was none for this long.
const QUIET: Duration = Duration::from_secs(10);

/// What an operator should know of a listener's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowding {
    /// Connections are turned away from now on.
    Begun {
        /// As many may be open.
        max: u64,
    },
    /// None was turned away for a while.
    Ended {
        /// How many were since it began.
        refused: u64,
    },
}

/// Hears of it, with the listener's name. Called on the event loop, so it must not block.
pub type CrowdingSink = dyn Fn(&str, Crowding) + Send + Sync;

/// The listeners of a server.
#[derive(Default)]
pub struct Connections {
    /// Guards which listeners there are.
    all: Mutex<Vec<Arc<ListenerCount>>>,
    sink: Option<Arc<CrowdingSink>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    /// None yet; `sink` hears when one is crowded.
    pub fn new(sink: Arc<CrowdingSink>) -> Self {
        Self { all: Mutex::default(), sink: Some(sink) }
    }

    /// The counts of the listener of this name, the same for all event loops that share it.
    pub fn of(&self, name: &'static str, max: usize) -> Arc<ListenerCount> {
        let mut all = self.all.lock();
        if let Some(known) = all.iter().find(|count| count.name == name) {
            return Arc::clone(known);
        }
        let count =
            ListenerCount { name, max: max as u64, sink: self.sink.clone(), ..ListenerCount::default() };
        let count = Arc::new(count);
        all.push(Arc::clone(&count));
        count
    }

    /// All listeners, in the order they were made.
    pub fn all(&self) -> Vec<Arc<ListenerCount>> {
        self.all.lock().clone()
    }
}

/// The counts of one listener.
#[derive(Default)]
pub struct ListenerCount {
    name: &'static str,
    max: u64,
    open: AtomicU64,
    refused: AtomicU64,
    is_crowded: AtomicBool,
    sink: Option<Arc<CrowdingSink>>,
}

impl ListenerCount {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many connections may be open; listeners may share them.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How many are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How many were turned away.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a connection as long as what this returns lives.
    pub(crate) fn enter(self: &Arc<Self>) -> Counted {
        self.open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(self))
    }

    /// Counts one that is turned away. The first after a quiet time is reported, and so is the next quiet time.
    pub(crate) fn refuse(self: &Arc<Self>) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        let Some(sink) = &self.sink else { return };
        if self.is_crowded.swap(true, Ordering::AcqRel) {
            return;
        }
        sink(self.name, Crowding::Begun { max: self.max });
        let (count, sink) = (Arc::clone(self), Arc::clone(sink));
        // It ends with the loop; at the end of a server nothing is left to be said.
        tokio::spawn(async move {
            let mut seen = count.refused();
            loop {
                tokio::time::sleep(QUIET).await;
                if count.refused() == seen {
                    break;
                }
                seen = count.refused();
            }
            count.is_crowded.store(false, Ordering::Release);
            sink(count.name, Crowding::Ended { refused: seen - before });
        });
    }
}

/// A connection that is counted.
pub(crate) struct Counted(Arc<ListenerCount>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_beginning_and_the_end_of_refusals_are_reported_once_each() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let all =
            Connections::new(Arc::new(move |name, crowding| sink.lock().push((name.to_owned(), crowding))));
        let count = all.of("sqs", 7);
        let entered = count.enter();
        assert_eq!((count.open(), all.of("sqs", 7).open(), all.all().len()), (1, 1, 1));
        drop(entered);
        for _ in 0..3 {
            count.refuse();
            tokio::time::sleep(QUIET / 2).await;
        }
        tokio::time::sleep(QUIET * 3).await;
        let of_sqs = |crowding| ("sqs".to_owned(), crowding);
        assert_eq!(
            *heard.lock(),
            [of_sqs(Crowding::Begun { max: 7 }), of_sqs(Crowding::Ended { refused: 3 })]
        );
        count.refuse();
        assert_eq!((count.open(), count.refused(), heard.lock().len()), (0, 4, 3));
    }
}
