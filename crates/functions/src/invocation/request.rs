//! What the handler is asked: `{"Data":{…},"Metadata":{…}}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kew_core::Timestamp;

use super::data::{self, BindingData};
use super::json;
use crate::project::DataType;

/// What a run is called, beside its message.
#[derive(Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) function: &'a str,
    /// The trigger binding's name.
    pub(crate) binding: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) random: &'a str,
}

/// The body of a request about a message with this content.
pub(crate) fn body(identity: Identity<'_>, content: &[u8], kind: DataType, known: &BindingData) -> String {
    let value = match kind {
        DataType::Text => data::coded_text(&String::from_utf8_lossy(content)),
        DataType::Binary => data::coded_text(&STANDARD.encode(content)),
    };
    let mut metadata: Vec<String> =
        known.metadata().map(|(name, datum)| format!("{}:{}", json::string(name), datum.coded())).collect();
    if !known.metadata().any(|(name, _)| name.eq_ignore_ascii_case("sys")) {
        metadata.push(format!(
            "\"sys\":{{\"MethodName\":{},\"UtcNow\":{},\"RandGuid\":{}}}",
            json::string(identity.function),
            json::string(&data::iso(identity.now)),
            json::string(identity.random)
        ));
    }
    format!(
        "{{\"Data\":{{{}:{value}}},\"Metadata\":{{{}}}}}",
        json::string(identity.binding),
        metadata.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invocation::data::tests::message;
    use serde_json::Value;

    fn asked(content: &[u8], kind: DataType) -> Value {
        let identity =
            Identity { function: "fn", binding: "myItem", now: Timestamp(1_893_456_000_000), random: "r" };
        let text = std::str::from_utf8(content).ok();
        let body = body(identity, content, kind, &BindingData::of(&message(), text));
        serde_json::from_str(&body).expect("the body of a call is JSON")
    }

    #[test]
    fn a_text_is_json_text_inside_a_string() {
        let asked = asked(b"hi", DataType::Text);
        assert_eq!(asked["Data"]["myItem"], "\"hi\"");
        assert_eq!(asked["Metadata"]["DequeueCount"], "1");
        assert_eq!(asked["Metadata"]["sys"]["MethodName"], "fn");
        assert_eq!(asked["Metadata"]["sys"]["UtcNow"], "2030-01-01T00:00:00+00:00");
        assert_eq!(asked["Metadata"].as_object().map(serde_json::Map::len), Some(7));
    }

    #[test]
    fn bytes_are_base64_and_what_is_no_text_is_replaced() {
        assert_eq!(asked(b"\xff\x00", DataType::Binary)["Data"]["myItem"], "\"/wA=\"");
        assert_eq!(asked(b"a\xff", DataType::Text)["Data"]["myItem"], "\"a\u{fffd}\"");
        assert_eq!(asked("quote\" é\n".as_bytes(), DataType::Text)["Data"]["myItem"], "\"quote\\\" é\\n\"");
    }
}
