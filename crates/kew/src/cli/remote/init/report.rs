//! What `kew init` says: a line for each queue as soon as it is dealt with, and a summary.

use kew_console::SettingChange;
use serde_json::{Map, Value, json};

use crate::cli::remote::output::{self, Out};
use crate::cli::remote::{Done, Failure};

/// What became of a queue, or would become of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    Created,
    Changed(Vec<SettingChange>),
    Unchanged,
    Failed(String),
}

/// What was said so far.
pub(super) struct InitReport<'a> {
    out: &'a mut Out,
    is_dry: bool,
    counts: Counts,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    created: u64,
    changed: u64,
    unchanged: u64,
    failed: u64,
}

impl<'a> InitReport<'a> {
    pub(super) fn new(out: &'a mut Out, is_dry: bool) -> Self {
        Self { out, is_dry, counts: Counts::default() }
    }

    /// Says what became of a queue.
    pub(super) fn say(&mut self, queue: &str, outcome: &Outcome) -> Done {
        self.counts.add(outcome);
        if self.out.json {
            return self.out.object(&object(queue, outcome, self.is_dry));
        }
        self.out.line(&output::harmless(&line(queue, outcome, self.is_dry)))
    }

    /// Sums up. A queue that was made and has not all its settings is a part, though it failed.
    pub(super) fn end(self, from: &str, has_part: bool) -> Done {
        let Counts { created, changed, unchanged, failed } = self.counts;
        let summary = json!({
            "created": created, "changed": changed, "unchanged": unchanged, "failed": failed,
            "dry_run": self.is_dry,
        });
        self.out.result(&summary, &self.counts.line(self.is_dry))?;
        self.counts.verdict(self.is_dry, from, has_part)
    }
}

impl Counts {
    fn add(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Created => &mut self.created,
            Outcome::Changed(_) => &mut self.changed,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Failed(_) => &mut self.failed,
        };
        *count = count.saturating_add(1);
    }

    fn verdict(self, is_dry: bool, from: &str, has_part: bool) -> Done {
        if self.failed == 0 {
            return Ok(());
        }
        let good = self.created.saturating_add(self.changed).saturating_add(self.unchanged);
        let verb = if is_dry { "would not become" } else { "did not become" };
        let all = good.saturating_add(self.failed);
        let why = format!("{} of {all} queues {verb} what {from} says", self.failed);
        Err(if good > 0 || has_part { Failure::Partly(why) } else { Failure::Failed(why) })
    }

    fn line(self, is_dry: bool) -> String {
        let Self { created, changed, unchanged, failed } = self;
        let failed = match (failed, is_dry) {
            (0, _) => String::new(),
            (failed, false) => format!(", {failed} failed"),
            (failed, true) => format!(", {failed} would fail"),
        };
        match is_dry {
            false => format!("{created} created, {changed} changed, {unchanged} unchanged{failed}"),
            true => {
                format!(
                    "{created} to create, {changed} to change, {unchanged} unchanged{failed}: nothing was done"
                )
            }
        }
    }
}

fn line(queue: &str, outcome: &Outcome, is_dry: bool) -> String {
    match (outcome, is_dry) {
        (Outcome::Created, false) => format!("{queue}: created"),
        (Outcome::Created, true) => format!("{queue}: would be created"),
        (Outcome::Changed(changes), false) => format!("{queue}: changed {}", changed(changes)),
        (Outcome::Changed(changes), true) => format!("{queue}: would change {}", changed(changes)),
        (Outcome::Unchanged, _) => format!("{queue}: unchanged"),
        (Outcome::Failed(why), false) => format!("{queue}: failed: {why}"),
        (Outcome::Failed(why), true) => format!("{queue}: would fail: {why}"),
    }
}

fn changed(changes: &[SettingChange]) -> String {
    let value = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let change = |one: &SettingChange| format!("{} {}→{}", one.name, value(&one.from), value(&one.to));
    changes.iter().map(change).collect::<Vec<_>>().join(", ")
}

fn object(queue: &str, outcome: &Outcome, is_dry: bool) -> Value {
    let mut object = json!({ "queue": queue, "dry_run": is_dry });
    match outcome {
        Outcome::Created => object["outcome"] = "created".into(),
        Outcome::Changed(changes) => {
            let change =
                |one: &SettingChange| (one.name.to_owned(), json!({ "from": one.from, "to": one.to }));
            object["outcome"] = "changed".into();
            object["changes"] = changes.iter().map(change).collect::<Map<_, _>>().into();
        }
        Outcome::Unchanged => object["outcome"] = "unchanged".into(),
        Outcome::Failed(why) => {
            object["outcome"] = "failed".into();
            object["reason"] = why.as_str().into();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_a_line_and_an_object() {
        let change = |name, from: Value, to: Value| SettingChange { name, from, to };
        let changes = vec![
            change("visibility_seconds", json!(30), json!(60)),
            change("dead_letters_to", json!(null), json!("dead")),
        ];
        for (outcome, said, foretold, shown) in [
            (Outcome::Created, "q: created", "q: would be created", json!({ "outcome": "created" })),
            (Outcome::Unchanged, "q: unchanged", "q: unchanged", json!({ "outcome": "unchanged" })),
            (
                Outcome::Failed("no".to_owned()),
                "q: failed: no",
                "q: would fail: no",
                json!({ "outcome": "failed", "reason": "no" }),
            ),
            (
                Outcome::Changed(changes),
                "q: changed visibility_seconds 30→60, dead_letters_to none→dead",
                "q: would change visibility_seconds 30→60, dead_letters_to none→dead",
                json!({ "outcome": "changed", "changes": {
                    "visibility_seconds": { "from": 30, "to": 60 },
                    "dead_letters_to": { "from": null, "to": "dead" },
                } }),
            ),
        ] {
            assert_eq!(line("q", &outcome, false), said);
            assert_eq!(line("q", &outcome, true), foretold);
            let mut expected = shown;
            expected["queue"] = "q".into();
            expected["dry_run"] = true.into();
            assert_eq!(object("q", &outcome, true), expected);
        }
    }

    #[test]
    fn a_run_failed_only_if_no_queue_is_as_the_file_says() {
        let ended = |unchanged, failed, has_part| {
            let counts = Counts { unchanged, failed, ..Counts::default() };
            counts.verdict(false, "queues.toml", has_part).err()
        };
        assert!(ended(0, 0, false).is_none() && ended(1, 0, false).is_none());
        assert!(matches!(ended(0, 1, false), Some(Failure::Failed(_))));
        assert!(matches!(ended(0, 1, true), Some(Failure::Partly(_))));
        let Some(Failure::Partly(why)) = ended(1, 1, false) else { panic!("a part is as the file says") };
        assert_eq!(why, "1 of 2 queues did not become what queues.toml says");
    }

    #[test]
    fn the_summary_counts() {
        let counts = Counts { created: 1, changed: 2, unchanged: 3, failed: 0 };
        assert_eq!(counts.line(false), "1 created, 2 changed, 3 unchanged");
        let counts = Counts { failed: 4, ..counts };
        assert_eq!(
            counts.line(true),
            "1 to create, 2 to change, 3 unchanged, 4 would fail: nothing was done"
        );
    }
}
