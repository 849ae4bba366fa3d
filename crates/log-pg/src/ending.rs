//! Ends an opening from another thread: a shard that it has taken by then is given up.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::PgDisk;

/// How long a try to take the shard is waited for: it may succeed, and what it took is to be given up.
const TRY_MAX: Duration = Duration::from_secs(5);

/// How far an opening is, and whether it is to end.
#[derive(Default)]
pub struct Ending {
    state: Mutex<State>,
    /// Rings when a try has ended.
    tried: Condvar,
}

#[derive(Default)]
struct State {
    is_over: bool,
    is_trying: bool,
    taken: Option<PgDisk>,
}

impl Ending {
    /// A try to take the shard begins. False when the opening is to end: nothing is taken any more.
    pub(crate) fn begin(&self) -> bool {
        let (begins, _before) = {
            let mut state = self.state.lock();
            state.is_trying = !state.is_over;
            (state.is_trying, state.taken.take())
        };
        // What was taken before is dropped without the lock: that may wait for the thread of its connections.
        begins
    }

    /// The try has ended.
    pub(crate) fn tried(&self, taken: Option<&PgDisk>) {
        let _before = {
            let mut state = self.state.lock();
            state.is_trying = false;
            self.tried.notify_all();
            std::mem::replace(&mut state.taken, taken.cloned())
        };
    }

    /// Whether the opening is to end.
    pub fn is_over(&self) -> bool {
        self.state.lock().is_over
    }

    /// Ends the opening: nothing is taken from now on, and what was taken is given up, so that another node can take it
    /// at once. The store that is being opened on it can write nothing any more.
    pub fn end(&self) {
        let until = Instant::now() + TRY_MAX;
        let taken = {
            let mut state = self.state.lock();
            state.is_over = true;
            while state.is_trying && !self.tried.wait_until(&mut state, until).timed_out() {}
            state.taken.take()
        };
        if let Some(disk) = taken {
            disk.give_up();
        }
    }
}
