//! What can be wrong with a store in PostgreSQL, and what to do about it.

use std::io;

use kew_core::ShardId;
use tokio_postgres::error::SqlState;

use crate::map::DatabasePlace;

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
    /// There is a store already, with another number of shards.
    #[error("the database holds a store already, of {shards} shards")]
    StoreExists {
        /// How many shards it has.
        shards: u16,
    },
    /// The database is one of a store, but not the first one.
    #[error("this is {place} of its store: give the URL of the first one, which knows the others")]
    NotTheFirst {
        /// Which one it is.
        place: DatabasePlace,
    },
    /// The database should be one of a store, and is not that.
    #[error("{place} is another one: {what}; nothing in it was changed")]
    OtherDatabase {
        /// Which one it should be.
        place: DatabasePlace,
        /// What it is.
        what: String,
    },
    /// A database of a store that is there holds nothing.
    #[error(
        "{place} holds no part of the store: if `kew store create` was cut short, run it again with the same URLs"
    )]
    NoPart {
        /// Which one.
        place: DatabasePlace,
    },
    /// There are more databases than shards.
    #[error("{shards} shards cannot be spread over {databases} databases: each gets at least one")]
    TooFewShards {
        /// How many shards there are.
        shards: u16,
        /// How many databases.
        databases: usize,
    },
    /// Another number of databases was named than the store has.
    #[error(
        "the store lies in {of} databases, and {given} were named: name all of them, in their order, or none"
    )]
    OtherNumber {
        /// How many were named.
        given: usize,
        /// How many there are.
        of: u16,
    },
    /// The store has no such shard.
    #[error("there is no shard {shard}: the store has {shards}, counted from 0")]
    NoShard {
        /// The shard.
        shard: ShardId,
        /// How many there are.
        shards: u16,
    },
    /// The store has more shards than the caller works on.
    #[error(
        "the store has {shards} shards, which several nodes serve together: start this one with --peer ADDR"
    )]
    ManyShards {
        /// How many there are.
        shards: u16,
    },
    /// A node took a shard while the store was looked at.
    #[error("a node took shard {shard} meanwhile: what was read is of no one moment; stop all nodes first")]
    TakenMeanwhile {
        /// The shard.
        shard: ShardId,
    },
    /// The shard lies in another database: it was moved there, or is just being moved.
    #[error("shard {shard} is being moved to another database, or was a moment ago: try again")]
    Elsewhere {
        /// The shard.
        shard: ShardId,
    },
    /// All nodes stopped while a shard was moved.
    #[error("shard {shard} was being moved to another database: start a node, which ends that")]
    BetweenDatabases {
        /// The shard.
        shard: ShardId,
    },
    /// A shard has left for a database that does not have all of it.
    #[error(
        "shard {shard} was moved here and its files are not: this database was failed over to a server that had not \
         received them; what the database has that it came from is kept"
    )]
    NotWhole {
        /// The shard.
        shard: ShardId,
    },
    /// A shard cannot be moved to a database.
    #[error("shard {shard} cannot be moved to database {}: {why}", u32::from(*.database) + 1)]
    CannotMove {
        /// The shard.
        shard: ShardId,
        /// The number of the database, from 0.
        database: u16,
        /// Why not.
        why: String,
    },
    /// A move ended since it is not wanted any more.
    #[error("shard {shard} stays where it is")]
    Stays {
        /// The shard.
        shard: ShardId,
    },
    /// Another node owns the shard, or is handed it.
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
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoSpace(_))
    }

    /// The same, and which database it is about, where a store has several.
    pub(crate) fn of(self, place: DatabasePlace) -> Self {
        if place == DatabasePlace::ONLY {
            return self;
        }
        let named = |text: String| {
            let begin = format!("{place}: ");
            if text.starts_with(&begin) { text } else { begin + &text }
        };
        match self {
            Self::Url(text) => Self::Url(named(text)),
            Self::Database(text) => Self::Database(named(text)),
            Self::Unreachable(text) => Self::Unreachable(named(text)),
            Self::Tls(text) => Self::Tls(named(text)),
            Self::NoSpace(text) => Self::NoSpace(named(text)),
            Self::Denied(text) => Self::Denied(named(text)),
            Self::NoStore => Self::NoPart { place },
            other => other,
        }
    }
}

/// Codes of errors about prepared statements: Kew prepares each once for a connection, so a pooler mixed connections.
const OF_STATEMENTS: [&str; 2] = ["26000", "42P05"];
/// What a pooler has to be set to.
pub(crate) const POOLER_KEEPS_STATEMENTS: &str = "a pooler in transaction mode must keep prepared statements \
    (PgBouncer 1.21 or newer with max_prepared_statements); session mode needs no setting";

/// Codes of errors that may pass by themselves, or in another session. Of a class that is not listed whole each code
/// stands alone. One that is missing here ends the owner.
const PASSING: [(&str, &str); 19] = [
    ("08", "the connection failed, or a pooler has none to the server just now: the whole class"),
    ("25006", "the server takes no writes: it is a standby, and another one is the primary or will be"),
    ("25P02", "an earlier statement of the transaction failed: a new session has no transaction"),
    ("25P03", "the transaction was idle for too long, as after a stop of this node: the session was ended"),
    ("25P04", "the transaction took too long: the session was ended"),
    ("40000", "the transaction was rolled back"),
    ("40001", "the transaction met another one"),
    ("40003", "whether the transaction was committed is not known: that is looked at"),
    ("40P01", "the transaction waited for another one that waited for it"),
    (
        "53",
        "memory, connections or another resource is used up: the whole class; a full disk has an error of its own",
    ),
    ("55000", "the database takes no connections while it is worked on"),
    ("55006", "what was to be changed is in use"),
    ("55P03", "a lock was not given in time"),
    ("57014", "the statement was ended, or took longer than the server allows"),
    ("57P01", "the server is shut down"),
    ("57P02", "a process of the server crashed, and it starts again"),
    ("57P03", "the server is starting, stopping or recovering"),
    ("57P05", "the session was idle for too long"),
    ("58030", "the machine could not read or write: another node would meet the same disk"),
];

/// Whether an error of this code may pass.
fn passes(code: &str) -> bool {
    PASSING.iter().any(|(passing, _)| code.starts_with(passing))
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
        let code = db.code().code();
        let hint = db.hint().or_else(|| OF_STATEMENTS.contains(&code).then_some(POOLER_KEEPS_STATEMENTS));
        let text = match hint {
            None => format!("{} ({code})", db.message()),
            Some(hint) => format!("{} ({code}); {hint}", db.message()),
        };
        if *db.code() == SqlState::DISK_FULL {
            Self::NoSpace(text)
        } else if passes(code) {
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

#[cfg(test)]
mod tests {
    use super::passes;

    #[test]
    fn errors_that_pass_by_themselves_are_told_from_those_that_do_not() {
        let pass = [
            "08000", "08001", "08003", "08004", "08006", "08007", "08P01", "25006", "25P02", "25P03",
            "25P04", "40000", "40001", "40003", "40P01", "53000", "53200", "53300", "53400", "55000",
            "55006", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "58030",
        ];
        for code in pass {
            assert!(passes(code), "{code}");
        }
        let stay = [
            // A broken rule of the tables, and a table or database that is gone.
            "23505", "40002", "42P01", "3D000", "57P04", // No such user, and no right.
            "28000", "28P01", "42501", // Damage.
            "58P01", "XX000", "XX001",
        ];
        for code in stay {
            assert!(!passes(code), "{code}");
        }
    }
}
