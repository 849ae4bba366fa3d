//! A queue's definition: its key, its policy, its documents.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kew_core::time::millis;
use kew_core::{
    Carries, DeadLetterAction, DeadLetterRule, DeduplicationScope, Policy, Queue, QueueId, QueueKind,
    Timestamp,
};

use super::pieces::{
    put_document_key, put_key, put_option, put_text, read_document_key, read_flag, read_key, read_option,
    read_text, slice,
};
use crate::ledger::varint::{Reader, put, put_bytes};

/// Writes a queue's definition.
pub(in crate::ledger) fn put_queue(out: &mut Vec<u8>, queue: &Queue) {
    put(out, queue.id.0);
    put_key(out, &queue.key);
    put(out, queue.version);
    put(out, queue.created_at.0);
    put(out, queue.modified_at.0);
    put_policy(out, &queue.policy);
    put(out, queue.documents.len() as u64);
    for (key, bytes) in &queue.documents {
        put_document_key(out, key);
        put_bytes(out, bytes);
    }
}

/// Reads a queue's definition.
pub(in crate::ledger) fn read_queue(from: &mut Reader<'_>, record: &Bytes) -> Option<Queue> {
    let (id, key) = (QueueId(from.number()?), read_key(from)?);
    let (version, created_at, modified_at) =
        (from.number()?, Timestamp(from.number()?), Timestamp(from.number()?));
    let policy = read_policy(from)?;
    let mut documents = BTreeMap::new();
    for _ in 0..from.number()? {
        let key = read_document_key(from)?;
        documents.insert(key, Bytes::copy_from_slice(&slice(from, record)?));
    }
    Some(Queue { id, key, policy, documents, version, created_at, modified_at })
}

fn put_policy(out: &mut Vec<u8>, policy: &Policy) {
    out.push(match policy.kind {
        QueueKind::Standard => 0,
        QueueKind::Fifo { scope, by_content } => {
            1 + u8::from(scope == DeduplicationScope::Group) + 2 * u8::from(by_content)
        }
    });
    for length in [policy.lease_length, policy.delay, policy.retention, policy.wait] {
        put(out, millis(length));
    }
    put(out, u64::from(policy.body_bytes_max));
    out.push(u8::from(policy.paused));
    put_option(out, policy.dead_letters.as_deref(), |out, rule| {
        put(out, u64::from(rule.attempts_max));
        out.push(match rule.carries {
            Carries::History => 0,
            Carries::Nothing => 1,
        });
        put_text(out, &rule.written_by);
        match &rule.then {
            DeadLetterAction::Drop => out.push(0),
            DeadLetterAction::MoveTo(key) => {
                out.push(1);
                put_key(out, key);
            }
        }
    });
}

fn read_policy(from: &mut Reader<'_>) -> Option<Policy> {
    let kind = match from.byte()? {
        0 => QueueKind::Standard,
        code @ 1..=4 => {
            let bits = code - 1;
            let scope = if bits & 1 == 0 { DeduplicationScope::Queue } else { DeduplicationScope::Group };
            QueueKind::Fifo { scope, by_content: bits & 2 != 0 }
        }
        _ => return None,
    };
    let length = |from: &mut Reader<'_>| Some(Duration::from_millis(from.number()?));
    Some(Policy {
        kind,
        lease_length: length(from)?,
        delay: length(from)?,
        retention: length(from)?,
        wait: length(from)?,
        body_bytes_max: u32::try_from(from.number()?).ok()?,
        paused: read_flag(from)?,
        dead_letters: read_option(from, read_rule)?.map(Box::new),
    })
}

fn read_rule(from: &mut Reader<'_>) -> Option<DeadLetterRule> {
    let attempts_max = u32::try_from(from.number()?).ok()?;
    let carries = match from.byte()? {
        0 => Carries::History,
        1 => Carries::Nothing,
        _ => return None,
    };
    let written_by = read_text(from)?;
    let then = match from.byte()? {
        0 => DeadLetterAction::Drop,
        1 => DeadLetterAction::MoveTo(read_key(from)?),
        _ => return None,
    };
    Some(DeadLetterRule { attempts_max, then, carries, written_by })
}
