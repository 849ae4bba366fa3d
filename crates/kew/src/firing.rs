//! Which alarms fire, kept in a small file beside the store: the end of one that ended during a restart is posted after
//! it.
//!
//! The file is a convenience. One that cannot be read or written costs that news, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kew_console::{AlarmChange, Firing};
use parking_lot::Mutex;

use crate::private;

/// Its name in the store's directory.
const NAME: &str = "ALARMS";
/// The largest file that is read.
const BYTES_MAX: u64 = 8 << 20;

/// The alarms that fire, and where they are kept.
pub(crate) struct FiringAlarms {
    /// None where the store is not a directory.
    path: Option<PathBuf>,
    /// Guards the alarms and their file.
    firing: Mutex<BTreeSet<Firing>>,
}

impl FiringAlarms {
    /// What a store's directory says.
    pub(crate) fn read(directory: Option<&Path>) -> Self {
        let path = directory.map(|directory| directory.join(NAME));
        let firing = path.as_deref().and_then(read).unwrap_or_default();
        Self { path, firing: Mutex::new(firing) }
    }

    /// Those that fired when the server ended.
    pub(crate) fn all(&self) -> Vec<Firing> {
        self.firing.lock().iter().cloned().collect()
    }

    /// Notes a change.
    pub(crate) fn note(&self, change: &AlarmChange) -> io::Result<()> {
        let firing = Firing { rule: change.name.to_string(), queue: change.queue.clone() };
        let mut all = self.firing.lock();
        let changes = if change.is_firing { all.insert(firing) } else { all.remove(&firing) };
        match &self.path {
            Some(path) if changes => write(path, &all),
            Some(_) | None => Ok(()),
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

    #[test]
    fn alarms_that_fire_are_read_again_and_damage_is_none() {
        let directory = tempfile::tempdir().expect("the machine has a temporary directory");
        let alarms = FiringAlarms::read(Some(directory.path()));
        for (queue, is_firing) in [("a", true), ("b", true), ("a", false)] {
            alarms.note(&change(queue, is_firing)).expect("the directory is ours");
        }
        let again = FiringAlarms::read(Some(directory.path()));
        assert_eq!(again.all(), [Firing { rule: "old".to_owned(), queue: Some("b".to_owned()) }]);
        fs::write(directory.path().join(NAME), "[").expect("the directory is ours");
        assert_eq!(FiringAlarms::read(Some(directory.path())).all(), []);
        assert_eq!(FiringAlarms::read(None).all(), []);
    }
}
