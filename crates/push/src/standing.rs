//! What is known of a target before a batch is brought there.

/// Whether a target takes batches just now.
pub(crate) enum Standing {
    /// It does.
    Up,
    /// Nothing runs there.
    Down,
    /// What runs there takes none, and this is why: they wait until its owner changes it.
    Unfit(String),
}
