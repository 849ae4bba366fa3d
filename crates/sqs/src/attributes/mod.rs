//! The attributes of a queue: their names, what may be written to them, what is shown of them.
//!
//! [`values`] turns each text into a [`Setting`] that cannot be wrong, [`draft`] puts settings on a queue (and tells
//! which of them would change it), [`show`] writes them back out. Policies about dead letters are in [`redrive`] and
//! [`allow`]. Everything is checked before anything is applied.

mod allow;
mod change;
mod draft;
mod redrive;
mod show;
mod values;

pub(crate) use allow::RedriveAllowPolicy;
pub(crate) use change::{Change, change};
pub(crate) use draft::Draft;
pub(crate) use show::{Asked, show};
pub(crate) use values::{Occasion, Setting, read, wants_fifo};

use crate::error::{Code, WireError};

/// Writes the enum and its table of names, which are the same words.
macro_rules! attributes {
    ($($name:ident),+ $(,)?) => {
        /// An attribute of a queue.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) enum Attribute {
            $($name,)+
        }

        impl Attribute {
            /// All of them, in the order in which they are shown.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The attribute of this name, matched whole and by case.
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Its name.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

attributes! {
    ApproximateNumberOfMessages,
    ApproximateNumberOfMessagesDelayed,
    ApproximateNumberOfMessagesNotVisible,
    ContentBasedDeduplication,
    CreatedTimestamp,
    DeduplicationScope,
    DelaySeconds,
    FifoQueue,
    FifoThroughputLimit,
    KmsDataKeyReusePeriodSeconds,
    KmsMasterKeyId,
    LastModifiedTimestamp,
    MaximumMessageSize,
    MessageRetentionPeriod,
    Policy,
    QueueArn,
    ReceiveMessageWaitTimeSeconds,
    RedriveAllowPolicy,
    RedrivePolicy,
    SqsManagedSseEnabled,
    VisibilityTimeout,
}

impl Attribute {
    /// Whether only FIFO queues have it.
    pub(crate) fn is_of_fifo(self) -> bool {
        matches!(
            self,
            Self::FifoQueue
                | Self::ContentBasedDeduplication
                | Self::DeduplicationScope
                | Self::FifoThroughputLimit
        )
    }
}

/// No queue, or no queue of this kind, has an attribute of this name.
pub(crate) fn unknown(name: &str) -> WireError {
    let legible: String = name.chars().take(128).collect();
    WireError::new(Code::InvalidAttributeName).saying(format!("Unknown Attribute {legible}."))
}

/// The value is none the attribute may have.
fn invalid(attribute: Attribute) -> WireError {
    let text = format!("Invalid value for the parameter {}.", attribute.name());
    WireError::new(Code::InvalidAttributeValue).saying(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole_and_by_case() {
        for attribute in Attribute::ALL {
            assert_eq!(Attribute::named(attribute.name()), Some(*attribute));
        }
        for other in ["", "All", "visibilityTimeout", "VisibilityTimeout ", " VisibilityTimeout"] {
            assert_eq!(Attribute::named(other), None, "{other:?}");
        }
    }
}
