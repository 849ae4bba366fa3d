//! What the handler's reply means: success needs a 2xx status, a JSON type and a JSON object.

use kew_http::client::Answer;
use serde_json::value::RawValue;

use super::json::Members;

/// What a handler says after a run that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Lines for the log.
    pub(crate) logs: Vec<String>,
    /// Values for output bindings, by name.
    pub(crate) outputs: Vec<(String, Box<RawValue>)>,
    /// The value for the binding named `$return`.
    pub(crate) returned: Option<Box<RawValue>>,
}

const PREVIEW_CHARACTERS: usize = 200;

impl Reply {
    /// The reply in an answer; else why the run failed.
    pub(crate) fn read(answer: &Answer) -> Result<Self, String> {
        if !answer.status.is_success() {
            return Err(format!("the handler answered {}{}", answer.status, preview(&answer.body)));
        }
        let content_type = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
        if !is_json(content_type.unwrap_or_default()) {
            return Err("the handler's reply has no JSON Content-Type (application/json)".to_owned());
        }
        if answer.body.iter().all(u8::is_ascii_whitespace) {
            return Err("the handler's reply is empty; reply at least {}".to_owned());
        }
        let body = answer.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&answer.body);
        let Members(members) = serde_json::from_slice(body)
            .map_err(|error| format!("the handler's reply is no JSON object: {error}{}", preview(body)))?;
        let mut reply = Self::default();
        for (name, value) in members.into_iter().filter(|(_, value)| value.get() != "null") {
            if name.eq_ignore_ascii_case("Logs") {
                reply.logs = logs(&value)?;
            } else if name.eq_ignore_ascii_case("Outputs") {
                let outputs: Members = serde_json::from_str(value.get())
                    .map_err(|_| "\"Outputs\" in the handler's reply must be an object".to_owned())?;
                reply.outputs = outputs.0;
            } else if name.eq_ignore_ascii_case("ReturnValue") {
                reply.returned = Some(value);
            }
        }
        Ok(reply)
    }

    /// The value for the output binding of this name.
    pub(crate) fn value(&self, binding: &str) -> Option<&RawValue> {
        let named = self.outputs.iter().rev().find(|(name, _)| name == binding).map(|(_, value)| &**value);
        let returned = || self.returned.as_deref().filter(|_| binding == "$return");
        named.or_else(returned).filter(|value| value.get() != "null")
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(essence.as_str(), "application/json" | "text/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn logs(value: &RawValue) -> Result<Vec<String>, String> {
    let lines: Vec<serde_json::Value> = serde_json::from_str(value.get())
        .map_err(|_| "\"Logs\" in the handler's reply must be an array of strings".to_owned())?;
    let line = |line: serde_json::Value| match line {
        serde_json::Value::String(line) => Some(line),
        serde_json::Value::Null => None,
        other => Some(other.to_string()),
    };
    Ok(lines.into_iter().filter_map(line).collect())
}

fn preview(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(PREVIEW_CHARACTERS).collect();
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_http::{HeaderMap, HeaderValue, StatusCode};

    fn read(status: u16, content_type: &'static str, body: &'static str) -> Result<Reply, String> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(content_type));
        let status = StatusCode::from_u16(status).expect("the status is between 100 and 999");
        Reply::read(&Answer { status, headers, body: body.into() })
    }

    #[test]
    fn any_2xx_with_a_json_object_is_success() {
        for (status, kind, body, succeeds) in [
            (200, "application/json", "{}", true),
            (299, "application/json; charset=utf-8", " {\"x\":1} ", true),
            (200, "Text/Json", "{}", true),
            (200, "application/problem+json", "{}", true),
            (200, "text/plain", "{}", false),
            (200, "", "{}", false),
            (200, "application/json", "", false),
            (200, "application/json", "oops", false),
            (200, "application/json", "\"oops\"", false),
            (200, "application/json", "[]", false),
            (200, "application/json", "null", false),
            (200, "application/json", "{}{}", false),
            (302, "application/json", "{}", false),
            (404, "application/json", "{}", false),
            (500, "application/json", "{}", false),
        ] {
            assert_eq!(read(status, kind, body).is_ok(), succeeds, "{status} {kind} {body}");
        }
    }

    #[test]
    fn the_three_names_match_in_any_case_and_those_inside_exactly() {
        let body = r#"{"LOGS":["a",1,null],"outputs":{"One":1,"one":2,"none":null},"returnvalue":{"x":1}}"#;
        let reply = read(200, "application/json", body).expect("the reply of the handler is valid");
        assert_eq!(reply.logs, ["a", "1"]);
        assert_eq!(reply.value("One").map(RawValue::get), Some("1"));
        assert_eq!(reply.value("one").map(RawValue::get), Some("2"));
        assert_eq!(reply.value("$return").map(RawValue::get), Some("{\"x\":1}"));
        assert!(reply.value("ONE").is_none() && reply.value("none").is_none());
        assert!(read(200, "application/json", r#"{"Outputs":null,"Logs":null,"ReturnValue":null}"#).is_ok());
    }

    #[test]
    fn parts_of_the_wrong_kind_are_failures() {
        for body in [r#"{"Outputs":[]}"#, r#"{"Outputs":"x"}"#, r#"{"Logs":"x"}"#, r#"{"Logs":{}}"#] {
            assert!(read(200, "application/json", body).is_err(), "{body}");
        }
    }
}
