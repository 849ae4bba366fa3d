//! The admin API as pages ask it: in this process, with the proof that the browser brought.
//!
//! What a page changes is checked, done and noted by the API like a request from outside.

use bytes::Bytes;
use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode, Uri, percent};
use serde_json::Value;

use super::messages::render;
use super::trouble::Trouble;
use super::{Visit, query_of};
use crate::access::{CSRF, LIVE, UNATTENDED};
use crate::api::BASE;

const CONTENT_TYPE: HeaderName = HeaderName::from_static("content-type");
const CONTENT_LENGTH: HeaderName = HeaderName::from_static("content-length");
/// Replies larger than this are read on a thread that may be busy.
const LARGE_BYTES: usize = 64 << 10;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Visit<'_> {
    /// What the API shows at a path; the parts of a query that are empty are left out.
    pub(super) async fn read(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Trouble> {
        let reply = self.exchange(Method::GET, path, query, Bytes::new()).await?;
        if reply.body.len() <= LARGE_BYTES {
            return value_of(&reply);
        }
        render(move || value_of(&reply)).await?
    }

    /// What the API answers to a change.
    pub(super) async fn change(&self, method: Method, path: &str, body: &Value) -> Result<Value, Trouble> {
        self.change_as_written(method, path, body.to_string()).await
    }

    /// The same of a body that is written already.
    pub(super) async fn change_as_written(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Value, Trouble> {
        Ok(self.change_with_status(method, path, body).await?.1)
    }

    /// The same with its status, where that says what became of it.
    pub(super) async fn change_with_status(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<(StatusCode, Value), Trouble> {
        let reply = self.exchange(method, path, &[], body.into()).await?;
        Ok((reply.status, value_of(&reply)?))
    }

    /// The API's reply, if it is one of success.
    pub(super) async fn exchange(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Reply, Trouble> {
        let request = self.request_for(method, path, query, body)?;
        let reply = Box::pin(self.console.answer_api(&request, path)).await;
        if reply.status.is_success() { Ok(reply) } else { Err(Trouble::of_reply(&reply)) }
    }

    fn request_for(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Request, Trouble> {
        let target = format!("{BASE}{path}{}", query_of(query));
        let uri: Uri = target.parse().map_err(|_| {
            Trouble::new(StatusCode::URI_TOO_LONG, "too_long", "what is asked for is too long for an address")
        })?;
        let mut headers = self.request.headers.clone();
        headers.remove(&CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, JSON);
        if self.request.uri.path().starts_with(LIVE) {
            headers.insert(UNATTENDED, HeaderValue::from_static("1"));
        }
        // The form's own token was compared before with the one of the session.
        if let Some(visitor) = self.frame.visitor.as_ref().filter(|visitor| visitor.has_session)
            && let Ok(csrf) = HeaderValue::from_str(&visitor.csrf)
        {
            headers.insert(CSRF, csrf);
        }
        Ok(Request {
            method,
            uri,
            headers,
            body,
            id: self.request.id,
            received_at: self.request.received_at,
            peer: self.request.peer,
            secure: self.request.secure,
            room: self.request.room.clone(),
        })
    }
}

fn value_of(reply: &Reply) -> Result<Value, Trouble> {
    serde_json::from_slice(&reply.body)
        .map_err(|error| Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()))
}

/// The path of the API for a queue.
pub(super) fn of_queue(queue: &str, below: &str) -> String {
    format!("/queues/{}{below}", percent::encode(queue.as_bytes()))
}

/// The path of the API for a message.
pub(super) fn of_message(queue: &str, id: &str, below: &str) -> String {
    of_queue(queue, &format!("/messages/{}{below}", percent::encode(id.as_bytes())))
}
