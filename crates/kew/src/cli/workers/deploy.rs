//! One deployment: queues, code, and what the file says of queues.
//!
//! The newest writer of a queue's settings wins, whether it is a file, a command or a call. So what the file says is
//! written when its content has changed since it was last written to this server, and when there is no consumer yet; a
//! restart of this command alone changes nothing.

use kew_http::Method;
use serde_json::{Value, json};

use super::api::{Api, Part};
use super::project::{Consumer, Kind, Project};

/// What the module is uploaded as.
const MODULE: &str = "index.js";

/// Whether a file's settings are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settings {
    /// The file is new or has changed.
    Write,
    /// It is as it was; only what is missing is written.
    Keep,
}

/// Brings a project to a server; lines for people go to `tell`.
pub(super) async fn deploy(
    api: &Api,
    project: &Project,
    module: &[u8],
    settings: Settings,
    tell: &dyn Fn(String),
) -> Result<(), String> {
    for queue in project.queues() {
        if find(api, queue).await?.is_none() {
            api.call(Method::POST, "/queues", Some(&json!({ "queue_name": queue }))).await?;
            tell(format!("made the queue {queue}"));
        }
    }
    let metadata = metadata(project).to_string();
    let parts = [
        Part { name: "metadata", content_type: "application/json", content: metadata.as_bytes() },
        Part { name: MODULE, content_type: "application/javascript+module", content: module },
    ];
    api.upload(&format!("/workers/scripts/{}", project.name), &parts).await?;
    tell(format!("deployed {} ({} bytes)", project.name, module.len()));
    if settings == Settings::Write {
        write_delays(api, project, tell).await?;
    }
    for consumer in &project.consumers {
        write_consumer(api, project, consumer, settings, tell).await?;
    }
    Ok(())
}

async fn find(api: &Api, queue: &str) -> Result<Option<Value>, String> {
    let found = api.call(Method::GET, &format!("/queues?page=1&name={queue}"), None).await?;
    Ok(found.get(0).cloned())
}

/// The queue's object and its path.
async fn named(api: &Api, queue: &str) -> Result<(Value, String), String> {
    let found = find(api, queue).await?.ok_or_else(|| format!("the queue {queue} is gone"))?;
    let path = format!("/queues/{}", found["queue_id"].as_str().unwrap_or_default());
    Ok((found, path))
}

async fn write_delays(api: &Api, project: &Project, tell: &dyn Fn(String)) -> Result<(), String> {
    for queue in project.disputed() {
        tell(format!("warning: the queue {queue} is given more than one delivery_delay; the last one holds"));
    }
    for (queue, delay) in project.delays() {
        let (_, path) = named(api, queue).await?;
        let change = json!({ "settings": { "delivery_delay": delay } });
        api.call(Method::PATCH, &path, Some(&change)).await?;
        tell(format!("messages of {queue} wait {delay} s"));
    }
    Ok(())
}

async fn write_consumer(
    api: &Api,
    project: &Project,
    consumer: &Consumer,
    settings: Settings,
    tell: &dyn Fn(String),
) -> Result<(), String> {
    let (queue, path) = named(api, &consumer.queue).await?;
    let wanted = body(project, consumer);
    let known = queue["consumers"].as_array().and_then(|consumers| consumers.first());
    let Some(known) = known else {
        api.call(Method::POST, &format!("{path}/consumers"), Some(&wanted)).await?;
        tell(format!("{} consumes {}", project.name, consumer.queue));
        return Ok(());
    };
    let is_ours = known["type"] == wanted["type"]
        && (consumer.kind == Kind::HttpPull || known["script"] == project.name.as_str());
    if !is_ours {
        return Err(format!(
            "the queue {} has another consumer already; remove it first (DELETE {path}/consumers/{})",
            consumer.queue,
            known["consumer_id"].as_str().unwrap_or_default()
        ));
    }
    if settings == Settings::Write {
        let path = format!("{path}/consumers/{}", known["consumer_id"].as_str().unwrap_or_default());
        api.call(Method::PUT, &path, Some(&wanted)).await?;
        tell(format!("the consumer of {} is as the file says", consumer.queue));
    }
    Ok(())
}

/// A consumer with exactly the file's values: what the file leaves out is the default.
fn body(project: &Project, consumer: &Consumer) -> Value {
    let mut settings = json!({});
    let mut put = |key: &str, value: Option<u32>| {
        if let Some(value) = value {
            settings[key] = json!(value);
        }
    };
    put("batch_size", consumer.max_batch_size);
    put("max_retries", consumer.max_retries);
    put("retry_delay", consumer.retry_delay);
    let mut body = match consumer.kind {
        Kind::Worker => {
            put("max_wait_time_ms", consumer.max_batch_timeout.map(|seconds| seconds.saturating_mul(1_000)));
            put("max_concurrency", consumer.max_concurrency);
            json!({ "type": "worker", "script_name": project.name })
        }
        Kind::HttpPull => {
            put("visibility_timeout_ms", consumer.visibility_timeout_ms);
            json!({ "type": "http_pull" })
        }
    };
    body["settings"] = settings;
    if let Some(queue) = &consumer.dead_letter_queue {
        body["dead_letter_queue"] = json!(queue);
    }
    body
}

fn metadata(project: &Project) -> Value {
    let vars = project.vars.iter().map(|(name, value)| match value {
        Value::String(text) => json!({ "type": "plain_text", "name": name, "text": text }),
        other => json!({ "type": "json", "name": name, "json": other }),
    });
    let queues = project
        .producers
        .iter()
        .map(|producer| json!({ "type": "queue", "name": producer.binding, "queue_name": producer.queue }));
    let mut metadata = json!({
        "main_module": MODULE,
        "bindings": vars.chain(queues).collect::<Vec<_>>(),
        "compatibility_date": project.compatibility_date,
        "compatibility_flags": project.compatibility_flags,
        "keep_bindings": ["secret_text", "secret_key"],
    });
    if let Some(cpu_ms) = project.cpu_millis {
        metadata["limits"] = json!({ "cpu_ms": cpu_ms });
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn bodies_hold_exactly_what_the_file_says() {
        let text = "name = \"w\"\nmain = \"a.js\"\n[vars]\nA = \"t\"\nB = [1]\n[queues]\nproducers = [{ binding = \"OUT\", queue = \"q\" }]\nconsumers = [{ queue = \"a\" }, { queue = \"b\", max_batch_timeout = 10, max_concurrency = 1, dead_letter_queue = \"d\" }, { queue = \"c\", type = \"http_pull\", visibility_timeout_ms = 7 }]";
        let project = Project::read(Path::new("wrangler.toml"), text).expect("the configuration is valid");
        let bodies: Vec<Value> = project.consumers.iter().map(|consumer| body(&project, consumer)).collect();
        assert_eq!(
            bodies,
            [
                json!({ "type": "worker", "script_name": "w", "settings": {} }),
                json!({ "type": "worker", "script_name": "w", "dead_letter_queue": "d",
                "settings": { "max_wait_time_ms": 10_000, "max_concurrency": 1 } }),
                json!({ "type": "http_pull", "settings": { "visibility_timeout_ms": 7 } }),
            ]
        );
        let metadata = metadata(&project);
        assert_eq!(
            metadata["bindings"],
            json!([
                { "type": "plain_text", "name": "A", "text": "t" },
                { "type": "json", "name": "B", "json": [1] },
                { "type": "queue", "name": "OUT", "queue_name": "q" },
            ])
        );
        assert_eq!(metadata["limits"], Value::Null);
    }
}
