//! Statements about who owns shards, and which nodes live.
//!
//! Row locks are taken in one order: a shard's row, then the row of the node that acts. No statement locks the row of
//! another node: two that took shards of each other would wait for each other. A renewal waits for no shard's row: one
//! that is locked is being taken over or given up, and is not held then.

use std::sync::Arc;
use std::time::Duration;

use kew_core::ShardId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::{Connection, SYNCED};
use crate::PgError;
use crate::database::{NODES_KEPT, Own, PROMISED, Renewed, SET_BACK_MIN, Taking};
use crate::isolation::read_committed;
use crate::map::{Away, AwayRow, Node, ShardRow, shard_id};

/// The name of the node that keeps others from taking a shard: its owner, or the one that it is handed over to. And
/// whether its row says that it lives for longer than a renewal makes it.
const OWNER: &str = "SELECT kew_node.name,
        kew_node.until > clock_timestamp() + $4::float8 * interval '1 millisecond' FROM kew_shard JOIN kew_node
        ON kew_node.id = CASE kew_shard.node WHEN '' THEN kew_shard.wanted ELSE kew_shard.node END
    WHERE kew_shard.id = $1 AND kew_node.until > clock_timestamp() AND kew_node.id <> $2
        AND (kew_shard.node <> '' OR clock_timestamp() BETWEEN kew_shard.wanted_at
            AND kew_shard.wanted_at + $3::float8 * interval '1 millisecond')";

/// The end is counted from when the node's row is locked: a renewal that was given up and is carried out late must not
/// undo a newer one.
const LIVES: &str = "INSERT INTO kew_node (id, name, until, peer, version)
        VALUES ($1, $2, clock_timestamp() + $3::float8 * interval '1 millisecond', $4, $5)
    ON CONFLICT (id) DO UPDATE SET until = clock_timestamp() + $3::float8 * interval '1 millisecond',
        peer = excluded.peer, version = excluded.version
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The rows of the node's shards are locked before its own. A take-over locks the shard's row and then looks at the
/// node's: it finds this renewal, or this does not hold the shard.
const RENEW: &str = "WITH held AS MATERIALIZED (
        SELECT id, epoch FROM kew_shard WHERE node = $1 ORDER BY id FOR SHARE SKIP LOCKED),
    renewed AS (
        INSERT INTO kew_node (id, name, until, peer, version)
            SELECT $1, $2, clock_timestamp() + $3::float8 * interval '1 millisecond', $4, $5
            FROM (SELECT count(*) AS shards FROM held) AS locked,
                (SELECT set_config('synchronous_commit', 'on', true)) AS commits
            WHERE locked.shards >= 0
        ON CONFLICT (id) DO UPDATE SET until = clock_timestamp() + $3::float8 * interval '1 millisecond',
            peer = excluded.peer, version = excluded.version)
    SELECT kew_shard.id, kew_shard.epoch, kew_shard.node, kew_shard.wanted, held.epoch AS held,
            NULL AS peer, NULL AS version, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS clock,
            moves, wanted_in, moved_to, arrives_as, arriving, copied_by, NULL AS lives_too_long
        FROM kew_shard LEFT JOIN held ON held.id = kew_shard.id
    UNION ALL
    SELECT NULL, NULL, id, name, NULL, peer, version, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            until > clock_timestamp() + ($3::float8 + $6::float8) * interval '1 millisecond'
        FROM kew_node WHERE until > clock_timestamp() AND id <> $1
    ORDER BY 1 NULLS LAST, 3";

/// Waits for no row, so that two nodes that shorten each other's lives do not wait for each other. A node that lives
/// renews its row in a moment; the hold of one that does not has ended when its shortened life has. What a fail-over
/// loses of it is done again.
const SHORTEN_LIVES: &str =
    "UPDATE kew_node SET until = clock_timestamp() + $1::float8 * interval '1 millisecond'
    WHERE id IN (SELECT id FROM kew_node, (SELECT set_config('synchronous_commit', 'off', true)) AS commits
        WHERE until > clock_timestamp() + ($1::float8 + $2::float8) * interval '1 millisecond'
        FOR UPDATE OF kew_node SKIP LOCKED)";

/// Also the shard's row says that it has no owner: a renewal under way would make the node's row anew.
const GIVE_UP: &str = "WITH given AS (
        UPDATE kew_shard SET node = '', wanted = $4, wanted_at = CASE $4 WHEN '' THEN NULL ELSE clock_timestamp() END
            FROM (SELECT set_config('synchronous_commit', 'on', true)) AS commits
            WHERE id = $1 AND epoch = $2 AND node = $3
            RETURNING id)
    SELECT EXISTS (SELECT FROM given)
        OR EXISTS (SELECT FROM kew_shard WHERE id = $1 AND epoch = $2 AND node = '')";

const LET_GO: &str = "UPDATE kew_shard SET node = '', wanted = '', wanted_at = NULL
    FROM (SELECT id AS free FROM kew_shard, (SELECT set_config('synchronous_commit', 'on', true)) AS commits
        WHERE id = $1 AND epoch = $2 AND node = $3 FOR UPDATE OF kew_shard SKIP LOCKED) AS own
    WHERE id = own.free";

const FORGET_PAST: &str = "DELETE FROM kew_node WHERE id IN (
    SELECT id FROM kew_node WHERE until < clock_timestamp() - $1::float8 * interval '1 millisecond'
        FOR UPDATE SKIP LOCKED)";

const LEAVE: &str = "DELETE FROM kew_node WHERE id = $1
    AND NOT EXISTS (SELECT FROM kew_shard WHERE kew_shard.node = $1)";

fn millis(time: Duration) -> f64 {
    time.as_millis() as f64
}

/// The name of the node that keeps another one from taking a shard, and whether it lives for too long.
async fn owner_and_life(
    client: &Client,
    shard: i32,
    own_id: &str,
    length: Duration,
) -> Result<Option<(String, bool)>, PgError> {
    let values: [&(dyn ToSql + Sync); 4] =
        [&shard, &own_id, &millis(PROMISED), &millis(length + SET_BACK_MIN)];
    Ok(client.query_opt(OWNER, &values).await?.map(|row| (row.get(0), row.get(1))))
}

/// The name of the node that keeps another one from taking a shard.
pub(super) async fn owner(client: &Client, shard: i32, own_id: &str) -> Result<Option<String>, PgError> {
    Ok(owner_and_life(client, shard, own_id, Duration::ZERO).await?.map(|(name, _)| name))
}

/// A shard that lies in a database: how often it was moved until it came there, and its epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lying {
    pub shard: ShardId,
    pub moves: i32,
    pub epoch: i64,
}

/// The shards that lie in a database, in order.
pub(crate) async fn lying(client: &Client) -> Result<Vec<Lying>, PgError> {
    let text = "SELECT id, moves, epoch FROM kew_shard WHERE moved_to IS NULL AND NOT arriving ORDER BY id";
    let rows = client.query(text, &[]).await?;
    let lies = |row: &Row| Lying { shard: shard_id(row.get(0)), moves: row.get(1), epoch: row.get(2) };
    Ok(rows.iter().map(lies).collect())
}

/// What is not empty.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn renewed(rows: &[Row]) -> Renewed {
    let (shards, away, others) = (Vec::new(), Vec::new(), Vec::new());
    let mut renewed = Renewed { held: Vec::new(), shards, away, others, lives_too_long: false, clock: 0 };
    for row in rows {
        let Some(id) = row.get::<_, Option<i32>>(0) else {
            let (id, name) = (row.get(2), row.get(3));
            renewed.others.push(Node { id, name, peer: row.get(5), version: row.get(6) });
            renewed.lives_too_long |= row.get::<_, Option<bool>>(14).unwrap_or(false);
            continue;
        };
        if let Some(epoch) = row.get(4) {
            renewed.held.push((id, epoch));
        }
        let (node, wanted) = (some(row.get(2)), some(row.get(3)));
        let (shard, epoch, moves) = (shard_id(id), row.get(1), row.get(8));
        match why_away(row) {
            Some(away) => renewed.away.push(AwayRow { shard, epoch, moves, away }),
            None => {
                let wanted_in = row.get::<_, Option<i32>>(9).and_then(|number| u16::try_from(number).ok());
                renewed.shards.push(ShardRow { shard, epoch, node, wanted, moves, wanted_in });
            }
        }
        renewed.clock = row.get(7);
    }
    renewed
}

/// Why the shard of a row does not lie in this database; `None` if it does.
fn why_away(row: &Row) -> Option<Away> {
    if row.get(12) {
        return Some(Away::Arriving(row.get::<_, Option<i64>>(13).unwrap_or(0)));
    }
    let to = row.get::<_, Option<i32>>(10)?;
    let epoch = row.get::<_, Option<i64>>(11).unwrap_or(0);
    Some(Away::MovedTo(u16::try_from(to).unwrap_or(u16::MAX), epoch))
}

impl Connection {
    pub(super) async fn take_shard(
        &mut self,
        shard: i32,
        node: &Node,
        length: Duration,
    ) -> Result<Taking, PgError> {
        if let Some((owner, too_long)) = owner_and_life(&self.client, shard, &node.id, length).await? {
            // A node that only waits for the shard renews nothing: it would not learn of that.
            if too_long {
                self.shorten_lives_to(length).await?;
            }
            return Ok(Taking::Owned(owner));
        }
        let transaction = read_committed(&mut self.client).await?;
        transaction.query_one(SYNCED, &[]).await?;
        let text =
            "SELECT epoch FROM kew_shard WHERE id = $1 AND moved_to IS NULL AND NOT arriving FOR UPDATE";
        let Some(seen) = transaction.query_opt(text, &[&shard]).await? else {
            return Err(PgError::Elsewhere { shard: shard_id(shard) });
        };
        let seen: i64 = seen.get(0);
        if let Some(owner) = owner(transaction.client(), shard, &node.id).await? {
            return Ok(Taking::Owned(owner));
        }
        let epoch = seen + 1;
        let take = "UPDATE kew_shard SET epoch = $2, node = $3, taken_at = clock_timestamp(),
            wanted = '', wanted_at = NULL WHERE id = $1";
        transaction.execute(take, &[&shard, &epoch, &node.id]).await?;
        let Node { id, name, peer, version } = node;
        let clock = transaction.query_one(LIVES, &[id, name, &millis(length), peer, version]).await?.get(0);
        transaction.commit().await?;
        Ok(Taking::Taken { epoch, clock })
    }

    pub(super) async fn renew_node(&mut self, node: &Node, length: Duration) -> Result<Renewed, PgError> {
        let statement = self.statement(&Arc::from(RENEW)).await?;
        let Node { id, name, peer, version } = node;
        let (length, too_long_by) = (millis(length), millis(SET_BACK_MIN));
        let values: [&(dyn ToSql + Sync); 6] = [id, name, &length, peer, version, &too_long_by];
        Ok(renewed(&self.client.query(&statement, &values).await?))
    }

    pub(super) async fn shorten_lives_to(&mut self, length: Duration) -> Result<(), PgError> {
        self.client.execute(SHORTEN_LIVES, &[&millis(length), &millis(SET_BACK_MIN)]).await?;
        Ok(())
    }

    pub(super) async fn give_shard_up(
        &mut self,
        own: Own,
        node: &Node,
        to: Option<&str>,
    ) -> Result<bool, PgError> {
        let to = to.unwrap_or_default();
        let row = self.client.query_one(GIVE_UP, &[&own.shard, &own.epoch, &node.id, &to]).await?;
        Ok(row.get(0))
    }

    pub(super) async fn let_shard_go(&mut self, own: Own, node: &Node) -> Result<(), PgError> {
        self.client.execute(LET_GO, &[&own.shard, &own.epoch, &node.id]).await?;
        Ok(())
    }

    pub(super) async fn leave_store(&mut self, node: &Node) -> Result<(), PgError> {
        self.client.execute(LEAVE, &[&node.id]).await?;
        Ok(())
    }

    pub(super) async fn forget_nodes(&mut self) -> Result<(), PgError> {
        self.client.execute(FORGET_PAST, &[&millis(NODES_KEPT)]).await?;
        Ok(())
    }
}
