//! What can be wrong with a store in PostgreSQL, and what to do about it.

use std::io;

use tokio_postgres::error::SqlState;

/// Why a store in PostgreSQL cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    /// The URL cannot be understood.
    #[error("the store's URL cannot be understood: {0}")]
    Url(String),
    /// The database could not be reached, or refused.
    #[error("PostgreSQL: {0}")]
    Database(String),
    /// The connection was lost, or the database takes none just now. It may pass.
    #[error("PostgreSQL cannot be reached: {0}")]
    Unreachable(String),
    /// The connection cannot be encrypted as the URL asks.
    #[error("no encrypted connection to PostgreSQL: {0} (sslmode and sslrootcert of the URL)")]
    Tls(String),
    /// There is no disk space left in the database.
    #[error("PostgreSQL has no space left: {0}")]
    NoSpace(String),
    /// The role may not do what Kew needs.
    #[error("PostgreSQL refuses it: {0}; grant the role CREATE and USAGE on its schema")]
    Denied(String),
    /// There is no store.
    #[error("the database holds no store; `kew store create` or `kew serve` makes one")]
    NoStore,
    /// The tables were made by a newer program.
    #[error(
        "the database has schema version {found}, this program knows up to {known}: use the newer program"
    )]
    NewerSchema {
        /// The version of the database.
        found: i32,
        /// The newest version this program knows.
        known: i32,
    },
    /// The tables were made by an older program.
    #[error("the database has schema version {found}: start `kew serve` once to bring it up to date")]
    OlderSchema {
        /// The version of the database.
        found: i32,
    },
    /// A migration has another text than the one that was applied.
    #[error("migration {number} of the database is not the one this program knows")]
    ChangedMigration {
        /// Which one.
        number: i32,
    },
    /// Another node owns the shard.
    #[error("shard {shard} is owned by node {node}")]
    Owned {
        /// The shard.
        shard: i32,
        /// The owner.
        node: String,
    },
    /// The shard has a newer owner; this one writes nothing any more.
    #[error("shard {shard} has a newer owner: epoch {epoch} is over")]
    Fenced {
        /// The shard.
        shard: i32,
        /// The epoch that is over.
        epoch: i64,
    },
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
}

impl PgError {
    /// Whether the same may succeed when it is tried again.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoSpace(_))
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            if let Some(tls) = tls_error(&error) {
                return Self::Tls(tls);
            }
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let text = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
            // A wrong type or column is ours to mend; all else without an answer of the database is the connection.
            return if error.is_closed()
                || std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<io::Error>)
                || text.contains("connect")
            {
                Self::Unreachable(text)
            } else {
                Self::Database(text)
            };
        };
        let text = match db.hint() {
            None => format!("{} ({})", db.message(), db.code().code()),
            Some(hint) => format!("{} ({}); {hint}", db.message(), db.code().code()),
        };
        let code = db.code().code();
        if *db.code() == SqlState::DISK_FULL {
            Self::NoSpace(text)
        } else if code.starts_with("08")
            || code.starts_with("57P")
            || code.starts_with("53")
            || *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION
            || *db.code() == SqlState::LOCK_NOT_AVAILABLE
            || *db.code() == SqlState::T_R_DEADLOCK_DETECTED
            || *db.code() == SqlState::T_R_SERIALIZATION_FAILURE
            || *db.code() == SqlState::QUERY_CANCELED
        {
            Self::Unreachable(text)
        } else if *db.code() == SqlState::INSUFFICIENT_PRIVILEGE {
            Self::Denied(text)
        } else {
            Self::Database(text)
        }
    }
}

/// What is wrong with TLS, if that is what failed: it does not pass by itself.
fn tls_error(error: &tokio_postgres::Error) -> Option<String> {
    let cause = std::error::Error::source(error)?;
    let failed = cause.downcast_ref::<io::Error>().and_then(|error| error.get_ref());
    match failed.and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(error) => Some(error.to_string()),
        None => Some(cause.to_string()).filter(|text| text.contains("does not support TLS")),
    }
}

impl From<PgError> for io::Error {
    fn from(error: PgError) -> Self {
        let kind = match &error {
            PgError::NoSpace(_) => io::ErrorKind::StorageFull,
            PgError::Owned { .. } => io::ErrorKind::WouldBlock,
            PgError::NoStore => io::ErrorKind::NotFound,
            PgError::Unreachable(_) => io::ErrorKind::NotConnected,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error.to_string())
    }
}
