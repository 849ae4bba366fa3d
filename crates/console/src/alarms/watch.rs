//! Which alarms there are now, and how they change from look to look.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kew_core::{Counts, DeadLetterAction, Queue, QueueId, QueueKey, Timestamp};
use parking_lot::Mutex;

use super::{AlarmMetric, AlarmRule, is_like};
use crate::metrics::InFlightLimits;
use crate::news::{AlarmChange, News};

/// Pairs of a rule and a queue that are watched. More are not, and that is reported.
const WATCHED_MAX: usize = 10_000;

/// A rule, and the queue; `None` for what belongs to none.
type Pair = (usize, Option<QueueId>);

/// All alarms.
pub(crate) struct Alarms {
    rules: Vec<AlarmRule>,
    /// Guards what is known of each pair; held for moments.
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    pairs: HashMap<Pair, Alarm>,
    /// Whether it was reported that there are too many.
    is_told: bool,
}

/// A rule, and what it finds of one queue.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Alarm {
    pub(crate) rule: AlarmRule,
    /// How the queue is called; `None` for what belongs to none.
    pub(crate) queue: Option<Arc<str>>,
    pub(crate) is_firing: bool,
    /// Since when it is firing, or not.
    pub(crate) since: Timestamp,
    /// What was measured at the latest look.
    pub(crate) value: f64,
    /// Since when that is above the bound.
    above_since: Option<Timestamp>,
}

/// What one look finds of one queue.
pub(crate) struct Reading<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) counts: Counts,
    pub(crate) now: Timestamp,
    pub(crate) limits: InFlightLimits,
    /// Whether dead letters of another queue go there.
    pub(crate) takes_dead_letters: bool,
}

impl Reading<'_> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a double is exact up to 2^53, more messages than a queue can hold"
    )]
    fn value(&self, metric: AlarmMetric) -> Option<f64> {
        let counts = &self.counts;
        let limits = self.limits;
        let value = match metric {
            AlarmMetric::OldestAge => {
                return Some(counts.oldest_sent_at.map_or(0.0, |sent| self.now.since(sent).as_secs_f64()));
            }
            AlarmMetric::Visible => counts.visible,
            AlarmMetric::InFlight => counts.in_flight,
            AlarmMetric::Delayed => counts.delayed,
            AlarmMetric::DeadLetters if self.takes_dead_letters => counts.stored(),
            AlarmMetric::InFlightShare => {
                let limit = if self.queue.policy.kind.is_fifo() { limits.fifo } else { limits.standard };
                return Some(counts.in_flight as f64 / f64::from(limit.max(1)));
            }
            AlarmMetric::DeadLetters | AlarmMetric::DiskShare => return None,
        };
        Some(value as f64)
    }
}

impl Alarms {
    pub(crate) fn new(rules: &[AlarmRule]) -> Self {
        Self { rules: rules.to_vec(), watched: Mutex::default() }
    }

    pub(crate) fn rules(&self) -> &[AlarmRule] {
        &self.rules
    }

    /// Whether any rule is for this queue.
    pub(crate) fn are_for(&self, key: &QueueKey) -> bool {
        self.rules.iter().any(|rule| is_for(rule, key))
    }

    /// The queues that dead letters of others go to; none are looked for when no rule asks.
    pub(crate) fn dead_letter_queues(&self, queues: &[Arc<Queue>]) -> HashSet<QueueKey> {
        if !self.rules.iter().any(|rule| rule.metric == AlarmMetric::DeadLetters) {
            return HashSet::new();
        }
        let target = |queue: &Arc<Queue>| match &queue.policy.dead_letters.as_deref()?.then {
            DeadLetterAction::MoveTo(key) => Some(key.clone()),
            DeadLetterAction::Drop => None,
        };
        queues.iter().filter_map(target).collect()
    }

    /// Takes what a look found of one queue, and answers the pairs that it has.
    pub(crate) fn take(&self, reading: &Reading<'_>, name: &str, news: &mut Vec<News>) -> Vec<Pair> {
        let mut seen = Vec::new();
        for (number, rule) in
            self.rules.iter().enumerate().filter(|(_, rule)| is_for(rule, &reading.queue.key))
        {
            let Some(value) = reading.value(rule.metric) else { continue };
            let pair = (number, Some(reading.queue.id));
            self.note(pair, Some(name), value, reading.now, news);
            seen.push(pair);
        }
        seen
    }

    /// The pairs of a queue, or of the disk, that could not be looked at: they stay as they are.
    pub(crate) fn unseen(&self, queue: Option<QueueId>) -> Vec<Pair> {
        (0..self.rules.len()).map(|rule| (rule, queue)).collect()
    }

    /// Takes the share of the disk that is in use.
    pub(crate) fn take_disk(&self, share: f64, now: Timestamp, news: &mut Vec<News>) -> Vec<Pair> {
        let of_disk = self.rules.iter().enumerate().filter(|(_, rule)| !rule.metric.is_of_queues());
        let pairs: Vec<Pair> = of_disk.map(|(number, _)| (number, None)).collect();
        pairs.iter().for_each(|pair| self.note(*pair, None, share, now, news));
        pairs
    }

    fn note(&self, pair: Pair, name: Option<&str>, value: f64, now: Timestamp, news: &mut Vec<News>) {
        let Some(rule) = self.rules.get(pair.0) else { return };
        let mut watched = self.watched.lock();
        if watched.pairs.len() >= WATCHED_MAX && !watched.pairs.contains_key(&pair) {
            if !std::mem::replace(&mut watched.is_told, true) {
                news.push(News::TooManyAlarms { watched: WATCHED_MAX });
            }
            return;
        }
        let alarm = watched.pairs.entry(pair).or_insert_with(|| Alarm {
            rule: rule.clone(),
            queue: name.map(Into::into),
            is_firing: false,
            since: now,
            value,
            above_since: None,
        });
        if alarm.note(value, now) {
            news.push(News::Alarm(alarm.change(now)));
        }
    }

    /// Forgets what a look did not find any more: a queue that was deleted ends its alarms.
    pub(crate) fn forget_others(&self, seen: &HashSet<Pair>, now: Timestamp, news: &mut Vec<News>) {
        let mut watched = self.watched.lock();
        watched.pairs.retain(|pair, alarm| {
            let stays = seen.contains(pair);
            if !stays && alarm.is_firing {
                (alarm.is_firing, alarm.value) = (false, 0.0);
                news.push(News::Alarm(alarm.change(now)));
            }
            stays
        });
    }

    /// All of them: those that fire first, then by rule and queue.
    pub(crate) fn all(&self) -> Vec<Alarm> {
        let mut all: Vec<(Pair, Alarm)> =
            self.watched.lock().pairs.iter().map(|(pair, alarm)| (*pair, alarm.clone())).collect();
        all.sort_by(|(one, first), (other, second)| {
            (!first.is_firing, one.0, &first.queue).cmp(&(!second.is_firing, other.0, &second.queue))
        });
        all.into_iter().map(|(_, alarm)| alarm).collect()
    }
}

impl Alarm {
    /// Notes what was measured; true when the alarm begins or ends by it.
    fn note(&mut self, value: f64, now: Timestamp) -> bool {
        self.value = value;
        if value > self.rule.above {
            let since = *self.above_since.get_or_insert(now);
            if self.is_firing || now.since(since) < self.rule.lasting {
                return false;
            }
        } else {
            self.above_since = None;
            if !self.is_firing {
                return false;
            }
        }
        (self.is_firing, self.since) = (!self.is_firing, now);
        true
    }

    fn change(&self, at: Timestamp) -> AlarmChange {
        AlarmChange {
            name: Arc::clone(&self.rule.name),
            queue: self.queue.as_deref().map(str::to_owned),
            metric: self.rule.metric.name(),
            is_firing: self.is_firing,
            at,
            value: self.value,
            bound: self.rule.above,
            webhook: self.rule.webhook.clone(),
        }
    }
}

fn is_for(rule: &AlarmRule, key: &QueueKey) -> bool {
    if !rule.metric.is_of_queues() {
        return false;
    }
    if rule.queue.contains(':') {
        return is_like(&format!("{}:{}:{}", key.account, key.region, key.name), &rule.queue);
    }
    is_like(&key.name, &rule.queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn alarms(metric: AlarmMetric, above: f64, seconds: u64) -> Alarms {
        Alarms::new(&[AlarmRule {
            name: "rule".into(),
            queue: "*".into(),
            metric,
            above,
            lasting: Duration::from_secs(seconds),
            webhook: None,
        }])
    }

    /// What changes when this is measured of one queue at this second.
    fn measure(alarms: &Alarms, second: u64, value: f64) -> Vec<bool> {
        let mut news = Vec::new();
        alarms.note((0, Some(QueueId(1))), Some("orders"), value, Timestamp(second * 1_000), &mut news);
        let change = |news| match news {
            News::Alarm(change) => change.is_firing,
            other => panic!("an alarm is expected: {other:?}"),
        };
        news.into_iter().map(change).collect()
    }

    #[test]
    fn an_alarm_begins_when_the_metric_was_above_its_bound_for_the_time() {
        let alarms = alarms(AlarmMetric::Visible, 10.0, 15);
        for (second, value, changes) in [
            (0, 10.0, &[][..]),
            (5, 11.0, &[]),
            (15, 11.0, &[]),
            (20, 10.0, &[]),
            (25, 11.0, &[]),
            (35, 12.0, &[]),
            (40, 13.0, &[true]),
            (45, 14.0, &[]),
            (50, 10.0, &[false]),
            (55, 99.0, &[]),
        ] {
            assert_eq!(measure(&alarms, second, value), changes, "at {second} s");
        }
        let alarm = alarms.all().remove(0);
        assert_eq!((alarm.is_firing, alarm.since, alarm.value), (false, Timestamp(50_000), 99.0));
    }

    #[test]
    fn without_a_time_an_alarm_begins_at_once() {
        let alarms = alarms(AlarmMetric::Visible, 0.0, 0);
        assert_eq!(measure(&alarms, 5, 1.0), [true]);
    }

    #[test]
    fn a_queue_that_is_deleted_ends_its_alarm() {
        let alarms = alarms(AlarmMetric::Visible, 0.0, 0);
        measure(&alarms, 5, 1.0);
        let mut news = Vec::new();
        alarms.forget_others(&HashSet::new(), Timestamp(9_000), &mut news);
        assert!(matches!(&news[..], [News::Alarm(change)] if !change.is_firing), "{news:?}");
        assert!(alarms.all().is_empty());
    }

    #[test]
    fn pairs_are_bounded_and_it_is_told_once_that_there_are_more() {
        let alarms = alarms(AlarmMetric::Visible, 0.0, 0);
        let mut news = Vec::new();
        for queue in 0..WATCHED_MAX as u64 + 2 {
            alarms.note((0, Some(QueueId(queue))), Some("q"), 0.0, Timestamp(1), &mut news);
        }
        assert_eq!(news, [News::TooManyAlarms { watched: WATCHED_MAX }]);
        assert_eq!(alarms.all().len(), WATCHED_MAX);
    }
}
