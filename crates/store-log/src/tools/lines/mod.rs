//! The lines of an export: what each kind of line says, and how it is turned into what the ledger knows.
//!
//! One JSON object a line, one key that names its kind. Bodies are text where they are text, base64 otherwise; numbers
//! are exact. The first line says which store it was, the last one how many lines there should be.

mod doing;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kew_core::time::millis;
use kew_core::{
    AccountId, Carries, Content, ContentType, DeadLetterAction, DeadLetterRule, DeduplicationId,
    DeduplicationScope, DocumentKey, Expiry, GroupId, MessageId, MoveReason, Origin, Policy, Queue, QueueId,
    QueueKey, QueueKind, Sequence, State, Text, Timestamp,
};
use kew_store::ledger::{Carried, CarriedQueue, Place, Remembered, Stored};
use serde::{Deserialize, Serialize};

pub(crate) use doing::{LeaseLine, OrderLine, TaskLine};

/// The version of the lines. An import reads the older ones too: version 1 had no terms of leases, no orders and no
/// tasks.
pub(crate) const LINES_VERSION: u32 = 2;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line {
    Store(StoreLine),
    Document(DocumentLine),
    Queue(QueueLine),
    Message(MessageLine),
    Order(OrderLine),
    Task(TaskLine),
    Remembered(RememberedLine),
    End(EndLine),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct StoreLine {
    pub version: u32,
    pub store_id: String,
    /// Key of the receipts: with it, receipts given out before an export count after the import.
    pub mac_key: String,
    pub newest_ms: u64,
    pub next_queue: u64,
    pub next_task: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct DocumentLine {
    pub account: u64,
    pub owner: String,
    pub key: String,
    pub bytes: Blob,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct QueueLine {
    pub id: u64,
    #[serde(flatten)]
    pub key: KeyLine,
    pub version: u64,
    pub created_ms: u64,
    pub modified_ms: u64,
    pub policy: PolicyLine,
    pub documents: Vec<QueueDocumentLine>,
    pub next_sequence: u64,
    pub epoch: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct KeyLine {
    pub account: u64,
    pub region: String,
    pub name: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct QueueDocumentLine {
    pub owner: String,
    pub key: String,
    pub bytes: Blob,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PolicyLine {
    pub fifo: Option<FifoLine>,
    pub lease_ms: u64,
    pub delay_ms: u64,
    pub retention_ms: u64,
    pub wait_ms: u64,
    pub body_bytes_max: u32,
    pub paused: bool,
    pub dead_letters: Option<RuleLine>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FifoLine {
    pub scope: ScopeLine,
    pub by_content: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScopeLine {
    Queue,
    Group,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RuleLine {
    pub attempts_max: u32,
    /// No target: the message is dropped.
    pub move_to: Option<KeyLine>,
    pub carries_history: bool,
    pub written_by: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct MessageLine {
    pub queue: u64,
    pub sequence: u64,
    pub id: String,
    pub content_type: TypeLine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deduplication: Option<String>,
    pub sent_ms: u64,
    pub rank_ms: u64,
    pub expires: ExpiryLine,
    pub state: StateLine,
    /// Whether it is at rest on a FIFO queue. Lines of version 1 do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shows_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseLine>,
    #[serde(default)]
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_leased_ms: Option<u64>,
    #[serde(default)]
    pub nonce: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_end_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginLine>,
    pub body: Blob,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct OriginLine {
    #[serde(flatten)]
    pub key: KeyLine,
    pub redriven: bool,
    pub at_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TypeLine {
    Text,
    Json,
    Bytes,
    V8,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExpiryLine {
    WithQueue,
    Never,
    AfterSeconds(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateLine {
    Ready,
    DelayedUntilMs(u64),
    LeasedUntilMs(u64),
    LeasedByOwner,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct RememberedLine {
    pub identity: String,
    pub at_ms: u64,
    pub id: String,
    pub sequence: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct EndLine {
    pub lines: u64,
}

/// Bytes: as text where they are text, else in base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Blob {
    Text(String),
    Base64(String),
}

impl Blob {
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Self::Text(text) => Some(Bytes::from(text)),
            Self::Base64(text) => STANDARD.decode(text).ok().map(Bytes::from),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_hex(text: &str) -> Option<[u8; 16]> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(u128::to_be_bytes)
}

impl KeyLine {
    fn of(key: &QueueKey) -> Self {
        Self { account: key.account.0, region: key.region.to_string(), name: key.name.to_string() }
    }

    fn key(&self) -> QueueKey {
        QueueKey::new(AccountId(self.account), &self.region, &self.name)
    }
}

impl DocumentLine {
    pub fn of(account: AccountId, key: &DocumentKey, bytes: &[u8]) -> Self {
        let (owner, key) = (key.owner.to_string(), key.key.to_string());
        Self { account: account.0, owner, key, bytes: Blob::of(bytes) }
    }
}

impl QueueLine {
    pub fn of(carried: &CarriedQueue) -> Self {
        let queue = &carried.queue;
        let document = |(key, bytes): (&DocumentKey, &Bytes)| QueueDocumentLine {
            owner: key.owner.to_string(),
            key: key.key.to_string(),
            bytes: Blob::of(bytes),
        };
        Self {
            id: queue.id.0,
            key: KeyLine::of(&queue.key),
            version: queue.version,
            created_ms: queue.created_at.0,
            modified_ms: queue.modified_at.0,
            policy: PolicyLine::of(&queue.policy),
            documents: queue.documents.iter().map(document).collect(),
            next_sequence: carried.next_sequence.0,
            epoch: carried.epoch,
        }
    }

    pub fn carried(self) -> Option<CarriedQueue> {
        let mut documents = std::collections::BTreeMap::new();
        for document in self.documents {
            documents.insert(DocumentKey::new(&document.owner, &document.key), document.bytes.bytes()?);
        }
        let queue = Queue {
            id: QueueId(self.id),
            key: self.key.key(),
            policy: self.policy.policy(),
            documents,
            version: self.version,
            created_at: Timestamp(self.created_ms),
            modified_at: Timestamp(self.modified_ms),
        };
        let next_sequence = Sequence(self.next_sequence);
        Some(CarriedQueue { queue: Arc::new(queue), next_sequence, epoch: self.epoch })
    }
}

impl PolicyLine {
    fn of(policy: &Policy) -> Self {
        let fifo = match policy.kind {
            QueueKind::Standard => None,
            QueueKind::Fifo { scope: DeduplicationScope::Queue, by_content } => {
                Some(FifoLine { scope: ScopeLine::Queue, by_content })
            }
            QueueKind::Fifo { scope: DeduplicationScope::Group, by_content } => {
                Some(FifoLine { scope: ScopeLine::Group, by_content })
            }
        };
        Self {
            fifo,
            lease_ms: millis(policy.lease_length),
            delay_ms: millis(policy.delay),
            retention_ms: millis(policy.retention),
            wait_ms: millis(policy.wait),
            body_bytes_max: policy.body_bytes_max,
            paused: policy.paused,
            dead_letters: policy.dead_letters.as_deref().map(RuleLine::of),
        }
    }

    fn policy(self) -> Policy {
        let kind = self.fifo.map_or(QueueKind::Standard, |fifo| {
            let scope = match fifo.scope {
                ScopeLine::Queue => DeduplicationScope::Queue,
                ScopeLine::Group => DeduplicationScope::Group,
            };
            QueueKind::Fifo { scope, by_content: fifo.by_content }
        });
        Policy {
            kind,
            lease_length: Duration::from_millis(self.lease_ms),
            delay: Duration::from_millis(self.delay_ms),
            retention: Duration::from_millis(self.retention_ms),
            wait: Duration::from_millis(self.wait_ms),
            body_bytes_max: self.body_bytes_max,
            paused: self.paused,
            dead_letters: self.dead_letters.map(RuleLine::rule).map(Box::new),
        }
    }
}

impl RuleLine {
    fn of(rule: &DeadLetterRule) -> Self {
        let move_to = match &rule.then {
            DeadLetterAction::MoveTo(key) => Some(KeyLine::of(key)),
            DeadLetterAction::Drop => None,
        };
        Self {
            attempts_max: rule.attempts_max,
            move_to,
            carries_history: rule.carries == Carries::History,
            written_by: rule.written_by.to_string(),
        }
    }

    fn rule(self) -> DeadLetterRule {
        DeadLetterRule {
            attempts_max: self.attempts_max,
            then: self.move_to.map_or(DeadLetterAction::Drop, |key| DeadLetterAction::MoveTo(key.key())),
            carries: if self.carries_history { Carries::History } else { Carries::Nothing },
            written_by: self.written_by.into(),
        }
    }
}

impl MessageLine {
    pub fn of(queue: QueueId, carried: &Carried, stored: &Stored) -> Self {
        let annotations = &stored.content.annotations;
        Self {
            queue: queue.0,
            sequence: carried.sequence.0,
            id: hex(&stored.id.0),
            content_type: match stored.content.content_type {
                ContentType::Text => TypeLine::Text,
                ContentType::Json => TypeLine::Json,
                ContentType::Bytes => TypeLine::Bytes,
                ContentType::V8 => TypeLine::V8,
            },
            annotations: (!annotations.is_empty()).then(|| Blob::of(annotations)),
            group: stored.group.as_ref().map(|group| group.0.to_string()),
            deduplication: stored.deduplication.as_ref().map(|id| id.0.to_string()),
            sent_ms: carried.sent_at.0,
            rank_ms: carried.rank.0,
            expires: match carried.expiry {
                Expiry::ByQueue => ExpiryLine::WithQueue,
                Expiry::Never => ExpiryLine::Never,
                Expiry::After { seconds } => ExpiryLine::AfterSeconds(seconds),
            },
            state: match carried.state {
                State::Ready => StateLine::Ready,
                State::Delayed { until } => StateLine::DelayedUntilMs(until.0),
                State::Leased { until: Timestamp::NEVER } => StateLine::LeasedByOwner,
                State::Leased { until } => StateLine::LeasedUntilMs(until.0),
            },
            rests: stored.group.as_ref().map(|_| carried.rests),
            shows_ms: (carried.shows_at != Timestamp::ZERO).then_some(carried.shows_at.0),
            lease: carried.lease.as_ref().map(LeaseLine::of),
            attempts: carried.attempts,
            first_leased_ms: carried.first_leased_at.map(|at| at.0),
            nonce: carried.nonce,
            lease_end_ms: carried.lease_end.map(|at| at.0),
            origin: carried.origin.as_ref().map(|origin| OriginLine {
                key: KeyLine::of(&origin.queue),
                redriven: origin.reason == MoveReason::Redriven,
                at_ms: origin.at.0,
            }),
            body: Blob::of(&stored.content.body),
        }
    }

    /// The content, and all the rest with its place still to be filled in.
    /// An error says what cannot be read.
    pub fn carried(self) -> Result<(QueueId, Carried, Stored), &'static str> {
        let body = self.body.bytes().ok_or("the body is no base64")?;
        let annotations = self.annotations.map_or(Some(Bytes::new()), Blob::bytes);
        let annotations = annotations.ok_or("the annotations are no base64")?;
        let is_fresh = self.attempts == 0 && self.nonce == 0 && self.lease_end_ms.is_none();
        let follows_queue = is_fresh && matches!(self.expires, ExpiryLine::WithQueue);
        let carried = Carried {
            rests: self.rests.unwrap_or(follows_queue),
            shows_at: Timestamp(self.shows_ms.unwrap_or_default()),
            lease: self.lease.map(LeaseLine::lease),
            sequence: Sequence(self.sequence),
            place: Place::default(),
            body_bytes: u32::try_from(body.len()).map_err(|_| "the body is longer than any")?,
            sent_at: Timestamp(self.sent_ms),
            rank: Timestamp(self.rank_ms),
            expiry: match self.expires {
                ExpiryLine::WithQueue => Expiry::ByQueue,
                ExpiryLine::Never => Expiry::Never,
                ExpiryLine::AfterSeconds(seconds) => Expiry::After { seconds },
            },
            attempts: self.attempts,
            first_leased_at: self.first_leased_ms.map(Timestamp),
            nonce: self.nonce,
            lease_end: self.lease_end_ms.map(Timestamp),
            origin: self.origin.map(|origin| Origin {
                queue: origin.key.key(),
                reason: if origin.redriven { MoveReason::Redriven } else { MoveReason::AttemptsExhausted },
                at: Timestamp(origin.at_ms),
            }),
            state: match self.state {
                StateLine::Ready => State::Ready,
                StateLine::DelayedUntilMs(until) => State::Delayed { until: Timestamp(until) },
                StateLine::LeasedUntilMs(until) => State::Leased { until: Timestamp(until) },
                StateLine::LeasedByOwner => State::Leased { until: Timestamp::NEVER },
            },
        };
        let content_type = match self.content_type {
            TypeLine::Text => ContentType::Text,
            TypeLine::Json => ContentType::Json,
            TypeLine::Bytes => ContentType::Bytes,
            TypeLine::V8 => ContentType::V8,
        };
        let stored = Stored {
            id: MessageId(from_hex(&self.id).ok_or("the id must be 32 hex digits")?),
            content: Content { content_type, body, annotations },
            group: self.group.map(|group| GroupId(Text::from(group))),
            deduplication: self.deduplication.map(|id| DeduplicationId(Text::from(id))),
        };
        Ok((QueueId(self.queue), carried, stored))
    }
}

impl RememberedLine {
    pub fn of(send: &Remembered) -> Self {
        let identity = hex(&send.identity.to_be_bytes());
        Self { identity, at_ms: send.at.0, id: hex(&send.id.0), sequence: send.sequence.0 }
    }

    pub fn remembered(&self) -> Option<Remembered> {
        Some(Remembered {
            identity: u128::from_be_bytes(from_hex(&self.identity)?),
            at: Timestamp(self.at_ms),
            id: MessageId(from_hex(&self.id)?),
            sequence: Sequence(self.sequence),
        })
    }
}
