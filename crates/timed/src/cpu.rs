//! CPU time of a thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time this thread has taken.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}
