//! What only the machine knows: chance, the time, and how many files may be open.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kew_core::{Clock, Entropy, Timestamp, time::millis};
use kew_engine::TimeSource;
use kew_log_pg::Tenure;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

const BLOCK_BYTES: usize = 4096;

/// A clock that cannot be set.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The system's random numbers, fetched a block at a time: a system call for each would cost more than its use.
pub struct SystemEntropy {
    /// Guards what is left of the block.
    block: Mutex<Block>,
}

struct Block {
    bytes: Box<[u8; BLOCK_BYTES]>,
    used: usize,
}

impl SystemEntropy {
    /// The system's entropy, if it has any.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = Box::new([0; BLOCK_BYTES]);
        getrandom::fill(&mut *bytes)?;
        Ok(Self { block: Mutex::new(Block { bytes, used: 0 }) })
    }

    fn take<const N: usize>(&self) -> [u8; N] {
        let mut block = self.block.lock();
        if block.used + N > BLOCK_BYTES {
            // Ids and lease tokens without chance would be worse than none: there is nothing to go on with.
            getrandom::fill(&mut *block.bytes).expect("the system that gave random numbers still does");
            block.used = 0;
        }
        let from = block.used;
        block.used += N;
        let mut taken = [0; N];
        taken.copy_from_slice(&block.bytes[from..from + N]);
        taken
    }
}

impl Entropy for SystemEntropy {
    fn bits(&self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    fn wide_bits(&self) -> u128 {
        u128::from_ne_bytes(self.take())
    }
}

impl fmt::Debug for SystemEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SystemEntropy")
    }
}

/// The system's clocks.
#[derive(Debug, Default)]
pub struct SystemTimeSource;

impl TimeSource for SystemTimeSource {
    fn system(&self) -> Timestamp {
        system_now()
    }

    fn steady(&self) -> Duration {
        // It goes on while the machine sleeps: a laptop that was closed for a night has not leapt.
        let since_boot = clock_gettime(STEADY);
        Duration::try_from(since_boot).unwrap_or(Duration::ZERO)
    }
}

/// The clock of the database that a shard is kept in, carried on by this machine's between two looks at it. Whichever
/// node owns the shard, its time is the same.
pub struct DatabaseTime {
    tenure: Arc<Tenure>,
}

impl DatabaseTime {
    /// The clock that a tenure follows.
    pub fn new(tenure: Arc<Tenure>) -> Self {
        Self { tenure }
    }
}

impl TimeSource for DatabaseTime {
    fn system(&self) -> Timestamp {
        Timestamp(self.tenure.now_ms())
    }

    fn steady(&self) -> Duration {
        SystemTimeSource.steady()
    }
}

/// The system clock as it is, for what has nothing to do with queues.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        system_now()
    }
}

/// What the system clock shows.
pub fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp(millis(since))
}

/// What this machine is called.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Raises the soft limit of open files to the hard one, and says how many files may be open now.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raise = |to| setrlimit(Resource::Nofile, Rlimit { current: to, maximum: limit.maximum }).is_ok();
        // macOS takes no more where it says that there is no hard limit.
        let most = Some(limit.maximum.unwrap_or(u64::MAX).min(10_240));
        // Where both are refused, the limit that holds is the one that is asked for next.
        let _raised = raise(limit.maximum) || (limit.current < most && raise(most));
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Bytes that may still be written to the disk at a path, and bytes of it all.
pub fn disk_bytes(path: &std::path::Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    let of = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some((of(found.f_bavail), of(found.f_blocks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn chance_goes_on_across_blocks_without_repeating() {
        let entropy = SystemEntropy::new().expect("the system has entropy");
        let mut seen = HashSet::new();
        for _ in 0..2_000 {
            assert!(seen.insert(u128::from(entropy.bits())));
            assert!(seen.insert(entropy.wide_bits()));
        }
    }

    #[test]
    fn raising_the_limit_again_changes_nothing() {
        assert_eq!(raise_open_files(), raise_open_files());
    }
}
