//! The tables of a store in PostgreSQL, made and changed by embedded migrations.
//!
//! Migrations are ordered and checksummed. Those that are missing run in one transaction, under a lock that lets one
//! node at a time migrate. A newer Kew may have made migrations that this program does not know. Each says from which
//! program on it is no hindrance: what that program does works with it too. So nodes of two adjacent versions run
//! together; a program that is older is refused.

use kew_core::ShardCount;
use sha2::{Digest, Sha256};
use tokio_postgres::Client;

use crate::PgError;
use crate::map::{Founding, PeerSecret};

/// The lock that a migrating node holds: "kew" and "migr" in letters.
const LOCK: i64 = 0x6b65_776d_6967_7200;

/// One step of the tables.
struct Migration {
    text: &'static str,
    /// A program that knows this many migrations works with the tables behind this one.
    compatible_from: i32,
}

/// What the database is brought to, in order. A migration that was released is never changed.
const MIGRATIONS: [Migration; 3] = [
    Migration { text: include_str!("../migrations/0001_files.sql"), compatible_from: 1 },
    Migration { text: include_str!("../migrations/0002_shards.sql"), compatible_from: 2 },
    // Those before it do not read what it brings.
    Migration { text: include_str!("../migrations/0003_compatible.sql"), compatible_from: 3 },
];

/// How many this program knows.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Brings the database to this program's version, in one transaction: the lock ends with it, also behind a pooler. One
/// that holds no store gets one; a store of an older version has one shard. Answers what the store was made with.
pub(crate) async fn migrate(client: &mut Client, founding: Founding) -> Result<Founding, PgError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    transaction
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS kew_migration (
                number int PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
        )
        .await?;
    check(transaction.client()).await?;
    let applied = newest(transaction.client()).await?;
    if applied < KNOWN {
        // Statements of an owner that lives would queue behind one that waits for a lock of tables they use.
        transaction.batch_execute("SET LOCAL lock_timeout = '500ms'").await?;
    }
    let missing = || (1..).zip(MIGRATIONS).filter(|(number, _)| *number > applied);
    for (_, migration) in missing() {
        transaction.batch_execute(migration.text).await?;
    }
    // The last of them brings a column of these rows.
    for (number, migration) in missing() {
        let checksum = checksum(migration.text);
        let insert = "INSERT INTO kew_migration (number, checksum, compatible_from) VALUES ($1, $2, $3)";
        transaction.execute(insert, &[&number, &checksum, &migration.compatible_from]).await?;
    }
    // A store that is there as it should be is not written to: a lock of its tables must not hold an opening up.
    if applied < KNOWN {
        let shards = if applied == 0 { founding.shards } else { ShardCount::ONE };
        found(transaction.client(), Founding { shards, ..founding }).await?;
    }
    let founding = self::founding(transaction.client()).await?;
    transaction.commit().await?;
    Ok(founding)
}

/// Notes what the store is made with, unless that is known, and makes the rows of its shards.
async fn found(client: &Client, founding: Founding) -> Result<(), PgError> {
    let shards = i32::from(founding.shards.get());
    let secret: &[u8] = &founding.secret.0;
    let insert = "INSERT INTO kew_store (shards, secret) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    client.execute(insert, &[&shards, &secret]).await?;
    let rows = "INSERT INTO kew_shard (id) SELECT generate_series(0, shards - 1) FROM kew_store
        ON CONFLICT DO NOTHING";
    client.execute(rows, &[]).await?;
    Ok(())
}

/// Refuses a database that holds no store, or one this program cannot read. Changes nothing.
pub(crate) async fn verify(client: &Client) -> Result<(), PgError> {
    let there = client.query_one("SELECT to_regclass('kew_migration') IS NOT NULL", &[]).await?;
    if !there.get::<_, bool>(0) {
        return Err(PgError::NoStore);
    }
    check(client).await?;
    match newest(client).await? {
        found if found < KNOWN => Err(PgError::OlderSchema { found }),
        _ => Ok(()),
    }
}

/// What a store was made with.
pub(crate) async fn founding(client: &Client) -> Result<Founding, PgError> {
    let row = client.query_one("SELECT shards, secret FROM kew_store", &[]).await?;
    let (shards, secret): (i32, &[u8]) = (row.get(0), row.get(1));
    let shards = u16::try_from(shards).ok().and_then(ShardCount::new);
    let secret = <[u8; 32]>::try_from(secret).ok();
    let founding = shards.zip(secret).map(|(shards, secret)| Founding { shards, secret: PeerSecret(secret) });
    founding.ok_or_else(|| PgError::Database("the row of kew_store is not one that Kew writes".to_owned()))
}

async fn newest(client: &Client) -> Result<i32, PgError> {
    let row = client.query_one("SELECT coalesce(max(number), 0) FROM kew_migration", &[]).await?;
    Ok(row.get(0))
}

async fn check(client: &Client) -> Result<(), PgError> {
    // As JSON: tables of before have no such column.
    let text = "SELECT number, checksum, (to_jsonb(kew_migration) ->> 'compatible_from')::int
        FROM kew_migration ORDER BY number";
    for row in client.query(text, &[]).await? {
        let (number, found, from): (i32, String, Option<i32>) = (row.get(0), row.get(1), row.get(2));
        let known = usize::try_from(number - 1).ok().and_then(|at| MIGRATIONS.get(at));
        let Some(migration) = known else {
            if from.is_some_and(|from| from <= KNOWN) {
                continue;
            }
            return Err(PgError::NewerSchema { found: number, known: KNOWN });
        };
        if checksum(migration.text) != found {
            return Err(PgError::ChangedMigration { number });
        }
    }
    Ok(())
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
