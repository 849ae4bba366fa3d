//! The PostgreSQL that is measured: its CPU, dead rows and sizes.

use std::fs;
use std::time::Duration;

use kew_log_pg::server::{PgServer, name_in};

use crate::budget::Fault;

/// What a sensible operator sets: enough memory, and vacuum that keeps up with a queue made by hand.
const SETTINGS: [&str; 5] = [
    "shared_buffers=1GB",
    "max_wal_size=2GB",
    "autovacuum_naptime=10s",
    "autovacuum_vacuum_cost_delay=0",
    "max_connections=300",
];
/// How often a count is taken again: a table may be dropped while rows are counted.
const COUNTS: usize = 5;

/// A server with one database.
pub struct Database {
    server: PgServer,
    pub url: String,
}

/// Rows that are dead and not yet vacuumed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Dead {
    /// Of Kew's journal and checkpoints.
    pub files: u64,
    /// Of Kew's other tables: shards, nodes, names of files.
    pub rest: u64,
    /// Of the queue made by hand.
    pub by_hand: u64,
}

impl Database {
    pub fn start() -> Result<Self, Fault> {
        let server = PgServer::start(&SETTINGS)?;
        let url = server.database()?;
        let database = Self { server, url };
        database.ask("CREATE EXTENSION pgstattuple")?;
        Ok(database)
    }

    /// The URL of one more empty database on the server.
    pub fn another(&self) -> Result<String, Fault> {
        Ok(self.server.database()?)
    }

    /// What statements print.
    pub fn ask(&self, statements: &str) -> Result<String, Fault> {
        self.ask_in(&self.url, statements)
    }

    /// What statements in the database of a URL print.
    pub fn ask_in(&self, url: &str, statements: &str) -> Result<String, Fault> {
        Ok(self.server.psql(name_in(url), statements)?)
    }

    /// Bytes of the server's write-ahead log so far.
    pub fn logged(&self) -> Result<u64, Fault> {
        Ok(self.ask("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")?.parse()?)
    }

    /// User and system time of all its processes so far, also of those that have ended.
    pub fn cpu(&self) -> Result<Duration, Fault> {
        let text = fs::read_to_string(self.server.data().join("postmaster.pid"))?;
        let postmaster: u32 = text.lines().next().unwrap_or_default().trim().parse()?;
        let mut all = on_cpu(postmaster) + ended_children(postmaster);
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if field(id, 1) == Some(postmaster.into()) {
                all += on_cpu(id);
            }
        }
        Ok(all)
    }

    /// What it took since then. A process that ended is counted in whole ticks, so in a short time it may be less than
    /// nothing: then it is a microsecond.
    pub fn cpu_since(&self, before: Duration) -> Result<Duration, Fault> {
        Ok(self.cpu()?.saturating_sub(before).max(Duration::from_micros(1)))
    }

    /// Dead rows, counted.
    pub fn dead(&self) -> Result<Dead, Fault> {
        let count = |tables: &str| -> Result<u64, Fault> {
            let text = format!(
                "SELECT coalesce(sum((pgstattuple(oid)).dead_tuple_count), 0) FROM pg_class
                WHERE relkind = 'r' AND {tables}"
            );
            let counted = (0..COUNTS).find_map(|_| self.ask(&text).ok());
            Ok(counted.ok_or("dead rows cannot be counted")?.parse()?)
        };
        Ok(Dead {
            files: count("relname ~ '^kew_(journal|slice)_'")?,
            rest: count("relname ~ '^kew_' AND relname !~ '^kew_(journal|slice)_'")?,
            by_hand: count("relname = 'by_hand'")?,
        })
    }

    /// Bytes of tables with names like this, with indexes and all.
    pub fn size(&self, pattern: &str) -> Result<u64, Fault> {
        let text = format!(
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
            WHERE relkind = 'r' AND relname ~ '{pattern}'"
        );
        Ok(self.ask(&text)?.parse()?)
    }
}

/// Time a living process was on a processor.
fn on_cpu(id: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).unwrap_or_default();
    let nanoseconds = text.split_whitespace().next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// The same of its children that have ended, in the system's ticks of 10 ms.
fn ended_children(id: u32) -> Duration {
    let ticks = field(id, 13).unwrap_or(0) + field(id, 14).unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

/// A field of its state, counted from the one after its name.
fn field(id: u32, at: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in brackets and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(at)?.parse().ok()
}
