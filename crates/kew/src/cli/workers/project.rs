//! A Worker's project as its configuration file describes it: `wrangler.toml`, `wrangler.json` or `wrangler.jsonc`.
//!
//! Keys that have nothing to do with what runs here are ignored with a warning. Entries of queues are read strictly: a
//! setting that is misspelt would silently be the default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Files that are looked for, in this order.
const NAMES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
/// The runtime's behaviour for projects that name none.
const DATE: &str = "2026-04-01";
/// Keys that say something to other commands alone.
const ELSEWHERE: &[&str] = &[
    "$schema",
    "account_id",
    "dev",
    "minify",
    "observability",
    "placement",
    "preview_urls",
    "send_metrics",
    "upload_source_maps",
    "workers_dev",
];

/// A project.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Project {
    pub(super) name: String,
    /// The main module's source.
    pub(super) main: PathBuf,
    pub(super) compatibility_date: String,
    pub(super) compatibility_flags: Vec<String>,
    pub(super) vars: Map<String, Value>,
    pub(super) cpu_millis: Option<u64>,
    pub(super) producers: Vec<Producer>,
    pub(super) consumers: Vec<Consumer>,
    /// Keys that have no meaning here.
    pub(super) ignored: Vec<String>,
}

/// A queue it sends to.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Producer {
    pub(super) binding: String,
    pub(super) queue: String,
    /// How many seconds every message waits that names no delay.
    pub(super) delivery_delay: Option<u32>,
    #[serde(default, rename = "remote")]
    _remote: bool,
}

/// A queue it consumes.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Consumer {
    pub(super) queue: String,
    #[serde(default, rename = "type")]
    pub(super) kind: Kind,
    pub(super) max_batch_size: Option<u32>,
    pub(super) max_batch_timeout: Option<u32>,
    pub(super) max_retries: Option<u32>,
    pub(super) dead_letter_queue: Option<String>,
    pub(super) max_concurrency: Option<u32>,
    pub(super) visibility_timeout_ms: Option<u32>,
    pub(super) retry_delay: Option<u32>,
}

/// How a queue is consumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Worker,
    HttpPull,
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    main: PathBuf,
    compatibility_date: Option<String>,
    #[serde(default)]
    compatibility_flags: Vec<String>,
    #[serde(default)]
    vars: Map<String, Value>,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    queues: Queues,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Default, Deserialize)]
struct Limits {
    cpu_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queues {
    #[serde(default)]
    producers: Vec<Producer>,
    #[serde(default)]
    consumers: Vec<Consumer>,
}

/// The configuration file: the one that is named, or the first that is here.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => NAMES
            .iter()
            .map(PathBuf::from)
            .find(|path| path.is_file())
            .ok_or_else(|| format!("there is none of {} here; name it with --config", NAMES.join(", "))),
    }
}

impl Project {
    /// Reads the text of the file at `path`.
    pub(super) fn read(path: &Path, text: &str) -> Result<Self, String> {
        let told = |error: String| format!("{}: {error}", path.display());
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        let value: Value = if is_toml {
            toml::from_str(text).map_err(|error: toml::de::Error| told(error.to_string()))?
        } else {
            serde_json::from_str(&super::jsonc::plain(text)).map_err(|error| told(error.to_string()))?
        };
        let wire: Wire = serde_json::from_value(value).map_err(|error| told(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let known = |key: &&String| !ELSEWHERE.contains(&key.as_str());
        Ok(Self {
            name: wire.name,
            main: folder.join(wire.main),
            compatibility_date: wire.compatibility_date.unwrap_or_else(|| DATE.to_owned()),
            compatibility_flags: wire.compatibility_flags,
            vars: wire.vars,
            cpu_millis: wire.limits.cpu_ms,
            producers: wire.queues.producers,
            consumers: wire.queues.consumers,
            ignored: wire.others.keys().filter(known).cloned().collect(),
        })
    }

    /// The delay of each queue it sends to that is given one; the last one that is given.
    pub(super) fn delays(&self) -> BTreeMap<&str, u32> {
        let delays = self.producers.iter();
        delays.filter_map(|producer| Some((producer.queue.as_str(), producer.delivery_delay?))).collect()
    }

    /// Queues that are given more than one delay.
    pub(super) fn disputed(&self) -> Vec<&str> {
        let delays = self.delays();
        let is_other = |producer: &&Producer| {
            producer.delivery_delay.is_some_and(|delay| delays.get(producer.queue.as_str()) != Some(&delay))
        };
        self.producers.iter().filter(is_other).map(|producer| producer.queue.as_str()).collect()
    }

    /// All queues it names.
    pub(super) fn queues(&self) -> Vec<&str> {
        let produced = self.producers.iter().map(|producer| producer.queue.as_str());
        let consumed = self.consumers.iter().map(|consumer| consumer.queue.as_str());
        let dead = self.consumers.iter().filter_map(|consumer| consumer.dead_letter_queue.as_deref());
        let mut queues: Vec<&str> = produced.chain(consumed).chain(dead).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = r#"
name = "orders"
main = "src/index.ts"
compatibility_date = "2024-03-18"
workers_dev = true
route = "example.com/*"

[vars]
GREETING = "hi"
LIMIT = 3

[[queues.producers]]
binding = "OUT"
queue = "next"
delivery_delay = 60

[[queues.consumers]]
queue = "my-queue"
retry_delay = 300
max_batch_size = 30
max_batch_timeout = 10
dead_letter_queue = "dead"
"#;

    fn read(name: &str, text: &str) -> Result<Project, String> {
        Project::read(Path::new(name), text)
    }

    #[test]
    fn the_same_project_in_all_forms_is_the_same() {
        let toml = read("p/wrangler.toml", TOML).expect("the configuration is valid");
        assert_eq!((toml.name.as_str(), toml.main.as_path()), ("orders", Path::new("p/src/index.ts")));
        assert_eq!(toml.delays(), BTreeMap::from([("next", 60)]));
        assert_eq!(toml.queues(), ["dead", "my-queue", "next"]);
        assert_eq!(toml.ignored, ["route"]);
        let consumer = toml.consumers.first().expect("the project has one consumer");
        assert_eq!(
            (consumer.retry_delay, consumer.max_batch_size, consumer.max_retries),
            (Some(300), Some(30), None)
        );
        let json = r#"{ // comments are fine
            "name": "orders", "main": "src/index.ts", "compatibility_date": "2024-03-18", "workers_dev": true,
            "route": "example.com/*", "vars": { "GREETING": "hi", "LIMIT": 3, },
            "queues": {
                "producers": [{ "binding": "OUT", "queue": "next", "delivery_delay": 60 }],
                "consumers": [{ "queue": "my-queue", "retry_delay": 300, "max_batch_size": 30,
                    "max_batch_timeout": 10, "dead_letter_queue": "dead" }],
            },
        }"#;
        assert_eq!(read("p/wrangler.jsonc", json).expect("the configuration is valid"), toml);
    }

    #[test]
    fn an_error_names_its_file() {
        for (text, expected) in [
            ("main = \"a.js\"", "missing field `name`"),
            ("name = \"a\"", "missing field `main`"),
            (
                "name = \"a\"\nmain = \"b\"\n[[queues.consumers]]\nqueue = \"q\"\nretry_delays = 3",
                "unknown field `retry_delays`",
            ),
            ("name = \"a\"\nmain = \"b\"\n[[queues.producers]]\nbinding = \"Q\"", "missing field `queue`"),
            (
                "name = \"a\"\nmain = \"b\"\n[[queues.consumers]]\nqueue = \"q\"\nretry_delay = -1",
                "invalid value",
            ),
            ("name = ", "TOML parse error"),
        ] {
            let told = read("wrangler.toml", text).expect_err(text);
            assert!(told.starts_with("wrangler.toml: ") && told.contains(expected), "{told}");
        }
    }

    #[test]
    fn of_two_delays_of_one_queue_the_last_holds_with_a_warning() {
        let text = "name = \"a\"\nmain = \"b\"\n[queues]\nproducers = [{ binding = \"A\", queue = \"q\", delivery_delay = 5 }, { binding = \"B\", queue = \"q\", delivery_delay = 7 }]";
        let project = read("wrangler.toml", text).expect("the configuration is valid");
        assert_eq!((project.delays().get("q"), project.disputed()), (Some(&7), vec!["q"]));
    }
}
