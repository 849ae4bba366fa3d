//! What replies look like: the envelope around every result, and errors in it.

pub(crate) mod consumer;
pub(crate) mod message;
pub(crate) mod metrics;
pub(crate) mod queue;

use kew_core::Timestamp;
use kew_http::{HeaderValue, Reply, StatusCode, date};
use serde_json::{Value, json};

use crate::error::WireError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const OPENING: &[u8] = br#"{"success":true,"errors":[],"messages":[],"result":"#;

/// A reply whose body is JSON.
pub(crate) fn json(status: StatusCode, body: impl Into<Vec<u8>>) -> Reply {
    Reply::new(status, JSON, body.into())
}

/// A result in its envelope.
pub(crate) fn result(result: &Value) -> Reply {
    let mut body = opened();
    body.extend_from_slice(result.to_string().as_bytes());
    closed(body)
}

/// The beginning of an envelope, for results that are written piece by piece.
pub(crate) fn opened() -> Vec<u8> {
    let mut body = Vec::with_capacity(512);
    body.extend_from_slice(OPENING);
    body
}

/// The reply of an envelope whose result is written.
pub(crate) fn closed(mut body: Vec<u8>) -> Reply {
    body.push(b'}');
    json(StatusCode::OK, body)
}

/// One page of a list: which, of how many entries a page, with these entries, of which total.
pub(crate) fn list(entries: Vec<Value>, page: u32, per_page: u32, total: usize) -> Reply {
    let count = entries.len();
    let pages = total.div_ceil(per_page.max(1) as usize);
    let body = json!({
        "success": true, "errors": [], "messages": [], "result": entries,
        "result_info": {
            "page": page, "per_page": per_page, "count": count, "total_count": total, "total_pages": pages,
        },
    });
    json(StatusCode::OK, body.to_string())
}

/// An error's reply.
pub(crate) fn error(error: &WireError) -> Reply {
    let mut told = json!({ "code": error.code().number(), "message": error.message() });
    if let Some((code, message)) = error.chain() {
        told["error_chain"] = json!([{ "code": code, "message": message }]);
    }
    let body = json!({ "success": false, "errors": [told], "messages": [], "result": null });
    json(error.status(), body.to_string())
}

/// The number of the error in a reply.
pub(crate) fn error_code(reply: &Reply) -> Option<Box<str>> {
    if reply.status.is_success() {
        return None;
    }
    let body: Value = serde_json::from_slice(&reply.body).ok()?;
    let code = body.pointer("/errors/0/code").or_else(|| body.pointer("/code"))?;
    Some(code.as_u64()?.to_string().into())
}

/// An instant as replies show it: to the microsecond.
pub(crate) fn instant(at: Timestamp) -> String {
    date::rfc3339(at).replace('Z', "000Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_microseconds() {
        assert_eq!(instant(Timestamp(1_767_225_600_001)), "2026-01-01T00:00:00.001000Z");
    }

    #[test]
    fn pages_are_counted() {
        let info = |total| {
            let body = list(vec![json!(1)], 2, 100, total).body;
            serde_json::from_slice::<Value>(&body).expect("a page of a list is JSON")["result_info"]["total_pages"].clone()
        };
        assert_eq!((info(0), info(100), info(101)), (json!(0), json!(1), json!(2)));
    }
}
