//! What `kew init` does: from what a file declares and what a server has to steps in their order. A queue that dead
//! letters go to is made before those that name it; where they name each other in a circle, one gets its rule last.

use std::collections::{HashMap, HashSet};

use kew_console::{QueueDeclaration, QueueHome, SettingChange};
use kew_core::QueueKey;
use serde_json::{Map, Value};

/// A queue that a server has.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) is_fifo: bool,
    pub(super) settings: Map<String, Value>,
}

/// The queues of a server that a file names.
pub(super) type ServerQueues = HashMap<QueueKey, Seen>;

/// What is done with one queue.
#[derive(Debug)]
pub(super) struct Step<'a> {
    pub(super) queue: &'a QueueDeclaration,
    pub(super) act: Act,
}

#[derive(PartialEq, Debug)]
pub(super) enum Act {
    Create,
    /// Its rule for dead letters is set when all queues are there.
    CreateThenRule,
    Change(Vec<SettingChange>),
    Keep,
    /// It cannot become what is declared.
    Refuse(String),
}

/// The steps, in the order in which they can be done: that of the file but for queues that others need first.
pub(super) fn plan<'a>(
    declared: &'a [QueueDeclaration],
    state: &ServerQueues,
    home: &QueueHome,
) -> Vec<Step<'a>> {
    let by_key: HashMap<&QueueKey, &QueueDeclaration> =
        declared.iter().map(|queue| (queue.key(), queue)).collect();
    let mut plan = Plan { state, home, by_key, refused: HashMap::new(), steps: Vec::new() };
    for queue in declared {
        plan.add(queue);
    }
    plan.steps
}

struct Plan<'a, 'b> {
    state: &'b ServerQueues,
    home: &'b QueueHome,
    by_key: HashMap<&'a QueueKey, &'a QueueDeclaration>,
    /// The queues that have their step, and whether it is a refusal.
    refused: HashMap<&'a QueueKey, bool>,
    steps: Vec<Step<'a>>,
}

impl<'a> Plan<'a, '_> {
    /// Adds the step of a queue, after those of the queues that must be there first.
    fn add(&mut self, queue: &'a QueueDeclaration) {
        let (mut path, mut on_path) = (Vec::new(), HashSet::new());
        let mut next = Some(queue);
        while let Some(queue) = next.filter(|queue| !self.refused.contains_key(queue.key())) {
            if !on_path.insert(queue.key()) {
                break;
            }
            path.push(queue);
            let target = queue.target().filter(|to| !self.state.contains_key(*to));
            next = target.and_then(|to| self.by_key.get(to).copied());
        }
        while let Some(queue) = path.pop() {
            on_path.remove(queue.key());
            let act = self.act(queue, &on_path);
            self.refused.insert(queue.key(), matches!(act, Act::Refuse(_)));
            self.steps.push(Step { queue, act });
        }
    }

    /// What is done with a queue, while those on the path wait for it.
    fn act(&self, queue: &QueueDeclaration, path: &HashSet<&QueueKey>) -> Act {
        let seen = self.state.get(queue.key());
        if seen.is_some_and(|seen| seen.is_fifo != queue.is_fifo()) {
            return Act::Refuse("it exists and is of the other kind".to_owned());
        }
        let changes = match queue.changes(seen.map(|seen| &seen.settings), self.home) {
            Ok(changes) => changes,
            Err(why) => return Act::Refuse(why),
        };
        let gets_target = changes.iter().any(|change| change.name == "dead_letters_to");
        let target = queue.target().filter(|to| gets_target && !self.state.contains_key(*to));
        let is_later = match target {
            None => false,
            Some(to) if path.contains(to) => true,
            Some(to) => match self.refused.get(to) {
                Some(false) => false,
                Some(true) => return Act::Refuse(self.without(to, "it cannot be made")),
                None => {
                    return Act::Refuse(
                        self.without(to, "there is no such queue, nor does the file have it"),
                    );
                }
            },
        };
        match seen {
            None if is_later => Act::CreateThenRule,
            None => Act::Create,
            Some(_) if changes.is_empty() => Act::Keep,
            Some(_) => Act::Change(changes),
        }
    }

    fn without(&self, target: &QueueKey, why: &str) -> String {
        format!("dead_letters_to {}: {why}", self.home.text(target))
    }
}

#[cfg(test)]
mod tests {
    use kew_core::AccountId;
    use serde_json::json;

    use super::*;

    fn home() -> QueueHome {
        QueueHome { account: AccountId(0), region: "us-east-1".into() }
    }

    fn declared(queues: &[(&str, Value)]) -> Vec<QueueDeclaration> {
        let one = |(queue, settings): &(&str, Value)| {
            let settings = settings.as_object().cloned().expect("settings of a test are an object");
            QueueDeclaration::new(queue, None, settings, &home()).expect("the declaration is right")
        };
        queues.iter().map(one).collect()
    }

    fn state(queues: &[(&str, Value)]) -> ServerQueues {
        let seen = |(queue, settings): &(&str, Value)| {
            let settings = settings.as_object().cloned().expect("settings of a test are an object");
            let key = QueueKey::new(AccountId(0), "us-east-1", queue);
            (key, Seen { is_fifo: queue.ends_with(".fifo"), settings })
        };
        queues.iter().map(seen).collect()
    }

    /// The steps as `name: act`.
    fn steps(queues: &[(&str, Value)], has: &[(&str, Value)]) -> Vec<String> {
        let declared = declared(queues);
        let steps = plan(&declared, &state(has), &home());
        let shown = |step: &Step<'_>| {
            let act = match &step.act {
                Act::Create => "create".to_owned(),
                Act::CreateThenRule => "create, rule later".to_owned(),
                Act::Keep => "keep".to_owned(),
                Act::Refuse(why) => why.clone(),
                Act::Change(changes) => {
                    let names: Vec<&str> = changes.iter().map(|change| change.name).collect();
                    names.join(" ")
                }
            };
            format!("{}: {act}", step.queue.key().name)
        };
        steps.iter().map(shown).collect()
    }

    fn to(target: &str) -> Value {
        json!({ "dead_letters_to": target })
    }

    #[test]
    fn queues_are_made_changed_or_kept_in_the_order_of_the_file() {
        let none = json!({});
        let file = [
            ("new", json!({ "delay_seconds": 5 })),
            ("same", json!({ "delay_seconds": 5 })),
            ("other", json!({ "delay_seconds": 5, "wait_seconds": 0 })),
            ("unsaid", none.clone()),
        ];
        let has = [
            ("same", json!({ "delay_seconds": 5, "wait_seconds": 20 })),
            ("other", json!({ "delay_seconds": 6, "wait_seconds": 20 })),
            ("unsaid", json!({ "delay_seconds": 6 })),
            ("not in the file", none),
        ];
        let expected = ["new: create", "same: keep", "other: delay_seconds wait_seconds", "unsaid: keep"];
        assert_eq!(steps(&file, &has), expected);
    }

    #[test]
    fn a_dead_letter_queue_is_made_before_its_sources() {
        let file = [("a", to("b")), ("c", to("b")), ("b", to("d")), ("d", json!({})), ("e", to("there"))];
        let has = [("there", json!({}))];
        let expected = ["d: create", "b: create", "a: create", "c: create", "e: create"];
        assert_eq!(steps(&file, &has), expected);
        let has = [("a", json!({}))];
        let expected = ["b: create", "a: dead_letters_to max_attempts"];
        assert_eq!(steps(&[("a", to("b")), ("b", json!({}))], &has), expected, "a is there, b is not");
    }

    #[test]
    fn of_a_circle_one_gets_its_rule_last() {
        let circle = [("a", to("b")), ("b", to("c")), ("c", to("a")), ("before", to("c"))];
        let expected = ["c: create, rule later", "b: create", "a: create", "before: create"];
        assert_eq!(steps(&circle, &[]), expected);
        let expected = ["c: create", "b: create", "a: dead_letters_to max_attempts", "before: create"];
        assert_eq!(steps(&circle, &[("a", json!({}))]), expected, "one that is there opens it");
        let rule = |target: &str| json!({ "dead_letters_to": target, "max_attempts": 10 });
        let all = [("a", rule("b")), ("b", rule("c")), ("c", rule("a")), ("before", rule("c"))];
        assert_eq!(steps(&circle, &all), ["a: keep", "b: keep", "c: keep", "before: keep"]);
    }

    #[test]
    fn what_cannot_be_is_refused_for_its_queue_and_those_that_need_it() {
        let file = [
            ("a", to("b")),
            ("b", to("nowhere")),
            ("c", json!({ "max_attempts": 5 })),
            ("d", to("c")),
            ("e.fifo", json!({})),
            ("f", to("gone")),
            ("g", json!({})),
        ];
        let mut has =
            state(&[("e.fifo", json!({})), ("f", json!({ "dead_letters_to": "gone", "max_attempts": 10 }))]);
        for seen in has.values_mut() {
            seen.is_fifo = false;
        }
        let declared = declared(&file);
        let steps = plan(&declared, &has, &home());
        let found: Vec<(&str, &Act)> =
            steps.iter().map(|step| (&*step.queue.key().name, &step.act)).collect();
        let refuse = |why: &str| Act::Refuse(why.to_owned());
        let expected = [
            ("b", &refuse("dead_letters_to nowhere: there is no such queue, nor does the file have it")),
            ("a", &refuse("dead_letters_to b: it cannot be made")),
            (
                "c",
                &refuse("max_attempts needs dead_letters_to, or drop_exhausted to delete messages after it"),
            ),
            ("d", &refuse("dead_letters_to c: it cannot be made")),
            ("e.fifo", &refuse("it exists and is of the other kind")),
            // A rule that is there already is not looked at again.
            ("f", &Act::Keep),
            ("g", &Act::Create),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_long_chain_is_planned_at_once() {
        let names: Vec<String> = (0..10_000).map(|number| format!("q{number}")).collect();
        let queues: Vec<(&str, Value)> = names
            .iter()
            .zip(names.iter().skip(1))
            .map(|(queue, target)| (queue.as_str(), to(target)))
            .collect();
        let last = [("q9999", json!({}))];
        let steps = steps(&[queues, last.to_vec()].concat(), &[]);
        assert_eq!((steps[0].as_str(), steps[9_999].as_str()), ("q9999: create", "q0: create"));
    }
}
