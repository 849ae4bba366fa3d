//! A queue's settings on their way to becoming others.

use kew_core::{Policy, Queue, QueueKind};
use serde_json::Value;

use super::Attribute;
use super::values::Setting;
use crate::documents::{self, Encryption, Write};
use crate::error::{Code, WireError};

/// Everything about a queue that attributes can change.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Draft {
    pub(crate) policy: Policy,
    access: Option<String>,
    redrive_allow: Option<String>,
    encryption: Encryption,
    throughput_per_group: bool,
}

impl Draft {
    /// A new queue's, all at its defaults.
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            access: None,
            redrive_allow: None,
            encryption: Encryption::default(),
            throughput_per_group: false,
        }
    }

    /// What a queue has now.
    pub(crate) fn of(queue: &Queue) -> Self {
        Self {
            policy: queue.policy.clone(),
            access: documents::policy(queue).map(str::to_owned),
            redrive_allow: documents::redrive_allow(queue).map(str::to_owned),
            encryption: documents::encryption(queue),
            throughput_per_group: documents::throughput_per_group(queue),
        }
    }

    /// Puts all of them on; refuses those that contradict each other or what is there.
    pub(crate) fn apply(&mut self, settings: &[(Attribute, Setting)]) -> Result<(), WireError> {
        check_encryption(settings)?;
        for (_, setting) in settings {
            self.put(setting);
        }
        self.check_throughput()
    }

    /// The first setting that says something else than what is there.
    pub(crate) fn first_difference(&self, settings: &[(Attribute, Setting)]) -> Option<Attribute> {
        let differs = |(_, setting): &&(Attribute, Setting)| {
            let mut other = self.clone();
            other.put(setting);
            other != *self && !self.is_as(setting)
        };
        settings.iter().find(differs).map(|(attribute, _)| *attribute)
    }

    /// The documents that have to be written to get from `before` to here.
    pub(crate) fn writes(&self, before: &Self) -> Vec<Write> {
        let mut writes = Vec::new();
        if self.access != before.access {
            writes.push(documents::write_policy(self.access.as_deref()));
        }
        if self.redrive_allow != before.redrive_allow {
            writes.push(documents::write_redrive_allow(self.redrive_allow.as_deref()));
        }
        if self.encryption != before.encryption {
            writes.push(documents::write_encryption(&self.encryption));
        }
        if self.throughput_per_group != before.throughput_per_group {
            writes.push(documents::write_throughput(self.throughput_per_group));
        }
        writes
    }

    /// Whether a text of JSON means what is there, written differently.
    fn is_as(&self, setting: &Setting) -> bool {
        match setting {
            Setting::Policy(text) => same_json(text.as_deref(), self.access.as_deref()),
            Setting::KmsDataKeyReusePeriodSeconds(seconds) => *seconds == self.encryption.reuse_in_force(),
            Setting::RedriveAllowPolicy(text) => same_json(text.as_deref(), self.redrive_allow.as_deref()),
            Setting::RedrivePolicy(Some(policy)) => policy.is_done_by(self.policy.dead_letters.as_deref()),
            _ => false,
        }
    }

    fn put(&mut self, setting: &Setting) {
        match setting {
            Setting::ContentBasedDeduplication(on) => {
                if let QueueKind::Fifo { by_content, .. } = &mut self.policy.kind {
                    *by_content = *on;
                }
            }
            Setting::DeduplicationScope(wanted) => {
                if let QueueKind::Fifo { scope, .. } = &mut self.policy.kind {
                    *scope = *wanted;
                }
            }
            Setting::DelaySeconds(delay) => self.policy.delay = *delay,
            Setting::FifoQueue => {}
            Setting::FifoThroughputLimit(per_group) => self.throughput_per_group = *per_group,
            Setting::KmsDataKeyReusePeriodSeconds(seconds) => self.encryption.reuse_seconds = Some(*seconds),
            Setting::KmsMasterKeyId(key) => {
                // The two kinds exclude each other; taking the key away does not bring the other kind back.
                self.encryption.managed &= key.is_none();
                self.encryption.key = key.clone();
            }
            Setting::MaximumMessageSize(bytes) => self.policy.body_bytes_max = *bytes,
            Setting::MessageRetentionPeriod(retention) => self.policy.retention = *retention,
            Setting::Policy(text) => self.access = text.clone(),
            Setting::ReceiveMessageWaitTimeSeconds(wait) => self.policy.wait = *wait,
            Setting::RedriveAllowPolicy(text) => self.redrive_allow = text.clone(),
            Setting::RedrivePolicy(Some(policy)) => self.policy.dead_letters = Some(policy.rule().into()),
            Setting::RedrivePolicy(None) => self.drop_redrive_policy(),
            Setting::SqsManagedSseEnabled(on) => {
                self.encryption.managed = *on;
                if *on {
                    self.encryption.key = None;
                }
            }
            Setting::VisibilityTimeout(length) => self.policy.lease_length = *length,
        }
    }

    /// A rule without a target was never shown as a RedrivePolicy, so it is not what is taken away.
    fn drop_redrive_policy(&mut self) {
        if super::redrive::shown(self.policy.dead_letters.as_deref()).is_some() {
            self.policy.dead_letters = None;
        }
    }

    fn check_throughput(&self) -> Result<(), WireError> {
        let by_group =
            matches!(self.policy.kind, QueueKind::Fifo { scope: kew_core::DeduplicationScope::Group, .. });
        if self.throughput_per_group && !by_group {
            let text = "Invalid value for the parameter FifoThroughputLimit. Reason: The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.";
            return Err(WireError::new(Code::InvalidAttributeValue).saying(text));
        }
        Ok(())
    }
}

fn check_encryption(settings: &[(Attribute, Setting)]) -> Result<(), WireError> {
    let mut has_key = false;
    let mut is_managed = false;
    for (_, setting) in settings {
        match setting {
            Setting::KmsMasterKeyId(key) => has_key = key.is_some(),
            Setting::SqsManagedSseEnabled(on) => is_managed = *on,
            _ => {}
        }
    }
    if has_key && is_managed {
        let text = "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.";
        return Err(WireError::new(Code::InvalidAttributeName).saying(text));
    }
    Ok(())
}

fn same_json(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    one.and_then(read).is_some_and(|one| other.and_then(read).is_some_and(|other| one == other))
}
