//! The configuration file: every key is known or refused, every value is of its kind.

use std::path::Path;

use kew_console::{AlarmRule, User};
use toml::{Table, Value};

use super::accounts::{self, Account};
use super::alarms;
use super::error::ConfigError;
use super::parse::without_password;
use super::table::{Kind, SETTINGS, Setting, sections};
use super::users;
use super::values::{Said, Written};

/// What a file says.
#[derive(Debug, Default)]
pub struct FileContents {
    /// Its settings.
    pub said: Said,
    /// Its accounts.
    pub accounts: Vec<Account>,
    /// Its users of the admin API.
    pub users: Vec<User>,
    /// The rules of its alarms.
    pub alarms: Vec<AlarmRule>,
}

/// Reads the file at `path`.
pub fn read(path: &Path) -> Result<FileContents, ConfigError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("{shown}: cannot read the configuration file: {error}")))?;
    contents(&text).map_err(|error| ConfigError::new(format!("{shown}: {error}")))
}

/// What a text says.
pub(super) fn contents(text: &str) -> Result<FileContents, ConfigError> {
    let table: Table = text.parse().map_err(|error| unreadable(text, &error))?;
    let mut contents = FileContents::default();
    for (section, value) in &table {
        match (section.as_str(), value) {
            (accounts::SECTION, value) => contents.accounts = accounts::read(value)?,
            (alarms::SECTION, value) => contents.alarms = alarms::read(value)?,
            (name, Value::Table(table)) if sections().contains(&name) => {
                read_section(name, table, &mut contents)?;
            }
            (name, _) if sections().contains(&name) => {
                return Err(ConfigError::new(format!("{name} must be a section: write [{name}]")));
            }
            (name, _) => {
                return Err(ConfigError::new(format!(
                    "[{name}] is not a known section; allowed are [{}], [[{}]] and [[{}]]",
                    sections().join("], ["),
                    accounts::SECTION,
                    alarms::SECTION,
                )));
            }
        }
    }
    Ok(contents)
}

/// The error that the text is no TOML: where and why. The line itself is not shown, since it may hold a secret; of it
/// only a key that settings have.
fn unreadable(text: &str, error: &toml::de::Error) -> ConfigError {
    let why = error.message();
    let Some(span) = error.span() else { return ConfigError::new(why) };
    let (line, column) = place(text, span.start);
    let key = text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map(|(key, _)| key.trim());
    let is_known =
        |key: &&str| SETTINGS.iter().any(|setting| setting.key == *key) || accounts::KEYS.contains(key);
    let key = key.filter(is_known).map(|key| format!(" ({key})")).unwrap_or_default();
    ConfigError::new(format!("line {line}, column {column}{key}: {why}"))
}

/// The line and the column of a byte of a text, both from 1.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..text.floor_char_boundary(at)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    (line, column)
}

fn read_section(section: &str, table: &Table, contents: &mut FileContents) -> Result<(), ConfigError> {
    for (key, value) in table {
        let inner = format!("{section}.{key}");
        if let Value::Table(table) = value
            && sections().contains(&inner.as_str())
        {
            read_section(&inner, table, contents)?;
            continue;
        }
        if (section, key.as_str()) == (users::SECTION, users::KEY) {
            contents.users = users::read(value)?;
            continue;
        }
        let Some(setting) = Setting::at(section, key) else {
            return Err(unknown_key(section, key));
        };
        contents.said.insert((setting.section, setting.key), written(setting, value)?);
    }
    Ok(())
}

fn written(setting: &Setting, value: &Value) -> Result<Written, ConfigError> {
    let refused = |allowed: &str| {
        let text = if setting.secret { "(hidden)".to_owned() } else { shown(value) };
        let (section, key) = (setting.section, setting.key);
        ConfigError::new(format!("[{section}] {key} = {text} is not allowed; it must be {allowed}"))
    };
    match (setting.kind, value) {
        (Kind::Text | Kind::Address, Value::String(text)) => Ok(Written::One(text.clone())),
        (Kind::Address, Value::Integer(port)) => Ok(Written::One(port.to_string())),
        (Kind::Address, _) => Err(refused("a text in quotes, or a port")),
        (Kind::Text, _) => Err(refused("a text in quotes")),
        (Kind::Whole, Value::Integer(number)) => Ok(Written::One(number.to_string())),
        (Kind::Bytes, Value::Integer(number)) => Ok(Written::One(number.to_string())),
        (Kind::Bytes, Value::String(text)) => Ok(Written::One(text.clone())),
        (Kind::Bytes, _) => Err(refused("a whole number, or a text such as \"16 MiB\"")),
        (Kind::Whole, _) => Err(refused("a whole number")),
        (Kind::Switch, Value::Boolean(on)) => Ok(Written::One(on.to_string())),
        (Kind::Switch, _) => Err(refused("true or false")),
        (Kind::List | Kind::Urls, Value::Array(entries)) => {
            let texts = entries.iter().map(|entry| entry.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>().map(Written::Many).ok_or_else(|| refused("an array of texts"))
        }
        (Kind::Addresses, Value::Array(entries)) => {
            let texts = entries.iter().map(|entry| match entry {
                Value::Integer(port) => Some(port.to_string()),
                entry => entry.as_str().map(str::to_owned),
            });
            let texts = texts.collect::<Option<Vec<_>>>();
            texts.map(Written::Many).ok_or_else(|| refused("an array of texts and ports"))
        }
        (Kind::Addresses, _) => Err(refused("an array of texts and ports")),
        (Kind::List | Kind::Urls, _) => Err(refused("an array of texts")),
    }
}

fn keys_of(section: &str) -> Vec<&'static str> {
    SETTINGS.iter().filter(|setting| setting.section == section).map(|setting| setting.key).collect()
}

/// The error of an unknown key. What a mistyped key holds may be a secret, whatever it is called.
fn unknown_key(section: &str, key: &str) -> ConfigError {
    let allowed = keys_of(section).join(", ");
    ConfigError::new(format!("[{section}] {key} = (hidden) is not a known key; allowed are {allowed}"))
}

/// A value in one line, cut where it is long. What a table or an array holds may be a secret, and in a URL there may
/// be a password: neither is shown.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Table(_) => "(a table)".to_owned(),
        Value::Array(_) => "(an array)".to_owned(),
        Value::String(text) => Value::String(without_password(text)).to_string(),
        value => value.to_string(),
    };
    let text = text.replace('\n', " ");
    if text.chars().count() <= 80 { text } else { text.chars().take(80).chain("…".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        contents(text).expect_err(text).to_string()
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let text = "[server]\nlog = \"json\"\ninsecure = true\nhosts = [\"a\", \"b\"]\n[sqs]\nname_hold_seconds = 0\n";
        let said = contents(text).expect("the file is valid").said;
        assert_eq!(said.get(&("server", "log")), Some(&Written::One("json".into())));
        assert_eq!(said.get(&("server", "insecure")), Some(&Written::One("true".into())));
        assert_eq!(said.get(&("server", "hosts")), Some(&Written::Many(vec!["a".into(), "b".into()])));
        assert_eq!(said.get(&("sqs", "name_hold_seconds")), Some(&Written::One("0".into())));
        let said = contents("[tls]\ncert = \"a\"\nsqs = { cert = \"b\" }\n").expect("the file is valid").said;
        assert_eq!(said.get(&("tls", "cert")), Some(&Written::One("a".into())));
        assert_eq!(said.get(&("tls.sqs", "cert")), Some(&Written::One("b".into())));
    }

    #[test]
    fn what_stands_in_a_wrong_place_is_not_shown_where_it_may_be_a_secret() {
        for text in [
            "[[admin]]\ntoken = \"s3cret\"\n",
            "[sqs]\nlogin = { token = \"s3cret\" }\n",
            "[sqs]\nlogins = [\"s3cret\"]\n",
            "[store]\nurl = \"postgres://kew:s3cret@h/db\"\n",
            "[server]\npostgres = \"postgres://kew:s3cret@h/db\"\n",
            "[admin]\ntokn = \"s3cret\"\n",
            "admin = \"s3cret\"\n",
            "[server]\nstore = [\"postgres://kew:s3cret@h/db\"]\n",
            "[server]\ndatabases = \"postgres://kew:s3cret@h/db,Postgres:/kew:s3cret@i/db?password=s3cret\"\n",
            "[server]\ninsecure = \"mysql://kew:s3cret@h/db\"\n",
        ] {
            assert!(!error(text).contains("s3cret"), "{}", error(text));
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_what_is() {
        let told = error("[sqs]\ncolour = \"red\"\n");
        assert!(
            told.starts_with("[sqs] colour = (hidden) is not a known key; allowed are region, "),
            "{told}"
        );
        let told = error("[sqss]\nregion = \"x\"\n");
        assert!(
            told.contains(
                "[sqss] is not a known section; allowed are [server], [log], [store], [admin], [sqs]"
            ),
            "{told}"
        );
        let told = error("region = \"x\"\n");
        assert!(told.contains("[region] is not a known section"), "{told}");
        assert!(!error("[admin]\nthe_token = \"hush\"\n").contains("hush"));
    }

    // A missing quote must not put the secret on a screen or into a log.
    #[test]
    fn a_line_that_is_no_toml_is_reported_by_its_place_and_not_shown() {
        for (text, expected) in [
            ("[server]\n[admin]\ntoken = hush\n", "line 3, column 9 (token): "),
            ("[admin]\ntoken = \"hush\n", "line 2, column "),
            ("[admin]\ntoken = \"a\" hush\n", "line 2, column 13 (token): "),
            ("[admin]\ntoken = \"hush\\q\"\n", "line 2, column "),
            ("[[accounts]]\naws = { id = \"1\", access_keys = [{ secret = hush }] }\n", "line 2, column "),
            ("[admin]\nhush = x\n", "line 2, column 8: "),
            ("[admin]\n\"hush\n", "line 2, column "),
            ("hush\n", "line 1, column "),
            ("[admin]\ntoken = \"\"\"\nhush=\n", "line "),
            ("[admin]\ntoken = 7hush\n", "line 2, column "),
            ("[admin]\ntoken = \"ä\" hush\n", "line 2, column 13 (token): "),
            ("[admin]\ntoken = \"a\"\ntoken = \"hush\"\n", "line 3, column 1 (token): duplicate key"),
        ] {
            let told = error(text);
            assert!(told.starts_with(expected) && !told.contains("hush"), "{text:?}: {told}");
        }
    }

    #[test]
    fn values_of_another_kind_are_refused_by_key_and_value() {
        for (text, expected) in [
            ("[sqs]\nregion = 5\n", "[sqs] region = 5 is not allowed; it must be a text"),
            (
                "[sqs]\nname_hold_seconds = \"60\"\n",
                "name_hold_seconds = \"60\" is not allowed; it must be a whole",
            ),
            ("[sqs]\nname_hold_seconds = 1.5\n", "name_hold_seconds = 1.5"),
            ("[server]\ninsecure = \"yes\"\n", "true or false"),
            ("[server]\nhosts = \"a\"\n", "an array of texts"),
            ("[server]\nhosts = [1]\n", "an array of texts"),
            ("[limits]\nbody_bytes_max = 1.5\n", "a whole number, or a text such as \"16 MiB\""),
            ("sqs = 1\n", "write [sqs]"),
            ("[admin]\ntoken = 5\n", "[admin] token = (hidden)"),
            (
                "[server]\nsqs = true\n",
                "[server] sqs = true is not allowed; it must be a text in quotes, or a port",
            ),
            ("[server]\nalso = 4566\n", "an array of texts and ports"),
            ("[server]\nalso = [4.5]\n", "an array of texts and ports"),
            ("[sqs\n", "line 1"),
            ("[sqs]\nregion = \"a\"\nregion = \"b\"\n", "duplicate key"),
        ] {
            let told = error(text);
            assert!(told.contains(expected), "{told}");
        }
    }
}
