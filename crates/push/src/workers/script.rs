//! What a Worker is made of: modules, bindings and the runtime's settings, checked when it is handed in.
//!
//! Names come from users and go into file names, into the runtime's configuration and into our own wrapper, so each
//! kind of name has a form that is safe in all of them.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most bytes of all modules of a Worker together.
pub const SCRIPT_BYTES_MAX: usize = 10 << 20;
/// The most modules of a Worker.
pub const MODULES_MAX: usize = 1_000;
/// The most bindings of a Worker, and the most secrets.
pub const BINDINGS_MAX: usize = 256;
/// The most bytes of a text that a binding or a secret holds.
pub const BINDING_BYTES_MAX: usize = 5 << 10;
/// How long a handler may keep the processor when the Worker does not say.
pub const CPU_LIMIT_DEFAULT: Duration = Duration::from_secs(30);
/// The most it may say.
pub const CPU_LIMIT_MAX: Duration = Duration::from_secs(300);

const NAME_BYTES_MAX: usize = 63;
const MODULE_NAME_BYTES_MAX: usize = 512;
const FLAGS_MAX: usize = 64;

/// The code of a Worker and what it is run with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Script {
    /// The day whose behaviour of the runtime it was written for, `YYYY-MM-DD`.
    pub compatibility_date: String,
    /// Behaviours that are switched by name.
    pub compatibility_flags: Vec<String>,
    /// How long a handler may keep the processor.
    pub cpu_limit: Option<Duration>,
    /// What its code finds in `env`.
    pub bindings: Vec<Binding>,
    /// Its modules, the main one first.
    pub modules: Vec<Module>,
}

/// One file of a Worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Module {
    /// The name other modules import it by.
    pub name: String,
    /// What it is.
    pub kind: ModuleKind,
    /// What it holds.
    #[serde(skip)]
    pub content: bytes::Bytes,
}

/// What a module is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleKind {
    /// An ECMAScript module.
    Es,
    /// A CommonJS module.
    CommonJs,
    /// A text.
    Text,
    /// Bytes.
    Data,
    /// A WebAssembly module.
    Wasm,
    /// JSON.
    Json,
    /// Where the code of the module of the same name without `.map` was written. The runtime does not get it.
    SourceMap,
}

/// One name in a Worker's `env`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Binding {
    /// The name.
    pub name: String,
    /// What stands behind it.
    pub value: BindingValue,
}

/// What a binding is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BindingValue {
    /// A text.
    Text(String),
    /// A value, as its JSON.
    Json(String),
    /// A way to send to the queue of this name.
    Queue(String),
}

/// A Worker that cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ScriptError {
    /// Its name is none.
    #[error("a Worker's name is 1 to 63 letters, digits, '-' or '_', and '{0}' is not")]
    Name(String),
    /// It has no code.
    #[error("the main module {0:?} is not among the modules")]
    NoMain(String),
    /// Its main module is of another kind.
    #[error(
        "the main module {0:?} must be an ES module: Workers in the service-worker format do not consume queues"
    )]
    MainKind(String),
    /// A module's name cannot be used.
    #[error("{0:?} cannot be a module's name")]
    ModuleName(String),
    /// Two modules have one name.
    #[error("two modules are named {0:?}")]
    ModuleTwice(String),
    /// A text module is no text.
    #[error("module {0:?} is not UTF-8 text")]
    ModuleText(String),
    /// A binding's name cannot be used.
    #[error("{0:?} cannot be a binding's name: letters, digits, '_' and '$', and no digit first")]
    BindingName(String),
    /// Two bindings have one name.
    #[error("two bindings or secrets are named {0:?}")]
    BindingTwice(String),
    /// A binding's JSON is none.
    #[error("the value of binding {0:?} is not JSON")]
    BindingJson(String),
    /// A date is none.
    #[error("compatibility_date must be a date like 2026-04-01, and is {0:?}")]
    Date(String),
    /// A flag is none.
    #[error("{0:?} cannot be a compatibility flag")]
    Flag(String),
    /// Something is too much.
    #[error("{what} may be at most {max}")]
    TooMuch {
        /// What.
        what: &'static str,
        /// Its bound.
        max: usize,
    },
}

/// Whether this may name a Worker.
pub fn check_name(name: &str) -> Result<(), ScriptError> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if fits && is_plain {
        Ok(())
    } else {
        Err(ScriptError::Name(name.chars().take(NAME_BYTES_MAX).collect()))
    }
}

/// Whether this may name a binding or a secret: it becomes a property of `env`.
pub fn check_binding_name(name: &str) -> Result<(), ScriptError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_$".contains(&byte);
    let is_name =
        name.bytes().all(is_word) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    if is_name && name.len() <= NAME_BYTES_MAX {
        Ok(())
    } else {
        Err(ScriptError::BindingName(name.chars().take(NAME_BYTES_MAX).collect()))
    }
}

impl Script {
    /// Puts the main module first and checks everything.
    pub fn checked(mut self, main: &str) -> Result<Self, ScriptError> {
        for module in &mut self.modules {
            module.name = plain_module_name(&module.name)?;
        }
        let main = plain_module_name(main)?;
        let place = self.modules.iter().position(|module| module.name == main);
        let place = place.ok_or_else(|| ScriptError::NoMain(main.clone()))?;
        if self.modules.get(place).is_some_and(|module| module.kind != ModuleKind::Es) {
            return Err(ScriptError::MainKind(main));
        }
        self.modules.swap(0, place);
        self.leave_out_maps();
        self.check()?;
        Ok(self)
    }

    /// The main module's name.
    pub fn main(&self) -> &str {
        self.modules.first().map_or("", |module| &module.name)
    }

    /// The queues it sends to.
    pub fn queues(&self) -> impl Iterator<Item = &str> {
        self.bindings.iter().filter_map(|binding| match &binding.value {
            BindingValue::Queue(queue) => Some(queue.as_str()),
            BindingValue::Text(_) | BindingValue::Json(_) => None,
        })
    }

    /// Source maps make no Worker too large: where they would, it goes without them.
    fn leave_out_maps(&mut self) {
        let bytes: usize = self.modules.iter().map(|module| module.content.len()).sum();
        if bytes > SCRIPT_BYTES_MAX || self.modules.len() > MODULES_MAX {
            self.modules.retain(|module| module.kind != ModuleKind::SourceMap);
        }
    }

    fn check(&self) -> Result<(), ScriptError> {
        bounded("the number of modules", self.modules.len(), MODULES_MAX)?;
        bounded("the number of bindings", self.bindings.len(), BINDINGS_MAX)?;
        bounded("the number of compatibility flags", self.compatibility_flags.len(), FLAGS_MAX)?;
        let bytes = self.modules.iter().map(|module| module.content.len()).sum();
        bounded("the bytes of all modules together", bytes, SCRIPT_BYTES_MAX)?;
        let mut names = HashSet::new();
        for module in &self.modules {
            if !names.insert(module.name.as_str()) {
                return Err(ScriptError::ModuleTwice(module.name.clone()));
            }
            let is_text = !matches!(module.kind, ModuleKind::Data | ModuleKind::Wasm | ModuleKind::SourceMap);
            if is_text && std::str::from_utf8(&module.content).is_err() {
                return Err(ScriptError::ModuleText(module.name.clone()));
            }
        }
        let mut names = HashSet::new();
        for binding in &self.bindings {
            check_binding_name(&binding.name)?;
            if !names.insert(binding.name.as_str()) {
                return Err(ScriptError::BindingTwice(binding.name.clone()));
            }
            binding.check()?;
        }
        if !is_date(&self.compatibility_date) {
            return Err(ScriptError::Date(self.compatibility_date.chars().take(32).collect()));
        }
        let is_flag = |flag: &str| {
            (1..=128).contains(&flag.len())
                && flag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte))
        };
        match self.compatibility_flags.iter().find(|flag| !is_flag(flag)) {
            Some(flag) => Err(ScriptError::Flag(flag.chars().take(128).collect())),
            None => Ok(()),
        }
    }
}

impl Binding {
    fn check(&self) -> Result<(), ScriptError> {
        let text = match &self.value {
            BindingValue::Text(text) | BindingValue::Json(text) | BindingValue::Queue(text) => text,
        };
        bounded("the bytes of a binding", text.len(), BINDING_BYTES_MAX)?;
        let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        match &self.value {
            BindingValue::Json(text) if !is_json(text) => Err(ScriptError::BindingJson(self.name.clone())),
            BindingValue::Json(_) | BindingValue::Text(_) | BindingValue::Queue(_) => Ok(()),
        }
    }
}

fn bounded(what: &'static str, found: usize, max: usize) -> Result<(), ScriptError> {
    if found <= max { Ok(()) } else { Err(ScriptError::TooMuch { what, max }) }
}

/// A module's name as a path below the main directory, without the `./` that uploads may put before it.
fn plain_module_name(name: &str) -> Result<String, ScriptError> {
    let plain = name.strip_prefix("./").unwrap_or(name);
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_path = plain.split('/').all(is_part) && plain.len() <= MODULE_NAME_BYTES_MAX;
    let is_legible = !plain.chars().any(|letter| letter.is_control() || letter == '\\');
    if is_path && is_legible && !plain.starts_with(super::files::OURS) {
        Ok(plain.to_owned())
    } else {
        Err(ScriptError::ModuleName(name.chars().take(128).collect()))
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bytes::Bytes;

    pub(crate) fn module(name: &str, content: &'static str) -> Module {
        Module {
            name: name.to_owned(),
            kind: ModuleKind::Es,
            content: Bytes::from_static(content.as_bytes()),
        }
    }

    pub(crate) fn script(modules: Vec<Module>) -> Script {
        Script {
            compatibility_date: "2026-04-01".to_owned(),
            compatibility_flags: Vec::new(),
            cpu_limit: None,
            bindings: Vec::new(),
            modules,
        }
    }

    fn binding(name: &str, value: BindingValue) -> Binding {
        Binding { name: name.to_owned(), value }
    }

    #[test]
    fn the_main_module_comes_first_under_its_plain_name() {
        let checked = script(vec![module("./lib/a.js", ""), module("./index.js", "")]).checked("index.js");
        let checked = checked.expect("the main module is among the modules");
        let names: Vec<&str> = checked.modules.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["index.js", "lib/a.js"]);
        assert_eq!(checked.main(), "index.js");
    }

    #[test]
    fn source_maps_make_no_worker_too_large() {
        let map = |bytes: usize| Module {
            kind: ModuleKind::SourceMap,
            content: vec![b' '; bytes].into(),
            ..module("index.js.map", "")
        };
        let kept = |bytes: usize| {
            let checked = script(vec![module("index.js", "12345"), map(bytes)]).checked("index.js");
            checked.expect("the script is within the bounds").modules.len()
        };
        assert_eq!((kept(SCRIPT_BYTES_MAX - 5), kept(SCRIPT_BYTES_MAX - 4)), (2, 1));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in
            ["", "/etc/passwd", "../a.js", "a/../b.js", "a//b.js", "a\\b.js", "a\nb.js", ".", "kew:entry.js"]
        {
            let found = script(vec![module(name, "")]).checked(name);
            assert!(matches!(found, Err(ScriptError::ModuleName(_))), "{name:?}: {found:?}");
        }
        for name in ["", "1a", "a-b", "a b", "a=b", "é"] {
            assert!(check_binding_name(name).is_err(), "{name:?}");
        }
        for name in ["", "a b", "a/b", "a.b", &"a".repeat(64)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(check_name(&"a".repeat(63)).is_ok());
        assert!(check_name("my-worker_1").is_ok());
    }

    #[test]
    fn what_does_not_fit_together_is_refused_by_name() {
        let one = || vec![module("index.js", "")];
        assert_eq!(script(one()).checked("other.js"), Err(ScriptError::NoMain("other.js".to_owned())));
        let mut twice = one();
        twice.push(module("./index.js", ""));
        assert_eq!(script(twice).checked("index.js"), Err(ScriptError::ModuleTwice("index.js".to_owned())));
        let common = vec![Module { kind: ModuleKind::CommonJs, ..module("index.js", "") }];
        assert_eq!(script(common).checked("index.js"), Err(ScriptError::MainKind("index.js".to_owned())));
        let bound = |bindings| Script { bindings, ..script(one()) }.checked("index.js").map(drop);
        let text = || BindingValue::Text("x".to_owned());
        let two = vec![binding("A", text()), binding("A", text())];
        assert_eq!(bound(two), Err(ScriptError::BindingTwice("A".to_owned())));
        let json = |text: &str| vec![binding("A", BindingValue::Json(text.to_owned()))];
        assert_eq!(bound(json("{")), Err(ScriptError::BindingJson("A".to_owned())));
        assert_eq!(bound(json("{\"a\":[1]}")), Ok(()));
        for date in ["", "2026-4-1", "2026/04/01", "20260401"] {
            let dated = Script { compatibility_date: date.to_owned(), ..script(one()) };
            assert_eq!(dated.checked("index.js"), Err(ScriptError::Date(date.to_owned())));
        }
        let flagged = Script { compatibility_flags: vec!["a\"b".to_owned()], ..script(one()) };
        assert_eq!(flagged.checked("index.js"), Err(ScriptError::Flag("a\"b".to_owned())));
    }

    #[test]
    fn code_is_bounded() {
        let large = |bytes: usize| {
            let content = Bytes::from(vec![b' '; bytes]);
            script(vec![Module { content, ..module("index.js", "") }]).checked("index.js").map(drop)
        };
        assert_eq!(large(SCRIPT_BYTES_MAX), Ok(()));
        assert!(matches!(large(SCRIPT_BYTES_MAX + 1), Err(ScriptError::TooMuch { .. })));
    }
}
