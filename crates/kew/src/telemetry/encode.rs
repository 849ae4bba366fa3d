//! Spans and lines of the log as OTLP writes them in JSON: ids in hex, 64-bit numbers as texts.

use serde_json::{Value as Json, json};

use super::{Kind, Record, Span, Value};

/// The name of what measures: this program.
const SCOPE: &str = "kew";

/// What all that is exported comes from.
pub(super) fn resource(service: &str) -> Json {
    json!({ "attributes": [
        text("service.name", service),
        text("service.version", env!("CARGO_PKG_VERSION")),
    ] })
}

/// A request that carries these spans.
pub(super) fn spans(resource: &Json, spans: &[Span]) -> Json {
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{ "scope": { "name": SCOPE }, "spans": spans }],
    }] })
}

/// A request that carries these lines.
pub(super) fn records(resource: &Json, records: &[Record]) -> Json {
    let records: Vec<Json> = records.iter().map(record).collect();
    json!({ "resourceLogs": [{
        "resource": resource,
        "scopeLogs": [{ "scope": { "name": SCOPE }, "logRecords": records }],
    }] })
}

/// A request that carries these metrics.
pub(super) fn metrics(resource: &Json, metrics: &[Json]) -> Json {
    json!({ "resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{ "scope": { "name": SCOPE }, "metrics": metrics }],
    }] })
}

fn span(span: &Span) -> Json {
    let began = u128::from(span.began.0) * 1_000_000;
    let attributes: Vec<Json> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let links: Vec<Json> = span
        .links
        .iter()
        .map(|link| json!({ "traceId": trace_id(link.trace), "spanId": span_id(link.span) }))
        .collect();
    let mut written = json!({
        "traceId": trace_id(span.own.trace),
        "spanId": span_id(span.own.span),
        "name": span.name,
        "kind": match span.kind { Kind::Server => 2, Kind::Client => 3 },
        "startTimeUnixNano": began.to_string(),
        "endTimeUnixNano": (began + span.took.as_nanos()).to_string(),
        "attributes": attributes,
        "links": links,
        "status": match &span.failure {
            Some(failure) => json!({ "code": 2, "message": failure }),
            None => json!({}),
        },
    });
    if let (Some(parent), Json::Object(members)) = (span.parent, &mut written) {
        members.insert("parentSpanId".to_owned(), span_id(parent).into());
    }
    written
}

fn record(record: &Record) -> Json {
    let (level, severity) = record.severity;
    let attributes: Vec<Json> = record.attributes.iter().map(|(name, value)| text(name, value)).collect();
    json!({
        "timeUnixNano": (u128::from(record.at.0) * 1_000_000).to_string(),
        "severityNumber": severity,
        "severityText": level,
        "body": { "stringValue": record.message },
        "attributes": attributes,
    })
}

fn attribute(name: &str, value: &Value) -> Json {
    match value {
        Value::Text(value) => text(name, value),
        Value::Number(value) => json!({ "key": name, "value": { "intValue": value.to_string() } }),
    }
}

/// An attribute that is a text.
pub(super) fn text(name: &str, value: &str) -> Json {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn trace_id(trace: u128) -> String {
    format!("{trace:032x}")
}

fn span_id(span: u64) -> String {
    format!("{span:016x}")
}
