//! Values and where they came from: a flag wins over its variable, which wins over the file, which wins over the
//! default.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::error::ConfigError;
use super::parse::{is_postgres, without_password};
use super::table::{Kind, SETTINGS, Setting};

/// A value as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// One word.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Written {
    /// It, for a list of one word too.
    pub fn many(&self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text.clone()],
            Self::Many(texts) => texts.clone(),
        }
    }
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The command line.
    Flag,
    /// This environment variable.
    Variable(String),
    /// This file.
    File(PathBuf),
    /// No source sets it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One setting's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// What it is; `None` when it is not set.
    pub written: Option<Written>,
    /// Who said so.
    pub origin: Origin,
}

/// A setting by its place.
pub type Place = (&'static str, &'static str);

/// What one source says.
pub type Said = BTreeMap<Place, Written>;

/// The value of every setting.
#[derive(Clone, Debug)]
pub struct Values(BTreeMap<Place, Value>);

impl Values {
    /// Puts the sources over each other.
    pub fn overlay(
        flags: &Said,
        variable: &dyn Fn(&str) -> Option<String>,
        file: Option<(PathBuf, Said)>,
    ) -> Self {
        let value = |setting: &'static Setting| {
            let place = (setting.section, setting.key);
            if let Some(written) = flags.get(&place) {
                return Value { written: Some(written.clone()), origin: Origin::Flag };
            }
            for name in setting.variables() {
                // An empty variable counts as one that is not set: compose files and units like to have them.
                if let Some(text) = variable(&name).filter(|text| !text.is_empty()) {
                    return Value { written: Some(split(setting, &text)), origin: Origin::Variable(name) };
                }
            }
            if let Some((path, said)) = &file
                && let Some(written) = said.get(&place)
            {
                return Value { written: Some(written.clone()), origin: Origin::File(path.clone()) };
            }
            let written = setting.default.map(|default| Written::One(default.to_owned()));
            Value { written, origin: Origin::Default }
        };
        Self(SETTINGS.iter().map(|setting| ((setting.section, setting.key), value(setting))).collect())
    }

    /// The value at a place of the table.
    pub fn at(&self, section: &'static str, key: &'static str) -> &Value {
        self.0.get(&(section, key)).expect("every place that is asked for stands in the table")
    }

    /// A value that has a default, read.
    pub fn read<T>(
        &self,
        section: &'static str,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let read = self.read_if_set(section, key, parse)?;
        Ok(read.expect("settings that must be there have a default"))
    }

    /// A value that may be missing, read.
    pub fn read_if_set<T>(
        &self,
        section: &'static str,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        match &self.at(section, key).written {
            None => Ok(None),
            Some(Written::One(text)) => {
                parse(text).map(Some).map_err(|allowed| self.refuse(section, key, &allowed))
            }
            Some(Written::Many(_)) => Err(self.refuse(section, key, "one value")),
        }
    }

    /// All values of a list, read.
    pub fn read_list<T>(
        &self,
        section: &'static str,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let texts = self.at(section, key).written.as_ref().map(Written::many).unwrap_or_default();
        let read = texts.iter().map(|text| parse(text));
        read.collect::<Result<_, _>>().map_err(|allowed| self.refuse(section, key, &allowed))
    }

    /// The error that a setting has a value that is not allowed.
    pub fn refuse(&self, section: &'static str, key: &'static str, allowed: &str) -> ConfigError {
        ConfigError::new(format!("{} is not allowed; it must be {allowed}", self.told(section, key)))
    }

    /// A setting as its source wrote it, for errors.
    pub fn told(&self, section: &'static str, key: &'static str) -> String {
        let Some(setting) = Setting::at(section, key) else { return format!("[{section}] {key}") };
        let value = self.at(section, key);
        let text = match &value.written {
            Some(_) if setting.secret => "(hidden)".to_owned(),
            Some(written) => {
                written.many().iter().map(|text| without_password(text)).collect::<Vec<_>>().join(",")
            }
            None => String::new(),
        };
        match &value.origin {
            Origin::Flag if setting.kind == Kind::Switch => format!("--{}", setting.flag_name()),
            Origin::Flag => format!("--{} {text}", setting.flag_name()),
            Origin::Variable(name) => format!("{name}={text}"),
            Origin::File(path) => format!("{}: [{section}] {key} = {text}", path.display()),
            Origin::Default if setting.flag.is_some() => format!("--{} {text}", setting.flag_name()),
            Origin::Default => format!("[{section}] {key} = {text}"),
        }
    }
}

fn split(setting: &Setting, text: &str) -> Written {
    match setting.kind {
        Kind::List | Kind::Addresses => Written::Many(
            text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
        ),
        Kind::Urls => Written::Many(urls(text)),
        Kind::Text | Kind::Address | Kind::Whole | Kind::Bytes | Kind::Switch => {
            Written::One(text.to_owned())
        }
    }
}

/// URLs of databases, separated by commas. There may be commas in each, between its hosts.
pub fn urls(text: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match urls.last_mut().filter(|_| !is_postgres(part)) {
            Some(last) => {
                last.push(',');
                last.push_str(part);
            }
            None => urls.push(part.to_owned()),
        }
    }
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(place: Place, text: &str) -> Said {
        Said::from([(place, Written::One(text.to_owned()))])
    }

    #[test]
    fn flag_wins_over_variable_over_file_over_default() {
        let place = ("server", "log");
        let (nothing, flag) = (Said::new(), said(place, "flag"));
        let variable = |name: &str| (name == "KEW_LOG").then(|| "variable".to_owned());
        let unset = |_: &str| None;
        let file = || Some((PathBuf::from("kew.toml"), said(place, "file")));
        let value = |values: &Values| values.at("server", "log").clone();
        let one = |text: &str, origin| Value { written: Some(Written::One(text.into())), origin };
        assert_eq!(value(&Values::overlay(&flag, &variable, file())), one("flag", Origin::Flag));
        assert_eq!(
            value(&Values::overlay(&nothing, &variable, file())),
            one("variable", Origin::Variable("KEW_LOG".into()))
        );
        assert_eq!(
            value(&Values::overlay(&nothing, &unset, file())),
            one("file", Origin::File("kew.toml".into()))
        );
        assert_eq!(value(&Values::overlay(&nothing, &unset, None)), one("text", Origin::Default));
    }

    #[test]
    fn an_empty_variable_is_not_set_and_a_list_is_split_at_commas() {
        let variable = |name: &str| match name {
            "KEW_LOG" => Some(String::new()),
            "KEW_HOSTS" => Some("a.example, b.example,".to_owned()),
            _ => None,
        };
        let values = Values::overlay(&Said::new(), &variable, None);
        assert_eq!(values.at("server", "log").origin, Origin::Default);
        let hosts = values.read_list("server", "hosts", |text| Ok(text.to_owned()));
        assert_eq!(hosts.expect("the list of hosts is valid"), ["a.example", "b.example"]);
    }

    #[test]
    fn refusals_tell_the_setting_as_it_was_written_and_hide_secrets() {
        let variable = |name: &str| (name == "KEW_ADMIN_TOKEN").then(|| "hush".to_owned());
        let file = Some((PathBuf::from("kew.toml"), said(("sqs", "region"), "mars")));
        let values = Values::overlay(&said(("server", "log"), "xml"), &variable, file);
        let told = |section, key| values.refuse(section, key, "better").to_string();
        assert_eq!(told("server", "log"), "--log xml is not allowed; it must be better");
        assert_eq!(told("sqs", "region"), "kew.toml: [sqs] region = mars is not allowed; it must be better");
        assert!(!told("admin", "token").contains("hush"));
    }
}
