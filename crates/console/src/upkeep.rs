//! How the work beside requests goes: what fails, since when and why, for log lines, metrics and `/readyz`.
//!
//! A failure is reported when it begins, again at a bounded rate while it lasts, and when it ends. A work that
//! reports failures alone counts as recovered when it has not failed for a minute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kew_core::{Reports, Timestamp, Work};
use kew_engine::TimeSource;
use parking_lot::Mutex;

/// A failure that lasts so long is a reason in the body of `/readyz`.
const LASTING: Duration = Duration::from_secs(60);
/// Time between two reports of a failure that lasts.
const REPORT_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Time between two reports of work that fails and succeeds in turns.
const REPORT_ANEW_AFTER: Duration = Duration::from_secs(60);
/// Work that reports no success has recovered when it has not failed for so long.
const QUIET: Duration = Duration::from_secs(60);

/// A report to the operator about work beside requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UpkeepNews {
    /// It fails.
    Fails {
        /// Which work.
        work: Work,
        /// Why.
        cause: String,
        /// For how long by now; zero when it began just now.
        since: Duration,
        /// Failures since the last line about it.
        times: u64,
    },
    /// A stored record cannot be read.
    Damaged {
        /// Its file, within the store's directory.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// It was done, and had not failed before.
    Done {
        /// Which work.
        work: Work,
    },
    /// It works again.
    Recovered {
        /// Which work.
        work: Work,
        /// How long it failed.
        after: Duration,
    },
}

/// Collects how work goes. The workers get it as [`Reports`].
pub struct UpkeepReport {
    source: Arc<dyn TimeSource>,
    tell: Box<dyn Fn(UpkeepNews) + Send + Sync>,
    /// Guards what is known; held for look-ups only, so a health check never waits.
    known: Mutex<BTreeMap<Work, Known>>,
    damaged: AtomicU64,
    scrubbed_bytes: AtomicU64,
    /// When the last whole scrub ended, in milliseconds; 0 when none has.
    scrub_ended: AtomicU64,
}

/// What is known of one work.
#[derive(Default)]
struct Known {
    failures: u64,
    failing: Option<Failing>,
    /// When a failure was last reported.
    told_at: Option<Duration>,
    /// Failures since then.
    untold: u64,
}

struct Failing {
    since: Duration,
    latest: Duration,
    cause: String,
    is_told: bool,
}

/// How one work goes, for metrics.
pub(crate) struct Figures {
    pub work: Work,
    pub failures: u64,
    pub is_failing: bool,
}

impl UpkeepReport {
    /// A report that measures time by `source` and tells news to `tell`.
    pub fn new(source: Arc<dyn TimeSource>, tell: impl Fn(UpkeepNews) + Send + Sync + 'static) -> Self {
        Self {
            source,
            tell: Box::new(tell),
            known: Mutex::default(),
            damaged: AtomicU64::new(0),
            scrubbed_bytes: AtomicU64::new(0),
            scrub_ended: AtomicU64::new(0),
        }
    }

    /// Why a server that serves is not as well as it should be: one line for each work that has failed for long.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let now = self.source.steady();
        let known = self.known.lock();
        let failing = known.iter().filter_map(|(work, known)| Some((work, known.failing_at(*work, now)?)));
        let lasting = failing.filter(|(_, failing)| now.saturating_sub(failing.since) >= LASTING);
        let line = |(work, failing): (&Work, &Failing)| {
            let seconds = now.saturating_sub(failing.since).as_secs();
            format!("{} has failed for {seconds} seconds: {}", work.name(), failing.cause)
        };
        lasting.map(line).collect()
    }

    /// Records found damaged since the start.
    pub(crate) fn damaged_records(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Stored bytes looked at for damage since the start, and the second in which the last whole pass ended.
    pub(crate) fn scrubbed(&self) -> (u64, u64) {
        let ended = self.scrub_ended.load(Ordering::Relaxed);
        (self.scrubbed_bytes.load(Ordering::Relaxed), ended / 1_000)
    }

    /// How each work goes.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        let now = self.source.steady();
        let known = self.known.lock();
        let figures = |work: &Work| {
            let known = known.get(work);
            Figures {
                work: *work,
                failures: known.map_or(0, |known| known.failures),
                is_failing: known.is_some_and(|known| known.failing_at(*work, now).is_some()),
            }
        };
        Work::ALL.iter().map(figures).collect()
    }
}

impl Reports for UpkeepReport {
    fn succeeded(&self, work: Work) {
        let now = self.source.steady();
        let ended = self.known.lock().get_mut(&work).and_then(|known| known.failing.take());
        let news = match ended.filter(|ended| ended.is_told) {
            Some(ended) => UpkeepNews::Recovered { work, after: now.saturating_sub(ended.since) },
            None => UpkeepNews::Done { work },
        };
        (self.tell)(news);
    }

    fn failed(&self, work: Work, cause: &str) {
        let now = self.source.steady();
        let news = self.known.lock().entry(work).or_default().fails(work, cause, now);
        // Reported outside the lock: the log may block.
        news.into_iter().for_each(&self.tell);
    }

    fn damaged(&self, file: &str, offset: u64, what: &str) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
        (self.tell)(UpkeepNews::Damaged { file: file.to_owned(), offset, what: what.to_owned() });
    }

    fn scrubbed(&self, bytes: u64) {
        self.scrubbed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn scrub_ended(&self, at: Timestamp) {
        self.scrub_ended.store(at.0, Ordering::Relaxed);
    }
}

impl Known {
    /// Notes a failure, and returns what is to be reported: the end of one that lapsed, and this one.
    fn fails(&mut self, work: Work, cause: &str, now: Duration) -> Vec<UpkeepNews> {
        let mut news = Vec::new();
        if self.failing_at(work, now).is_none()
            && let Some(lapsed) = self.failing.take().filter(|lapsed| lapsed.is_told)
        {
            news.push(UpkeepNews::Recovered { work, after: lapsed.latest.saturating_sub(lapsed.since) });
        }
        self.failures += 1;
        self.untold += 1;
        let failing = self.failing.get_or_insert_with(|| Failing {
            since: now,
            latest: now,
            cause: String::new(),
            is_told: false,
        });
        failing.latest = now;
        cause.clone_into(&mut failing.cause);
        let rest = if failing.is_told { REPORT_AGAIN_AFTER } else { REPORT_ANEW_AFTER };
        if self.told_at.is_none_or(|told| now.saturating_sub(told) >= rest) {
            failing.is_told = true;
            self.told_at = Some(now);
            let times = std::mem::take(&mut self.untold);
            let since = now.saturating_sub(failing.since);
            news.push(UpkeepNews::Fails { work, cause: cause.to_owned(), since, times });
        }
        news
    }

    /// The failure that lasts at an instant.
    fn failing_at(&self, work: Work, now: Duration) -> Option<&Failing> {
        let lasts = |failing: &&Failing| work.tells_success() || now.saturating_sub(failing.latest) < QUIET;
        self.failing.as_ref().filter(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_core::Timestamp;

    /// A clock that stands where it is put.
    #[derive(Default)]
    struct Steady(Mutex<Duration>);

    impl TimeSource for Steady {
        fn system(&self) -> Timestamp {
            Timestamp::ZERO
        }

        fn steady(&self) -> Duration {
            *self.0.lock()
        }
    }

    struct Bench {
        clock: Arc<Steady>,
        told: Arc<Mutex<Vec<UpkeepNews>>>,
        report: UpkeepReport,
    }

    fn bench() -> Bench {
        let (clock, told) = (Arc::new(Steady::default()), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&told);
        let report = UpkeepReport::new(clock.clone(), move |news| heard.lock().push(news));
        Bench { clock, told, report }
    }

    impl Bench {
        fn at(&self, seconds: u64) -> &UpkeepReport {
            *self.clock.0.lock() = Duration::from_secs(seconds);
            &self.report
        }

        /// The failures that were reported.
        fn told(&self) -> Vec<UpkeepNews> {
            let mut told = std::mem::take(&mut *self.told.lock());
            told.retain(|news| !matches!(news, UpkeepNews::Done { .. }));
            told
        }
    }

    fn fails(work: Work, since: u64, times: u64) -> UpkeepNews {
        UpkeepNews::Fails { work, cause: "full".to_owned(), since: Duration::from_secs(since), times }
    }

    #[test]
    fn failure_is_reported_when_it_begins_at_times_while_it_lasts_and_when_it_ends() {
        let bench = bench();
        bench.at(0).succeeded(Work::Checkpoint);
        assert_eq!(*bench.told.lock(), [UpkeepNews::Done { work: Work::Checkpoint }]);
        assert_eq!(bench.told(), [], "nothing failed");
        for second in 0..1_201 {
            bench.at(100 + second).failed(Work::Checkpoint, "full");
        }
        let lines =
            [(0, 1), (600, 600), (1_200, 600)].map(|(since, times)| fails(Work::Checkpoint, since, times));
        assert_eq!(bench.told(), lines);
        bench.at(1_400).succeeded(Work::Checkpoint);
        bench.at(1_401).succeeded(Work::Checkpoint);
        let after = Duration::from_secs(1_300);
        assert_eq!(bench.told(), [UpkeepNews::Recovered { work: Work::Checkpoint, after }]);
    }

    #[test]
    fn work_that_fails_and_succeeds_in_turns_fills_no_log() {
        let bench = bench();
        for second in 0..300 {
            bench.at(second).failed(Work::Spare, "full");
            bench.report.succeeded(Work::Spare);
        }
        assert_eq!(bench.told().len(), 10, "a failure and a recovery each minute");
    }

    #[test]
    fn failure_that_lasts_is_a_reason_and_shows_in_the_figures_at_once() {
        let bench = bench();
        bench.at(10).failed(Work::Checkpoint, "full");
        bench.at(69).failed(Work::Checkpoint, "still full");
        assert_eq!(bench.report.reasons(), Vec::<String>::new());
        let reasons = bench.at(70).reasons();
        assert_eq!(reasons, ["checkpoint has failed for 60 seconds: still full"]);
        let failing: Vec<(Work, u64)> = bench
            .report
            .figures()
            .iter()
            .filter(|figures| figures.is_failing)
            .map(|figures| (figures.work, figures.failures))
            .collect();
        assert_eq!(failing, [(Work::Checkpoint, 2)]);
        bench.report.succeeded(Work::Checkpoint);
        assert_eq!(bench.report.reasons(), Vec::<String>::new());
    }

    #[test]
    fn work_that_reports_no_success_recovers_by_being_quiet() {
        let bench = bench();
        for second in (0..100).step_by(10) {
            bench.at(second).failed(Work::Due, "full");
        }
        assert_eq!(bench.at(100).reasons().len(), 1);
        assert_eq!(bench.at(150).reasons().len(), 0);
        assert!(bench.report.figures().iter().all(|figures| !figures.is_failing));
        bench.at(1_000).failed(Work::Due, "full");
        let recovered = UpkeepNews::Recovered { work: Work::Due, after: Duration::from_secs(90) };
        assert_eq!(bench.told(), [fails(Work::Due, 0, 1), recovered, fails(Work::Due, 0, 10)]);
    }
}
