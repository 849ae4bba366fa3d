//! How the work beside requests went, and the listener to which that is reported.
//!
//! The store is opened before it has a listener, so what fails is kept here too: a listener that comes later learns of
//! it, and upkeep asks here whether something waits to be tried again.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kew_core::{Reports, Timestamp, Work};
use parking_lot::Mutex;

use crate::error::LogError;

/// Doublings of the pause between tries: the longest is 64 times the first.
const DOUBLINGS_MAX: u32 = 6;

/// Reports how work went.
#[derive(Default)]
pub(crate) struct Reporting {
    listener: OnceLock<Arc<dyn Reports>>,
    /// Guards what failed the last time it was tried, with the cause.
    failing: Mutex<BTreeMap<Work, String>>,
}

impl Reporting {
    /// Reports go there from now on. The first listener stays.
    pub fn report_to(&self, listener: Arc<dyn Reports>) {
        let failing = self.failing.lock();
        if self.listener.set(Arc::clone(&listener)).is_ok() {
            failing.iter().for_each(|(work, cause)| listener.failed(*work, cause));
        }
    }

    /// Reports how work went.
    pub fn report<T>(&self, work: Work, result: &Result<T, LogError>) {
        match result {
            Ok(_) => self.succeeded(work),
            Err(error) => self.failed(work, &error.to_string()),
        }
    }

    /// It was done.
    pub fn succeeded(&self, work: Work) {
        let mut failing = self.failing.lock();
        failing.remove(&work);
        if let Some(listener) = self.listener.get() {
            listener.succeeded(work);
        }
    }

    /// It could not be done.
    pub fn failed(&self, work: Work, cause: &str) {
        let mut failing = self.failing.lock();
        failing.insert(work, cause.to_owned());
        if let Some(listener) = self.listener.get() {
            listener.failed(work, cause);
        }
    }

    /// It was done; reported if it failed before.
    pub fn succeeded_again(&self, work: Work) {
        if self.failing.lock().contains_key(&work) {
            self.succeeded(work);
        }
    }

    /// This many bytes were looked at for damage.
    pub fn scrubbed(&self, bytes: u64) {
        if let Some(listener) = self.listener.get() {
            listener.scrubbed(bytes);
        }
    }

    /// All of the store was looked at for damage; the last of it then.
    pub fn scrub_ended(&self, at: Timestamp) {
        if let Some(listener) = self.listener.get() {
            listener.scrub_ended(at);
        }
    }

    /// What failed the last time it was tried.
    pub fn failing(&self) -> Vec<(Work, String)> {
        self.failing.lock().iter().map(|(work, cause)| (*work, cause.clone())).collect()
    }

    /// Whether something did.
    pub fn is_failing(&self) -> bool {
        !self.failing.lock().is_empty()
    }
}

/// When upkeep that failed is tried again: soon at first, then ever later.
#[derive(Debug)]
pub(crate) struct Retry {
    first: Duration,
    failures: u32,
}

impl Retry {
    /// The first pause; later ones double, up to 64 times as long.
    pub fn new(first: Duration) -> Self {
        Self { first, failures: 0 }
    }

    /// A round ended. The pause before the next one, when something in it failed.
    pub fn after(&mut self, is_failing: bool) -> Option<Duration> {
        if !is_failing {
            self.failures = 0;
            return None;
        }
        let pause = self.first * (1 << self.failures);
        self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(Work, Option<String>)>>);

    impl Reports for Heard {
        fn succeeded(&self, work: Work) {
            self.0.lock().push((work, None));
        }

        fn failed(&self, work: Work, cause: &str) {
            self.0.lock().push((work, Some(cause.to_owned())));
        }

        fn damaged(&self, _: &str, _: u64, _: &str) {}

        fn scrubbed(&self, _: u64) {}

        fn scrub_ended(&self, _: Timestamp) {}
    }

    #[test]
    fn listener_that_comes_late_learns_of_what_fails() {
        let reporting = Reporting::default();
        reporting.failed(Work::Spare, "full");
        reporting.failed(Work::Sweep, "gone");
        reporting.succeeded(Work::Sweep);
        let heard = Arc::new(Heard::default());
        reporting.report_to(heard.clone());
        assert_eq!(*heard.0.lock(), [(Work::Spare, Some("full".to_owned()))]);
        assert!(reporting.is_failing());
        reporting.succeeded(Work::Spare);
        assert!(!reporting.is_failing());
        assert_eq!(heard.0.lock().last(), Some(&(Work::Spare, None)));
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_begin_anew_after_a_success() {
        let mut retry = Retry::new(Duration::from_secs(1));
        let pauses: Vec<u64> =
            (0..9).filter_map(|_| retry.after(true)).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(retry.after(false), None);
        assert_eq!(retry.after(true), Some(Duration::from_secs(1)));
    }
}
