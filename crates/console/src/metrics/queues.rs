//! The figures of queues: a series for each up to a bound, one for all others together.

use std::sync::Arc;

use kew_core::{Counts, Queue, Tally, Timestamp};
use kew_engine::Engine;

use super::InFlightLimits;
use super::text::Text;
use crate::totals::Look;

/// Stands for the queues beyond the bound; no queue can be called so.
pub(super) const OTHERS: &str = "*";

/// What a counter counts.
type Count = fn(&Tally) -> u64;

/// Counts by reason.
type Reasons = [(&'static str, Count); 2];

/// Counters with no label but the queue's.
const COUNTERS: [(&str, &str, Count); 5] = [
    ("kew_messages_sent_total", "Messages sent.", |tally| tally.sent),
    ("kew_messages_leased_total", "Messages received.", |tally| tally.leased),
    ("kew_messages_acked_total", "Messages deleted, by a receipt or by an operator.", |tally| tally.acked),
    ("kew_messages_expired_total", "Messages that outlived their retention.", |tally| tally.expired),
    ("kew_messages_deduplicated_total", "Sends that repeated an earlier one and added nothing.", |tally| {
        tally.deduplicated
    }),
];

/// Counters with a reason.
const BY_REASON: [(&str, &str, Reasons); 2] = [
    (
        "kew_messages_redelivered_total",
        "Messages offered again: their lease expired, or was released.",
        [("lease_expired", |tally| tally.lapsed), ("released", |tally| tally.released)],
    ),
    (
        "kew_messages_dead_lettered_total",
        "Messages received too often: moved to a dead-letter queue, or dropped.",
        [("attempts_exhausted", |tally| tally.dead_lettered), ("dropped", |tally| tally.dropped)],
    ),
];

/// All queues, counted.
pub(crate) struct Census {
    named: Vec<Figures>,
    others: Option<Figures>,
}

/// What one queue shows, or several together.
struct Figures {
    account: String,
    region: Arc<str>,
    queue: Arc<str>,
    counts: Counts,
    tally: Tally,
    in_flight_limit: u64,
    age_seconds: f64,
}

impl Census {
    /// Counts every queue of a look at the counters; those with a series are shown by name.
    pub(crate) async fn take(engine: &Engine, look: Look, limits: InFlightLimits) -> Self {
        let mut census = Self { named: Vec::new(), others: None };
        if look.has_others() {
            census.others = Some(Figures { tally: look.others, ..Figures::of_others() });
        }
        for (queue, tally) in &look.named {
            // A queue that was deleted a moment ago has nothing to show.
            let Ok(counts) = engine.counts_so_far(queue.id).await else { continue };
            census.named.push(Figures { tally: *tally, ..Figures::of(queue, counts, limits, engine.now()) });
        }
        for queue in &look.unnamed {
            let Ok(counts) = engine.counts_so_far(queue.id).await else { continue };
            let figures = Figures::of(queue, counts, limits, engine.now());
            census.others.get_or_insert_with(Figures::of_others).add(&figures);
        }
        census
    }

    /// What came and went.
    pub(crate) fn write_counters(&self, text: &mut Text) {
        for (name, help, count) in COUNTERS {
            text.family(name, "counter", help);
            for figures in self.all() {
                text.sample(name, &figures.labels(), count(&figures.tally));
            }
        }
        for (name, help, reasons) in BY_REASON {
            text.family(name, "counter", help);
            for figures in self.all() {
                let [account, region, queue] = figures.labels();
                for (reason, count) in reasons {
                    text.sample(name, &[account, region, queue, ("reason", reason)], count(&figures.tally));
                }
            }
        }
    }

    /// Bytes of all bodies.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.all().map(|figures| figures.counts.body_bytes).sum()
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let name = "kew_messages";
        text.family(name, "gauge", "Messages in a queue, by what they are doing.");
        for figures in self.all() {
            let [account, region, queue] = figures.labels();
            let counts = &figures.counts;
            for (state, value) in
                [("visible", counts.visible), ("in_flight", counts.in_flight), ("delayed", counts.delayed)]
            {
                text.sample(name, &[account, region, queue, ("state", state)], value);
            }
        }
        let name = "kew_in_flight_limit";
        text.family(name, "gauge", "Messages of a queue that may be in flight.");
        for figures in self.all() {
            text.sample(name, &figures.labels(), figures.in_flight_limit);
        }
        let name = "kew_oldest_message_age_seconds";
        text.family(name, "gauge", "Age of a queue's oldest message; 0 when it is empty.");
        for figures in self.all() {
            text.sample_seconds(name, &figures.labels(), figures.age_seconds);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Figures> {
        self.named.iter().chain(&self.others)
    }
}

impl Figures {
    fn of(queue: &Queue, counts: Counts, limits: InFlightLimits, now: Timestamp) -> Self {
        let limit = if queue.policy.kind.is_fifo() { limits.fifo } else { limits.standard };
        Self {
            account: queue.key.account.to_string(),
            region: Arc::clone(&queue.key.region),
            queue: Arc::clone(&queue.key.name),
            counts,
            tally: Tally::default(),
            in_flight_limit: limit.into(),
            age_seconds: counts.oldest_sent_at.map_or(0.0, |sent| now.since(sent).as_secs_f64()),
        }
    }

    fn of_others() -> Self {
        Self {
            account: OTHERS.to_owned(),
            region: OTHERS.into(),
            queue: OTHERS.into(),
            counts: Counts::default(),
            tally: Tally::default(),
            in_flight_limit: 0,
            age_seconds: 0.0,
        }
    }

    fn add(&mut self, more: &Self) {
        self.counts.visible += more.counts.visible;
        self.counts.in_flight += more.counts.in_flight;
        self.counts.delayed += more.counts.delayed;
        self.counts.body_bytes += more.counts.body_bytes;
        self.in_flight_limit += more.in_flight_limit;
        self.age_seconds = self.age_seconds.max(more.age_seconds);
    }

    fn labels(&self) -> [(&'static str, &str); 3] {
        [("account", &self.account), ("region", &self.region), ("queue", &self.queue)]
    }
}
