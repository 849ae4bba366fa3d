//! What a test lets go wrong in the simulated database itself, beside what chance picks.

use std::time::Duration;

use super::database::SimDatabase;
use super::faults::Hanging;

impl SimDatabase {
    /// The next looks at the clock find their connection cut, this many.
    pub fn cut_looks_at_clock(&self, count: u64) {
        self.0.lock().looks_to_cut = count;
    }

    /// From now on statements of this kind are never answered, and no others. Those under way are not changed by it.
    pub fn let_hang(&self, hanging: Hanging) {
        self.0.lock().hanging = hanging;
    }

    pub(super) fn lets_hang(&self, kind: Hanging) -> bool {
        self.0.lock().hanging == kind
    }

    /// From now on a pooler stands before the server, in transaction mode: a connection without a statement under way
    /// outlives the server, and its next statement comes to the one that is there then.
    pub fn pool_connections(&self) {
        self.0.lock().is_pooled = true;
    }

    /// No connection is taken that would be one more than there are now.
    pub fn take_no_more_connections(&self) {
        let mut state = self.0.lock();
        state.connections_max = state.connections;
    }

    /// Connections there are.
    pub fn connections(&self) -> u64 {
        self.0.lock().connections
    }

    /// A client has closed its connection.
    pub(super) fn disconnected(&self, incarnation: u64) {
        let mut state = self.0.lock();
        if state.is_same(incarnation).is_ok() {
            state.connections -= 1;
        }
    }

    pub(super) fn row_arrives_after(&self) -> Duration {
        Duration::from_millis(self.0.lock().rates.row_arrives_ms)
    }

    pub(super) fn cuts_this_look(&self) -> bool {
        let mut state = self.0.lock();
        let cuts = state.looks_to_cut > 0;
        state.looks_to_cut = state.looks_to_cut.saturating_sub(1);
        cuts
    }
}
