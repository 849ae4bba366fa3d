//! The versions of a Worker that are kept, and which of them ran when.
//!
//! Both are bounded. A version that is deployed is never forgotten; a deployment is remembered as long as its version
//! is kept, so that whatever the history names can be deployed again.

use kew_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::stored::{Changes, Record};

/// Versions of a Worker that are kept; the deployed one always is.
const VERSIONS_MAX: usize = 10;
/// Deployments that are remembered, the present one among them.
const DEPLOYMENTS_MAX: usize = 10;
/// The most letters that are kept of what somebody says of a version or a deployment.
const MESSAGE_CHARS_MAX: usize = 500;
const TAG_CHARS_MAX: usize = 100;

/// One upload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Version {
    /// Its id, a UUID.
    pub id: String,
    /// Which one of its Worker, from 1.
    pub number: u64,
    /// When it was uploaded, in milliseconds.
    pub created_at: u64,
    /// How many documents its code takes.
    pub(super) parts: usize,
    /// What its uploader said of it.
    #[serde(default)]
    pub remarks: Remarks,
}

/// A version that began to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deployment {
    /// Its id, a UUID.
    pub id: String,
    /// The version's id.
    pub version: String,
    /// When it began, in milliseconds.
    pub at: u64,
    /// What was said of it.
    #[serde(default)]
    pub remarks: Remarks,
}

/// What somebody said of a version or a deployment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Remarks {
    /// A sentence.
    pub message: Option<String>,
    /// A short name.
    pub tag: Option<String>,
}

impl Remarks {
    /// Within their bounds, on one line: they are kept with every version, and shown in lists.
    pub(super) fn bounded(self) -> Self {
        let cut = |text: Option<String>, max: usize| {
            let letters = text?.chars().take(max).collect::<Vec<char>>();
            Some(letters.into_iter().map(|letter| if letter.is_control() { ' ' } else { letter }).collect())
        };
        Self { message: cut(self.message, MESSAGE_CHARS_MAX), tag: cut(self.tag, TAG_CHARS_MAX) }
    }
}

impl Record {
    /// Adds a version, made now; the Worker is as old as its first.
    pub(super) fn add_version(
        &mut self,
        id: String,
        parts: usize,
        remarks: Remarks,
        now: Timestamp,
    ) -> Version {
        if self.versions.is_empty() {
            self.created_at = now.0;
        }
        let version = Version { number: self.next_number(), created_at: now.0, parts, id, remarks };
        self.versions.push(version.clone());
        version
    }

    fn next_number(&self) -> u64 {
        self.versions.last().map_or(1, |last| last.number + 1)
    }

    /// The version of this id, if it is kept.
    pub(super) fn version(&self, id: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.id == id)
    }

    /// A version runs from now on.
    pub(super) fn deployed_now(&mut self, id: String, version: &str, remarks: Remarks, now: Timestamp) {
        (self.deployed, self.deployed_at) = (Some(version.to_owned()), now.0);
        self.deployments.push(Deployment { id, version: version.to_owned(), at: now.0, remarks });
        let surplus = self.deployments.len().saturating_sub(DEPLOYMENTS_MAX);
        self.deployments.drain(..surplus);
    }

    /// Forgets the oldest versions beyond what is kept, and when they ran; their code goes with them.
    pub(super) fn forget_old(&mut self, changes: &mut Changes) {
        while self.versions.len() > VERSIONS_MAX {
            let old = self.versions.iter().position(|version| self.deployed.as_ref() != Some(&version.id));
            let Some(old) = old else { return };
            let forgotten = self.versions.remove(old);
            changes.remove_code(&forgotten);
            self.deployments.retain(|deployment| deployment.version != forgotten.id);
        }
    }

    /// What an earlier Kew kept had no history: its one deployment is where it begins.
    pub(super) fn with_history(mut self) -> Self {
        if let (true, Some(version)) = (self.deployments.is_empty(), &self.deployed) {
            let (id, version) = (version.clone(), version.clone());
            let remarks = Remarks::default();
            self.deployments.push(Deployment { id, version, at: self.deployed_at, remarks });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(number: u64) -> Version {
        let id = format!("v{number}");
        Version { id, number, created_at: number, parts: 1, remarks: Remarks::default() }
    }

    fn deployed(record: &mut Record, number: u64) {
        let remarks = Remarks::default();
        let count = record.deployments.len();
        record.deployed_now(format!("d{count}"), &format!("v{number}"), remarks, Timestamp(number));
    }

    fn history(record: &Record) -> Vec<&str> {
        record.deployments.iter().map(|deployment| deployment.version.as_str()).collect()
    }

    #[test]
    fn a_version_that_runs_again_is_in_the_history_twice() {
        let mut record = Record::default();
        for number in [1, 2, 1] {
            deployed(&mut record, number);
        }
        assert_eq!(history(&record), ["v1", "v2", "v1"]);
        assert_eq!(record.deployed.as_deref(), Some("v1"));
    }

    #[test]
    fn what_the_history_names_is_kept_and_what_runs_is_never_forgotten() {
        let mut record = Record::default();
        for number in 1..=30 {
            record.versions.push(version(number));
            // The first runs on while others are only kept.
            if number != 5 {
                deployed(&mut record, if number < 5 { 1 } else { number });
            }
            record.forget_old(&mut Changes::of("w"));
            assert!(record.version(record.deployed.as_deref().unwrap_or_default()).is_some(), "{number}");
            assert!(history(&record).iter().all(|id| record.version(id).is_some()), "{number}");
        }
        assert_eq!((record.versions.len(), record.deployments.len()), (VERSIONS_MAX, DEPLOYMENTS_MAX));
        assert_eq!(record.next_number(), 31);
    }

    #[test]
    fn remarks_are_bounded_and_on_one_line() {
        let remarks =
            Remarks { message: Some("a\nb".to_owned() + &"x".repeat(600)), tag: Some("v1".to_owned()) };
        let bounded = remarks.bounded();
        let message = bounded.message.expect("a message is shortened, not dropped");
        assert!(message.starts_with("a bx") && message.len() == MESSAGE_CHARS_MAX, "{message}");
        assert_eq!(bounded.tag.as_deref(), Some("v1"));
    }

    #[test]
    fn what_an_earlier_kew_kept_has_its_one_deployment() {
        let kept = r#"{"created_at":1,"versions":[{"id":"v1","number":1,"created_at":1,"parts":1}],"deployed":"v1","deployed_at":7}"#;
        let record: Record = serde_json::from_str(kept).expect("a record of an older version is read");
        let record = record.with_history();
        assert_eq!(
            (history(&record), record.deployments.first().map(|first| first.at)),
            (vec!["v1"], Some(7))
        );
    }
}
