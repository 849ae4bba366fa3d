//! GetCallerIdentity of the security token service: who the caller is. Command lines, Terraform and other tools ask it
//! of the same endpoint before they do anything else. No other action of that service is served.

use std::sync::LazyLock;

use kew_http::{HeaderValue, Reply, Request, StatusCode, xml};
use memchr::memmem::Finder;

use crate::Settings;
use crate::auth::{self, Caller, Service};
use crate::decode::query::Form;
use crate::encode;
use crate::route::Protocol;

const ACTION: &str = "GetCallerIdentity";
const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";
/// Bytes of a form that may be one: the action, the version and little else.
const FORM_BYTES_MAX: usize = 512;
const XML: HeaderValue = HeaderValue::from_static("text/xml");

/// Finds the action's name, to pass over requests of SQS without reading them as forms.
static NAMED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(ACTION));

/// The reply, when a request asks who its caller is.
pub(crate) fn answer(settings: &Settings, protocol: Protocol, request: &Request) -> Option<Reply> {
    if protocol == Protocol::Json || !is_asked(request) {
        return None;
    }
    let reply = match auth::caller(settings, Service::Sts, request) {
        Ok(caller) => encode::named(Reply::new(StatusCode::OK, XML, identity(&caller, request)), request),
        Err(error) => encode::error(&error, protocol, request),
    };
    Some(Reply { operation: Some(ACTION), ..reply })
}

fn is_asked(request: &Request) -> bool {
    let query = request.uri.query().unwrap_or_default().as_bytes();
    let may_be = |text: &[u8]| NAMED.find(text).is_some();
    let is_short = request.body.len() <= FORM_BYTES_MAX;
    (may_be(query) || is_short && may_be(&request.body))
        && Form::read(query, &request.body).is_ok_and(|form| form.text("Action") == Some(ACTION))
}

fn identity(caller: &Caller, request: &Request) -> Vec<u8> {
    let account = caller.account;
    let (arn, user) = match &caller.principal {
        Some(principal) => (principal.arn.to_string(), principal.sender.to_string()),
        None => (format!("arn:aws:iam::{account}:root"), account.to_string()),
    };
    let mut out =
        format!("<?xml version=\"1.0\"?><{ACTION}Response xmlns=\"{NAMESPACE}\"><{ACTION}Result><Arn>")
            .into_bytes();
    xml::push_text(&mut out, &arn);
    out.extend_from_slice(b"</Arn><UserId>");
    xml::push_text(&mut out, &user);
    let id = request.id;
    let end = format!(
        "</UserId><Account>{account}</Account></{ACTION}Result><ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{ACTION}Response>"
    );
    out.extend_from_slice(end.as_bytes());
    out
}
