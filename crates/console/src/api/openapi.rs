//! The OpenAPI document, written from the table of operations.
//!
//! By hand and not by a crate: the table also routes and checks requests, so nothing has to be said twice, and what
//! such crates derive from types would have to be kept like the table by hand.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::fields::{Field, object_schema};
use super::path::{BASE, is_place};
use super::routes::ROUTES;
use super::table::{Needs, Op, Route};

/// Refusals that any operation may answer.
const COMMON: [(u16, &str); 6] = [
    (400, "The request is malformed"),
    (401, "The sender is not known"),
    (403, "A web page of another site sent it, the role may not do this, or X-Kew-CSRF is missing"),
    (421, "The host's name is not one of the server's"),
    (500, "Stored data is damaged"),
    (503, "The server does not serve, or has too much to do"),
];

static DOCUMENT: LazyLock<Value> = LazyLock::new(written);

/// The document.
pub(super) fn document() -> &'static Value {
    &DOCUMENT
}

fn written() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Value::Object(methods) = path {
            methods.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string", "description": "For programs: it stays the same" },
                "message": { "type": "string", "description": "For people" },
            },
        } },
    });
    let csrf = "The session's second secret, which changes in a session must bring";
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kew's admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Instants are milliseconds since 1970 in engine time, durations are seconds. \
                            Changes need Content-Type: application/json; GET changes nothing.",
        },
        "servers": [{ "url": BASE }],
        "paths": paths,
        "components": {
            "schemas": { "Error": error },
            "parameters": { "csrf": {
                "name": "X-Kew-CSRF", "in": "header", "description": csrf, "schema": { "type": "string" },
            } },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": "kew_session" },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    let reply = object_schema(route.reply);
    let mut success = |status: u16, help: &str| {
        let shown = json!({ "description": help, "content": { "application/json": { "schema": reply } } });
        responses.insert(status.to_string(), shown);
    };
    success(route.status, route.help);
    route
        .refusals
        .iter()
        .filter(|(status, _)| *status < 300)
        .for_each(|(status, help)| success(*status, help));
    let changes =
        [(405, "The path has no such method"), (413, "The body is too long"), (415, "The body is no JSON")];
    let own = route.refusals.iter().filter(|(status, _)| *status >= 300);
    let refusals = COMMON.iter().chain(changes.iter().filter(|_| route.is_change())).chain(own);
    for (status, help) in refusals {
        let schema = json!({ "$ref": "#/components/schemas/Error" });
        let shown = json!({ "description": help, "content": { "application/json": { "schema": schema } } });
        responses.insert(status.to_string(), shown);
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.help,
        "parameters": parameters(route),
        "responses": responses,
        "security": security(route.needs),
    });
    if route.is_change()
        && let Value::Object(members) = &mut operation
    {
        let is_required = route.body.iter().any(|field| field.is_required);
        let schema = object_schema(route.body);
        let body =
            json!({ "required": is_required, "content": { "application/json": { "schema": schema } } });
        members.insert("requestBody".to_owned(), body);
    }
    operation
}

fn security(needs: Needs) -> Value {
    match needs {
        Needs::Nothing => json!([]),
        // Where neither a token nor users are set, nothing is asked for.
        Needs::Known | Needs::Operator => json!([{ "token": [] }, { "session": [] }, {}]),
    }
}

fn parameters(route: &Route) -> Value {
    let places = route.path.split('/').filter(|part| is_place(part));
    let in_path = places.map(|part| {
        let name = part.trim_matches(['{', '}']);
        let help = match name {
            "q" => "A queue: its name, or account:region:name, URL-encoded",
            "id" => "A message's id, as a UUID or as 32 hex digits",
            "shard" => "A shard's number",
            _ => "A task, as it was answered",
        };
        let schema = json!({ "type": "string", "minLength": 1 });
        json!({ "name": name, "in": "path", "required": true, "description": help, "schema": schema })
    });
    let in_query = route.query.iter().map(in_query);
    let csrf = (route.is_change() && route.op != Op::BeginSession)
        .then(|| json!({ "$ref": "#/components/parameters/csrf" }));
    Value::Array(in_path.chain(in_query).chain(csrf).collect())
}

fn in_query(field: &Field) -> Value {
    let (name, required) = (field.name, field.is_required);
    json!({ "name": name, "in": "query", "required": required, "description": field.help, "schema": field.schema() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_operation_of_the_router_and_no_other() {
        let paths = document()["paths"].as_object().expect("paths is an object");
        let mut written: Vec<String> = Vec::new();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().expect("a path is an object") {
                written.push(format!("{} {path} {}", method.to_uppercase(), operation["operationId"]));
            }
        }
        let mut routed: Vec<String> = ROUTES
            .iter()
            .map(|route| format!("{} {} \"{}\"", route.method, route.path, route.name))
            .collect();
        written.sort();
        routed.sort();
        assert_eq!(written, routed);
    }

    #[test]
    fn every_setting_has_its_range_and_default_in_the_document() {
        let create = &document()["paths"]["/queues"]["post"]["requestBody"]["content"]["application/json"];
        let settings = &create["schema"]["properties"]["settings"]["properties"];
        assert_eq!(settings["visibility_seconds"]["maximum"], 43_200);
        assert_eq!(settings["visibility_seconds"]["default"], 30);
        for (name, setting) in settings.as_object().expect("settings is an object") {
            assert!(setting.get("default").is_some(), "{name} has a default");
            assert!(
                setting["description"].as_str().is_some_and(|help| !help.is_empty()),
                "{name} is described"
            );
        }
    }
}
