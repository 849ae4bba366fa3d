//! How much was given up because a bounded place was full or its reader failed: for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// What may be given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Droppable {
    /// A line of the access log.
    AccessLine,
    /// A span on its way to a collector.
    Span,
    /// A report of metrics on its way there.
    MetricsReport,
    /// A line of the log on its way there.
    LogRecord,
    /// A change of an alarm on its way to a webhook.
    AlarmPost,
}

impl Droppable {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AccessLine, Self::Span, Self::MetricsReport, Self::LogRecord, Self::AlarmPost];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessLine => "access_line",
            Self::Span => "span",
            Self::MetricsReport => "metrics_report",
            Self::LogRecord => "log_record",
            Self::AlarmPost => "alarm_post",
        }
    }
}

/// Counts what was given up since the start.
#[derive(Debug, Default)]
pub struct Dropped([AtomicU64; Droppable::ALL.len()]);

impl Dropped {
    /// Counts some more.
    pub fn add(&self, what: Droppable, count: u64) {
        if let Some(counter) = self.0.get(what as usize) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// How many there were.
    pub fn count(&self, what: Droppable) -> u64 {
        self.0.get(what as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}
