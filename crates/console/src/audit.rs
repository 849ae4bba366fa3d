//! The audit log: every change made through the admin API, by whom, to what, and how it ended.
//!
//! The newest entries are in memory, bounded; each is also handed to the program, which logs it. Attempts of senders
//! who have proved nothing are kept apart, so that they cannot push out what others did, and repeats within a minute
//! are one entry, handed on once.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kew_core::Timestamp;
use parking_lot::Mutex;

/// Entries that are kept.
const ENTRIES_MAX: usize = 10_000;
/// Entries of senders who have proved nothing.
const UNPROVED_MAX: usize = 256;
/// Within this time a repeat of such an entry only adds to its count.
const FOLDED_WITHIN: Duration = Duration::from_secs(60);
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
    /// How often that happened in the minute from `at`; more than 1 only for senders who have proved nothing.
    pub times: u64,
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
    /// Those of senders who have proved nothing, oldest first.
    unproved: VecDeque<Arc<AuditEntry>>,
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
            let entry = entries.make(at, who, action, target, outcome);
            push(&mut entries.kept, &entry, ENTRIES_MAX);
            entry
        };
        // Outside the lock: the log may block.
        (self.sink)(&entry);
    }

    /// Notes what somebody attempted who has proved nothing.
    pub(crate) fn note_unproved(
        &self,
        at: Timestamp,
        who: &str,
        action: &'static str,
        target: &str,
        outcome: &'static str,
    ) {
        let entry = {
            let mut entries = self.entries.lock();
            let is_repeat = |entry: &&mut Arc<AuditEntry>| {
                let what = (&*entry.who, entry.action, &*entry.target, entry.outcome);
                what == (who, action, target, outcome) && at.since(entry.at) < FOLDED_WITHIN
            };
            if let Some(repeated) = entries.unproved.iter_mut().rev().find(is_repeat) {
                let repeated = Arc::make_mut(repeated);
                repeated.times = repeated.times.saturating_add(1);
                return;
            }
            let entry = entries.make(at, who, action, target, outcome);
            push(&mut entries.unproved, &entry, UNPROVED_MAX);
            entry
        };
        (self.sink)(&entry);
    }

    /// At most `max` entries, newest first, older than the one of number `before`.
    pub(crate) fn page(&self, before: Option<u64>, max: usize) -> Vec<Arc<AuditEntry>> {
        let entries = self.entries.lock();
        let older = |entry: &&Arc<AuditEntry>| before.is_none_or(|before| entry.number < before);
        let of = |kept: &VecDeque<Arc<AuditEntry>>| -> Vec<Arc<AuditEntry>> {
            kept.iter().rev().filter(older).take(max).cloned().collect()
        };
        let mut page = of(&entries.kept);
        page.extend(of(&entries.unproved));
        drop(entries);
        page.sort_unstable_by_key(|entry| Reverse(entry.number));
        page.truncate(max);
        page
    }
}

impl Entries {
    fn make(
        &mut self,
        at: Timestamp,
        who: &str,
        action: &'static str,
        target: &str,
        outcome: &'static str,
    ) -> Arc<AuditEntry> {
        self.made += 1;
        let target = target.chars().take(TARGET_MAX).collect();
        Arc::new(AuditEntry { number: self.made, at, who: who.to_owned(), action, target, outcome, times: 1 })
    }
}

fn push(entries: &mut VecDeque<Arc<AuditEntry>>, entry: &Arc<AuditEntry>, max: usize) {
    if entries.len() >= max {
        entries.pop_front();
    }
    entries.push_back(Arc::clone(entry));
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

    #[test]
    fn attempts_of_unknown_senders_push_out_no_change_and_repeats_are_one_entry_a_minute() {
        let handed_on = Arc::new(Mutex::new(0));
        let heard = Arc::clone(&handed_on);
        let audit = Audit::new(Arc::new(move |_| *heard.lock() += 1));
        audit.note(Timestamp(0), "anna", "purgeQueue", "orders", "ok");
        for number in 0..20_000 {
            let at = Timestamp(number);
            audit.note_unproved(at, "unknown", "beginSession", "(unknown user)", "wrong_password");
        }
        let page = audit.page(None, 10);
        let times: Vec<(&str, u64)> = page.iter().map(|entry| (&*entry.who, entry.times)).collect();
        assert_eq!(times, [("unknown", 20_000), ("anna", 1)]);
        assert_eq!(*handed_on.lock(), 2);
        audit.note_unproved(Timestamp(60_000), "unknown", "beginSession", "(unknown user)", "wrong_password");
        assert_eq!(audit.page(None, 10).len(), 3, "a minute later it is an entry of its own");
        for number in 0..1_000 {
            let user = format!("user {number}");
            audit.note_unproved(Timestamp(60_000), "unknown", "beginSession", &user, "wrong_password");
        }
        assert_eq!(audit.page(None, 10_000).len(), UNPROVED_MAX + 1);
    }
}
