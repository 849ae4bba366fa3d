//! Attributes as GetQueueAttributes shows them.

use std::borrow::Cow;

use kew_core::{Counts, DeduplicationScope, Queue, QueueKind, Timestamp};

use super::{Attribute, redrive, unknown};
use crate::documents::{self, Encryption};
use crate::error::WireError;
use crate::names::Arn;

/// Which attributes a request is after; each at most once, in the order in which they are shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked(Vec<Attribute>);

impl Asked {
    /// Reads the names; `All` means every one the queue has.
    pub(crate) fn read<'a>(names: impl Iterator<Item = &'a str>, fifo: bool) -> Result<Self, WireError> {
        let mut wanted = [false; Attribute::ALL.len()];
        for name in names {
            let named = Attribute::named(name).filter(|attribute| fifo || !attribute.is_of_fifo());
            for (attribute, wanted) in Attribute::ALL.iter().zip(&mut wanted) {
                *wanted |= name == "All" || named == Some(*attribute);
            }
            if named.is_none() && name != "All" {
                return Err(unknown(name));
            }
        }
        let asked = Attribute::ALL.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        Ok(Self(asked.map(|(attribute, _)| *attribute).collect()))
    }

    /// Whether messages have to be counted for it.
    pub(crate) fn needs_counts(&self) -> bool {
        self.0.iter().any(|attribute| {
            matches!(
                attribute,
                Attribute::ApproximateNumberOfMessages
                    | Attribute::ApproximateNumberOfMessagesDelayed
                    | Attribute::ApproximateNumberOfMessagesNotVisible
            )
        })
    }
}

/// The attributes that are asked for and that the queue has.
pub(crate) fn show(queue: &Queue, counts: Counts, asked: &Asked) -> Vec<(&'static str, Cow<'static, str>)> {
    let encryption = documents::encryption(queue);
    let shown = asked
        .0
        .iter()
        .filter_map(|attribute| Some((attribute.name(), text(queue, counts, &encryption, *attribute)?)));
    shown.collect()
}

fn text(
    queue: &Queue,
    counts: Counts,
    encryption: &Encryption,
    attribute: Attribute,
) -> Option<Cow<'static, str>> {
    let policy = &queue.policy;
    let number = |number: u64| Some(Cow::Owned(number.to_string()));
    match attribute {
        Attribute::ApproximateNumberOfMessages => number(counts.visible),
        Attribute::ApproximateNumberOfMessagesDelayed => number(counts.delayed),
        Attribute::ApproximateNumberOfMessagesNotVisible => number(counts.in_flight),
        Attribute::ContentBasedDeduplication => fifo(queue).map(|(_, by_content)| flag(by_content)),
        Attribute::CreatedTimestamp => number(seconds(queue.created_at)),
        Attribute::DeduplicationScope => fifo(queue).map(|(scope, _)| Cow::Borrowed(scope_name(scope))),
        Attribute::DelaySeconds => number(policy.delay.as_secs()),
        Attribute::FifoQueue => fifo(queue).map(|_| flag(true)),
        Attribute::FifoThroughputLimit => fifo(queue).map(|_| Cow::Borrowed(throughput_name(queue))),
        Attribute::KmsDataKeyReusePeriodSeconds => {
            let seconds = encryption.reuse_seconds.filter(|_| encryption.key.is_some());
            seconds.map(|seconds| Cow::Owned(seconds.to_string()))
        }
        Attribute::KmsMasterKeyId => encryption.key.clone().map(Cow::Owned),
        Attribute::LastModifiedTimestamp => number(seconds(queue.modified_at)),
        Attribute::MaximumMessageSize => number(u64::from(policy.body_bytes_max)),
        Attribute::MessageRetentionPeriod => number(policy.retention.as_secs()),
        Attribute::Policy => documents::policy(queue).map(|text| Cow::Owned(text.to_owned())),
        Attribute::QueueArn => Some(Cow::Owned(Arn::of(&queue.key).to_string())),
        Attribute::ReceiveMessageWaitTimeSeconds => number(policy.wait.as_secs()),
        Attribute::RedriveAllowPolicy => {
            documents::redrive_allow(queue).map(|text| Cow::Owned(text.to_owned()))
        }
        Attribute::RedrivePolicy => redrive::shown(policy.dead_letters.as_deref()).map(Cow::Owned),
        Attribute::SqsManagedSseEnabled => Some(flag(encryption.managed)),
        Attribute::VisibilityTimeout => number(policy.lease_length.as_secs()),
    }
}

/// Instants of attributes are whole seconds, unlike those of messages.
fn seconds(at: Timestamp) -> u64 {
    at.0 / 1_000
}

fn flag(on: bool) -> Cow<'static, str> {
    Cow::Borrowed(if on { "true" } else { "false" })
}

fn fifo(queue: &Queue) -> Option<(DeduplicationScope, bool)> {
    match queue.policy.kind {
        QueueKind::Standard => None,
        QueueKind::Fifo { scope, by_content } => Some((scope, by_content)),
    }
}

fn scope_name(scope: DeduplicationScope) -> &'static str {
    match scope {
        DeduplicationScope::Queue => "queue",
        DeduplicationScope::Group => "messageGroup",
    }
}

fn throughput_name(queue: &Queue) -> &'static str {
    if documents::throughput_per_group(queue) { "perMessageGroupId" } else { "perQueue" }
}
