//! What the host tells: lines with a level, by the host's own clock.

use std::fmt;
use std::sync::Arc;

use kew_core::Timestamp;

use crate::clock::HostClock;

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Of use when something is looked for.
    Debug,
    /// Good to know.
    Info,
    /// Somebody should look at it.
    Warn,
    /// Something failed.
    Error,
}

/// Takes lines: when, how much it matters, the line, further fields.
pub type Sink = dyn Fn(Timestamp, Level, &str, &[(&str, &str)]) + Send + Sync;

/// Where lines go.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) sink: Arc<Sink>,
    pub(crate) clock: HostClock,
}

impl Log {
    pub(crate) fn debug(&self, line: &str, fields: &[(&str, &str)]) {
        self.tell(Level::Debug, line, fields);
    }

    pub(crate) fn info(&self, line: &str) {
        self.tell(Level::Info, line, &[]);
    }

    pub(crate) fn warn(&self, line: &str) {
        self.tell(Level::Warn, line, &[]);
    }

    pub(crate) fn error(&self, line: &str) {
        self.tell(Level::Error, line, &[]);
    }

    pub(crate) fn tell(&self, level: Level, line: &str, fields: &[(&str, &str)]) {
        (self.sink)(self.clock.now(), level, line, fields);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}
