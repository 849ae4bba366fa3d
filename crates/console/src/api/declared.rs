//! Queues that somebody wrote down, such as those of `kew init`: checked, and compared with what a server shows, by the
//! laws of the API and without a server.
//!
//! Whether there is a queue of a name is not known here, and left to the caller.

use std::sync::Arc;

use kew_core::{AccountId, Carries, DeadLetterAction, DeadLetterRule, Policy, QueueKey};
use serde_json::{Map, Value};

use super::fields;
use super::names::{self, Home};
use super::queue_fields::QUEUE_WHOLE;
use super::settings::{self, RULE, SETTINGS};
use crate::error::ApiError;

/// Where the names without an account and a region are, on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueHome {
    /// The default account.
    pub account: AccountId,
    /// The default region.
    pub region: Arc<str>,
}

impl QueueHome {
    /// The shortest text that means a queue.
    pub fn text(&self, key: &QueueKey) -> String {
        self.home().text(key)
    }

    fn home(&self) -> Home<'_> {
        Home { account: self.account, region: &self.region }
    }
}

/// A queue as it should be. What its settings do not name is left as it is.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueDeclaration {
    /// Its full name: one that a queue of this kind may have.
    key: QueueKey,
    is_fifo: bool,
    /// Each is within its range, and together they suit some queue of this kind.
    settings: Map<String, Value>,
    /// The queue that `dead_letters_to` means, if it is there and not null.
    target: Option<QueueKey>,
}

/// A setting that becomes another.
#[derive(Clone, PartialEq, Debug)]
pub struct SettingChange {
    /// Which setting.
    pub name: &'static str,
    /// What it is.
    pub from: Value,
    /// What it becomes.
    pub to: Value,
}

impl QueueDeclaration {
    /// Checks a queue's name (or `account:region:name`), its kind and its settings, in which null is the default.
    /// Without a kind the name says it.
    pub fn new(
        queue: &str,
        kind: Option<&str>,
        settings: Map<String, Value>,
        home: &QueueHome,
    ) -> Result<Self, String> {
        Self::checked(queue, kind, settings, &home.home()).map_err(|error| error.message().to_owned())
    }

    fn checked(
        queue: &str,
        kind: Option<&str>,
        settings: Map<String, Value>,
        home: &Home<'_>,
    ) -> Result<Self, ApiError> {
        let key = home.key(queue)?;
        let is_fifo = match kind {
            Some("fifo") => true,
            Some("standard") => false,
            Some(_) => return Err(ApiError::bad_request("kind must be one of standard, fifo")),
            None => names::is_fifo(&key.name),
        };
        names::check_new(&key.name, is_fifo)?;
        fields::check(&settings, SETTINGS, "settings")?;
        let target = settings.get("dead_letters_to").and_then(Value::as_str);
        let target = target.map(|text| home.key(text)).transpose()?;
        let declared = Self { key, is_fifo, settings, target };
        declared.check_for_some_queue(home)?;
        Ok(declared)
    }

    /// Refuses settings that suit no queue, whatever rule for dead letters it has.
    fn check_for_some_queue(&self, home: &Home<'_>) -> Result<(), ApiError> {
        let elsewhere = QueueKey::new(self.key.account, &self.key.region, "");
        let rules = [DeadLetterAction::Drop, DeadLetterAction::MoveTo(elsewhere)].map(|then| {
            DeadLetterRule { attempts_max: 1, then, carries: Carries::History, written_by: "".into() }
        });
        let mut policy = usual(self.is_fifo);
        let Err(error) = self.put(&mut policy, home) else { return Ok(()) };
        let suits = |rule: DeadLetterRule| {
            let mut policy = Policy { dead_letters: Some(Box::new(rule)), ..usual(self.is_fifo) };
            self.put(&mut policy, home).is_ok()
        };
        if rules.into_iter().any(suits) { Ok(()) } else { Err(error) }
    }

    /// Its full name.
    pub fn key(&self) -> &QueueKey {
        &self.key
    }

    /// Whether it keeps messages of a group in order.
    pub fn is_fifo(&self) -> bool {
        self.is_fifo
    }

    /// Its settings.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// The settings that are one rule for dead letters, and the others.
    pub fn rule_and_others(&self) -> (Map<String, Value>, Map<String, Value>) {
        self.settings.clone().into_iter().partition(|(name, _)| RULE.contains(&name.as_str()))
    }

    /// The queue that its dead letters shall go to, if it names one.
    pub fn target(&self) -> Option<&QueueKey> {
        self.target.as_ref()
    }

    /// What becomes of a queue with these settings, as a server shows them. Without a queue: of a new one's defaults.
    pub fn changes(
        &self,
        shown: Option<&Map<String, Value>>,
        home: &QueueHome,
    ) -> Result<Vec<SettingChange>, String> {
        self.compared(shown, &home.home()).map_err(|error| error.message().to_owned())
    }

    fn compared(
        &self,
        shown: Option<&Map<String, Value>>,
        home: &Home<'_>,
    ) -> Result<Vec<SettingChange>, ApiError> {
        let mut policy = usual(self.is_fifo);
        if let Some(shown) = shown {
            // A newer server may show more than is known here.
            let known = shown.iter().filter(|(name, _)| is_setting(name));
            let known = known.map(|(name, value)| (name.clone(), value.clone())).collect();
            settings::put(&mut policy, &known, home, &|_, _| Ok(()))?;
        }
        let before = settings::shown(&policy, home);
        self.put(&mut policy, home)?;
        let after = settings::shown(&policy, home);
        let change = |name: &'static str| {
            let (from, to) = (before.get(name)?, after.get(name)?);
            (from != to).then(|| SettingChange { name, from: from.clone(), to: to.clone() })
        };
        Ok(SETTINGS.iter().filter_map(|setting| change(setting.name)).collect())
    }

    fn put(&self, policy: &mut Policy, home: &Home<'_>) -> Result<(), ApiError> {
        settings::put(policy, &self.settings, home, &|to, policy| {
            settings::check_pair(to, &self.key, home)?;
            // A name says what kind of queue it may be.
            settings::check_kinds(names::is_fifo(&to.name), to, policy, home)
        })
    }
}

fn usual(is_fifo: bool) -> Policy {
    if is_fifo { Policy::fifo() } else { Policy::standard() }
}

/// Whether queues have a setting of this name.
pub fn is_setting(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.name == name)
}

/// Whether the API shows a member of this name of queues.
pub fn is_shown_of_queues(name: &str) -> bool {
    QUEUE_WHOLE.iter().any(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn home() -> QueueHome {
        QueueHome { account: AccountId(0), region: "us-east-1".into() }
    }

    fn declared(queue: &str, kind: Option<&str>, settings: Value) -> Result<QueueDeclaration, String> {
        let settings = settings.as_object().cloned().expect("the settings of a test are an object");
        QueueDeclaration::new(queue, kind, settings, &home())
    }

    /// What becomes of a queue that shows its settings, as `name from to`.
    fn changes(settings: Value, shown: Value) -> Result<Vec<String>, String> {
        let declared = declared("orders", None, settings).expect("the declaration is right");
        let changes = declared.changes(shown.as_object(), &home())?;
        Ok(changes.iter().map(|change| format!("{} {} {}", change.name, change.from, change.to)).collect())
    }

    #[test]
    fn a_declaration_is_checked_by_the_laws_of_the_api() {
        for (queue, kind, settings) in [
            ("orders", None, json!({})),
            ("000000000007:eu-west-3:orders", Some("standard"), json!({ "delay_seconds": 86_400 })),
            ("steps.fifo", None, json!({ "content_deduplication": true, "delay_seconds": 900 })),
            // What these need may be there already.
            ("orders", None, json!({ "max_attempts": 5 })),
            ("orders", None, json!({ "drop_exhausted": true })),
            ("orders", None, json!({ "drop_exhausted": false, "max_attempts": 5 })),
        ] {
            let read = declared(queue, kind, settings);
            assert!(read.is_ok(), "{read:?}");
        }
        for (queue, kind, settings, expected) in [
            ("", None, json!({}), "names no queue"),
            ("a b", None, json!({}), "letters, digits"),
            ("a:b", None, json!({}), "names no queue"),
            ("orders", Some("fifo"), json!({}), "must end in .fifo"),
            ("orders.fifo", Some("standard"), json!({}), "letters, digits"),
            ("orders", Some("quick"), json!({}), "kind must be one of standard, fifo"),
            ("orders", None, json!({ "colour": "red" }), "settings has no \"colour\""),
            ("orders", None, json!({ "delay_seconds": 86_401 }), "delay_seconds must be a whole number"),
            ("a.fifo", None, json!({ "delay_seconds": 901 }), "from 0 to 900"),
            ("orders", None, json!({ "content_deduplication": true }), "a setting of FIFO queues"),
            ("orders", None, json!({ "dead_letters_to": "orders" }), "its own dead-letter queue"),
            (
                "orders",
                None,
                json!({ "dead_letters_to": "000000000000:us-east-1:orders" }),
                "its own dead-letter queue",
            ),
            ("orders", None, json!({ "dead_letters_to": "000000000007:us-east-1:a" }), "same account"),
            ("orders", None, json!({ "dead_letters_to": "a.fifo" }), "same kind"),
            ("orders", None, json!({ "dead_letters_to": "a:b" }), "names no queue"),
            ("orders", None, json!({ "dead_letters_to": "a", "drop_exhausted": true }), "exclude each other"),
            (
                "orders",
                None,
                json!({ "dead_letters_to": null, "drop_exhausted": false, "max_attempts": 5 }),
                "max_attempts needs dead_letters_to",
            ),
            ("orders", None, json!({ "drop_exhausted": true, "max_attempts": null }), "needs max_attempts"),
        ] {
            let why = declared(queue, kind, settings).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn what_differs_is_a_change_and_what_is_not_named_stays() {
        let none = json!({});
        let rule = json!({ "dead_letters_to": "dead", "max_attempts": 3, "drop_exhausted": false });
        for (settings, shown, expected) in [
            (json!({}), json!({ "visibility_seconds": 60 }), &[][..]),
            (json!({ "visibility_seconds": 60 }), none.clone(), &["visibility_seconds 30 60"]),
            (json!({ "visibility_seconds": 60 }), json!({ "visibility_seconds": 60 }), &[]),
            (json!({ "visibility_seconds": null }), none.clone(), &[]),
            (
                json!({ "visibility_seconds": null }),
                json!({ "visibility_seconds": 60 }),
                &["visibility_seconds 60 30"],
            ),
            // Both spellings mean the same queue, and the number of attempts stays.
            (json!({ "dead_letters_to": "000000000000:us-east-1:dead" }), rule.clone(), &[]),
            (json!({ "max_attempts": 5 }), rule.clone(), &["max_attempts 3 5"]),
            (
                json!({ "dead_letters_to": null, "max_attempts": null }),
                rule.clone(),
                &["dead_letters_to \"dead\" null", "max_attempts 3 null"],
            ),
            (json!({ "dead_letters_to": "dead", "max_attempts": null }), rule, &["max_attempts 3 10"]),
            (
                json!({ "dead_letters_to": "dead" }),
                none,
                &["dead_letters_to null \"dead\"", "max_attempts null 10"],
            ),
            (
                json!({ "dead_letters_to": "dead" }),
                json!({ "dead_letters_to": null, "max_attempts": 3, "drop_exhausted": true }),
                &["dead_letters_to null \"dead\"", "drop_exhausted true false"],
            ),
            // A newer server shows more; another service allows more than this API sets.
            (json!({ "delay_seconds": 0 }), json!({ "colour": "red", "retention_seconds": 99_999_999 }), &[]),
        ] {
            let found = changes(settings.clone(), shown.clone()).expect("the settings suit the queue");
            assert_eq!(found, expected, "{settings} {shown}");
        }
        let why = changes(json!({ "max_attempts": 5 }), json!({})).expect_err("there is no rule");
        assert!(why.contains("max_attempts needs dead_letters_to"), "{why}");
    }
}
