//! A line that says how far a round is, for a person at a terminal; elsewhere nothing.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Draws a bar on standard error.
#[derive(Clone)]
pub(super) struct Progress {
    shown: bool,
}

const CELLS: usize = 30;

impl Progress {
    /// A bar, if somebody looks and wants it.
    pub(super) fn new(wanted: bool) -> Self {
        Self { shown: wanted && std::io::stderr().is_terminal() }
    }

    /// How often it is worth drawing.
    pub(super) const EVERY: Duration = Duration::from_millis(200);

    /// Draws how far it is.
    pub(super) fn draw(&self, what: &str, share: f64, messages: u64) {
        if !self.shown {
            return;
        }
        let filled = ((share.clamp(0.0, 1.0) * CELLS as f64) as usize).min(CELLS);
        let bar = "#".repeat(filled) + &".".repeat(CELLS - filled);
        // Nothing depends on the line being seen.
        let _drawn = write!(std::io::stderr(), "\r{what:<12} [{bar}] {messages} messages  ");
    }

    /// Wipes the line.
    pub(super) fn clear(&self) {
        if self.shown {
            let _wiped = write!(std::io::stderr(), "\r{:78}\r", "");
        }
    }
}
