//! The forms of what is refused.

use kew_core::RuleError;
use kew_store::StoreError;

use super::forms::choices;

choices! {
    RuleError {
        0 => QueueNotFound,
        1 => QueueExists(queue),
        2 => VersionChanged,
        3 => TokenForged,
        4 => TokenOfOtherQueue,
        5 => MessageNotFound,
        6 => TokenStale,
        7 => LeaseEnded,
        8 => NotDelayed,
        9 => LeaseTooLong { cap },
        10 => TooManyInFlight,
        11 => GroupMissing,
        12 => DeduplicationMissing,
        13 => DeduplicationNotAllowed,
        14 => DelayNotAllowed,
        15 => DocumentTooLarge { max },
        16 => KindChange,
        17 => TaskNotFound,
        18 => TaskRunning,
        19 => TooManyTasks,
        20 => FirstTooLarge,
    }
    StoreError {
        0 => Rule(rule),
        1 => NoSpace,
        2 => Overloaded { what },
        3 => FailStopped { cause },
        4 => Unavailable { cause },
        5 => Damaged { what },
    }
}
