//! The audit log: every change made through the admin API, by whom, to what, and how it ended.
//!
//! The newest entries are in memory, bounded; each is also handed to the program, which logs it.

use std::collections::VecDeque;
use std::sync::Arc;

use kew_core::Timestamp;
use parking_lot::Mutex;

/// Entries that are kept.
const ENTRIES_MAX: usize = 10_000;
/// Characters of a target that are kept.
const TARGET_MAX: usize = 256;

/// One change, or the attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    /// Its place in the order of entries, counted from 1 at the start of the program.
    pub number: u64,
    /// When it ended, in engine time; the system's while no store is open.
    pub at: Timestamp,
    /// The user; `token` for the holder of the token, `open` where no proof is asked for.
    pub who: String,
    /// What was asked: an operation of the API.
    pub action: &'static str,
    /// What it was asked of: a queue, a task, a user; may be empty.
    pub target: String,
    /// `ok`, or the code of the error.
    pub outcome: &'static str,
}

/// Takes every entry as it is made.
pub type AuditSink = dyn Fn(&AuditEntry) + Send + Sync;

/// All entries.
pub(crate) struct Audit {
    /// Guards the entries; held for look-ups only.
    entries: Mutex<Entries>,
    sink: Arc<AuditSink>,
}

#[derive(Default)]
struct Entries {
    made: u64,
    /// Oldest first.
    kept: VecDeque<Arc<AuditEntry>>,
}

impl Audit {
    pub(crate) fn new(sink: Arc<AuditSink>) -> Self {
        Self { entries: Mutex::default(), sink }
    }

    pub(crate) fn note(
        &self,
        at: Timestamp,
        who: &str,
        action: &'static str,
        target: &str,
        outcome: &'static str,
    ) {
        let entry = {
            let mut entries = self.entries.lock();
            entries.made += 1;
            let target = target.chars().take(TARGET_MAX).collect();
            let entry = Arc::new(AuditEntry {
                number: entries.made,
                at,
                who: who.to_owned(),
                action,
                target,
                outcome,
            });
            if entries.kept.len() >= ENTRIES_MAX {
                entries.kept.pop_front();
            }
            entries.kept.push_back(Arc::clone(&entry));
            entry
        };
        // Outside the lock: the log may block.
        (self.sink)(&entry);
    }

    /// At most `max` entries, newest first, older than the one of number `before`.
    pub(crate) fn page(&self, before: Option<u64>, max: usize) -> Vec<Arc<AuditEntry>> {
        let entries = self.entries.lock();
        let older = |entry: &&Arc<AuditEntry>| before.is_none_or(|before| entry.number < before);
        entries.kept.iter().rev().filter(older).take(max).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded_paged_newest_first_and_handed_on() {
        let told = Arc::new(Mutex::new(0));
        let heard = Arc::clone(&told);
        let audit = Audit::new(Arc::new(move |entry| *heard.lock() = entry.number));
        for number in 1..=ENTRIES_MAX as u64 + 5 {
            audit.note(Timestamp(number), "anna", "purgeQueue", "orders", "ok");
        }
        let numbers =
            |before, max| -> Vec<u64> { audit.page(before, max).iter().map(|entry| entry.number).collect() };
        assert_eq!(*told.lock(), 10_005);
        assert_eq!(numbers(None, 2), [10_005, 10_004]);
        assert_eq!(numbers(Some(10_004), 2), [10_003, 10_002]);
        assert_eq!(numbers(Some(8), 9), [7, 6], "five were forgotten");
    }

    #[test]
    fn a_long_target_is_cut() {
        let audit = Audit::new(Arc::new(|_| {}));
        audit.note(Timestamp(1), "anna", "purgeQueue", &"é".repeat(1_000), "ok");
        assert_eq!(audit.page(None, 1)[0].target.chars().count(), TARGET_MAX);
    }
}
