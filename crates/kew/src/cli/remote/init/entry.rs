//! What a file says of one queue: its members, checked, and made a declaration.

use std::collections::HashMap;

use kew_console::{QueueDeclaration, QueueHome, is_setting, is_shown_of_queues};
use serde_json::{Map, Value};

use super::file::Raw;

const KEYS: [&str; 4] = ["name", "queue", "kind", "settings"];
/// What only an object has that the API printed.
const OF_ROWS: [&str; 3] = ["queue", "account", "region"];
/// Settings that the API shows of a queue also beside `settings`.
const ALSO_SHOWN: [&str; 2] = ["dead_letters_to", "max_attempts"];
/// The one setting that may be any text: it has no word for the default, but an empty text.
const QUEUE_SETTING: &str = "dead_letters_to";

/// What a file says of one queue, whose members are known.
#[derive(Debug)]
pub(super) struct QueueEntry {
    /// Where it is, for people.
    place: String,
    queue: String,
    kind: Option<String>,
    settings: Map<String, Value>,
}

/// The entries as declarations of queues that a server of this home may have, in their order.
pub(super) fn declarations(
    entries: &[QueueEntry],
    home: &QueueHome,
) -> Result<Vec<QueueDeclaration>, String> {
    let mut places = HashMap::new();
    let mut all = Vec::new();
    for entry in entries {
        let QueueEntry { place, queue, kind, settings } = entry;
        let declared = QueueDeclaration::new(queue, kind.as_deref(), settings.clone(), home)
            .map_err(|why| format!("{place}: {why}"))?;
        if let Some(first) = places.insert(declared.key().clone(), place) {
            return Err(format!("{place}: the queue is there already, as {first}"));
        }
        all.push(declared);
    }
    Ok(all)
}

impl QueueEntry {
    /// Checks which members there are.
    pub(super) fn new(raw: Raw) -> Result<Self, String> {
        let Raw { place, members, is_json } = raw;
        let is_row = is_json && OF_ROWS.iter().all(|name| members.contains_key(*name));
        let named = name(&members).map_err(|why| format!("{place}: {why}"))?;
        let place = format!("{place} {named:?}");
        let at = |why: String| format!("{place}: {why}");
        let is_known = |name: &str| KEYS.contains(&name) || is_row && is_shown_of_queues(name);
        let other = members.keys().find(|name| !is_known(name));
        if let Some(other) = other {
            return Err(at(unknown(other)));
        }
        let kind = match members.get("kind") {
            None => None,
            Some(Value::String(kind)) => Some(kind.clone()),
            Some(_) => return Err(at("kind must be one of standard, fifo".to_owned())),
        };
        let settings = settings(&members, is_row).map_err(at)?;
        Ok(Self { queue: named.to_owned(), place, kind, settings })
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    match name {
        _ if is_setting(name) => format!("{shown} is a setting: write it in settings"),
        "paused" => "paused is no setting: `kew queue pause` and `resume` change it".to_owned(),
        _ => format!("{shown:?} is not known; a queue has {}", KEYS.join(", ")),
    }
}

/// What names the queue. Where both are there, `queue` does, and `name` is its end.
fn name(members: &Map<String, Value>) -> Result<&str, String> {
    let text = |key: &str| match members.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("{key} must be a text")),
    };
    match (text("queue")?, text("name")?) {
        (Some(queue), Some(name)) if queue.rsplit(':').next() != Some(name) && queue != name => {
            Err(format!("queue {queue:?} and name {name:?} are two queues"))
        }
        (Some(queue), _) => Ok(queue),
        (None, Some(name)) => Ok(name),
        (None, None) => Err("it has no name".to_owned()),
    }
}

fn settings(members: &Map<String, Value>, is_row: bool) -> Result<Map<String, Value>, String> {
    let mut settings = match members.get("settings") {
        None => Map::new(),
        Some(Value::Object(settings)) => settings.clone(),
        Some(_) => return Err("settings must hold names and values".to_owned()),
    };
    for (name, value) in &mut settings {
        let word = if name == QUEUE_SETTING { "" } else { "default" };
        if value == word {
            *value = Value::Null;
        }
    }
    if !is_row {
        return Ok(settings);
    }
    // A list shows no settings but these, and null of one that is not there.
    for name in ALSO_SHOWN {
        let Some(shown) = members.get(name).filter(|value| !value.is_null()) else { continue };
        let value = settings.entry(name).or_insert_with(|| shown.clone());
        if value != shown {
            return Err(format!("{name} is {shown}, and {value} in settings"));
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use kew_core::AccountId;
    use serde_json::json;

    use super::*;

    fn home() -> QueueHome {
        QueueHome { account: AccountId(0), region: "us-east-1".into() }
    }

    fn entry(value: Value, is_json: bool) -> Result<QueueEntry, String> {
        let members = value.as_object().cloned().expect("a test's entry is an object");
        QueueEntry::new(Raw { place: "queues[0]".to_owned(), members, is_json })
    }

    fn all(values: &[Value]) -> Result<Vec<QueueDeclaration>, String> {
        let raw = values.iter().enumerate().map(|(number, value)| Raw {
            place: format!("queues[{number}]"),
            members: value.as_object().cloned().expect("a test's entry is an object"),
            is_json: true,
        });
        let entries: Vec<QueueEntry> = raw.map(QueueEntry::new).collect::<Result<_, _>>()?;
        declarations(&entries, &home())
    }

    fn row(more: Value) -> Value {
        let mut row = json!({
            "queue": "orders", "name": "orders", "account": "000000000000", "region": "us-east-1",
            "kind": "standard", "visible": 7, "paused": true, "shard": 0, "oldest_age_seconds": null,
            "dead_letters_to": null, "max_attempts": null,
        });
        let more = more.as_object().cloned().into_iter().flatten();
        row.as_object_mut().expect("a row is an object").extend(more);
        row
    }

    #[test]
    fn an_entry_has_a_name_a_kind_and_settings() {
        let read = entry(json!({ "name": "orders" }), false).expect("the entry is right");
        assert_eq!((read.queue.as_str(), &read.kind, read.settings.len()), ("orders", &None, 0));
        let named = json!({ "queue": "000000000007:eu-west-3:a.fifo", "name": "a.fifo", "kind": "fifo" });
        let read = entry(named, true).expect("the entry is right");
        assert_eq!((&*read.queue, read.kind.as_deref()), ("000000000007:eu-west-3:a.fifo", Some("fifo")));
        for (wrong, expected) in [
            (json!({}), "queues[0]: it has no name"),
            (json!({ "name": 5 }), "queues[0]: name must be a text"),
            (json!({ "name": "a", "queue": "b" }), "queue \"b\" and name \"a\" are two queues"),
            (json!({ "name": "a", "kind": true }), "queues[0] \"a\": kind must be one of standard, fifo"),
            (json!({ "name": "a", "settings": 5 }), "settings must hold"),
            (
                json!({ "name": "a", "colour": "red" }),
                "\"colour\" is not known; a queue has name, queue, kind",
            ),
            (json!({ "name": "a", "delay_seconds": 5 }), "delay_seconds is a setting: write it in settings"),
            (json!({ "name": "a", "paused": true }), "`kew queue pause`"),
            (json!({ "name": "a", "region": "r" }), "\"region\" is not known"),
        ] {
            let why = entry(wrong, true).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn null_or_a_word_is_the_default() {
        let given = json!({
            "visibility_seconds": "default", "delay_seconds": null, "dead_letters_to": "",
            "deduplication_scope": "default",
        });
        let read = entry(json!({ "name": "a.fifo", "settings": given }), false).expect("the entry is right");
        assert_eq!(read.settings.len(), 4);
        assert!(read.settings.values().all(Value::is_null), "{read:?}");
        let named_so = json!({ "name": "a", "settings": { "dead_letters_to": "default" } });
        let read = entry(named_so, false).expect("the entry is right");
        assert_eq!(read.settings["dead_letters_to"], "default", "a queue may be called so");
    }

    #[test]
    fn what_the_api_prints_of_a_queue_is_an_entry() {
        assert_eq!(entry(row(json!({})), true).map(|read| read.settings), Ok(Map::new()));
        let listed = entry(row(json!({ "dead_letters_to": "dead", "max_attempts": 3 })), true);
        let expected = json!({ "dead_letters_to": "dead", "max_attempts": 3 });
        assert_eq!(listed.map(|read| Value::Object(read.settings)), Ok(expected));
        let shown = json!({ "settings": { "max_attempts": null, "delay_seconds": 7 }, "created_at_ms": 5 });
        assert_eq!(entry(row(shown), true).map(|read| read.settings.len()), Ok(2));
        let edited = json!({ "max_attempts": 3, "settings": { "max_attempts": 5 } });
        assert!(
            entry(row(edited), true).is_err_and(|why| why.contains("max_attempts is 3, and 5 in settings"))
        );
        assert!(entry(row(json!({ "setings": {} })), true).is_err_and(|why| why.contains("\"setings\"")));
        assert!(entry(row(json!({})), false).is_err(), "nothing prints TOML");
    }

    #[test]
    fn a_queue_is_declared_once_however_it_is_spelled() {
        let declared = all(&[json!({ "name": "a" }), json!({ "name": "000000000007:us-east-1:a" })]);
        assert_eq!(declared.map(|all| all.len()), Ok(2));
        for twice in ["a", "000000000000:us-east-1:a"] {
            let why =
                all(&[json!({ "name": "a" }), json!({ "queue": twice })]).expect_err("a is there twice");
            let expected = format!("queues[1] {twice:?}: the queue is there already, as queues[0] \"a\"");
            assert_eq!(why, expected);
        }
        let why =
            all(&[json!({ "name": "a", "settings": { "delay_seconds": 86_401 } })]).expect_err("too long");
        assert!(why.starts_with("queues[0] \"a\": delay_seconds must be a whole number from 0"), "{why}");
    }
}
