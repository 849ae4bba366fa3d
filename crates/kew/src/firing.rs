//! Which alarms fire, kept in a small file beside the store: the end of one that ended during a restart is posted after
//! it. An alarm with a webhook counts as firing here from when its beginning was posted until its end was.
//!
//! The file is a convenience. One that cannot be read or written costs that news, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kew_console::{AlarmChange, AlarmRule, Firing};
use parking_lot::Mutex;

use crate::private;

/// Its name in the store's directory.
const NAME: &str = "ALARMS";
/// The largest file that is read.
const BYTES_MAX: u64 = 8 << 20;

/// Hears why the file could not be written.
type Failed = Box<dyn Fn(&io::Error) + Send + Sync>;

/// The alarms that fire, and where they are kept.
pub(crate) struct FiringAlarms {
    /// None where the store is not a directory.
    path: Option<PathBuf>,
    failed: Failed,
    /// Guards the alarms and their file.
    kept: Mutex<NotedAlarms>,
}

#[derive(Default)]
struct NotedAlarms {
    firing: BTreeSet<Firing>,
    /// Whether the file says something else.
    is_changed: bool,
    /// Whether it was reported that the file cannot be written.
    is_told: bool,
}

impl FiringAlarms {
    /// What a store's directory says of the rules that there are.
    pub(crate) fn read(directory: Option<&Path>, rules: &[AlarmRule], failed: Failed) -> Self {
        let path = directory.map(|directory| directory.join(NAME));
        let mut firing = path.as_deref().and_then(read).unwrap_or_default();
        let known = firing.len();
        firing.retain(|firing| rules.iter().any(|rule| *rule.name == *firing.rule));
        let is_changed = firing.len() < known;
        Self { path, failed, kept: Mutex::new(NotedAlarms { firing, is_changed, is_told: false }) }
    }

    /// Those that fired when the server ended.
    pub(crate) fn all(&self) -> Vec<Firing> {
        self.kept.lock().firing.iter().cloned().collect()
    }

    /// Notes a change, for the next [`FiringAlarms::save`].
    pub(crate) fn note(&self, change: &AlarmChange) {
        let firing = Firing { rule: change.name.to_string(), queue: change.queue.clone() };
        let mut kept = self.kept.lock();
        let changes = if change.is_firing { kept.firing.insert(firing) } else { kept.firing.remove(&firing) };
        kept.is_changed |= changes;
    }

    /// Writes the file, if it says something else. Only for the one who has the store.
    pub(crate) fn save(&self) {
        let mut kept = self.kept.lock();
        let Some(path) = self.path.as_deref().filter(|_| kept.is_changed) else { return };
        match write(path, &kept.firing) {
            Ok(()) => (kept.is_changed, kept.is_told) = (false, false),
            Err(error) => {
                // Once while it lasts: each alarm that changes tries again.
                if !std::mem::replace(&mut kept.is_told, true) {
                    (self.failed)(&error);
                }
            }
        }
    }
}

fn read(path: &Path) -> Option<BTreeSet<Firing>> {
    let is_small = fs::metadata(path).is_ok_and(|file| file.len() <= BYTES_MAX);
    let text = is_small.then(|| fs::read(path).ok()).flatten()?;
    let pairs: Vec<(String, Option<String>)> = serde_json::from_slice(&text).ok()?;
    Some(pairs.into_iter().map(|(rule, queue)| Firing { rule, queue }).collect())
}

fn write(path: &Path, all: &BTreeSet<Firing>) -> io::Result<()> {
    let pairs: Vec<(&str, Option<&str>)> =
        all.iter().map(|firing| (firing.rule.as_str(), firing.queue.as_deref())).collect();
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = private::make_file(&temporary)?;
    file.write_all(serde_json::to_string(&pairs).unwrap_or_default().as_bytes())?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_console::AlarmMetric;
    use std::time::Duration;

    fn change(queue: &str, is_firing: bool) -> AlarmChange {
        AlarmChange {
            name: "old".into(),
            queue: Some(queue.to_owned()),
            metric: "visible",
            is_firing,
            at: kew_core::Timestamp(1),
            value: 1.0,
            bound: 0.0,
            webhook: None,
        }
    }

    fn rule(name: &str) -> AlarmRule {
        AlarmRule {
            name: name.into(),
            queue: "*".into(),
            metric: AlarmMetric::Visible,
            above: 0.0,
            lasting: Duration::ZERO,
            webhook: None,
        }
    }

    fn read_in(directory: &Path) -> FiringAlarms {
        let failed = |error: &io::Error| panic!("the directory is ours: {error}");
        FiringAlarms::read(Some(directory), &[rule("old")], Box::new(failed))
    }

    #[test]
    fn alarms_that_fire_are_read_again_and_damage_is_none() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let alarms = read_in(directory.path());
        for (queue, is_firing) in [("a", true), ("b", true), ("a", false)] {
            alarms.note(&change(queue, is_firing));
        }
        assert!(!directory.path().join(NAME).exists(), "the changes of a look are written once");
        alarms.save();
        let expected = [Firing { rule: "old".to_owned(), queue: Some("b".to_owned()) }];
        assert_eq!(read_in(directory.path()).all(), expected);
        fs::write(directory.path().join(NAME), "[").expect("the directory is ours");
        assert_eq!(read_in(directory.path()).all(), []);
        alarms.note(&change("b", true));
        alarms.save();
        assert_eq!(read_in(directory.path()).all(), [], "what changes nothing writes nothing");
    }

    #[test]
    fn alarms_of_a_rule_that_was_removed_leave_the_file() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let path = directory.path().join(NAME);
        fs::write(&path, r#"[["old","a"],["removed","a"],["removed",null]]"#).expect("the directory is ours");
        let alarms = read_in(directory.path());
        assert_eq!(alarms.all(), [Firing { rule: "old".to_owned(), queue: Some("a".to_owned()) }]);
        alarms.save();
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some(r#"[["old","a"]]"#));
    }
}
