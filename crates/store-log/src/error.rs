//! The one error of the log: a variant for each thing a caller does differently.
//!
//! The mapping from I/O errors to variants lives here too, so that "is this disk full?" is asked in one place.

use std::io;

/// No more files can be opened: by this process, and in the whole system.
const PROCESS_HAS_NO_MORE: i32 = 24;
const SYSTEM_HAS_NO_MORE: i32 = 23;

/// What went wrong in the log, by what the caller does about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Space could not be allocated; nothing has changed. Refuse sends, go on with acks and reads.
    #[error("no space left for {what}")]
    NoSpace {
        /// What the space was for.
        what: String,
    },
    /// An earlier write or sync of the journal failed; it refuses everything until a restart recovers it.
    #[error("the log refuses further writes until a restart: {cause}")]
    FailStopped {
        /// The failure that stopped it.
        cause: String,
    },
    /// Stored bytes are not what was durably written. Refuse to start; `kew store check` says more.
    #[error("damage in {file} at offset {offset}: {what}")]
    Damage {
        /// The file's name within the store's directory.
        file: String,
        /// Offset of the first bad byte known.
        offset: u64,
        /// What was expected and found.
        what: String,
    },
    /// Another server holds the store's directory.
    #[error("the store is in use by {holder}")]
    Locked {
        /// Who holds it, as far as the lock file says.
        holder: String,
    },
    /// The file was written by a newer Kew.
    #[error("{file} has format version {found}, this program reads up to {supported}: use the newer program")]
    UnsupportedVersion {
        /// The file's name within the store's directory.
        file: String,
        /// The version it says.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// No more files can be open just now, by this process or in the whole system; nothing has changed.
    #[error("no descriptor for {doing}")]
    NoDescriptor {
        /// What was being done, with the file's name.
        doing: String,
    },
    /// The machine refused an operation whose failure leaves the log as it was.
    #[error("{doing}: {detail}")]
    Io {
        /// What was being done, with the file's name.
        doing: String,
        /// What sort of failure it was.
        kind: io::ErrorKind,
        /// The system's own words.
        detail: String,
    },
}

impl LogError {
    /// Says that stored bytes are not what was written.
    pub fn damage(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self::Damage { file: file.into(), offset, what: what.into() }
    }

    /// Turns a failed disk operation into `NoSpace` or `Io`.
    pub fn from_io(doing: impl Into<String>, error: &io::Error) -> Self {
        let doing = doing.into();
        if is_no_space(error) {
            return Self::NoSpace { what: doing };
        }
        if lacks_descriptors(error) {
            return Self::NoDescriptor { doing };
        }
        Self::Io { doing, kind: error.kind(), detail: error.to_string() }
    }
}

/// Adds to a disk operation's error what it was for.
pub(crate) trait Doing<T> {
    fn doing(self, what: &str, name: &str) -> Result<T, LogError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &str, name: &str) -> Result<T, LogError> {
        self.map_err(|error| LogError::from_io(format!("{what} {name}"), &error))
    }
}

/// True when the disk, or the quota on it, is full.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// True when no more files can be open: others must be closed first.
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(PROCESS_HAS_NO_MORE | SYSTEM_HAS_NO_MORE))
}

/// A file that could not be opened although the store names it: one that is missing is damage.
pub(crate) fn missing(name: &str, error: &io::Error) -> LogError {
    match error.kind() {
        io::ErrorKind::NotFound => LogError::damage(name, 0, "the file is missing"),
        _ => LogError::from_io(format!("opening {name}"), error),
    }
}
