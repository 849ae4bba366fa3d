//! What goes wrong, and when: faults that are planned for a point, and the error that each operation gets.

use std::io;

use super::Operation;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This operation fails with an I/O error; later ones work.
    Error,
    /// This operation fails because the disk is full; later ones work.
    NoSpace,
    /// This operation and all that follow fail with an I/O error.
    ErrorsFromHere,
    /// The power goes while this operation is under way: it may or may not reach the disk, and all later ones fail.
    PowerCut,
    /// A file's sync finds that bytes cannot be written; later ones work.
    SyncError,
    /// A write is said to be done and never reaches the disk, not even by a sync.
    LostWrite,
    /// A write is said to be done and reaches another place, of this file or of another.
    MisdirectedWrite,
}

impl Fault {
    /// Whether such an operation can meet it.
    pub(super) fn may_meet(self, operation: Operation) -> bool {
        match self {
            Self::LostWrite | Self::MisdirectedWrite => operation == Operation::Write,
            Self::SyncError => operation == Operation::Sync,
            Self::Error | Self::NoSpace | Self::ErrorsFromHere | Self::PowerCut => true,
        }
    }
}

/// When a fault strikes: at the first point numbered `at` or later that can meet it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// The point's number; the first is 1.
    pub at: u64,
    /// What happens there.
    pub fault: Fault,
}

/// What the fault plan says of one operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    /// It fails, and may have done part of its work.
    Fail(io::ErrorKind),
    /// A write that seems to work.
    Lose,
    /// A write that seems to work and goes elsewhere.
    Misdirect,
    /// The power goes while it is under way.
    Cut,
    /// The power is gone.
    Dead,
}

impl Verdict {
    /// Whether a change of names takes place (unsynced); a failed one does not.
    pub(super) fn applies(self) -> bool {
        matches!(self, Self::Go | Self::Cut)
    }

    pub(super) fn result(self) -> io::Result<()> {
        match self {
            Self::Go | Self::Lose | Self::Misdirect => Ok(()),
            Self::Fail(kind) => Err(io::Error::new(kind, "planned fault")),
            Self::Cut | Self::Dead => Err(power_is_gone()),
        }
    }
}

pub(super) fn power_is_gone() -> io::Error {
    io::Error::other("the simulated power is gone")
}
