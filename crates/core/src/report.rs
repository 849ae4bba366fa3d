//! Work beside requests: its kinds, and the listener that gets its results.
//!
//! No request waits for an answer of such work, so its failures must be made visible: the code that does it reports
//! each success and each failure, and the program makes log lines, metrics and reasons in `/readyz` of the reports.

use crate::Timestamp;

/// A kind of work that is done beside requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Work {
    /// Writing and syncing the journal. A failure stops the store until a restart.
    Commit,
    /// Making a checkpoint.
    Checkpoint,
    /// Copying living messages out of nearly dead segments.
    CopyForward,
    /// Preparing segment files ahead of need, and recycling those that were freed.
    Spare,
    /// Keeping the place of the next checkpoint on the disk.
    KeptRoom,
    /// Writing deduplication ids to files of their own.
    PutAway,
    /// Removing files that nothing needs any more.
    Sweep,
    /// Reading what is stored, so that damage is found early.
    Scrub,
    /// The thread that does the store's upkeep.
    Upkeep,
    /// What becomes due by itself: ends of leases and delays, expiry.
    Due,
    /// Moving messages by move tasks.
    Moves,
    /// Leasing and settling batches for push consumers.
    Push,
}

impl Work {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Commit,
        Self::Checkpoint,
        Self::CopyForward,
        Self::Spare,
        Self::KeptRoom,
        Self::PutAway,
        Self::Sweep,
        Self::Scrub,
        Self::Upkeep,
        Self::Due,
        Self::Moves,
        Self::Push,
    ];

    /// Its name, as metrics and log lines show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Checkpoint => "checkpoint",
            Self::CopyForward => "copy_forward",
            Self::Spare => "spare",
            Self::KeptRoom => "kept_room",
            Self::PutAway => "put_away",
            Self::Sweep => "sweep",
            Self::Scrub => "scrub",
            Self::Upkeep => "upkeep",
            Self::Due => "due",
            Self::Moves => "moves",
            Self::Push => "push",
        }
    }

    /// Whether it reports successes too. Work that reports failures alone counts as recovered when it has not failed
    /// for a while.
    pub fn tells_success(self) -> bool {
        !matches!(self, Self::Due | Self::Moves | Self::Push)
    }
}

/// Receives the results of work beside requests. Called by that work itself, so it must not block.
pub trait Reports: Send + Sync {
    /// It was done.
    fn succeeded(&self, work: Work);

    /// It could not be done.
    fn failed(&self, work: Work, cause: &str);

    /// A stored record cannot be read: its file, where in it, and what is wrong. Called once for each record.
    fn damaged(&self, file: &str, offset: u64, what: &str);

    /// This number of stored bytes was read to look for damage.
    fn scrubbed(&self, bytes: u64);

    /// All that is stored was looked at for damage; the last of it at this instant of the system clock.
    fn scrub_ended(&self, at: Timestamp);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_listed_once_and_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = Work::ALL.iter().map(|work| work.name()).collect();
        assert_eq!(names.len(), Work::ALL.len());
    }
}
