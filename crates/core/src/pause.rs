//! What may not be done again for a while, on any node.

use crate::{QueueId, QueueKey};

/// Something that was done and may not be done again for a while.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Pause {
    /// A queue of this name was deleted: none is made.
    Name(QueueKey),
    /// The queue was purged.
    Purge(QueueId),
}
