//! Why bytes are not a frame, and which type they failed to be.

use std::fmt;

use thiserror::Error;

/// Bytes that could not be read: the innermost type that failed, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireError {
    /// The type, with its field or variant; empty while it is not known.
    place: &'static str,
    fault: Fault,
}

/// What is wrong with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Fault {
    /// They end before the value does.
    #[error("the bytes end early")]
    EndsEarly,
    /// A number has no end, or more than 64 bits.
    #[error("a number has no end or more than 64 bits")]
    NoNumber,
    /// A number is larger than its type allows.
    #[error("the number {number} is too large")]
    TooLarge {
        /// The number.
        number: u64,
    },
    /// A list has more entries than there are bytes left.
    #[error("{count} entries do not fit the rest of the frame")]
    TooMany {
        /// Its entries, by what the frame says.
        count: u64,
    },
    /// A byte chooses nothing that is known.
    #[error("{byte} is no known choice")]
    UnknownChoice {
        /// The byte.
        byte: u8,
    },
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    NotText,
    /// A key stands twice in one map.
    #[error("a key stands twice")]
    Twice,
    /// Bytes follow the value.
    #[error("{bytes} bytes follow the end")]
    Trailing {
        /// Number of bytes.
        bytes: usize,
    },
    /// An answer is not of the kind that its request has, or has another number of entries.
    #[error("the answer does not belong to its request")]
    OtherAnswer,
}

impl WireError {
    /// A fault of this type.
    pub(super) fn new(place: &'static str, fault: Fault) -> Self {
        Self { place, fault }
    }

    /// Says which type failed, unless that is known already: the innermost one is named.
    #[cold]
    pub(super) fn at(self, place: &'static str) -> Self {
        if self.place.is_empty() { Self { place, ..self } } else { self }
    }

    /// The type that failed, with its field or variant.
    pub fn place(&self) -> &'static str {
        self.place
    }

    /// What is wrong.
    pub fn fault(&self) -> Fault {
        self.fault
    }
}

impl From<Fault> for WireError {
    #[cold]
    fn from(fault: Fault) -> Self {
        Self { place: "", fault }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.place, self.fault)
    }
}

impl std::error::Error for WireError {}
