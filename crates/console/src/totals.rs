//! Counters of queues for the metrics: a series for each queue up to a bound, one for all others together.
//!
//! A queue that has a series of its own keeps it until it is deleted; its counts then leave the metrics with it. What
//! is shown for the others is all that was counted less what those with a series counted, and never falls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kew_core::{Queue, QueueId, Tally};
use kew_engine::Engine;
use parking_lot::Mutex;

/// Queues whose counts are asked for at once.
const AT_ONCE: usize = 256;

/// The counters.
pub(crate) struct Totals {
    /// Queues with a series of their own.
    max: usize,
    /// Guards the counters; held for a look, by threads that may wait.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    named: HashMap<QueueId, Named>,
    /// Queues without a series at the latest look: what they counted by then is the others' for ever.
    unnamed: HashSet<QueueId>,
    /// What queues counted that had a series and are deleted.
    gone: Tally,
    /// What was shown of the others.
    others: Tally,
}

/// A queue with a series.
#[derive(Clone, Copy, Default)]
struct Named {
    /// Its counts at the latest look; `None` until the first, where what came before is the others'.
    seen: Option<Tally>,
    /// What it counted since it has the series.
    all: Tally,
}

/// All counters at one look.
pub(crate) struct Look {
    /// Queues with a series, in their order.
    pub(crate) named: Vec<(Arc<Queue>, Tally)>,
    /// All others.
    pub(crate) others: Tally,
    /// The queues that have no series.
    pub(crate) unnamed: Vec<Arc<Queue>>,
}

impl Totals {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, kept: Mutex::default() }
    }

    /// Looks at the counts of all queues that this node keeps.
    pub(crate) fn look(&self, engine: &Engine) -> Look {
        let mut kept = self.kept.lock();
        // Asked first: what happens meanwhile counts for queues with a series now, and for the others at the next look.
        let all = engine.tally();
        let mut queues = engine.all_queues();
        queues.retain(|queue| engine.sees(queue.id));
        let (named, unnamed) = kept.name(queues, self.max);
        for some in named.chunks(AT_ONCE) {
            let ids: Vec<QueueId> = some.iter().map(|queue| queue.id).collect();
            for (id, tally) in ids.iter().zip(engine.tallies(&ids)) {
                if let Some(named) = kept.named.get_mut(id) {
                    named.note(tally);
                }
            }
        }
        let others = kept.others_of(all);
        let of = |queue: Arc<Queue>| {
            let tally = kept.named.get(&queue.id).map_or_else(Tally::default, |named| named.all);
            (queue, tally)
        };
        Look { named: named.into_iter().map(of).collect(), others, unnamed }
    }
}

impl Look {
    /// Whether there is anything to show of the others.
    pub(crate) fn has_others(&self) -> bool {
        !self.unnamed.is_empty() || self.others != Tally::default()
    }
}

impl Kept {
    /// Gives series to queues while there are any. Answers the queues with one and those without.
    fn name(&mut self, queues: Vec<Arc<Queue>>, max: usize) -> (Vec<Arc<Queue>>, Vec<Arc<Queue>>) {
        let there: HashSet<QueueId> = queues.iter().map(|queue| queue.id).collect();
        let gone = &mut self.gone;
        self.named.retain(|queue, named| {
            let stays = there.contains(queue);
            if !stays {
                *gone = each(*gone, named.all, u64::saturating_add);
            }
            stays
        });
        for queue in &queues {
            if self.named.len() >= max {
                break;
            }
            let was_unnamed = self.unnamed.contains(&queue.id);
            let seen = (!was_unnamed).then(Tally::default);
            self.named.entry(queue.id).or_insert(Named { seen, all: Tally::default() });
        }
        let (named, unnamed): (Vec<_>, Vec<_>) =
            queues.into_iter().partition(|queue| self.named.contains_key(&queue.id));
        self.unnamed = unnamed.iter().map(|queue| queue.id).collect();
        (named, unnamed)
    }

    fn others_of(&mut self, all: Tally) -> Tally {
        let named =
            self.named.values().fold(self.gone, |sum, named| each(sum, named.all, u64::saturating_add));
        self.others = each(self.others, each(all, named, u64::saturating_sub), u64::max);
        self.others
    }
}

impl Named {
    fn note(&mut self, tally: Tally) {
        let seen = self.seen.unwrap_or(tally);
        if tally.sent < seen.sent || (tally == Tally::default() && tally != seen) {
            // It was deleted a moment ago.
            return;
        }
        // These two begin anew after the greatest value of 32 bits.
        let anew = |now: u64, seen: u64| now.wrapping_sub(seen) & u64::from(u32::MAX);
        let came = each(tally, seen, u64::saturating_sub);
        let (leased, acked) = (anew(tally.leased, seen.leased), anew(tally.acked, seen.acked));
        self.all = each(self.all, Tally { leased, acked, ..came }, u64::saturating_add);
        self.seen = Some(tally);
    }
}

/// Two tallies, count by count.
fn each(one: Tally, other: Tally, of: impl Fn(u64, u64) -> u64) -> Tally {
    Tally {
        sent: of(one.sent, other.sent),
        deduplicated: of(one.deduplicated, other.deduplicated),
        leased: of(one.leased, other.leased),
        acked: of(one.acked, other.acked),
        expired: of(one.expired, other.expired),
        lapsed: of(one.lapsed, other.lapsed),
        released: of(one.released, other.released),
        dead_lettered: of(one.dead_lettered, other.dead_lettered),
        dropped: of(one.dropped, other.dropped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sent: u64) -> Tally {
        Tally { sent, ..Tally::default() }
    }

    #[test]
    fn counts_of_32_bits_that_begin_anew_go_on() {
        let mut named = Named { seen: Some(Tally::default()), ..Named::default() };
        let at =
            |count: u32| Tally { sent: 1, leased: count.into(), acked: count.into(), ..Tally::default() };
        for count in [5, u32::MAX, 3] {
            named.note(at(count));
        }
        assert_eq!((named.all.leased, named.all.acked), (u64::from(u32::MAX) + 4, u64::from(u32::MAX) + 4));
    }

    #[test]
    fn a_queue_that_was_deleted_a_moment_ago_counts_nothing() {
        let mut named = Named { seen: Some(Tally::default()), ..Named::default() };
        named.note(Tally { sent: 7, leased: 4, ..Tally::default() });
        named.note(Tally::default());
        assert_eq!((named.all.sent, named.all.leased), (7, 4));
        // A dead-letter queue: what comes there is not sent.
        let mut dead = Named { seen: Some(Tally { leased: 4, ..Tally::default() }), ..Named::default() };
        dead.note(Tally::default());
        assert_eq!(dead.all.leased, 0);
    }

    #[test]
    fn what_is_shown_of_the_others_is_the_rest_and_never_falls() {
        let mut kept = Kept::default();
        kept.named.insert(QueueId(1), Named { all: sent(10), ..Named::default() });
        assert_eq!(kept.others_of(sent(15)).sent, 5);
        // A send that the sum of all does not have yet.
        kept.named.insert(QueueId(1), Named { all: sent(12), ..Named::default() });
        assert_eq!(kept.others_of(sent(15)).sent, 5);
        kept.name(Vec::new(), 1);
        assert_eq!((kept.gone.sent, kept.named.len()), (12, 0));
        assert_eq!(kept.others_of(sent(20)).sent, 8, "what a deleted queue counted is not the others'");
    }
}
