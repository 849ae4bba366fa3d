//! A shard's log in PostgreSQL.
//!
//! One node at a time owns a shard: it takes the shard by raising its epoch ([`Tenure`]), and every write names the
//! epoch, so an old owner writes nothing. The store above is the one that works on a directory; here stands the
//! contract it works on ([`kew_store_log::Disk`]), kept in tables ([`PgDisk`]): batches of the journal are appended
//! with one statement and one round trip each (`lane/`), and nothing is updated but the rows of shards, nodes, and
//! small files. All replication and fail-over is PostgreSQL's.
//!
//! A store has one or more shards, each with an epoch of its own, in one database or spread over several
//! (`several.rs`). A node is a member of the store ([`PgNode`]): its row says that it lives, it reads which nodes and
//! owners there are ([`Map`]), and takes shards and gives them up.
//!
//! SQL stands in `postgres/`, `tables.rs` and `schema.rs` only, below the contract of `database.rs`. Tests put a
//! simulated database there (`simulated/`).
//!
//! First to read: `migrations/`, `database.rs`, `node/mod.rs`, then `lane/mod.rs`.

mod database;
mod driver;
mod ending;
mod error;
mod hosts;
mod isolation;
mod lane;
mod look;
#[cfg(feature = "simulated")]
mod machine;
mod map;
mod node;
mod open;
#[cfg(feature = "simulated")]
pub mod planted;
#[cfg(not(feature = "simulated"))]
mod planted;
mod pool;
mod postgres;
mod schema;
#[cfg(feature = "server")]
pub mod server;
mod several;
#[cfg(feature = "simulated")]
pub mod simulated;
mod steady;
mod store;
mod tables;
mod tenure;
mod tls;
mod urls;
mod warnings;

pub use database::PROMISED;
pub use ending::Ending;
pub use error::PgError;
pub use look::{Look, look};
pub use map::{DatabasePlace, Founding, Map, Membership, Node, PeerSecret, SHARDS_OF_A_NEW_STORE, ShardRow};
pub use node::{IsWanted, NAMES_MAX, PgDisk, PgMove, PgNode, Undropped};
#[cfg(feature = "server")]
pub use open::own_for;
pub use open::{Joined, Ready, Waiting, create, join, node_id, own, own_all, wait_to_own};
pub use store::PgStore;
pub use tenure::{TENURE, Tenure};
pub use urls::Urls;
