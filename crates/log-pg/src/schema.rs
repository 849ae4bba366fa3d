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
use crate::isolation::read_committed;
use crate::map::{DatabasePlace, Founding, PeerSecret};

/// The lock that a migrating node holds: "kew" and "migr" in letters.
const LOCK: i64 = 0x6b65_776d_6967_7200;

/// One step of the tables.
struct Migration {
    text: &'static str,
    /// A program that knows this many migrations works with the tables behind this one.
    compatible_from: i32,
}

/// What the database is brought to, in order. A migration that was released is never changed.
const MIGRATIONS: [Migration; 5] = [
    Migration { text: include_str!("../migrations/0001_files.sql"), compatible_from: 1 },
    Migration { text: include_str!("../migrations/0002_shards.sql"), compatible_from: 2 },
    // Those before it do not read what it brings.
    Migration { text: include_str!("../migrations/0003_compatible.sql"), compatible_from: 3 },
    // Those before it know stores in one database. They are refused where there are several.
    Migration { text: include_str!("../migrations/0004_databases.sql"), compatible_from: 3 },
    // Those before it know shards that stay where they are. They are refused where one was ever moved.
    Migration { text: include_str!("../migrations/0005_moves.sql"), compatible_from: 3 },
];

/// The migration that brought stores of several databases.
const OF_SEVERAL: i32 = 4;
/// The migration that brought shards that move.
const OF_MOVES: i32 = 5;

/// How many this program knows.
const KNOWN: i32 = MIGRATIONS.len() as i32;

/// What a database that holds no store is made into.
#[derive(Clone)]
pub(crate) struct Making {
    pub founding: Founding,
    pub place: DatabasePlace,
    /// Where all databases of the store are, without passwords: for the first of several.
    pub urls: Vec<String>,
}

impl Making {
    /// The only database of a store.
    pub fn only(founding: Founding) -> Self {
        Self { founding, place: DatabasePlace::ONLY, urls: Vec::new() }
    }
}

/// What a database says of its store.
#[derive(Clone, Copy)]
pub(crate) struct Standing {
    pub founding: Founding,
    pub place: DatabasePlace,
}

/// Brings the database to this program's version, in one transaction: the lock ends with it, also behind a pooler. One
/// that holds no store gets one, or is refused where none is to be made; a store of an older version has one shard.
/// Answers what the store was made with.
pub(crate) async fn migrate(client: &mut Client, making: Option<&Making>) -> Result<Standing, PgError> {
    let transaction = read_committed(client).await?;
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    if making.is_none() && !has_tables(transaction.client()).await? {
        return Err(PgError::NoStore);
    }
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
    if let Some(making) = making.filter(|_| applied < KNOWN) {
        let founding = making.founding;
        let older = Making::only(Founding { shards: ShardCount::ONE, ..founding });
        found(transaction.client(), if applied == 0 { making } else { &older }).await?;
    }
    let standing = standing(transaction.client()).await?;
    transaction.commit().await?;
    Ok(standing)
}

/// Notes what the store is made with, unless that is known, and makes the rows of its shards that lie here.
async fn found(client: &Client, making: &Making) -> Result<(), PgError> {
    let Making { founding, place, urls } = making;
    let shards = i32::from(founding.shards.get());
    let (secret, mark): (&[u8], &[u8]) = (&founding.secret.0, &founding.secret.mark());
    let (number, databases) = (i32::from(place.number), i32::from(place.of));
    let insert = "INSERT INTO kew_store (shards, secret, mark, number, databases) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    client.execute(insert, &[&shards, &secret, &mark, &number, &databases]).await?;
    let rows = "INSERT INTO kew_shard (id)
        SELECT shard FROM kew_store, generate_series(number, shards - 1, databases) AS its (shard)
        ON CONFLICT DO NOTHING";
    client.execute(rows, &[]).await?;
    if place.of > 1 {
        // The first migration has made the row of shard 0.
        let other = "DELETE FROM kew_shard USING kew_store WHERE kew_shard.id % databases <> number";
        client.execute(other, &[]).await?;
        let compatible = "UPDATE kew_migration SET compatible_from = $1 WHERE number = $1";
        client.execute(compatible, &[&OF_SEVERAL]).await?;
    }
    note_urls(client, urls).await
}

/// Refuses programs from before shards moved, from now on.
pub(crate) async fn refuse_programs_without_moves(client: &Client) -> Result<(), PgError> {
    let compatible =
        "UPDATE kew_migration SET compatible_from = $1 WHERE number = $1 AND compatible_from < $1";
    client.execute(compatible, &[&OF_MOVES]).await?;
    Ok(())
}

/// Notes where the databases of the store are.
pub(crate) async fn note_urls(client: &Client, urls: &[String]) -> Result<(), PgError> {
    for (number, url) in (0_i32..).zip(urls) {
        let note = "INSERT INTO kew_database (number, url) VALUES ($1, $2)
            ON CONFLICT (number) DO UPDATE SET url = excluded.url";
        client.execute(note, &[&number, url]).await?;
    }
    Ok(())
}

/// Where the databases of a store are, as its first one says; none for a store in one database.
pub(crate) async fn urls(client: &Client) -> Result<Vec<String>, PgError> {
    let rows = client.query("SELECT url FROM kew_database ORDER BY number", &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Whether there are tables of a store, of whatever version.
pub(crate) async fn has_tables(client: &Client) -> Result<bool, PgError> {
    let there = client.query_one("SELECT to_regclass('kew_migration') IS NOT NULL", &[]).await?;
    Ok(there.get(0))
}

/// Refuses a database that holds no store, or one this program cannot read. Changes nothing.
pub(crate) async fn verify(client: &Client) -> Result<(), PgError> {
    if !has_tables(client).await? {
        return Err(PgError::NoStore);
    }
    check(client).await?;
    match newest(client).await? {
        found if found < KNOWN => Err(PgError::OlderSchema { found }),
        _ => Ok(()),
    }
}

/// Whether tables that are there are of a version that says which database of its store one is; refuses those that this
/// program cannot read.
pub(crate) async fn tells_databases(client: &Client) -> Result<bool, PgError> {
    check(client).await?;
    Ok(newest(client).await? >= OF_SEVERAL)
}

/// What a store was made with, and which of its databases this is.
pub(crate) async fn standing(client: &Client) -> Result<Standing, PgError> {
    let unknown = || PgError::Database("the row of kew_store is not one that Kew writes".to_owned());
    let row = client.query_opt("SELECT shards, secret, number, databases FROM kew_store", &[]).await?;
    let row = row.ok_or_else(unknown)?;
    let (shards, secret): (i32, &[u8]) = (row.get(0), row.get(1));
    let (number, of): (i32, i32) = (row.get(2), row.get(3));
    let shards = u16::try_from(shards).ok().and_then(ShardCount::new);
    let secret = <[u8; 32]>::try_from(secret).ok();
    let place = u16::try_from(number).ok().zip(u16::try_from(of).ok());
    let (shards, secret) = shards.zip(secret).ok_or_else(unknown)?;
    let (number, of) = place.ok_or_else(unknown)?;
    let founding = Founding { shards, secret: PeerSecret(secret) };
    Ok(Standing { founding, place: DatabasePlace { number, of } })
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
