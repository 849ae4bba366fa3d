//! Figures of queues over time, from looks every five seconds: rates of all queues, and samples of some.
//!
//! Memory is fixed: samples are kept for a bounded number of queues, each in three rings of ever coarser steps that
//! reach back 15 minutes, 4 hours and 7 days. While there is room every queue has samples: one without traffic may
//! have messages that grow old. The queue that was used longest ago makes room for one that is used, unless it was used
//! in the last few looks: while more queues are busy than have samples, those that have them keep them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kew_core::{Counts, Queue, QueueId, Timestamp, Traffic, Waits};
use kew_engine::Engine;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Seconds between two looks, and of the finest step.
pub(crate) const STEP_SECONDS: u64 = 5;
/// Seconds of each ring's step, and how many it holds.
const RINGS: [(u64, usize); 3] = [(STEP_SECONDS, 180), (60, 240), (900, 672)];
/// Queues with samples: some 30 KB each.
const QUEUES_MAX: usize = 256;
/// Samples of a queue that was used within this time stay.
const STAYS_FOR: Duration = Duration::from_secs(3 * STEP_SECONDS);
/// Queues that take another's place at one look.
const REPLACED_AT_ONCE: usize = 8;
/// Queues whose traffic is asked for at once.
const AT_ONCE: usize = 256;

/// What a queue did each second, lately.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) sent: f64,
    pub(crate) leased: f64,
    pub(crate) acked: f64,
}

/// A queue at one instant, and what came and went in the step before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    pub(crate) counts: SmallCounts,
    pub(crate) traffic: Traffic,
    /// How long messages waited for their first lease in that step.
    pub(crate) waited: Waited,
}

/// Milliseconds, where any message was leased for the first time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Waited {
    pub(crate) half: Option<f32>,
    pub(crate) most: Option<f32>,
}

/// Counts as samples keep them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SmallCounts {
    pub(crate) visible: u32,
    pub(crate) in_flight: u32,
    pub(crate) delayed: u32,
    pub(crate) oldest_age_seconds: Option<u32>,
}

/// All figures.
#[derive(Default)]
pub(crate) struct Samples {
    /// Guards the figures; held for one queue at a time, or for a look-up.
    kept: Mutex<Kept>,
    /// Counts the looks that have ended.
    looks: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    looked: Option<Duration>,
    seen: HashMap<QueueId, Seen>,
    series: HashMap<QueueId, Series>,
    /// The latest look at which a queue took another's place, and how many did then.
    replaced: (Duration, usize),
}

/// What the latest look saw of a queue.
#[derive(Clone, Copy, Default)]
struct Seen {
    traffic: Traffic,
    rates: Rates,
}

struct Series {
    rings: [Ring; RINGS.len()],
    used: Duration,
    /// The waits counted by the latest look; `None` where those before the first sample are not of its step.
    waits: Option<Waits>,
}

struct Ring {
    step: Duration,
    max: usize,
    samples: VecDeque<Sample>,
    /// What came and went in the step that is not over, and when that began.
    open: (Traffic, Waits, Duration),
}

impl Samples {
    /// One look at all queues that this node keeps.
    pub(crate) async fn look(&self, engine: &Engine, now: Duration) {
        let mut queues = engine.all_queues();
        queues.retain(|queue| engine.sees(queue.id));
        let passed = self.kept.lock().looked.replace(now).map(|looked| now.saturating_sub(looked));
        for some in queues.chunks(AT_ONCE) {
            let ids: Vec<QueueId> = some.iter().map(|queue| queue.id).collect();
            for (id, traffic) in ids.iter().zip(engine.traffic(&ids)) {
                let is_sampled = self.kept.lock().note(*id, traffic, passed, now);
                if let Some(came) = is_sampled {
                    // A queue that was deleted a moment ago has nothing to sample.
                    let Ok(counts) = engine.counts_so_far(*id).await else { continue };
                    let sample = sample(engine.now(), counts, came);
                    let waits = engine.waits(&[*id]).first().copied().unwrap_or_default();
                    self.kept.lock().keep(*id, &sample, waits, now);
                }
            }
        }
        self.kept.lock().forget_others(&queues);
        self.looks.send_modify(|looks| *looks = looks.wrapping_add(1));
    }

    /// Tells how many looks have ended, and of each further one.
    pub(crate) fn looks(&self) -> watch::Receiver<u64> {
        self.looks.subscribe()
    }

    /// What a queue did each second before the latest look.
    pub(crate) fn rates(&self, queue: QueueId) -> Rates {
        self.kept.lock().seen.get(&queue).map_or_else(Rates::default, |seen| seen.rates)
    }

    /// Samples of the last `seconds`, oldest first, with the seconds of their step: at least those asked for.
    pub(crate) fn of(
        &self,
        queue: QueueId,
        seconds: u64,
        step: Option<u64>,
        now: Timestamp,
    ) -> (u64, Vec<Sample>) {
        let reaches = |(step, max): &(u64, usize)| step.saturating_mul(*max as u64) >= seconds;
        let fine_enough = |(own, _): &(u64, usize)| step.is_none_or(|step| *own <= step);
        let fit = RINGS.iter().rposition(|ring| reaches(ring) && step.is_some() && fine_enough(ring));
        let place = fit.or_else(|| RINGS.iter().position(reaches)).unwrap_or(RINGS.len() - 1);
        let own = RINGS.get(place).map_or(STEP_SECONDS, |(step, _)| *step);
        let merged = step.map_or(1, |step| step.div_ceil(own)).max(1);
        let since = now.minus(Duration::from_secs(seconds));
        let kept = self.kept.lock();
        let ring = kept.series.get(&queue).and_then(|series| series.rings.get(place));
        let samples: Vec<Sample> = ring
            .map(|ring| ring.samples.iter().filter(|sample| sample.at > since).copied().collect())
            .unwrap_or_default();
        (own * merged, merge(&samples, usize::try_from(merged).unwrap_or(usize::MAX)))
    }
}

impl Kept {
    /// Notes a queue's traffic; says what came and went since the look before if the queue is to be sampled.
    fn note(
        &mut self,
        queue: QueueId,
        traffic: Traffic,
        passed: Option<Duration>,
        now: Duration,
    ) -> Option<Traffic> {
        let seconds = passed.map(|passed| passed.as_secs_f64()).filter(|seconds| *seconds > 0.0);
        let before = self.seen.insert(queue, Seen { traffic, rates: Rates::default() });
        // A queue that was not there at the look before began at nothing.
        let came = traffic.since(before.map_or_else(Traffic::default, |seen| seen.traffic));
        let came = if seconds.is_some() { came } else { Traffic::default() };
        if let (Some(seconds), Some(seen)) = (seconds, self.seen.get_mut(&queue)) {
            let each = |count: u32| f64::from(count) / seconds;
            seen.rates = Rates { sent: each(came.sent), leased: each(came.leased), acked: each(came.acked) };
        }
        let is_used = came != Traffic::default();
        if let Some(series) = self.series.get_mut(&queue) {
            series.used = if is_used { now } else { series.used };
            return Some(came);
        }
        let has_place = if is_used { self.make_room(now) } else { self.series.len() < QUEUES_MAX };
        if !has_place {
            return None;
        }
        let are_all_new = came.leased == traffic.leased;
        let mut series = Series::new(now, are_all_new.then(Waits::default));
        series.used = if is_used { now } else { Duration::ZERO };
        self.series.insert(queue, series);
        Some(came)
    }

    /// Makes room for one more queue's samples, if there is none and one may go.
    fn make_room(&mut self, now: Duration) -> bool {
        if self.series.len() < QUEUES_MAX {
            return true;
        }
        if self.replaced.0 != now {
            self.replaced = (now, 0);
        }
        if self.replaced.1 >= REPLACED_AT_ONCE {
            return false;
        }
        let oldest = self.series.iter().min_by_key(|(_, series)| series.used);
        let may_go = oldest.filter(|(_, series)| now.saturating_sub(series.used) > STAYS_FOR);
        let Some(queue) = may_go.map(|(queue, _)| *queue) else { return false };
        self.series.remove(&queue);
        self.replaced.1 += 1;
        true
    }

    fn keep(&mut self, queue: QueueId, sample: &Sample, waits: Waits, now: Duration) {
        let Some(series) = self.series.get_mut(&queue) else { return };
        let came = waits.since(series.waits.replace(waits).unwrap_or(waits));
        series.rings.iter_mut().for_each(|ring| ring.keep(sample, came, now));
    }

    /// Queues that are gone take no memory.
    fn forget_others(&mut self, queues: &[Arc<Queue>]) {
        if self.seen.len() <= queues.len() {
            return;
        }
        let there: std::collections::HashSet<QueueId> = queues.iter().map(|queue| queue.id).collect();
        self.seen.retain(|queue, _| there.contains(queue));
        self.series.retain(|queue, _| there.contains(queue));
    }
}

impl Series {
    fn new(now: Duration, waits: Option<Waits>) -> Self {
        let ring = |(step, max): (u64, usize)| Ring {
            step: Duration::from_secs(step),
            max,
            samples: VecDeque::new(),
            open: (
                Traffic::default(),
                Waits::default(),
                now.saturating_sub(Duration::from_secs(STEP_SECONDS)),
            ),
        };
        Self { rings: RINGS.map(ring), used: now, waits }
    }
}

impl Ring {
    fn keep(&mut self, sample: &Sample, came: Waits, now: Duration) {
        let (traffic, waits, begun) = &mut self.open;
        *traffic = sum(*traffic, sample.traffic);
        *waits = waits.and(came);
        if now.saturating_sub(*begun) < self.step {
            return;
        }
        if self.samples.len() >= self.max {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { traffic: *traffic, waited: Waited::of(waits), ..*sample });
        self.open = (Traffic::default(), Waits::default(), now);
    }
}

/// Several steps as one: its counts are those at its end.
fn merge(samples: &[Sample], steps: usize) -> Vec<Sample> {
    let together = |some: &[Sample]| {
        let traffic = some.iter().fold(Traffic::default(), |all, sample| sum(all, sample.traffic));
        let waited = Waited::together(some);
        some.last().map(|last| Sample { traffic, waited, ..*last })
    };
    samples.chunks(steps.max(1)).filter_map(together).collect()
}

impl Waited {
    fn of(waits: &Waits) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "it is known to a few digits")]
        let millis = |share| waits.quantile(share).map(|millis| millis as f32);
        Self { half: millis(0.5), most: millis(0.99) }
    }

    /// Of several steps: half of the messages by the mean of the steps, weighted by their leases, and the highest of
    /// the others.
    fn together(samples: &[Sample]) -> Self {
        let (mut all, mut sum, mut most) = (0.0, 0.0, None);
        for sample in samples {
            if let Some(half) = sample.waited.half {
                #[expect(clippy::cast_precision_loss, reason = "it is known to a few digits")]
                let weight = sample.traffic.leased.max(1) as f32;
                (all, sum) = (all + weight, sum + half * weight);
            }
            most = match (most, sample.waited.most) {
                (Some(one), Some(other)) => Some(f32::max(one, other)),
                (one, other) => one.or(other),
            };
        }
        Self { half: (all > 0.0).then(|| sum / all), most }
    }
}

fn sum(one: Traffic, other: Traffic) -> Traffic {
    Traffic {
        sent: one.sent.saturating_add(other.sent),
        leased: one.leased.saturating_add(other.leased),
        acked: one.acked.saturating_add(other.acked),
    }
}

fn sample(at: Timestamp, counts: Counts, traffic: Traffic) -> Sample {
    let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let counts = SmallCounts {
        visible: small(counts.visible),
        in_flight: small(counts.in_flight),
        delayed: small(counts.delayed),
        oldest_age_seconds: counts.oldest_sent_at.map(|sent| small(at.since(sent).as_secs())),
    };
    Sample { at, counts, traffic, waited: Waited::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far the coarsest ring reaches back: seven days.
    const SECONDS_MAX: u64 = 604_800;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// One look at a queue that has sent `sent` messages by then.
    fn look(samples: &Samples, queue: u64, second: u64, sent: u32) {
        let mut kept = samples.kept.lock();
        let passed = kept.looked.replace(at(second)).map(|looked| at(second) - looked);
        let traffic = Traffic { sent, ..Traffic::default() };
        if let Some(came) = kept.note(QueueId(queue), traffic, passed, at(second)) {
            let counts = Counts { visible: u64::from(sent), ..Counts::default() };
            let sample = sample(Timestamp(second * 1_000), counts, came);
            kept.keep(QueueId(queue), &sample, Waits::default(), at(second));
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let samples = Samples::default();
        look(&samples, 1, 100, 1_000);
        assert_eq!(samples.rates(QueueId(1)), Rates::default(), "what came before is not known to be new");
        look(&samples, 1, 105, 1_050);
        assert_eq!(samples.rates(QueueId(1)).sent, 10.0);
        look(&samples, 1, 110, 1_050);
        assert_eq!(samples.rates(QueueId(1)).sent, 0.0);
        look(&samples, 1, 115, 1_050_u32.wrapping_sub(2_000));
        look(&samples, 1, 120, 5);
        assert!(samples.rates(QueueId(1)).sent < 1_000.0, "a count that begins anew goes on");
    }

    #[test]
    fn a_week_of_samples_is_bounded_and_coarser_the_further_it_reaches() {
        let samples = Samples::default();
        let end = 8 * 86_400;
        for second in (0..=end).step_by(5) {
            look(&samples, 1, second, u32::try_from(second).expect("eight days have few seconds"));
        }
        let now = Timestamp(end * 1_000);
        for (seconds, step, expected) in [
            (300, None, (5, 60)),
            (900, None, (5, 180)),
            (3_600, None, (60, 60)),
            (SECONDS_MAX, None, (900, 672)),
            (300, Some(30), (30, 10)),
            (3_600, Some(5), (60, 60)),
            (SECONDS_MAX, Some(3_600), (3_600, 168)),
        ] {
            let (found, all) = samples.of(QueueId(1), seconds, step, now);
            assert_eq!((found, all.len()), expected, "{seconds} {step:?}");
            let sent: u32 = all.iter().map(|sample| sample.traffic.sent).sum();
            assert_eq!(u64::from(sent), seconds, "one message a second, in {seconds} {step:?}");
        }
        let held: usize =
            samples.kept.lock().series[&QueueId(1)].rings.iter().map(|ring| ring.samples.len()).sum();
        assert_eq!(held, 180 + 240 + 672);
    }

    #[test]
    fn the_queue_used_longest_ago_makes_room() {
        let samples = Samples::default();
        look(&samples, 0, 0, 0);
        for queue in 1..=300 {
            look(&samples, queue, queue * 5, 1);
        }
        let kept = samples.kept.lock();
        assert_eq!(kept.series.len(), QUEUES_MAX);
        assert!(!kept.series.contains_key(&QueueId(1)) && kept.series.contains_key(&QueueId(300)));
    }

    /// One look at these queues, each of which has sent `sent` messages by then; who has samples after it.
    fn look_at_all(kept: &mut Kept, queues: std::ops::Range<u64>, second: u64, sent: u32) -> Vec<QueueId> {
        let passed = kept.looked.replace(at(second)).map(|looked| at(second) - looked);
        for queue in queues {
            kept.note(QueueId(queue), Traffic { sent, ..Traffic::default() }, passed, at(second));
        }
        let mut sampled: Vec<QueueId> = kept.series.keys().copied().collect();
        sampled.sort_unstable();
        sampled
    }

    #[test]
    fn a_queue_that_nobody_uses_has_samples_while_there_is_room() {
        let mut kept = Kept::default();
        assert_eq!(look_at_all(&mut kept, 0..300, 0, 7).len(), QUEUES_MAX);
        assert_eq!(look_at_all(&mut kept, 0..300, 5, 7), (0..256).map(QueueId).collect::<Vec<_>>());
        // One that is used takes the place of one that is not.
        look_at_all(&mut kept, 1_000..1_001, 20, 7);
        assert!(look_at_all(&mut kept, 1_000..1_001, 25, 8).contains(&QueueId(1_000)));
    }

    #[test]
    fn while_more_queues_are_busy_than_have_samples_those_that_have_them_keep_them() {
        let mut kept = Kept::default();
        look_at_all(&mut kept, 0..400, 0, 0);
        let first = look_at_all(&mut kept, 0..400, 5, 1);
        assert_eq!(first.len(), QUEUES_MAX);
        for (second, sent) in (10..600).step_by(5).zip(2..) {
            assert_eq!(look_at_all(&mut kept, 0..400, second, sent), first, "at {second} s");
        }
    }

    #[test]
    fn of_queues_that_are_idle_a_few_make_room_at_each_look() {
        let mut kept = Kept::default();
        look_at_all(&mut kept, 0..256, 0, 0);
        look_at_all(&mut kept, 0..256, 5, 1);
        let new = |sampled: Vec<QueueId>| sampled.iter().filter(|queue| queue.0 >= 1_000).count();
        let counts: Vec<usize> = [(10, 1), (20, 2), (25, 3), (30, 4)]
            .map(|(second, sent)| new(look_at_all(&mut kept, 1_000..1_100, second, sent)))
            .into();
        assert_eq!(counts, [0, 0, REPLACED_AT_ONCE, 2 * REPLACED_AT_ONCE]);
    }
}
