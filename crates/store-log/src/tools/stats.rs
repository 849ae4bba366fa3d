//! Figures of a whole store, for people and tools.

use kew_core::{Command, Counts, Outcome, Timestamp};
use kew_store::Store;

use crate::journal::SegmentKind;
use crate::store::{LogStats, LogStore};

/// What a store holds and what it takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Queues.
    pub queues: u64,
    /// Messages in all queues, by what they are doing.
    pub messages: Counts,
    /// Segments of the journal.
    pub journal_segments: u64,
    /// Segments of survivors.
    pub survivor_segments: u64,
    /// Bytes of their files.
    pub segment_bytes: u64,
    /// Files ready to become segments.
    pub spares: u64,
    /// Bytes of those.
    pub spare_bytes: u64,
    /// The log's own figures.
    pub log: LogStats,
}

impl StoreStats {
    /// Adds the figures of another shard. Of the log's own only its bytes have a sum.
    pub fn add(&mut self, shard: &Self) {
        self.queues += shard.queues;
        add(&mut self.messages, &shard.messages);
        self.journal_segments += shard.journal_segments;
        self.survivor_segments += shard.survivor_segments;
        self.segment_bytes += shard.segment_bytes;
        self.spares += shard.spares;
        self.spare_bytes += shard.spare_bytes;
        self.log.live_bytes += shard.log.live_bytes;
        self.log.dead_bytes += shard.log.dead_bytes;
        self.log.heap_bytes += shard.log.heap_bytes;
    }
}

/// Counts an open store. What has become due since its last step is counted as it was then.
pub fn stats(store: &LogStore) -> StoreStats {
    let mut stats = StoreStats { log: store.stats(), ..StoreStats::default() };
    // The earliest instant there is: looking moves no clock.
    let queues = store.step(Timestamp::ZERO, &Command::Queues);
    if let Some(Outcome::Queues(queues)) = queues.peek() {
        stats.queues = queues.len() as u64;
        for queue in queues {
            let counts = store.step(Timestamp::ZERO, &Command::Counts(queue.id));
            if let Some(Outcome::Counts(counts)) = counts.peek() {
                add(&mut stats.messages, counts);
            }
        }
    }
    for segment in store.segments().list() {
        match segment.kind() {
            SegmentKind::Journal => stats.journal_segments += 1,
            SegmentKind::Survivor => stats.survivor_segments += 1,
        }
        stats.segment_bytes += segment.size();
    }
    stats.spares = store.segments().spares() as u64;
    stats.spare_bytes = store.segments().spare_bytes();
    stats
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.visible += more.visible;
    sum.in_flight += more.in_flight;
    sum.delayed += more.delayed;
    sum.body_bytes += more.body_bytes;
    sum.oldest_sent_at = match (sum.oldest_sent_at, more.oldest_sent_at) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Drive, LogOptions, SimDisk};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    struct NoChance;

    impl kew_core::Entropy for NoChance {
        fn bits(&self) -> u64 {
            7
        }
    }

    #[test]
    fn figures_are_answered_while_upkeep_is_at_work() {
        let options = LogOptions { drive: Drive::Manual, ..LogOptions::default() };
        let opened = LogStore::open(Arc::new(SimDisk::new()), options, Arc::new(NoChance), Timestamp(1));
        let store = Arc::new(opened.expect("a new store opens").0);
        store.checkpoint().expect("the simulated disk has space");
        let at_work = store.inner.upkeep.lock();
        let (sender, answers) = mpsc::channel();
        let asked = Arc::clone(&store);
        std::thread::spawn(move || sender.send(stats(&asked).log.checkpoints));
        assert_eq!(answers.recv_timeout(Duration::from_secs(10)), Ok(1), "figures do not wait for upkeep");
        drop(at_work);
    }
}
