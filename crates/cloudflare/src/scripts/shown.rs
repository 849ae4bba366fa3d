//! What replies about Workers look like.

use kew_core::Timestamp;
use kew_push::workers::{BindingValue, Description, Version};
use serde_json::{Value, json};

use crate::encode::instant;

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
        "handlers": ["queue"],
        "usage_model": "standard",
        "compatibility_date": date(found),
        "compatibility_flags": flags(found),
    })
}

/// A Worker by the older name of its kind.
pub(super) fn service(found: &Description) -> Value {
    let script = json!({
        "id": found.name,
        "tag": null,
        "tags": [],
        "etag": etag(found),
        "handlers": ["queue"],
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
        "bindings": bindings(found),
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
    found.secrets.iter().map(|name| json!({ "name": name, "type": "secret_text" })).collect()
}

/// A version.
pub(super) fn version(version: &Version) -> Value {
    json!({
        "id": version.id,
        "number": version.number,
        "metadata": {
            "created_on": at(version.created_at),
            "modified_on": at(version.created_at),
            "source": "wrangler",
            "author_email": "user@kew.localhost",
        },
        "annotations": {},
    })
}

/// What the deployed version is made of.
pub(super) fn resources(found: &Description) -> Value {
    json!({
        "bindings": bindings(found),
        "script": { "etag": etag(found), "handlers": ["queue"], "named_handlers": [] },
        "script_runtime": {
            "compatibility_date": date(found),
            "compatibility_flags": flags(found),
            "usage_model": "standard",
        },
    })
}

/// Deployments, the present one alone: what ran before is not remembered.
pub(super) fn deployments(found: &Description) -> Vec<Value> {
    let shown = found.deployed.iter().map(|version| {
        json!({
            "id": version.id,
            "source": "wrangler",
            "strategy": "percentage",
            "author_email": "user@kew.localhost",
            "annotations": {},
            "created_on": at(found.deployed_at),
            "versions": [{ "version_id": version.id, "percentage": 100 }],
        })
    });
    shown.collect()
}

/// What an upload is answered.
pub(super) fn uploaded(found: &Description, version: &Version, took: u64) -> Value {
    let script = json!({ "etag": version.id, "handlers": ["queue"], "named_handlers": [] });
    let mut shown = self::script(found);
    shown["startup_time_ms"] = took.into();
    shown["deployment_id"] = version.id.as_str().into();
    shown["entry_point"] = found.script.as_ref().map(|script| script.main().to_owned()).into();
    shown["resources"] = json!({ "script": script, "bindings": bindings(found) });
    shown["number"] = version.number.into();
    shown["metadata"] = json!({ "created_on": at(version.created_at), "source": "wrangler" });
    // Who adds a version without deploying it looks for its id here; who deploys at once, for the Worker's.
    let is_deployed = found.deployed.as_ref().is_some_and(|deployed| deployed.id == version.id);
    shown["id"] = if is_deployed { found.name.as_str().into() } else { version.id.as_str().into() };
    shown
}

fn bindings(found: &Description) -> Vec<Value> {
    let script = found.script.iter().flat_map(|script| &script.bindings);
    let plain = script.map(|binding| match &binding.value {
        BindingValue::Text(text) => json!({ "type": "plain_text", "name": binding.name, "text": text }),
        BindingValue::Json(text) => {
            // It was checked when it came.
            let value: Value = serde_json::from_str(text).unwrap_or_default();
            json!({ "type": "json", "name": binding.name, "json": value })
        }
        BindingValue::Queue(queue) => json!({ "type": "queue", "name": binding.name, "queue_name": queue }),
    });
    plain.chain(secrets(found)).collect()
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
