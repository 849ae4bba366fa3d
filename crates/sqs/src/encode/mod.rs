//! Replies: JSON into one buffer, the headers SQS sends, and errors in the form their reader expects.

mod receipt;

use bytes::Bytes;
use kew_core::MessageId;
use kew_http::{HeaderName, HeaderValue, Reply, Request, StatusCode, hex, json};

use crate::error::{Protocol, WireError};

pub(crate) use receipt::{push_receipt, read_receipt};

const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
const XML: HeaderValue = HeaderValue::from_static("text/xml");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// A result.
pub(crate) fn result(json: Vec<u8>) -> Reply {
    Reply::new(StatusCode::OK, JSON, json)
}

/// An action done that has no result.
pub(crate) fn done() -> Reply {
    Reply::new(StatusCode::OK, JSON, Bytes::new())
}

/// The reply, with the request's name on it.
pub(crate) fn named(reply: Reply, request: &Request) -> Reply {
    reply.with(REQUEST_ID, request.id.header())
}

/// An error's reply.
pub(crate) fn error(error: &WireError, request: &Request) -> Reply {
    let look = error.code().look();
    let status = StatusCode::from_u16(look.status).unwrap_or(StatusCode::BAD_REQUEST);
    let reply = match error.protocol() {
        Protocol::Json => {
            let mut body = br#"{"__type":"#.to_vec();
            json::push_string(&mut body, look.json);
            body.extend_from_slice(br#","message":"#);
            json::push_string(&mut body, error.message());
            body.push(b'}');
            Reply::new(status, JSON, body)
        }
        Protocol::Query if look.status == 404 => Reply::new(status, XML, "<UnknownOperationException/>\n"),
        Protocol::Query => Reply::new(status, XML, query_error(error, request)),
    };
    let query = format!("{};{}", look.query, look.fault.name());
    let query = HeaderValue::try_from(query).unwrap_or(HeaderValue::from_static("InternalFailure;Receiver"));
    named(reply.with(QUERY_ERROR, query), request)
}

/// The texts of Query errors are our own words and hold nothing to escape.
fn query_error(error: &WireError, request: &Request) -> String {
    let look = error.code().look();
    format!(
        r#"<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error><Type>{}</Type><Code>{}</Code><Message>{}</Message><Detail/></Error><RequestId>{}</RequestId></ErrorResponse>"#,
        look.fault.name(),
        look.query,
        error.message(),
        request.id
    )
}

/// A message id as a JSON string.
pub(crate) fn push_message_id(json: &mut Vec<u8>, id: MessageId) {
    json::push_plain(json, &hex::uuid(id.0));
}

/// A hash as a JSON string of hex digits.
pub(crate) fn push_hash(json: &mut Vec<u8>, hash: &[u8; 16]) {
    json.push(b'"');
    hex::push(json, hash);
    json.push(b'"');
}
