//! The contract of a database on PostgreSQL: connections, and the statements of each call.
//!
//! A statement that decides who owns a shard, or that writes as its owner, says itself how it commits: what the
//! database's settings say about `synchronous_commit` does not count, unless it is `remote_apply`, which asks for more.

mod afar;
mod moves;
mod names;
mod shards;

pub(crate) use moves::{Arrival, FileRow, Key};
pub(crate) use shards::{Lying, lying};

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use kew_core::QueueKey;
use tokio::task::AbortHandle;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Statement, Transaction};

use crate::PgError;
use crate::database::{
    Asked, Change, Claimant, Database, FoundFile, IfThere, Naming, Own, Placed, Renewed, Row, RowKey,
    Session, Taking, no_file,
};
use crate::hosts::Hosts;
use crate::isolation::{READ_COMMITTED, read_committed};
use crate::map::Node;
use crate::tables::{Purpose, Table, overlay};
use crate::tls::Tls;

/// How long a host may take until its session can be used, if the URL does not say.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent bytes may stay unacknowledged before the connection counts as broken, if the URL does not say.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long dropping a table may wait for those who read it; after that it is dropped later.
const DROP_WAITS: &str = "SET LOCAL lock_timeout = '500ms'";

/// A server whose client is gone ends a statement of it that waits for a lock.
const LOOK_FOR_CLIENT: &str = "SET client_connection_check_interval = '2s'";
/// A client that vanished in a transaction would hold the shard's row locked, and no other node could take it.
const NO_IDLE_TRANSACTION: &str = "SET idle_in_transaction_session_timeout = '2s'";

/// The function of the server whose warning says that a commit is on this server and may not be on the standby: an
/// operator has cancelled the wait for that. Texts of warnings are translated, this is not.
const WAITS_FOR_STANDBY: &str = "SyncRepWaitForLSN";

/// The role or the database may be set to send errors only: then that warning would not come.
const TELL_WARNINGS: &str = "SET client_min_messages = 'warning'";

/// Statements that are kept prepared on a connection: a few for each file that is in use.
const PREPARED_MAX: usize = 100;

const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
/// Locks the shard's row for share, if the epoch is its own, and lets this transaction commit synchronously.
const OWN: &str = "SELECT set_config('synchronous_commit',
        CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)
    FROM kew_shard
    WHERE id = $1 AND epoch = $2 FOR SHARE OF kew_shard";
const SYNCED: &str = "SELECT set_config('synchronous_commit', 'on', true)";

/// A connection over which nothing comes for this long is probed, if the URL does not say: a server whose machine is
/// gone never answers a statement that it had received.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(3);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES_RETRIES: u32 = 3;
/// What the client has where a URL does not say.
const SYSTEM_KEEPALIVES_IDLE: Duration = Duration::from_secs(2 * 60 * 60);

/// Takes a URL apart.
fn read(url: &str) -> Result<(Config, Tls), PgError> {
    let (url, tls) = Tls::of(url)?;
    let config = url.parse().map_err(|error: tokio_postgres::Error| {
        let source = std::error::Error::source(&error);
        PgError::Url(source.map_or_else(|| error.to_string(), ToString::to_string))
    })?;
    Ok((config, tls))
}

/// The database of a URL, and how it is reached.
#[derive(Clone)]
pub(crate) struct Target {
    hosts: Hosts,
    tls: Tls,
}

impl Target {
    /// Reads a URL, with defaults for what it does not say.
    pub fn of(url: &str) -> Result<Self, PgError> {
        let (config, tls) = read(url)?;
        Self::with(config, tls)
    }

    /// The same for a URL without a password, of a user who has one in another URL: that of the store's first database.
    pub fn like(url: &str, first: &str) -> Result<Self, PgError> {
        let ((mut config, tls), (first, _)) = (read(url)?, read(first)?);
        let is_same = config.get_password().is_none() && config.get_user() == first.get_user();
        if let Some(password) = first.get_password().filter(|_| is_same) {
            config.password(password);
        }
        Self::with(config, tls)
    }

    fn with(mut config: Config, tls: Tls) -> Result<Self, PgError> {
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        if config.get_keepalives_idle() == SYSTEM_KEEPALIVES_IDLE {
            config.keepalives_idle(KEEPALIVES_IDLE);
            config.keepalives_interval(KEEPALIVES_INTERVAL);
            config.keepalives_retries(KEEPALIVES_RETRIES);
        }
        if config.get_application_name().is_none() {
            config.application_name("kew");
        }
        config.ssl_mode(tls.mode);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let host_max = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
        Ok(Self { hosts: Hosts::of(&config, host_max)?, tls })
    }

    /// Connects, to a host of the URL that takes writes.
    pub async fn open(&self) -> Result<Connection, PgError> {
        let tls = self.tls.clone();
        self.hosts.connect(move |config| Connection::open(config, tls.clone())).await
    }
}

impl Database for Target {
    fn connect(&self) -> Asked<'_, Box<dyn Session>> {
        Box::pin(async move { Ok(Box::new(self.open().await?) as Box<dyn Session>) })
    }
}

/// One connection, with the statements that were prepared on it.
pub(crate) struct Connection {
    pub client: Client,
    /// And when each was used last, as a number of uses.
    prepared: HashMap<Arc<str>, (Statement, u64)>,
    uses: u64,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A connection is closed at once: with a statement under way it would stay until that ended.
        self.task.abort();
    }
}

impl Connection {
    /// Connects to one host, if it takes writes.
    pub async fn open(config: Config, tls: Tls) -> Result<Self, PgError> {
        let (client, mut connection) = config.connect(tls).await?;
        let task = tokio::spawn(async move {
            // Its failure shows in the statement that is under way, and in the next.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                let AsyncMessage::Notice(notice) = message else { continue };
                if notice.routine() == Some(WAITS_FOR_STANDBY) {
                    // The answer of this commit never arrives: its outcome is not known, and looked at anew.
                    return;
                }
            }
        });
        let connection = Self { client, prepared: HashMap::new(), uses: 0, task: task.abort_handle() };
        let settings = [NO_IDLE_TRANSACTION, READ_COMMITTED, TELL_WARNINGS].join("; ");
        connection.client.batch_execute(&settings).await?;
        // Not every server can: then a statement that was given up stays there until it ends by itself.
        let _can = connection.client.batch_execute(LOOK_FOR_CLIENT).await;
        Ok(connection)
    }

    /// The statement of a text, prepared unless it is one of those used last. Each file has statements of its own:
    /// those of files that are gone would stay with the server for as long as the connection.
    async fn statement(&mut self, text: &Arc<str>) -> Result<Statement, PgError> {
        self.uses += 1;
        if let Some((statement, used)) = self.prepared.get_mut(text) {
            *used = self.uses;
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        if self.prepared.len() >= PREPARED_MAX
            && let Some(oldest) = self.prepared.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = Arc::clone(oldest.0);
            self.prepared.remove(&oldest);
        }
        self.prepared.insert(Arc::clone(text), (statement.clone(), self.uses));
        Ok(statement)
    }

    /// Commits synchronously, if rows are there.
    async fn commit_behind(&mut self, own: Own, rests_on: &[Placed]) -> Result<u64, PgError> {
        self.execute_behind(&Arc::from(OWN), &[&own.shard, &own.epoch], "$2", rests_on).await
    }

    /// Executes a statement that locks the shard's row at its end, if rows are there that were written in the epoch
    /// that one of its parameters gives.
    async fn execute_behind(
        &mut self,
        text: &Arc<str>,
        values: &[&(dyn ToSql + Sync)],
        epoch: &str,
        rests_on: &[Placed],
    ) -> Result<u64, PgError> {
        if rests_on.is_empty() {
            let statement = self.statement(text).await?;
            return Ok(self.client.execute(&statement, values).await?);
        }
        let statement = self.statement(&resting_on(text, values.len(), epoch, rests_on)).await?;
        let keys: Vec<(i64, i64)> = rests_on.iter().map(|row| (pos_of(row.key), row.key.1)).collect();
        let mut values = values.to_vec();
        for (pos, seq) in &keys {
            values.extend([pos as &(dyn ToSql + Sync), seq]);
        }
        Ok(self.client.execute(&statement, &values).await?)
    }

    async fn read_rows(&mut self, table: &Table, offset: u64, bytes: &mut [u8]) -> Result<(), PgError> {
        let from = i64::try_from(offset).unwrap_or(i64::MAX);
        let to = from.saturating_add(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        let statement = self.statement(&table.read).await?;
        for row in self.client.query(&statement, &[&from, &to]).await? {
            let (pos, piece): (i64, &[u8]) = (row.get(0), row.get(1));
            overlay(bytes, offset, u64::try_from(pos).unwrap_or(0), piece);
        }
        Ok(())
    }

    async fn change_files(&mut self, own: Own, change: &Change) -> Result<bool, PgError> {
        let transaction = read_committed(&mut self.client).await?;
        if transaction.query_opt(OWN, &[&own.shard, &own.epoch]).await?.is_none() {
            return Err(PgError::Fenced { shard: own.shard, epoch: own.epoch });
        }
        let done = make(&transaction, own.shard, change).await?;
        transaction.commit().await?;
        Ok(done)
    }
}

/// Fails for a change of a file whose row was not there: what it should have kept is kept nowhere.
fn of_one(file: i64, changed: u64) -> Result<(), PgError> {
    if changed == 1 { Ok(()) } else { Err(no_file(file)) }
}

/// Makes a change in a transaction that has checked the epoch.
async fn make(transaction: &Transaction<'_>, shard: i32, change: &Change) -> Result<bool, PgError> {
    match change {
        Change::Create { id, name, table } => {
            return create_file(transaction, shard, *id, name, table.as_deref()).await;
        }
        Change::Rename { id, to } => {
            let replaced = "UPDATE kew_file SET name = '#' || id
                WHERE shard = (SELECT shard FROM kew_file WHERE id = $1) AND name = $2 AND id <> $1";
            transaction.execute(replaced, &[id, to]).await?;
            let rename = "UPDATE kew_file SET name = $2 WHERE id = $1";
            of_one(*id, transaction.execute(rename, &[id, to]).await?)?;
        }
        Change::Remove { id } => {
            transaction.execute("UPDATE kew_file SET name = '#' || id WHERE id = $1", &[id]).await?;
        }
        Change::Drop { id } => return drop_file(transaction, *id).await,
        Change::Length { id, length } => {
            let text = "UPDATE kew_file SET length = greatest(length, $2) WHERE id = $1";
            of_one(*id, transaction.execute(text, &[id, length]).await?)?;
        }
        Change::Bytes { id, bytes } => {
            let text = "UPDATE kew_file SET bytes = $2::bytea,
                length = greatest(length, octet_length($2::bytea)) WHERE id = $1";
            of_one(*id, transaction.execute(text, &[id, &bytes.as_slice()]).await?)?;
        }
        Change::Cut { table, from } => {
            let text = format!("DELETE FROM {} WHERE pos >= $1", table.name);
            transaction.execute(&text, &[from]).await?;
        }
    }
    Ok(true)
}

/// Makes a file and its table. False where another file has its name.
async fn create_file(
    transaction: &Transaction<'_>,
    shard: i32,
    id: i64,
    name: &str,
    table: Option<&Table>,
) -> Result<bool, PgError> {
    let insert = "INSERT INTO kew_file (id, shard, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    transaction.execute(insert, &[&id, &shard, &name]).await?;
    let text = "SELECT id FROM kew_file WHERE shard = $1 AND name = $2";
    let there = transaction.query_opt(text, &[&shard, &name]).await?;
    if there.is_none_or(|row| row.get::<_, i64>(0) != id) {
        return Ok(false);
    }
    if let Some(table) = table {
        transaction.batch_execute(&table.creation()).await?;
    }
    Ok(true)
}

/// Drops a file without a name, and its tables. False where it has a name: then it is in use.
async fn drop_file(transaction: &Transaction<'_>, id: i64) -> Result<bool, PgError> {
    let text = "DELETE FROM kew_file WHERE id = $1 AND name = '#' || id";
    if transaction.execute(text, &[&id]).await? == 0 {
        let there = transaction.query_opt("SELECT 1 FROM kew_file WHERE id = $1", &[&id]).await?;
        return Ok(there.is_none());
    }
    transaction.batch_execute(DROP_WAITS).await?;
    for purpose in [Purpose::Journal, Purpose::Slices] {
        let drop = format!("DROP TABLE IF EXISTS {}", purpose.table_name(id));
        transaction.batch_execute(&drop).await?;
    }
    Ok(true)
}

/// A statement with a condition for each row that it rests on. Their keys follow its own parameters.
fn resting_on(text: &str, parameters: usize, epoch: &str, rests_on: &[Placed]) -> Arc<str> {
    let mut conditions = String::new();
    for (row, number) in rests_on.iter().zip((parameters + 1..).step_by(2)) {
        let name = &row.table.name;
        let (pos, seq) = (number, number + 1);
        let condition = format!(
            "AND EXISTS (SELECT 1 FROM {name} WHERE pos = ${pos}::bigint AND epoch = {epoch}::bigint
                AND seq = ${seq}::bigint) "
        );
        conditions.push_str(&condition);
    }
    let (before, lock) = text.rsplit_once(" FOR ").expect("the statement locks the shard's row at its end");
    Arc::from(format!("{before} {conditions}FOR {lock}"))
}

fn pos_of((pos, _): RowKey) -> i64 {
    i64::try_from(pos).unwrap_or(i64::MAX)
}

impl Session for Connection {
    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn insert<'a>(
        &'a mut self,
        own: Own,
        row: &'a Row,
        rests_on: &'a [Placed],
        if_there: IfThere,
    ) -> Asked<'a, u64> {
        Box::pin(async move {
            let Some(table) = &row.table else { return self.commit_behind(own, rests_on).await };
            let syncs = if row.syncs { "on" } else { "off" };
            let pos = pos_of(row.key());
            let bytes: &[u8] = &row.bytes;
            let values: [&(dyn ToSql + Sync); 6] = [&own.shard, &pos, &row.seq, &own.epoch, &bytes, &syncs];
            let text = match if_there {
                IfThere::Fail => &table.insert,
                IfThere::Skip => &table.insert_if_missing,
            };
            self.execute_behind(text, &values, "$4", rests_on).await
        })
    }

    fn barrier(&mut self, own: Own) -> Asked<'_, u64> {
        Box::pin(self.commit_behind(own, &[]))
    }

    fn which<'a>(&'a mut self, table: &'a Table, epoch: i64, rows: &'a [RowKey]) -> Asked<'a, Vec<RowKey>> {
        Box::pin(async move {
            // LIMIT keeps the planner from a join that reads the whole table, of which it has no statistics: each row
            // is a look into the index.
            let text = format!(
                "SELECT number FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS wanted (pos, seq, number),
                    LATERAL (SELECT 1 FROM {} AS found WHERE found.pos = wanted.pos AND found.epoch = $1
                        AND found.seq = wanted.seq LIMIT 1) AS found",
                table.name
            );
            let positions: Vec<i64> = rows.iter().copied().map(pos_of).collect();
            let numbers: Vec<i64> = rows.iter().map(|row| row.1).collect();
            let found = self.client.query(&text, &[&epoch, &positions, &numbers]).await?;
            let found =
                found.iter().filter_map(|row| usize::try_from(row.get::<_, i64>(0)).ok()?.checked_sub(1));
            Ok(found.filter_map(|place| rows.get(place).copied()).collect())
        })
    }

    fn read<'a>(&'a mut self, table: &'a Table, offset: u64, len: usize) -> Asked<'a, Vec<u8>> {
        Box::pin(async move {
            let mut bytes = vec![0; len];
            let read = self.read_rows(table, offset, &mut bytes).await;
            if read.is_err() {
                // Its table may be gone.
                self.prepared.remove(&table.read);
            }
            read.map(|()| bytes)
        })
    }

    fn owner(&mut self, shard: i32) -> Asked<'_, Option<String>> {
        Box::pin(shards::owner(&self.client, shard, ""))
    }

    fn take<'a>(&'a mut self, shard: i32, node: &'a Node, length: Duration) -> Asked<'a, Taking> {
        Box::pin(self.take_shard(shard, node, length))
    }

    fn renew<'a>(&'a mut self, node: &'a Node, length: Duration) -> Asked<'a, Renewed> {
        Box::pin(self.renew_node(node, length))
    }

    fn clock(&mut self) -> Asked<'_, i64> {
        Box::pin(async move {
            // Prepared: preparing it takes a round trip, and the answer is as good as it is quick.
            let statement = self.statement(&Arc::from(CLOCK)).await?;
            Ok(self.client.query_one(&statement, &[]).await?.get(0))
        })
    }

    fn give_up<'a>(&'a mut self, own: Own, node: &'a Node, to: Option<&'a str>) -> Asked<'a, bool> {
        Box::pin(self.give_shard_up(own, node, to))
    }

    fn let_go<'a>(&'a mut self, own: Own, node: &'a Node) -> Asked<'a, ()> {
        Box::pin(self.let_shard_go(own, node))
    }

    fn leave<'a>(&'a mut self, node: &'a Node) -> Asked<'a, ()> {
        Box::pin(self.leave_store(node))
    }

    fn shorten_lives(&mut self, length: Duration) -> Asked<'_, ()> {
        Box::pin(self.shorten_lives_to(length))
    }

    fn forget_past_nodes(&mut self) -> Asked<'_, ()> {
        Box::pin(self.forget_nodes())
    }

    fn name<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>> {
        Box::pin(self.name_queue(claimant, naming))
    }

    fn name_afar<'a>(&'a mut self, claimant: Claimant, naming: &'a Naming) -> Asked<'a, Option<i32>> {
        Box::pin(self.name_queue_afar(claimant, naming))
    }

    fn shard_of_name<'a>(&'a mut self, key: &'a QueueKey) -> Asked<'a, Option<i32>> {
        Box::pin(self.shard_with_name(key))
    }

    fn names<'a>(
        &'a mut self,
        shard: i32,
        after: Option<&'a QueueKey>,
        most: usize,
    ) -> Asked<'a, Vec<QueueKey>> {
        Box::pin(self.names_with(shard, after, most))
    }

    fn find<'a>(&'a mut self, shard: i32, name: &'a str) -> Asked<'a, Option<FoundFile>> {
        Box::pin(async move {
            let text = "SELECT id, length, bytes FROM kew_file WHERE shard = $1 AND name = $2";
            let row = self.client.query_opt(text, &[&shard, &name]).await?;
            Ok(row.map(|row| FoundFile {
                id: row.get(0),
                length: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0),
                bytes: row.get(2),
            }))
        })
    }

    fn files(&mut self, shard: i32) -> Asked<'_, Vec<(i64, String)>> {
        Box::pin(async move {
            let rows = self.client.query("SELECT id, name FROM kew_file WHERE shard = $1", &[&shard]).await?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    fn change<'a>(&'a mut self, own: Own, change: &'a Change) -> Asked<'a, bool> {
        Box::pin(self.change_files(own, change))
    }
}

#[cfg(all(test, feature = "server"))]
mod tests;
