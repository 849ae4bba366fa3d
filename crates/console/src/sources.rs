//! What the console reads of the program beside its engine: figures of the store, and what came of pushes.

use std::time::Duration;

use kew_core::{QueueKey, Timestamp};

/// Tells how many bytes of a store's files messages need, and how many nothing needs any more.
pub type StoreBytes = dyn Fn() -> (u64, u64) + Send + Sync;

/// Tells how much room a store's disk has; `None` while that is not known.
pub type StoreDisk = dyn Fn() -> Option<DiskSpace> + Send + Sync;

/// The room of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpace {
    /// Bytes that may still be written.
    pub free: u64,
    /// Bytes of it all.
    pub all: u64,
}

impl DiskSpace {
    /// The share that is in use, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    pub(crate) fn share(self) -> f64 {
        if self.all == 0 { 0.0 } else { 1.0 - self.free.min(self.all) as f64 / self.all as f64 }
    }
}

/// What and where a store is, and whose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorePlace {
    /// `memory`, `directory` or `postgres`.
    pub kind: &'static str,
    /// Where, for people; without secrets.
    pub text: String,
    /// The node that owns it.
    pub owner: String,
    /// Raised by every take-over; 0 where no other node can take it.
    pub epoch: u64,
    /// Since when this node owns it.
    pub since: Timestamp,
}

/// One setting of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownSetting {
    /// The section of the file.
    pub section: String,
    /// The key there.
    pub key: String,
    /// Its value; a secret is hidden. `None` when it is not set.
    pub value: Option<String>,
    /// Where that came from.
    pub origin: String,
}

/// Counts batches brought to consumers, by outcome.
pub type PushAttempts = dyn Fn() -> [(&'static str, u64); 3] + Send + Sync;

/// One batch brought to a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushAttempt {
    /// When it left, in engine time.
    pub at: Timestamp,
    /// From which queue.
    pub queue: QueueKey,
    /// To which consumer: its id.
    pub consumer: String,
    /// What that is, for people.
    pub target: String,
    /// Which delivery it was.
    pub batch: String,
    /// Messages in it.
    pub messages: u32,
    /// Messages that are done.
    pub acked: u32,
    /// How it ended, in the word of the metrics.
    pub outcome: &'static str,
    /// How long it took, in real time.
    pub took: Duration,
    /// The status of the reply, where there was one.
    pub status: Option<u16>,
    /// What went wrong, for people.
    pub error: Option<String>,
}

/// A consumer whose target cannot be reached: nothing is leased for it until a try succeeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushCircuit {
    /// Which queue waits.
    pub queue: QueueKey,
    /// For which consumer: its id.
    pub consumer: String,
    /// What that is, for people.
    pub target: String,
    /// Since when, in engine time.
    pub since: Timestamp,
    /// Tries that failed since then.
    pub tries: u32,
    /// The pause between the latest try and the next, in real time.
    pub pause: Duration,
    /// Why the latest failed.
    pub error: String,
}

/// Tells which consumers cannot be reached, the longest so first.
pub type OpenCircuits = dyn Fn() -> Vec<PushCircuit> + Send + Sync;

/// Tells the latest batches brought to consumers, the newest first.
pub type LatestPushes = dyn Fn() -> Vec<PushAttempt> + Send + Sync;

/// Backs the store up while it is in use. At most one backup runs at a time.
pub trait Backups: Send + Sync {
    /// Begins a backup into a directory, and answers its task. May wait for the disk.
    fn begin(&self, to: &str, link: bool) -> Result<String, BackupRefused>;

    /// How far a task is; `None` for one that is not known, or no longer.
    fn task(&self, task: &str) -> Option<BackupTask>;

    /// How many were done and how many failed since the server started.
    fn ended(&self) -> (u64, u64);
}

/// Why a backup did not begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackupRefused {
    /// The directory cannot be the place of a backup, and why.
    Target(String),
    /// There is something in the directory.
    NotEmpty(String),
    /// This task runs.
    Running(String),
    /// The server is stopping, or the machine refused.
    Unavailable(String),
}

/// A backup, as far as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackupTask {
    /// Where it stands.
    pub state: BackupState,
    /// The directory.
    pub to: String,
    /// Bytes that are in it by now.
    pub bytes: u64,
    /// Bytes that will be in it; 0 until that is known.
    pub of: u64,
}

/// Where a backup stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackupState {
    /// It is being made.
    Running,
    /// It is whole.
    Done {
        /// Its files.
        files: u64,
        /// Those of them that are the store's own under a second name.
        linked: u64,
    },
    /// It was given up, for this reason.
    Failed(String),
}
