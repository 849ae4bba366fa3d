//! What goes wrong, and when: faults that are planned for a point, and what each operation is told.

use std::io;

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
}

/// When a fault strikes: at the first point numbered `at` or later.
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
            Self::Go => Ok(()),
            Self::Fail(kind) => Err(io::Error::new(kind, "planned fault")),
            Self::Cut | Self::Dead => Err(power_is_gone()),
        }
    }
}

pub(super) fn power_is_gone() -> io::Error {
    io::Error::other("the simulated power is gone")
}
