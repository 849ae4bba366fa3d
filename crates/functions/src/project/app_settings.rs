//! App settings: the environment over local.settings.json, names in any case.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::error::{self, ProjectError};
use super::lenient::{member, section};

const FILE: &str = "local.settings.json";
const CONNECTION_STRINGS: &str = "ConnectionStrings:";

/// Every setting there is.
#[derive(Clone, Default, Debug)]
pub(crate) struct AppSettings {
    /// By name in lower case, `__` read as `:`. Of two values the environment's counts.
    by_name: BTreeMap<String, String>,
    /// What the file adds to the handler's environment, as it is written there.
    from_file: Vec<(String, String)>,
}

impl AppSettings {
    /// The file of a project, if there is one, under these variables.
    pub(crate) fn read(root: &Path, environment: &[(String, String)]) -> Result<Self, ProjectError> {
        let path = root.join(FILE);
        let mut settings = Self::default();
        if path.exists() {
            let file = error::read(&path)?;
            if member(&file, "IsEncrypted") == Some(&Value::Bool(true)) {
                let fault = "it is encrypted, and only the tool that encrypted it can read it; decrypt it (func settings decrypt) or set \"IsEncrypted\": false and write plain values";
                return Err(ProjectError::Shape { path, fault: fault.to_owned() });
            }
            for (name, value) in section(&file, "Values").into_iter().flatten() {
                let value = plain(&path, &format!("Values.{name}"), value)?;
                settings.insert(name, &value);
                settings.from_file.push((name.clone(), value));
            }
            for (name, value) in section(&file, "ConnectionStrings").into_iter().flatten() {
                // Either the string itself, or an object that holds it.
                let value =
                    value.as_object().and_then(|object| member(object, "ConnectionString")).unwrap_or(value);
                let value = plain(&path, &format!("ConnectionStrings.{name}"), value)?;
                settings.insert(&format!("{CONNECTION_STRINGS}{name}"), &value);
            }
        }
        for (name, value) in environment {
            settings.insert(name, value);
        }
        let is_set = |name: &str| environment.iter().any(|(variable, _)| variable.eq_ignore_ascii_case(name));
        settings.from_file.retain(|(name, _)| !is_set(name));
        Ok(settings)
    }

    /// A setting's value; an empty one counts as not there.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(&key(name)).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A setting, or the connection string of that name.
    pub(crate) fn connection(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| self.get(&format!("{CONNECTION_STRINGS}{name}")))
    }

    /// The settings whose names begin like this: what follows in lower case, with `:` between its parts, and the value.
    pub(crate) fn below(&self, beginning: &str) -> impl Iterator<Item = (&str, &str)> {
        let beginning = key(beginning);
        self.by_name
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(&beginning)?, value.as_str())))
    }

    /// Whether a setting says yes.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    }

    /// What the handler's environment gets beside the host's own.
    pub(crate) fn for_handler(&self) -> &[(String, String)] {
        &self.from_file
    }

    /// A text with each `%NAME%` replaced by that setting; else the name that is no setting.
    pub(crate) fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            let Some((name, behind)) = after.split_once('%') else { break };
            expanded.push_str(before);
            expanded.push_str(self.get(name).ok_or_else(|| name.to_owned())?);
            rest = behind;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// Sets a value before anything else looks.
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        self.by_name.insert(key(name), value.to_owned());
    }
}

fn key(name: &str) -> String {
    name.replace("__", ":").to_lowercase()
}

fn plain(path: &Path, key: &str, value: &Value) -> Result<String, ProjectError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => Err(ProjectError::Setting {
            path: path.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            allowed: "it must be a string".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(file: &str, environment: &[(&str, &str)]) -> Result<AppSettings, ProjectError> {
        let root = tempfile::tempdir().expect("the machine has a temporary directory");
        std::fs::write(root.path().join(FILE), file).expect("the folder is ours");
        let environment: Vec<(String, String)> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AppSettings::read(root.path(), &environment)
    }

    #[test]
    fn the_environment_wins_over_the_file() {
        let file = r#"{"IsEncrypted":false,"Values":{"A":"file","B":"file","N":5},"ConnectionStrings":{"C":"string","D":{"ConnectionString":"object"}}}"#;
        let settings = settings(file, &[("a", "variable"), ("EMPTY", "")]).expect("the settings are valid");
        assert_eq!(settings.get("A"), Some("variable"));
        assert_eq!((settings.get("b"), settings.get("N")), (Some("file"), Some("5")));
        assert_eq!((settings.get("C"), settings.connection("C")), (None, Some("string")));
        assert_eq!(settings.connection("D"), Some("object"));
        assert_eq!(settings.get("EMPTY"), None);
        let handed = [("B".to_owned(), "file".to_owned()), ("N".to_owned(), "5".to_owned())];
        assert_eq!(settings.for_handler(), handed);
    }

    #[test]
    fn two_underscores_are_a_colon() {
        let settings = settings("{}", &[("ConnectionStrings__Mine", "x"), ("S__accountName", "y")]);
        let settings = settings.expect("the settings are valid");
        assert_eq!(settings.connection("Mine"), Some("x"));
        assert_eq!(settings.get("S:accountName"), Some("y"));
    }

    #[test]
    fn names_between_percent_signs_are_replaced() {
        let settings = settings("{}", &[("NAME", "orders"), ("X", "1")]).expect("the settings are valid");
        assert_eq!(settings.expand("%NAME%-%x%"), Ok("orders-1".to_owned()));
        assert_eq!(settings.expand("100% sure"), Ok("100% sure".to_owned()));
        assert_eq!(settings.expand("%MISSING%"), Err("MISSING".to_owned()));
    }

    #[test]
    fn an_encrypted_file_is_refused() {
        let error = settings(r#"{"IsEncrypted":true}"#, &[]).expect_err("it is encrypted").to_string();
        assert!(error.contains("local.settings.json") && error.contains("decrypt"), "{error}");
        assert!(settings(r#"{"Values":{"A":{}}}"#, &[]).is_err());
    }
}
