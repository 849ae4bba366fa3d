//! The table that holds the bytes of one large file: a row for each write, and nothing is ever updated.

use std::sync::Arc;

use crate::planted::Planted;

/// What a table is for, which says how it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Rows follow one another and never overlap.
    Journal,
    /// A later row may cover part of an earlier one.
    Slices,
}

impl Purpose {
    /// The table's name.
    pub fn table_name(self, id: i64) -> String {
        match self {
            Self::Journal => format!("kew_journal_{id}"),
            Self::Slices => format!("kew_slice_{id}"),
        }
    }
}

/// One table.
#[derive(Clone)]
pub(crate) struct Table {
    pub id: i64,
    /// For the simulated database, which knows no statements.
    #[cfg_attr(not(feature = "simulated"), allow(dead_code, reason = "PostgreSQL reads by a statement"))]
    pub purpose: Purpose,
    pub name: String,
    pub insert: Arc<str>,
    pub insert_if_missing: Arc<str>,
    pub read: Arc<str>,
}

/// How a synchronous commit is made, in SQL: as the database's settings say where they ask for more than `on`.
pub(crate) const SYNCED_MODE: &str = "CASE WHEN current_setting('synchronous_commit') = 'remote_apply'
    THEN 'remote_apply' ELSE 'on' END";

impl Table {
    pub fn new(id: i64, purpose: Purpose) -> Self {
        let name = purpose.table_name(id);
        let lock = if Planted::KeyShare.is_there() { "KEY SHARE" } else { "SHARE" };
        // The commit's mode is set for the shard's row, before that is locked: as a sub-select that is joined it would
        // be one more node of the plan.
        let insert = format!(
            "INSERT INTO {name} (shard, pos, seq, epoch, frame)
            SELECT $1::int, $2::bigint, $3::bigint, $4::bigint, $5::bytea
            FROM kew_shard WHERE id = $1::int AND epoch = $4::bigint AND set_config('synchronous_commit',
                CASE WHEN $6::text = 'on' THEN {SYNCED_MODE} ELSE $6::text END, true) IS NOT NULL
            FOR {lock} OF kew_shard"
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
            purpose,
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
