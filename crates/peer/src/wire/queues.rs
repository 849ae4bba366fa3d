//! The forms of queues, their settings and documents, and of move tasks.
//!
//! Documents are copied out of the frame: nodes keep queues in memory, and a slice would keep the whole frame.

use std::collections::BTreeMap;

use bytes::Bytes;
use kew_core::rules::retention::{ExpiryHold, HoldEnd};
use kew_core::{
    Carries, Counts, DeadLetterAction, DeadLetterRule, DeduplicationScope, DocumentKey, MoveTask, Policy,
    Queue, QueueKind, TaskFailure, TaskState,
};

use super::forms::{choices, records};
use super::{Fault, In, Out, Wire, WireError};

records! {
    DeadLetterRule { attempts_max, then, carries, written_by }
    Policy { kind, lease_length, delay, retention, wait, body_bytes_max, paused, dead_letters }
    Queue { id, key, policy, documents, version, created_at, modified_at }
    Counts { visible, in_flight, delayed, body_bytes, oldest_sent_at }
    MoveTask { id, source, source_key, destination, rate_max, state, moved, to_move, started_at }
    ExpiryHold { through, until }
}

choices! {
    QueueKind { 0 => Standard, 1 => Fifo { scope, by_content }, }
    DeduplicationScope { 0 => Queue, 1 => Group, }
    DeadLetterAction { 0 => MoveTo(target), 1 => Drop, }
    Carries { 0 => History, 1 => Nothing, }
    TaskState { 0 => Running, 1 => Completed, 2 => Cancelled, 3 => Failed(failure), }
    TaskFailure {
        0 => DestinationMissing,
        1 => OriginUnknown,
        2 => KindMismatch,
        3 => SourceMissing,
        4 => TookTooLong,
    }
    HoldEnd { 0 => Confirmed, 1 => Settled, }
}

fn copied(from: &mut In<'_>) -> Result<Bytes, WireError> {
    from.bytes().map(Bytes::copy_from_slice).map_err(|error| error.at("a document"))
}

impl Wire for (DocumentKey, Bytes) {
    fn put(&self, out: &mut Out) {
        let (key, document) = self;
        key.put(out);
        document.put(out);
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        Ok((DocumentKey::get(from)?, copied(from)?))
    }
}

/// A document to write, or one to remove.
impl Wire for (DocumentKey, Option<Bytes>) {
    fn put(&self, out: &mut Out) {
        let (key, document) = self;
        key.put(out);
        document.put(out);
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let (key, is_written) = (DocumentKey::get(from)?, bool::get(from)?);
        Ok((key, if is_written { Some(copied(from)?) } else { None }))
    }
}

/// As a list of its entries, by their keys.
impl Wire for BTreeMap<DocumentKey, Bytes> {
    fn put(&self, out: &mut Out) {
        out.number(self.len() as u64);
        for (key, document) in self {
            key.put(out);
            document.put(out);
        }
    }

    fn get(from: &mut In<'_>) -> Result<Self, WireError> {
        let mut documents = Self::new();
        for _ in 0..from.count()? {
            let (key, document) = Wire::get(from)?;
            if documents.insert(key, document).is_some() {
                return Err(WireError::new("documents", Fault::Twice));
            }
        }
        Ok(documents)
    }
}
