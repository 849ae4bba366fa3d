//! Why a server did not start, in words for the operator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kew_http::TlsError;
use kew_store_log::LogError;
use thiserror::Error;

use crate::config::PgUrl;
use crate::listen::TokenKeysError;

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error("cannot use the directory {}: {cause}", path.display())]
    Directory {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        cause: std::io::Error,
    },
    /// Another server holds the directory.
    #[error("{} is in use by {holder}: two servers cannot share a directory; stop that one, or choose another with --store", path.display())]
    Locked {
        /// Which directory.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// The store cannot be opened.
    #[error("cannot open the store in {}: {cause}{}", path.display(), advice(path, cause))]
    Store {
        /// Which directory.
        path: PathBuf,
        /// Why not.
        cause: LogError,
    },
    /// The directory holds no store, but something else.
    #[error(transparent)]
    Occupied(#[from] Occupied),
    /// The directory holds a store of another number of shards.
    #[error(
        "the store in {} has {has} {}, and --shards says {wanted}: leave --shards out to serve it as it is; to convert it, stop its server, write `kew store --store {} export --to FILE`, then `kew store --store NEW import --shards {wanted} --from FILE`, and serve NEW",
        path.display(), shards(*has), path.display()
    )]
    OtherShards {
        /// Which directory.
        path: PathBuf,
        /// How many it has.
        has: u16,
        /// How many were asked for.
        wanted: u16,
    },
    /// The store has several shards, and there is one virtual clock.
    #[error("the store in {} has {has} shards, each with a clock of its own: serve it with --clock system", path.display())]
    VirtualClock {
        /// Which directory.
        path: PathBuf,
        /// How many it has.
        has: u16,
    },
    /// The shards do not go together.
    #[error("cannot serve the shards of {store}: {cause}")]
    Shards {
        /// Which store.
        store: String,
        /// Why not.
        cause: String,
    },
    /// The store in PostgreSQL cannot be used.
    #[error("cannot use the store in {url}: {cause}")]
    Postgres {
        /// The database.
        url: PgUrl,
        /// Why not.
        cause: kew_log_pg::PgError,
    },
    /// The store in PostgreSQL cannot be opened.
    #[error("cannot open the store in {url}: {cause}")]
    PostgresStore {
        /// The database.
        url: PgUrl,
        /// Why not.
        cause: LogError,
    },
    /// The address cannot be bound.
    #[error("cannot serve at {address}: {cause}; choose another address with --{name}")]
    Bind {
        /// The flag of its listener.
        name: &'static str,
        /// Which address.
        address: SocketAddr,
        /// Why not.
        cause: std::io::Error,
    },
    /// Too few files may be open.
    #[error(
        "at most {limit} files may be open, and this server needs {needed}: raise the limit (ulimit -n {needed}, or LimitNOFILE= of systemd); 1024 or more are advised"
    )]
    OpenFiles {
        /// How many may be.
        limit: u64,
        /// How many must be.
        needed: u64,
    },
    /// The access keys cannot be used.
    #[error(transparent)]
    Keys(#[from] kew_sqs::KeyError),
    /// The keys of bearer tokens cannot be used.
    #[error(transparent)]
    TokenKeys(#[from] TokenKeysError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Push consumers or Workers cannot be run.
    #[error("{0}")]
    Consumers(String),
    /// The machine refused something else.
    #[error("{doing}: {cause}")]
    Machine {
        /// What was being done.
        doing: &'static str,
        /// Why not.
        cause: std::io::Error,
    },
}

/// A directory that holds no store, but something else.
#[derive(Debug, Error)]
#[error(
    "{} holds no store, and is not empty: it holds {what}. A new store needs a directory of its own: name one that is empty or does not exist yet; nothing was changed", path.display()
)]
pub struct Occupied {
    /// Which directory.
    pub path: PathBuf,
    /// The names of some of what lies there.
    pub what: String,
}

fn shards(count: u16) -> &'static str {
    if count == 1 { "shard" } else { "shards" }
}

/// What to do about a store that is damaged or misses a file.
fn advice(path: &Path, cause: &LogError) -> String {
    match cause {
        LogError::Damage { .. } => format!(
            "; nothing was changed: `kew store check --store {}` lists all that is wrong; put a missing file back, or start on a backup",
            path.display()
        ),
        _ => String::new(),
    }
}
