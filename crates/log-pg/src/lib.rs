//! A shard's log in PostgreSQL.
//!
//! One node at a time owns a shard: it takes the shard by raising its epoch ([`Tenure`]), and every write names the
//! epoch, so an old owner writes nothing. The store above is the one that works on a directory; here stands the
//! contract it works on ([`kew_store_log::Disk`]), kept in tables ([`PgDisk`]): batches of the journal are appended
//! with one statement and one round trip each (`lane.rs`), and nothing is updated but the rows of shards, nodes, and
//! small files. All replication and fail-over is PostgreSQL's.
//!
//! First to read: `migrations/0001_files.sql`, then `lane.rs`.

mod error;
mod files;
mod lane;
mod open;
mod pool;
mod schema;
#[cfg(feature = "server")]
pub mod server;
mod store;
mod tables;
mod tenure;
mod tls;

pub use error::PgError;
pub use files::PgDisk;
pub use open::{Ready, Waiting, look, node_id, own, wait_to_own};
pub use store::PgStore;
pub use tenure::{TENURE, Tenure};
