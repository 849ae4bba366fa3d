//! Create, delete and metadata of one queue.

use std::sync::Arc;

use kew_core::command::{CreateQueue, DeleteQueue, UpdateQueue};
use kew_core::{Policy, Queue, RuleError};
use kew_engine::EngineError;
use kew_http::{FieldValue, HeaderName, HeaderValue, Reply, Request, StatusCode};

use crate::documents::{self, Metadata};
use crate::error::{Code, WireError};
use crate::{Context, encode, limits};

const PREFIX: &str = "x-ms-meta-";
const COUNT: HeaderName = HeaderName::from_static("x-ms-approximate-messages-count");

/// Made, found with the same metadata, or refused.
pub(crate) async fn create(cx: &Context<'_>) -> Result<Reply, WireError> {
    let metadata = read_metadata(cx.request)?;
    if let Some(queue) = cx.queue_if_known()? {
        return existing(&queue, &metadata);
    }
    let (key, document) = documents::put_metadata(&metadata);
    let documents = document.map(|json| (key, json)).into_iter().collect();
    let create = CreateQueue { key: cx.queue_key()?, policy: Policy::standard(), documents };
    match cx.engine.create_queue(create).await {
        Ok(_) => Ok(encode::empty(StatusCode::CREATED)),
        Err(EngineError::Rule(RuleError::QueueExists(queue))) => existing(&queue, &metadata),
        Err(error) => Err(error.into()),
    }
}

/// Names are compared without case, values with it.
fn existing(queue: &Arc<Queue>, metadata: &Metadata) -> Result<Reply, WireError> {
    let lower = |metadata: &Metadata| {
        let mut pairs: Vec<(String, String)> =
            metadata.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        pairs.sort();
        pairs
    };
    if lower(&documents::metadata(queue)) == lower(metadata) {
        Ok(encode::empty(StatusCode::NO_CONTENT))
    } else {
        Err(Code::QueueAlreadyExists.into())
    }
}

pub(crate) async fn delete(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    cx.engine.delete_queue(DeleteQueue { queue: queue.id, if_version: None }).await?;
    cx.leaving.hold(cx.account.id, &queue.key.name, cx.now());
    Ok(encode::empty(StatusCode::NO_CONTENT))
}

pub(crate) async fn metadata(cx: &Context<'_>) -> Result<Reply, WireError> {
    let queue = cx.queue()?;
    let counts = cx.engine.counts(queue.id).await?;
    let mut reply = encode::empty(StatusCode::OK);
    reply.headers.insert(COUNT, HeaderValue::from(counts.stored()));
    for (name, value) in documents::metadata(&queue) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            reply.headers.append_as_written(&format!("{PREFIX}{name}"), value);
        }
    }
    Ok(reply)
}

pub(crate) async fn set_metadata(cx: &Context<'_>) -> Result<Reply, WireError> {
    let metadata = read_metadata(cx.request)?;
    let queue = cx.queue()?;
    let update = UpdateQueue {
        queue: queue.id,
        if_version: None,
        policy: None,
        documents: vec![documents::put_metadata(&metadata)],
        rename: None,
    };
    cx.engine.update_queue(update).await?;
    Ok(encode::empty(StatusCode::NO_CONTENT))
}

/// The metadata in a request's headers, with the case of its names; a name that comes twice has both values.
fn read_metadata(request: &Request) -> Result<Metadata, WireError> {
    let mut metadata: Metadata = Vec::new();
    for name in request.headers.names_from(PREFIX) {
        let key = name.get(PREFIX.len()..).unwrap_or_default();
        check_name(key)?;
        let values = request.headers.get_all(name).map(FieldValue::text);
        let values: Vec<&str> = values.collect::<Option<_>>().ok_or(Code::InvalidMetadata)?;
        metadata.push((key.to_owned(), values.join(",")));
    }
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > limits::METADATA_BYTES {
        return Err(Code::MetadataTooLarge.into());
    }
    Ok(metadata)
}

fn check_name(name: &str) -> Result<(), WireError> {
    if name.is_empty() {
        return Err(Code::EmptyMetadataKey.into());
    }
    let is_identifier = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_identifier { Ok(()) } else { Err(Code::InvalidMetadata.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_are_identifiers() {
        for (name, legal) in [("a", true), ("_a1", true), ("1a", false), ("a-b", false), ("", false)] {
            assert_eq!(check_name(name).is_ok(), legal, "{name}");
        }
    }
}
