//! Code as it is uploaded: a form with `metadata` and one part for each module.

use std::time::Duration;

use kew_http::Request;
use kew_push::workers::{
    Binding, BindingValue, CPU_LIMIT_MAX, Description, Module, ModuleKind, Script, Upload,
};
use serde::Deserialize;
use serde_json::Value;

use super::asked::Annotations;
use super::multipart::{self, Part};
use crate::decode::mismatch;
use crate::error::{Code, WireError};

#[derive(Deserialize)]
struct Metadata {
    main_module: Option<String>,
    /// The main part of the older format, which has no modules.
    body_part: Option<String>,
    #[serde(default)]
    bindings: Vec<Value>,
    compatibility_date: Option<String>,
    #[serde(default)]
    compatibility_flags: Vec<String>,
    limits: Option<Limits>,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Limits {
    cpu_ms: Option<u64>,
}

/// The date of a Worker that names none: the oldest there is.
const OLDEST_DATE: &str = "2021-11-02";

/// Reads an upload; `before` is the Worker as it is.
pub(super) fn read(request: &Request, before: Option<&Description>) -> Result<Upload, WireError> {
    let content_type = request.header("content-type").unwrap_or_default();
    let boundary = multipart::boundary(content_type)
        .ok_or_else(|| unfit("A Worker is uploaded as multipart/form-data"))?;
    let mut parts = multipart::parts(&request.body, &boundary).map_err(unfit)?;
    let place = parts.iter().position(|part| part.name == "metadata");
    let metadata = parts.remove(place.ok_or_else(|| unfit("The form has no part named metadata"))?);
    let metadata: Metadata = serde_json::from_slice(&metadata.content)
        .map_err(|error| unfit(format!("The metadata cannot be read: {}", mismatch(&error))))?;
    if metadata.body_part.is_some() {
        return Err(unfit(
            "Workers in the service-worker format have no queue handler: export one from an ES module",
        ));
    }
    let main = metadata.main_module.ok_or_else(|| unfit("The metadata names no main_module"))?;
    let (mut bindings, mut secrets) = (Vec::new(), Vec::new());
    for given in &metadata.bindings {
        match binding(given)? {
            Given::Binding(binding) => bindings.push(binding),
            Given::Secret(name, text) => secrets.push((name, text)),
            Given::Inherited { name, old } => bindings.extend(inherited(before, name, &old)?),
        }
    }
    let modules = parts.into_iter().map(module).collect::<Result<_, _>>()?;
    let cpu = metadata.limits.and_then(|limits| limits.cpu_ms).map(Duration::from_millis);
    let script = Script {
        compatibility_date: metadata.compatibility_date.unwrap_or_else(|| OLDEST_DATE.to_owned()),
        compatibility_flags: metadata.compatibility_flags,
        cpu_limit: cpu.map(|limit| limit.clamp(Duration::from_millis(1), CPU_LIMIT_MAX)),
        bindings,
        modules,
    };
    let remarks = metadata.annotations.unwrap_or_default().into();
    Ok(Upload { script, main, secrets, remarks })
}

#[derive(Deserialize)]
struct Changes {
    #[serde(default)]
    bindings: Vec<Value>,
}

/// The secrets of a change of settings, which is what `wrangler secret bulk` sends. Nothing else can be changed so:
/// what a Worker is bound to comes with its code.
pub(super) fn read_secrets(request: &Request) -> Result<Vec<(String, String)>, WireError> {
    let boundary = multipart::boundary(request.header("content-type").unwrap_or_default())
        .ok_or_else(|| unfit("Settings are changed by multipart/form-data"))?;
    let parts = multipart::parts(&request.body, &boundary).map_err(unfit)?;
    let part = parts.iter().find(|part| part.name == "settings");
    let part = part.ok_or_else(|| unfit("The form has no part named settings"))?;
    let changes: Changes = serde_json::from_slice(&part.content)
        .map_err(|error| unfit(format!("The settings cannot be read: {}", mismatch(&error))))?;
    let mut secrets = Vec::new();
    for given in &changes.bindings {
        match binding(given)? {
            Given::Secret(name, text) => secrets.push((name, text)),
            Given::Inherited { .. } => {}
            Given::Binding(binding) => {
                let name = binding.name;
                return Err(unfit(format!("Binding {name:?} is no secret: deploy the Worker to change it")));
            }
        }
    }
    Ok(secrets)
}

fn module(part: Part) -> Result<Module, WireError> {
    let kind = match part.content_type.as_str() {
        "application/javascript+module" | "text/javascript+module" => ModuleKind::Es,
        "application/javascript" | "text/javascript" => ModuleKind::CommonJs,
        "text/plain" => ModuleKind::Text,
        "application/octet-stream" => ModuleKind::Data,
        "application/wasm" => ModuleKind::Wasm,
        "application/json" => ModuleKind::Json,
        "application/source-map" => ModuleKind::SourceMap,
        other => {
            let text =
                format!("Module {:?} is of the type {other:?}, which is none that is run here", part.name);
            return Err(unfit(text));
        }
    };
    Ok(Module { name: part.name, kind, content: part.content })
}

enum Given {
    Binding(Binding),
    Secret(String, String),
    /// What the version before has under this name.
    Inherited {
        name: String,
        old: String,
    },
}

fn binding(given: &Value) -> Result<Given, WireError> {
    let text = |key: &str| given.get(key).and_then(Value::as_str).map(str::to_owned);
    let missing = |key: &str| unfit(format!("A binding lacks its {key}"));
    let name = text("name").ok_or_else(|| missing("name"))?;
    let kind = text("type").ok_or_else(|| missing("type"))?;
    let value = match kind.as_str() {
        "plain_text" => BindingValue::Text(text("text").ok_or_else(|| missing("text"))?),
        "json" => BindingValue::Json(given.get("json").ok_or_else(|| missing("json"))?.to_string()),
        "queue" => BindingValue::Queue(text("queue_name").ok_or_else(|| missing("queue_name"))?),
        "secret_text" => return Ok(Given::Secret(name, text("text").ok_or_else(|| missing("text"))?)),
        "inherit" => {
            let old = text("old_name").unwrap_or_else(|| name.clone());
            return Ok(Given::Inherited { name, old });
        }
        other => {
            let text = format!(
                "Binding {name:?} is of the type {other:?}, which this server does not offer: it has plain_text, json, queue and secret_text"
            );
            return Err(unfit(text));
        }
    };
    Ok(Given::Binding(Binding { name, value }))
}

/// A binding of the version before under its name of now; none for a secret, which stays anyway.
fn inherited(before: Option<&Description>, name: String, old: &str) -> Result<Option<Binding>, WireError> {
    let script = before.and_then(|before| before.script.as_ref());
    let found = script.and_then(|script| script.bindings.iter().find(|binding| binding.name == old));
    if let Some(binding) = found {
        return Ok(Some(Binding { name, value: binding.value.clone() }));
    }
    if name == old && before.is_some_and(|before| before.secrets.iter().any(|secret| secret == old)) {
        return Ok(None);
    }
    Err(unfit(format!("Binding {name:?} shall be inherited, and there is none named {old:?} yet")))
}

fn unfit(text: impl Into<std::borrow::Cow<'static, str>>) -> WireError {
    WireError::new(Code::ScriptInvalid).saying(text)
}
