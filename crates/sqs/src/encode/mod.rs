//! Replies: each result into one buffer in the request's protocol, the headers SQS sends, and errors likewise.

mod query_json;
mod writer;

use bytes::Bytes;
use kew_http::{HeaderName, HeaderValue, Reply, Request, StatusCode, xml};

use crate::error::{Code, WireError};
use crate::route::{Call, Protocol};

pub(crate) use writer::{JsonWriter, KEY_VALUE, NAME_VALUE, Name, Shape, Writer, XmlWriter};

const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
const PLAIN_JSON: HeaderValue = HeaderValue::from_static("application/json");
const XML: HeaderValue = HeaderValue::from_static("text/xml");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");
const PROLOG: &str = r#"<?xml version="1.0"?>"#;
const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// A result, as the protocol has it.
pub(crate) fn result(call: &Call, protocol: Protocol, request: &Request, shape: &impl Shape) -> Reply {
    match protocol {
        Protocol::Json => Reply::new(StatusCode::OK, JSON, json(shape)),
        Protocol::Query => {
            let mut xml = Vec::with_capacity(shape.size_hint() + 256);
            open_response(&mut xml, call.action.name());
            let begun = xml.len();
            let mut out = XmlWriter::behind(xml);
            shape.write(&mut out);
            let mut xml = out.finish();
            close_response(&mut xml, call.action.name(), begun, request);
            Reply::new(StatusCode::OK, XML, xml)
        }
        Protocol::QueryJson => {
            in_response(call, request, Some(&query_json::shown(call.action, &json(shape))))
        }
    }
}

/// A result as a JSON object.
pub(crate) fn json(shape: &impl Shape) -> Vec<u8> {
    let mut out = JsonWriter::with_capacity(shape.size_hint());
    shape.write(&mut out);
    out.finish()
}

/// A result in JSON as the Query protocol's XML has it.
pub(crate) fn in_response(call: &Call, request: &Request, result: Option<&[u8]>) -> Reply {
    let (name, id) = (call.action.name(), request.id);
    let mut json = format!("{{\"{name}Response\":{{").into_bytes();
    if let Some(result) = result {
        json.extend_from_slice(format!("\"{name}Result\":").as_bytes());
        json.extend_from_slice(result);
        json.push(b',');
    }
    json.extend_from_slice(format!("\"ResponseMetadata\":{{\"RequestId\":\"{id}\"}}}}}}").as_bytes());
    Reply::new(StatusCode::OK, PLAIN_JSON, json)
}

/// An action done that has no result.
pub(crate) fn done(call: &Call, protocol: Protocol, request: &Request) -> Reply {
    match protocol {
        Protocol::Json => Reply::new(StatusCode::OK, JSON, Bytes::new()),
        Protocol::Query => {
            let name = call.action.name();
            let id = request.id;
            let xml = format!(
                "{PROLOG}<{name}Response xmlns=\"{NAMESPACE}\"><ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{name}Response>"
            );
            Reply::new(StatusCode::OK, XML, xml)
        }
        Protocol::QueryJson => in_response(call, request, None),
    }
}

fn open_response(xml: &mut Vec<u8>, name: &str) {
    for part in [PROLOG, "<", name, "Response xmlns=\"", NAMESPACE, "\"><", name, "Result>"] {
        xml.extend_from_slice(part.as_bytes());
    }
}

/// A result without members is one empty element.
fn close_response(xml: &mut Vec<u8>, name: &str, begun: usize, request: &Request) {
    if xml.len() == begun {
        xml.truncate(begun - 1);
        xml.extend_from_slice(b"/>");
    } else {
        xml.extend_from_slice(format!("</{name}Result>").as_bytes());
    }
    let id = request.id;
    let end = format!("<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{name}Response>");
    xml.extend_from_slice(end.as_bytes());
}

/// The reply, with the request's name on it.
pub(crate) fn named(reply: Reply, request: &Request) -> Reply {
    reply.with(REQUEST_ID, request.id)
}

/// An error's reply.
pub(crate) fn error(error: &WireError, protocol: Protocol, request: &Request) -> Reply {
    let look = error.code().look();
    let status = StatusCode::from_u16(look.status).unwrap_or(StatusCode::BAD_REQUEST);
    let reply = match protocol {
        Protocol::Json => {
            let mut out = JsonWriter::with_capacity(256);
            out.plain("__type", look.json.as_bytes());
            out.text("message", error.message());
            Reply::new(status, JSON, out.finish())
        }
        // A request without an action is outside the protocol and has an error of its own.
        Protocol::Query | Protocol::QueryJson if error.code() == Code::UnknownPath => {
            Reply::new(status, XML, "<UnknownOperationException/>\n")
        }
        Protocol::Query => Reply::new(status, XML, query_error(error, request)),
        Protocol::QueryJson => Reply::new(status, PLAIN_JSON, query_json_error(error, request)),
    };
    let query = format!("{};{}", look.query, look.fault().name());
    let query = HeaderValue::try_from(query).unwrap_or(HeaderValue::from_static("InternalFailure;Receiver"));
    named(reply.with(QUERY_ERROR, query), request)
}

/// The code in an error's reply, as the Query protocol has it.
pub(crate) fn error_code(reply: &Reply) -> Option<&str> {
    reply.headers.get(&QUERY_ERROR)?.text()?.split(';').next()
}

/// The older protocol has its own words for one of them.
fn query_message(error: &WireError) -> &str {
    if error.code() == Code::QueueDoesNotExist {
        return "The specified queue does not exist for this wsdl version.";
    }
    error.message()
}

fn query_json_error(error: &WireError, request: &Request) -> Vec<u8> {
    let look = error.code().look();
    let mut out = JsonWriter::with_capacity(256);
    out.object("Error", |out| {
        out.plain("Type", look.fault().name().as_bytes());
        out.plain("Code", look.query.as_bytes());
        out.text("Message", query_message(error));
    });
    out.plain("RequestId", request.id.as_str().as_bytes());
    out.finish()
}

fn query_error(error: &WireError, request: &Request) -> Vec<u8> {
    let look = error.code().look();
    let message = query_message(error);
    let (fault, code) = (look.fault().name(), look.query);
    let mut xml = format!(
        "{PROLOG}<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>{fault}</Type><Code>{code}</Code><Message>"
    )
    .into_bytes();
    xml::push_text(&mut xml, message);
    let id = request.id;
    let end = format!("</Message><Detail/></Error><RequestId>{id}</RequestId></ErrorResponse>");
    xml.extend_from_slice(end.as_bytes());
    xml
}
