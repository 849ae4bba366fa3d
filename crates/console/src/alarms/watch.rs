//! Which alarms there are now, and how they change from look to look.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kew_core::{Counts, DeadLetterAction, Queue, QueueKey, Timestamp};
use parking_lot::Mutex;

use super::{AlarmMetric, AlarmRule, Firing, is_like};
use crate::metrics::InFlightLimits;
use crate::news::{AlarmChange, News};

/// Pairs of a rule and a queue that are watched. More are not, and that is reported.
const WATCHED_MAX: usize = 10_000;

/// A rule, and the queue; `None` for what belongs to none.
///
/// By name: a queue that is deleted and made anew between two looks has the alarms of its name.
type Pair = (usize, Option<Arc<str>>);

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
    /// Alarms of these rules, of which some fired when the server ended: the first look says whether they still do.
    pub(crate) fn new(rules: &[AlarmRule], firing: &[Firing]) -> Self {
        let of_rule = |firing: &Firing| {
            let number = rules.iter().position(|rule| *rule.name == *firing.rule)?;
            let queue: Option<Arc<str>> = firing.queue.as_deref().map(Into::into);
            let alarm = Alarm {
                rule: rules.get(number)?.clone(),
                queue: queue.clone(),
                is_firing: true,
                since: Timestamp::ZERO,
                value: 0.0,
                above_since: None,
            };
            Some(((number, queue), alarm))
        };
        let pairs = firing.iter().take(WATCHED_MAX).filter_map(of_rule).collect();
        Self { rules: rules.to_vec(), watched: Mutex::new(Watched { pairs, is_told: false }) }
    }

    /// Whether a queue is watched, or one more may be. The first time that one may not be, that is reported.
    pub(crate) fn has_room_for(&self, name: &Arc<str>, news: &mut Vec<News>) -> bool {
        let mut watched = self.watched.lock();
        if watched.pairs.len() < WATCHED_MAX {
            return true;
        }
        let is_known =
            (0..self.rules.len()).any(|rule| watched.pairs.contains_key(&(rule, Some(Arc::clone(name)))));
        if !is_known {
            watched.tell_too_many(news);
        }
        is_known
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
    pub(crate) fn take(&self, reading: &Reading<'_>, name: &Arc<str>, news: &mut Vec<News>) -> Vec<Pair> {
        let mut seen = Vec::new();
        for (number, rule) in
            self.rules.iter().enumerate().filter(|(_, rule)| is_for(rule, &reading.queue.key))
        {
            let Some(value) = reading.value(rule.metric) else { continue };
            let pair = (number, Some(Arc::clone(name)));
            self.note(&pair, value, reading.now, news);
            seen.push(pair);
        }
        seen
    }

    /// The pairs of a queue, or of the disk, that could not be looked at: they stay as they are.
    pub(crate) fn unseen(&self, queue: Option<&Arc<str>>) -> Vec<Pair> {
        (0..self.rules.len()).map(|rule| (rule, queue.cloned())).collect()
    }

    /// Takes the share of the disk that is in use.
    pub(crate) fn take_disk(&self, share: f64, now: Timestamp, news: &mut Vec<News>) -> Vec<Pair> {
        let of_disk = self.rules.iter().enumerate().filter(|(_, rule)| !rule.metric.is_of_queues());
        let pairs: Vec<Pair> = of_disk.map(|(number, _)| (number, None)).collect();
        pairs.iter().for_each(|pair| self.note(pair, share, now, news));
        pairs
    }

    fn note(&self, pair: &Pair, value: f64, now: Timestamp, news: &mut Vec<News>) {
        let Some(rule) = self.rules.get(pair.0) else { return };
        let mut watched = self.watched.lock();
        if watched.pairs.len() >= WATCHED_MAX && !watched.pairs.contains_key(pair) {
            watched.tell_too_many(news);
            return;
        }
        let alarm = watched.pairs.entry(pair.clone()).or_insert_with(|| Alarm {
            rule: rule.clone(),
            queue: pair.1.clone(),
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
            self.watched.lock().pairs.iter().map(|(pair, alarm)| (pair.clone(), alarm.clone())).collect();
        all.sort_by(|(one, first), (other, second)| {
            (!first.is_firing, one.0, &first.queue).cmp(&(!second.is_firing, other.0, &second.queue))
        });
        all.into_iter().map(|(_, alarm)| alarm).collect()
    }
}

impl Watched {
    fn tell_too_many(&mut self, news: &mut Vec<News>) {
        if !std::mem::replace(&mut self.is_told, true) {
            news.push(News::TooManyAlarms { watched: WATCHED_MAX });
        }
    }
}

impl Alarm {
    /// Notes what was measured; true when the alarm begins or ends by it.
    fn note(&mut self, value: f64, now: Timestamp) -> bool {
        self.value = value;
        if self.since == Timestamp::ZERO {
            // It fired when the server ended, and since when is not known.
            self.since = now;
        }
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

    fn rule(metric: AlarmMetric, above: f64, seconds: u64) -> AlarmRule {
        let lasting = Duration::from_secs(seconds);
        AlarmRule { name: "rule".into(), queue: "*".into(), metric, above, lasting, webhook: None }
    }

    fn alarms(metric: AlarmMetric, above: f64, seconds: u64) -> Alarms {
        Alarms::new(&[rule(metric, above, seconds)], &[])
    }

    /// What changes when this is measured of one queue at this second.
    fn measure(alarms: &Alarms, second: u64, value: f64) -> Vec<bool> {
        let mut news = Vec::new();
        alarms.note(&(0, Some("orders".into())), value, Timestamp(second * 1_000), &mut news);
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
            alarms.note(&(0, Some(queue.to_string().into())), 0.0, Timestamp(1), &mut news);
        }
        assert_eq!(news, [News::TooManyAlarms { watched: WATCHED_MAX }]);
        assert_eq!(alarms.all().len(), WATCHED_MAX);
        assert!(alarms.has_room_for(&"1".into(), &mut news));
        assert!(!alarms.has_room_for(&"another".into(), &mut news), "what is not watched is not counted");
    }

    #[test]
    fn an_alarm_that_fired_at_the_end_ends_at_the_first_look_that_finds_it_over_and_is_not_told_twice() {
        let firing = [Firing { rule: "rule".to_owned(), queue: Some("orders".to_owned()) }];
        let after_restart = || Alarms::new(&[rule(AlarmMetric::Visible, 5.0, 0)], &firing);
        assert_eq!(measure(&after_restart(), 5, 5.0), [false]);
        let goes_on = after_restart();
        assert_eq!(measure(&goes_on, 5, 6.0), [] as [bool; 0]);
        assert_eq!(measure(&goes_on, 10, 5.0), [false]);
        let (deleted, mut news) = (after_restart(), Vec::new());
        deleted.forget_others(&HashSet::new(), Timestamp(9_000), &mut news);
        assert!(matches!(&news[..], [News::Alarm(change)] if !change.is_firing), "{news:?}");
        let unknown = [Firing { rule: "removed".to_owned(), queue: None }];
        assert!(Alarms::new(&[rule(AlarmMetric::Visible, 5.0, 0)], &unknown).all().is_empty());
    }
}
