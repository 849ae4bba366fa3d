//! Statements by which a shard moves from one database to another (`node/moving.rs`).
//!
//! What is written where the shard arrives names the epoch of the row there, which each attempt raises. So a statement
//! of an earlier attempt that is carried out late changes nothing. Each transaction commits synchronously.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Transaction};

use super::{Connection, OWN, SYNCED};
use crate::PgError;
use crate::database::Own;
use crate::isolation::read_committed;
use crate::map::shard_id;
use crate::schema;
use crate::tables::{Purpose, SYNCED_MODE, Table};

/// Files that are dropped in one transaction.
const DROPS: i64 = 4;

/// The row of a shard begins to arrive, for a new attempt of its owner. One that lies here stays.
const BEGIN: &str =
    "INSERT INTO kew_shard (id, epoch, arriving, moves, copied_by) VALUES ($1, $2::bigint + 1, true, $3, $2)
    ON CONFLICT (id) DO UPDATE SET epoch = greatest(kew_shard.epoch, $2) + 1, arriving = true, moves = $3,
        copied_by = $2, is_whole = false, moved_to = NULL, arrives_as = NULL, wanted = '', wanted_at = NULL,
        wanted_in = NULL
    WHERE (kew_shard.moved_to IS NOT NULL AND kew_shard.moves < $3)
        OR (kew_shard.arriving AND kew_shard.moves <= $3 AND coalesce(kew_shard.copied_by, 0) <= $2)
    RETURNING epoch";

/// Locks the row that arrives for share, if it is still of this attempt.
const IN_TIME: &str = "SELECT FROM kew_shard WHERE id = $1 AND epoch = $2 AND arriving FOR SHARE";

/// The one step by which the shard leaves, if that is still wanted. Its epoch is raised: nothing that its owner writes
/// late counts. Done a second time it writes too: its commit waits until the first one survives.
fn decide() -> String {
    format!(
        "WITH decided AS (
            UPDATE kew_shard SET node = '', wanted = '', wanted_at = NULL, wanted_in = NULL, epoch = epoch + 1,
                    moved_to = $4, arrives_as = $5
                FROM (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true)) AS commits
                WHERE id = $1 AND epoch = $2 AND node = $3 AND moved_to IS NULL AND NOT arriving
                    AND wanted_in = $4
                RETURNING id),
        again AS (
            UPDATE kew_shard SET arrives_as = $5
                FROM (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true)) AS commits
                WHERE id = $1 AND moved_to = $4 AND arrives_as = $5
                RETURNING id)
        SELECT EXISTS (SELECT FROM decided) OR EXISTS (SELECT FROM again)"
    )
}

/// The shard lies here from now on, kept for a node if one is named. All its files have to be here: a fail-over of this
/// database may have lost some since.
fn arrive() -> String {
    format!(
        "UPDATE kew_shard SET arriving = false, copied_by = NULL, is_whole = false, node = '', wanted = $3,
                wanted_at = CASE $3 WHEN '' THEN NULL ELSE clock_timestamp() END
            FROM (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true)) AS commits
            WHERE id = $1 AND epoch = $2 AND arriving AND is_whole"
    )
}

/// A fail-over has lost that the shard left: it lies in a database that it came to later. It leaves once more.
const LEAVE_AGAIN: &str = "UPDATE kew_shard SET node = '', wanted = '', wanted_at = NULL, wanted_in = NULL,
        epoch = epoch + 1, moved_to = $3, arrives_as = $4
    WHERE id = $1 AND moves = $2 AND moved_to IS NULL AND NOT arriving";

/// A shard whose files are being copied to a database, and the epoch of its row there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub shard: i32,
    pub epoch: i64,
}

/// A file as its row says.
pub(crate) struct FileRow {
    pub id: i64,
    pub name: String,
    pub length: i64,
    pub bytes: Option<Vec<u8>>,
}

/// Position, epoch and number of a row of a large file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(pub i64, pub i64, pub i64);

impl Key {
    /// Before all others.
    pub const FIRST: Self = Self(-1, -1, -1);
}

/// A row of a large file.
pub(crate) struct Copied {
    pub key: Key,
    pub frame: Vec<u8>,
}

/// Three columns of keys.
type Columns = (Vec<i64>, Vec<i64>, Vec<i64>);

fn columns(keys: impl IntoIterator<Item = Key>) -> Columns {
    let mut columns = Columns::default();
    for Key(pos, epoch, seq) in keys {
        columns.0.push(pos);
        columns.1.push(epoch);
        columns.2.push(seq);
    }
    columns
}

/// Begins a transaction of an attempt to copy a shard.
async fn begin(client: &mut Client, arrival: Arrival) -> Result<Transaction<'_>, PgError> {
    let transaction = read_committed(client).await?;
    transaction.query_one(SYNCED, &[]).await?;
    if transaction.query_opt(IN_TIME, &[&arrival.shard, &arrival.epoch]).await?.is_none() {
        return Err(PgError::Fenced { shard: arrival.shard, epoch: arrival.epoch });
    }
    Ok(transaction)
}

/// Drops some files of a shard, whatever they are called. True when nothing is left.
async fn drop_some(transaction: &Transaction<'_>, shard: i32) -> Result<bool, PgError> {
    // In no order: one that somebody reads keeps no others.
    let some = "DELETE FROM kew_file WHERE id IN
        (SELECT id FROM kew_file WHERE shard = $1 ORDER BY random() LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id";
    let rows = transaction.query(some, &[&shard, &DROPS]).await?;
    transaction.batch_execute(super::DROP_WAITS).await?;
    for row in &rows {
        for purpose in [Purpose::Journal, Purpose::Slices] {
            let drop = format!("DROP TABLE IF EXISTS {}", purpose.table_name(row.get(0)));
            transaction.batch_execute(&drop).await?;
        }
    }
    Ok(rows.is_empty())
}

/// What was asked of a table, unless that was dropped meanwhile.
fn unless_dropped<T>(asked: Result<T, tokio_postgres::Error>) -> Result<Option<T>, PgError> {
    match asked {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Connection {
    /// How often a shard was moved until it came here, if this node owns it.
    pub(crate) async fn moves_of(&self, own: Own, node: &str) -> Result<i32, PgError> {
        let text = "SELECT moves FROM kew_shard WHERE id = $1 AND epoch = $2 AND node = $3";
        let row = self.client.query_opt(text, &[&own.shard, &own.epoch, &node]).await?;
        row.map(|row| row.get(0)).ok_or(PgError::Fenced { shard: own.shard, epoch: own.epoch })
    }

    /// Notes that an operator wants a shard to be in a database, or that none does. False for one that lies elsewhere.
    pub(crate) async fn want_in(&self, shard: i32, database: Option<u16>) -> Result<bool, PgError> {
        let text = "UPDATE kew_shard SET wanted_in = $2 WHERE id = $1 AND moved_to IS NULL AND NOT arriving";
        let number = database.map(i32::from);
        Ok(self.client.execute(text, &[&shard, &number]).await? == 1)
    }

    /// The files of a shard that have a name, with the bytes of small ones.
    pub(crate) async fn files_with_names(&self, shard: i32) -> Result<Vec<FileRow>, PgError> {
        let text = "SELECT id, name, length, bytes FROM kew_file
            WHERE shard = $1 AND name <> '#' || id ORDER BY id";
        let rows = self.client.query(text, &[&shard]).await?;
        let file = |row: &tokio_postgres::Row| FileRow {
            id: row.get(0),
            name: row.get(1),
            length: row.get(2),
            bytes: row.get(3),
        };
        Ok(rows.iter().map(file).collect())
    }

    /// The first rows of a large file behind a key, this many at most, with their bytes' lengths. `None` where the file
    /// was dropped meanwhile.
    pub(crate) async fn keys(
        &self,
        table: &Table,
        after: Key,
        most: i64,
    ) -> Result<Option<Vec<(Key, i32)>>, PgError> {
        let text = format!(
            "SELECT pos, epoch, seq, octet_length(frame) FROM {}
            WHERE (pos, epoch, seq) > ($1, $2, $3) ORDER BY pos, epoch, seq LIMIT $4",
            table.name
        );
        let found = self.client.query(&text, &[&after.0, &after.1, &after.2, &most]).await;
        let key = |row: &tokio_postgres::Row| (Key(row.get(0), row.get(1), row.get(2)), row.get(3));
        Ok(unless_dropped(found)?.map(|rows| rows.iter().map(key).collect()))
    }

    /// Rows of a large file by their keys. `None` where the file was dropped meanwhile.
    pub(crate) async fn rows(&self, table: &Table, keys: &[Key]) -> Result<Option<Vec<Copied>>, PgError> {
        let text = format!(
            "SELECT pos, epoch, seq, frame FROM {} JOIN
                unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS keys (pos, epoch, seq)
                USING (pos, epoch, seq)",
            table.name
        );
        let (positions, epochs, numbers) = columns(keys.iter().copied());
        let found = self.client.query(&text, &[&positions, &epochs, &numbers]).await;
        let copied = |row: &tokio_postgres::Row| Copied {
            key: Key(row.get(0), row.get(1), row.get(2)),
            frame: row.get(3),
        };
        Ok(unless_dropped(found)?.map(|rows| rows.iter().map(copied).collect()))
    }

    /// The owner of a shard gives it to another database, where all of it is. May be done twice.
    pub(crate) async fn decide(
        &self,
        own: Own,
        node: &str,
        (to, epoch): (u16, i64),
    ) -> Result<bool, PgError> {
        let to = i32::from(to);
        let row = self.client.query_one(&decide(), &[&own.shard, &own.epoch, &node, &to, &epoch]).await?;
        Ok(row.get(0))
    }

    /// A shard that was given to this database lies here. May be done twice.
    pub(crate) async fn arrive(&self, arrival: Arrival, keep_for: &str) -> Result<(), PgError> {
        let Arrival { shard, epoch } = arrival;
        if self.client.execute(&arrive(), &[&shard, &epoch, &keep_for]).await? == 1 {
            return Ok(());
        }
        let lies = "SELECT FROM kew_shard WHERE id = $1 AND epoch >= $2 AND NOT arriving";
        match self.client.query_opt(lies, &[&shard, &epoch]).await? {
            Some(_) => Ok(()),
            None => Err(PgError::NotWhole { shard: shard_id(shard) }),
        }
    }

    /// Has a shard leave that lies in another database too, where it came to later.
    pub(crate) async fn leave_again(
        &mut self,
        shard: i32,
        moves: i32,
        (to, epoch): (u16, i64),
    ) -> Result<(), PgError> {
        let transaction = read_committed(&mut self.client).await?;
        transaction.query_one(SYNCED, &[]).await?;
        transaction.execute(LEAVE_AGAIN, &[&shard, &moves, &i32::from(to), &epoch]).await?;
        Ok(transaction.commit().await?)
    }

    /// Begins to copy a shard here, as its owner in an epoch.
    pub(crate) async fn begin_arrival(&mut self, own: Own, moves: i32) -> Result<Arrival, PgError> {
        let transaction = read_committed(&mut self.client).await?;
        transaction.query_one(SYNCED, &[]).await?;
        let begun = transaction.query_opt(BEGIN, &[&own.shard, &own.epoch, &moves]).await?;
        let begun = begun.ok_or(PgError::Fenced { shard: own.shard, epoch: own.epoch })?;
        schema::refuse_programs_without_moves(transaction.client()).await?;
        transaction.commit().await?;
        Ok(Arrival { shard: own.shard, epoch: begun.get(0) })
    }

    /// Drops some of what was copied. True when nothing is left.
    pub(crate) async fn drop_arrived(&mut self, arrival: Arrival) -> Result<bool, PgError> {
        let transaction = begin(&mut self.client, arrival).await?;
        let part = "UPDATE kew_shard SET is_whole = false WHERE id = $1 AND is_whole";
        transaction.execute(part, &[&arrival.shard]).await?;
        let is_done = drop_some(&transaction, arrival.shard).await?;
        transaction.commit().await?;
        Ok(is_done)
    }

    /// Drops some of the files of a shard that lies elsewhere. True when nothing is left.
    pub(crate) async fn drop_of_moved(&mut self, shard: i32) -> Result<bool, PgError> {
        let transaction = read_committed(&mut self.client).await?;
        let text = "SELECT FROM kew_shard WHERE id = $1 AND moved_to IS NOT NULL AND NOT arriving FOR SHARE";
        if transaction.query_opt(text, &[&shard]).await?.is_none() {
            return Ok(true);
        }
        let is_done = drop_some(&transaction, shard).await?;
        transaction.commit().await?;
        Ok(is_done)
    }

    /// Makes a large file, without a name.
    pub(crate) async fn make_table(&mut self, arrival: Arrival, table: &Table) -> Result<(), PgError> {
        let transaction = begin(&mut self.client, arrival).await?;
        let insert = "INSERT INTO kew_file (id, shard, name) VALUES ($1, $2, '#' || $1::bigint) ON CONFLICT DO NOTHING";
        transaction.execute(insert, &[&table.id, &arrival.shard]).await?;
        transaction.batch_execute(&table.creation()).await?;
        Ok(transaction.commit().await?)
    }

    /// Writes rows of a large file that are not there, and deletes others.
    pub(crate) async fn put_rows(
        &mut self,
        arrival: Arrival,
        table: &Table,
        put: Vec<Copied>,
        delete: Vec<Key>,
    ) -> Result<(), PgError> {
        let transaction = begin(&mut self.client, arrival).await?;
        if !delete.is_empty() {
            let (positions, epochs, numbers) = columns(delete);
            let text = format!(
                "DELETE FROM {} AS gone USING
                    unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS keys (pos, epoch, seq)
                WHERE (gone.pos, gone.epoch, gone.seq) = (keys.pos, keys.epoch, keys.seq)",
                table.name
            );
            transaction.execute(&text, &[&positions, &epochs, &numbers]).await?;
        }
        if !put.is_empty() {
            let (keys, frames): (Vec<Key>, Vec<Vec<u8>>) =
                put.into_iter().map(|copied| (copied.key, copied.frame)).unzip();
            let (positions, epochs, numbers) = columns(keys);
            let text = format!(
                "INSERT INTO {} (shard, pos, epoch, seq, frame)
                SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
                ON CONFLICT DO NOTHING",
                table.name
            );
            transaction.execute(&text, &[&arrival.shard, &positions, &epochs, &numbers, &frames]).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// Gives all files their names and small ones their bytes; others are to be dropped. The copy is whole then.
    pub(crate) async fn name_files(&mut self, arrival: Arrival, files: Vec<FileRow>) -> Result<(), PgError> {
        let transaction = begin(&mut self.client, arrival).await?;
        // What is not among them keeps its number for a name, and is dropped by the next owner.
        let unnamed = "UPDATE kew_file SET name = '#' || id WHERE shard = $1";
        transaction.execute(unnamed, &[&arrival.shard]).await?;
        let (mut ids, mut names, mut lengths, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for file in files {
            ids.push(file.id);
            names.push(file.name);
            lengths.push(file.length);
            bytes.push(file.bytes);
        }
        let insert = "INSERT INTO kew_file (id, shard, name, length, bytes)
            SELECT id, $1, name, length, bytes
            FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) AS files (id, name, length, bytes)
            ON CONFLICT (id) DO UPDATE
                SET name = excluded.name, length = excluded.length, bytes = excluded.bytes";
        transaction.execute(insert, &[&arrival.shard, &ids, &names, &lengths, &bytes]).await?;
        let whole = "UPDATE kew_shard SET is_whole = true WHERE id = $1";
        transaction.execute(whole, &[&arrival.shard]).await?;
        Ok(transaction.commit().await?)
    }

    /// Refuses programs from before shards moved, where a shard is about to leave.
    pub(crate) async fn refuse_programs_without_moves(&mut self, own: Own) -> Result<(), PgError> {
        let transaction = read_committed(&mut self.client).await?;
        if transaction.query_opt(OWN, &[&own.shard, &own.epoch]).await?.is_none() {
            return Err(PgError::Fenced { shard: own.shard, epoch: own.epoch });
        }
        schema::refuse_programs_without_moves(transaction.client()).await?;
        Ok(transaction.commit().await?)
    }
}
