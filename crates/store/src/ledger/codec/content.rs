//! A message's content, the end of the record that brings it.

use bytes::Bytes;
use kew_core::{Content, ContentType};

use super::pieces::slice;
use crate::ledger::varint::{Reader, put_bytes};

pub(super) fn put_content(out: &mut Vec<u8>, content: &Content) {
    out.push(match content.content_type {
        ContentType::Text => 0,
        ContentType::Json => 1,
        ContentType::Bytes => 2,
        ContentType::V8 => 3,
    });
    put_bytes(out, &content.annotations);
    put_bytes(out, &content.body);
}

/// All of a content but its body.
pub(super) fn read_content_head(from: &mut Reader<'_>, record: &Bytes) -> Option<(ContentType, Bytes)> {
    let content_type = match from.byte()? {
        0 => ContentType::Text,
        1 => ContentType::Json,
        2 => ContentType::Bytes,
        3 => ContentType::V8,
        _ => return None,
    };
    Some((content_type, slice(from, record)?))
}

pub(super) fn read_content_parts(from: &mut Reader<'_>, record: &Bytes) -> Option<Content> {
    let (content_type, annotations) = read_content_head(from, record)?;
    Some(Content { content_type, annotations, body: slice(from, record)? })
}
