//! The table that holds the bytes of one large file: a row for each write, and nothing is ever updated.

use std::sync::Arc;

use tokio_postgres::Client;

use crate::PgError;
use crate::pool::Connection;

/// What a table is for, which says how it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Rows follow one another and never overlap.
    Journal,
    /// A later row may cover part of an earlier one.
    Slices,
}

/// One table.
pub(crate) struct Table {
    pub id: i64,
    pub name: String,
    pub insert: Arc<str>,
    pub insert_if_missing: Arc<str>,
    read: Arc<str>,
}

impl Table {
    pub fn new(id: i64, purpose: Purpose) -> Self {
        let name = match purpose {
            Purpose::Journal => format!("kew_journal_{id}"),
            Purpose::Slices => format!("kew_slice_{id}"),
        };
        let insert = format!(
            "INSERT INTO {name} (shard, pos, seq, epoch, frame)
            SELECT $1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea
            FROM kew_shard, (SELECT set_config('synchronous_commit', $6::text, true)) AS commits
            WHERE id = $1::int AND epoch = $4::bigint FOR SHARE OF kew_shard"
        );
        let insert_if_missing = format!("{insert} ON CONFLICT DO NOTHING");
        // The row that holds an offset is the last one that begins at or before it; only slices are written twice.
        let first = match purpose {
            Purpose::Journal => format!("pos >= coalesce((SELECT max(pos) FROM {name} WHERE pos <= $1), 0)"),
            Purpose::Slices => "pos + octet_length(frame) > $1".to_owned(),
        };
        let read = format!(
            "SELECT greatest(pos, $1), substring(frame FROM greatest($1 - pos, 0)::int + 1
                FOR ($2 - greatest(pos, $1))::int) FROM {name}
            WHERE pos < $2 AND {first} ORDER BY epoch, seq"
        );
        Self {
            id,
            name,
            insert: insert.into(),
            insert_if_missing: insert_if_missing.into(),
            read: read.into(),
        }
    }

    /// What makes it.
    pub fn creation(&self) -> String {
        let name = &self.name;
        format!(
            "CREATE TABLE IF NOT EXISTS {name} (shard int NOT NULL, pos bigint NOT NULL, seq bigint NOT NULL,
                epoch bigint NOT NULL, frame bytea NOT NULL, PRIMARY KEY (pos, epoch, seq))
                WITH (autovacuum_enabled = off, toast.autovacuum_enabled = off);
            ALTER TABLE {name} ALTER COLUMN frame SET STORAGE EXTERNAL;"
        )
    }

    /// Reads a range of the file into a buffer. What no row holds is left as it is.
    pub async fn read(
        &self,
        connection: &mut Connection,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), PgError> {
        let from = i64::try_from(offset).unwrap_or(i64::MAX);
        let to = from.saturating_add(i64::try_from(buffer.len()).unwrap_or(i64::MAX));
        let statement = connection.statement(&self.read).await?;
        for row in connection.client.query(&statement, &[&from, &to]).await? {
            let (pos, bytes): (i64, &[u8]) = (row.get(0), row.get(1));
            overlay(buffer, offset, u64::try_from(pos).unwrap_or(0), bytes);
        }
        Ok(())
    }

    /// Forgets what was prepared for it.
    pub fn forget(&self, connection: &mut Connection) {
        connection.forget(&self.read);
    }

    /// Whether a row is there.
    pub async fn has(&self, client: &Client, pos: u64, epoch: i64, seq: i64) -> Result<bool, PgError> {
        let text = format!("SELECT 1 FROM {} WHERE pos = $1 AND epoch = $2 AND seq = $3", self.name);
        let pos = i64::try_from(pos).unwrap_or(i64::MAX);
        Ok(client.query_opt(&text, &[&pos, &epoch, &seq]).await?.is_some())
    }
}

/// Copies a piece that begins at `pos` over a buffer that begins at `offset`, as far as they overlap.
pub(crate) fn overlay(buffer: &mut [u8], offset: u64, pos: u64, bytes: &[u8]) {
    let end = offset + buffer.len() as u64;
    let (from, to) = (pos.max(offset), (pos + bytes.len() as u64).min(end));
    if from < to {
        let piece = &bytes[(from - pos) as usize..(to - pos) as usize];
        buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_covers_what_it_overlaps_and_nothing_else() {
        for (pos, bytes, expected) in [
            (10, "abcd", "abcd"),
            (8, "xxab", "ab.."),
            (12, "abxx", "..ab"),
            (8, "xxabcdxx", "abcd"),
            (11, "b", ".b.."),
            (4, "xxxx", "...."),
            (14, "x", "...."),
        ] {
            let mut buffer = *b"....";
            overlay(&mut buffer, 10, pos, bytes.as_bytes());
            assert_eq!(buffer, expected.as_bytes(), "{pos} {bytes}");
        }
    }
}
