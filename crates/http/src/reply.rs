//! A reply, whole: written at once.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::headers::{AsValue, Headers};

/// What a front-end answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// Headers beside those of the connection (length, date).
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
    /// The operation it answers, in its front-end's words, for the metrics; never shown to the client.
    pub operation: Option<&'static str>,
}

impl Reply {
    /// A reply of this status and content.
    pub fn new(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Self {
        let mut headers = Headers::with_room();
        headers.append(CONTENT_TYPE, content_type);
        Self { status, headers, body: body.into(), operation: None }
    }

    /// A line of plain text, for whatever happens before a front-end is asked.
    pub fn text(status: StatusCode, line: &str) -> Self {
        let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
        Self::new(status, content_type, format!("{line}\n"))
    }

    /// The same with one more header.
    pub fn with(mut self, name: HeaderName, value: impl AsValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The same, as the answer to this operation.
    pub fn to(mut self, operation: &'static str) -> Self {
        self.operation = Some(operation);
        self
    }

    pub(crate) fn into_response<B>(self, body: impl FnOnce(Bytes) -> B) -> Response<B> {
        let mut response = Response::new(body(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.to_map();
        response
    }
}
