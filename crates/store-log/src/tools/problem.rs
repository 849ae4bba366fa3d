//! One thing that is wrong with a store or a backup.

/// Something that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file's name within the store's directory.
    pub file: String,
    /// Offset of the first bad byte known.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at offset {}: {}", self.file, self.offset, self.what)
    }
}
