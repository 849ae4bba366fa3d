//! What replies about Workers look like.

use kew_core::Timestamp;
use kew_push::workers::{
    BindingValue, Deployment, Description, LogPage, LogPlace, Remarks, Schedule, Script, Version,
};
use serde_json::{Value, json};

use crate::encode::instant;

/// Who did it, where callers have no identity.
const AUTHOR: &str = "user@kew.localhost";

fn at(millis: u64) -> String {
    instant(Timestamp(millis))
}

/// A Worker in a list.
pub(super) fn script(found: &Description) -> Value {
    json!({
        "id": found.name,
        "created_on": at(found.created_at),
        "modified_on": at(found.deployed_at),
        "etag": etag(found),
        "handlers": handlers(found),
        "usage_model": "standard",
        "compatibility_date": date(found),
        "compatibility_flags": flags(found),
    })
}

/// Cron triggers.
pub(super) fn schedules(kept: &[Schedule]) -> Value {
    let shown = kept.iter().map(|schedule| {
        let created = at(schedule.created_at);
        json!({ "cron": schedule.cron, "created_on": created, "modified_on": created })
    });
    json!({ "schedules": shown.collect::<Vec<Value>>() })
}

/// A Worker by the older name of its kind.
pub(super) fn service(found: &Description) -> Value {
    let script = json!({
        "id": found.name,
        "tag": null,
        "tags": [],
        "etag": etag(found),
        "handlers": handlers(found),
        "created_on": at(found.created_at),
        "modified_on": at(found.deployed_at),
        "last_deployed_from": "wrangler",
        "usage_model": "standard",
        "compatibility_date": date(found),
    });
    json!({
        "id": found.name,
        "created_on": at(found.created_at),
        "modified_on": at(found.deployed_at),
        "default_environment": {
            "environment": "production",
            "created_on": at(found.created_at),
            "modified_on": at(found.deployed_at),
            "script": script,
        },
        "environments": [{ "environment": "production", "created_on": at(found.created_at) }],
    })
}

/// A Worker by its newest name.
pub(super) fn worker(found: &Description) -> Value {
    json!({
        "id": found.name,
        "name": found.name,
        "created_on": at(found.created_at),
        "updated_on": at(found.deployed_at),
        "subdomain": { "enabled": false, "previews_enabled": false },
        "logpush": false,
        "tags": [],
        "tail_consumers": [],
        "observability": { "enabled": false },
    })
}

/// What a Worker is set to.
pub(super) fn settings(found: &Description) -> Value {
    json!({
        "bindings": found.script.as_ref().map_or_else(
            || secrets(found),
            |script| bindings(script, &found.secrets),
        ),
        "compatibility_date": date(found),
        "compatibility_flags": flags(found),
        "usage_model": "standard",
        "tags": [],
        "tail_consumers": [],
        "logpush": false,
        "placement": {},
    })
}

/// The names of a Worker's secrets.
pub(super) fn secrets(found: &Description) -> Vec<Value> {
    found.secrets.iter().map(|name| secret(name)).collect()
}

/// A version.
pub(super) fn version(version: &Version) -> Value {
    let mut annotations = annotations(&version.remarks);
    annotations["workers/triggered_by"] = "upload".into();
    json!({
        "id": version.id,
        "number": version.number,
        "metadata": {
            "created_on": at(version.created_at),
            "modified_on": at(version.created_at),
            "source": "wrangler",
            "author_email": AUTHOR,
            "has_preview": false,
        },
        "annotations": annotations,
    })
}

/// A version and what it is made of; secrets are those of its Worker.
pub(super) fn version_with_resources(kept: &Version, script: &Script, secrets: &[String]) -> Value {
    let mut shown = version(kept);
    shown["resources"] = json!({
        "bindings": bindings(script, secrets),
        "script": { "etag": kept.id, "handlers": ["queue"], "named_handlers": [] },
        "script_runtime": {
            "compatibility_date": script.compatibility_date,
            "compatibility_flags": script.compatibility_flags,
            "usage_model": "standard",
        },
    });
    shown
}

/// A deployment: one version, of which everything is.
pub(super) fn deployment(found: &Deployment) -> Value {
    json!({
        "id": found.id,
        "source": "wrangler",
        "strategy": "percentage",
        "author_email": AUTHOR,
        "annotations": annotations(&found.remarks),
        "created_on": at(found.at),
        "versions": [{ "version_id": found.version, "percentage": 100 }],
    })
}

fn annotations(remarks: &Remarks) -> Value {
    let mut shown = json!({});
    if let Some(message) = &remarks.message {
        shown["workers/message"] = message.as_str().into();
    }
    if let Some(tag) = &remarks.tag {
        shown["workers/tag"] = tag.as_str().into();
    }
    shown
}

/// What an upload is answered.
pub(super) fn uploaded(found: &Description, kept: &Version, script: &Script, took: u64) -> Value {
    let mut shown = self::script(found);
    shown["startup_time_ms"] = took.into();
    shown["deployment_id"] = found.deployments.last().map(|deployment| deployment.id.as_str()).into();
    shown["entry_point"] = script.main().into();
    for (key, value) in members(version_with_resources(kept, script, &found.secrets)) {
        shown[key] = value;
    }
    // Who adds a version without deploying it looks for its id here; who deploys at once, for the Worker's.
    let is_deployed = found.deployed.as_ref().is_some_and(|deployed| deployed.id == kept.id);
    if is_deployed {
        shown["resources"]["script"]["handlers"] = handlers(found).into();
        shown["id"] = found.name.as_str().into();
    }
    shown
}

/// Lines of a Worker's log, and what to ask for lines after next time.
pub(super) fn log(page: &LogPage) -> Value {
    let lines = page.lines.iter().map(|line| {
        let mut shown =
            json!({ "number": line.number, "at": instant(line.at), "level": line.level, "text": line.text });
        if let Some(node) = &line.node {
            shown["node"] = (**node).into();
        }
        shown
    });
    let last: Value = match &page.last {
        LogPlace::Number(number) => (*number).into(),
        several @ LogPlace::Nodes(_) => several.to_string().into(),
    };
    json!({ "lines": lines.collect::<Vec<Value>>(), "last": last, "missed": page.missed })
}

fn members(object: Value) -> impl Iterator<Item = (String, Value)> {
    let members = match object {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    members.into_iter()
}

fn bindings(script: &Script, secrets: &[String]) -> Vec<Value> {
    let plain = script.bindings.iter().map(|binding| match &binding.value {
        BindingValue::Text(text) => json!({ "type": "plain_text", "name": binding.name, "text": text }),
        BindingValue::Json(text) => {
            // It was checked when it came.
            let value: Value = serde_json::from_str(text).unwrap_or_default();
            json!({ "type": "json", "name": binding.name, "json": value })
        }
        BindingValue::Queue(queue) => json!({ "type": "queue", "name": binding.name, "queue_name": queue }),
    });
    plain.chain(secrets.iter().map(|name| secret(name))).collect()
}

fn secret(name: &str) -> Value {
    json!({ "name": name, "type": "secret_text" })
}

/// What it handles of what is brought to Workers here.
fn handlers(found: &Description) -> &'static [&'static str] {
    if found.handles_queues == Some(false) { &[] } else { &["queue"] }
}

fn etag(found: &Description) -> Option<&str> {
    found.deployed.as_ref().map(|version| version.id.as_str())
}

fn date(found: &Description) -> Option<&str> {
    found.script.as_ref().map(|script| script.compatibility_date.as_str())
}

fn flags(found: &Description) -> &[String] {
    found.script.as_ref().map_or(&[], |script| &script.compatibility_flags)
}
