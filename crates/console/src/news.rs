//! What the console's looks have to tell: messages that left their queues by rule, and alarms that changed.

use std::sync::Arc;

use kew_core::{MessageId, Timestamp};

/// Takes what there is to tell, all changes of alarms of a look at once. Called by the looks themselves, so it must not
/// block.
pub type NewsSink = dyn Fn(&[News]) + Send + Sync;

/// Something an operator should know.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A message was leased too often and left its queue.
    Departed {
        /// The queue it left.
        queue: String,
        /// The queue it went to; `None` if it was deleted.
        to: Option<String>,
        /// The message; `None` when the history does not know it any more.
        id: Option<MessageId>,
    },
    /// So did this number of others, from this queue to that one.
    MoreDeparted {
        /// The queue they left; `None` where several may be.
        queue: Option<String>,
        /// How many.
        messages: u64,
        /// The first of them that the history still knows.
        ids: Vec<MessageId>,
    },
    /// An alarm began or ended.
    Alarm(AlarmChange),
    /// A rule holds for more queues than are watched: the others are not.
    TooManyAlarms {
        /// How many pairs of a rule and a queue are watched.
        watched: usize,
    },
}

/// An alarm that began or ended.
#[derive(Clone, PartialEq, Debug)]
pub struct AlarmChange {
    /// The rule's name.
    pub name: Arc<str>,
    /// The queue; `None` for what belongs to none.
    pub queue: Option<String>,
    /// What was measured.
    pub metric: &'static str,
    /// Whether it began.
    pub is_firing: bool,
    /// When, in engine time.
    pub at: Timestamp,
    /// What was measured then.
    pub value: f64,
    /// What it is compared with.
    pub bound: f64,
    /// Where the change is to be posted, if anywhere.
    pub webhook: Option<Arc<str>>,
}
