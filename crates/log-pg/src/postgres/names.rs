//! Statements about which shard has the name of a queue. Each that changes something is one statement that locks the
//! shard's row for share, if the epoch is its own, and commits synchronously.

use kew_core::{AccountId, QueueKey};

use super::{Connection, OWN};
use crate::PgError;
use crate::database::{Naming, Own};
use crate::tables::SYNCED_MODE;

/// A claim that another one waited for sees nothing of it: it looks again this often at most.
const LOOKS: usize = 10;

const SHARD_OF: &str = "SELECT shard FROM kew_name WHERE account = $1 AND region = $2 AND name = $3";

/// Whose shard the statement writes for.
fn own() -> String {
    format!(
        "own AS MATERIALIZED (SELECT id
            FROM kew_shard, (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true)) AS commits
            WHERE id = $1 AND epoch = $2 FOR SHARE OF kew_shard)"
    )
}

/// Three values of a key, as the tables have them.
fn parts(key: &QueueKey) -> (i64, &str, &str) {
    (i64::try_from(key.account.0).unwrap_or(i64::MAX), &key.region, &key.name)
}

impl Connection {
    pub(super) async fn name_queue(&mut self, own: Own, naming: &Naming) -> Result<Option<i32>, PgError> {
        match naming {
            Naming::Claim(key) => self.claim(own, key).await.map(Some),
            Naming::Release(key) => self.release(own, key).await,
            Naming::Rename { from, to } => self.rename(own, from, to).await.map(Some),
            Naming::ClaimAll(keys) => self.claim_all(own, keys).await,
        }
    }

    async fn claim_all(&mut self, own_epoch: Own, keys: &[QueueKey]) -> Result<Option<i32>, PgError> {
        let claim = format!(
            "WITH {},
                claimed AS (INSERT INTO kew_name (account, region, name, shard)
                    SELECT account, region, name, id
                    FROM own, unnest($3::bigint[], $4::text[], $5::text[]) AS keys (account, region, name)
                    ORDER BY account, region, name ON CONFLICT DO NOTHING)
            SELECT EXISTS (SELECT FROM own)",
            own()
        );
        let others = "SELECT shard FROM kew_name NATURAL JOIN
                unnest($2::bigint[], $3::text[], $4::text[]) AS keys (account, region, name)
            WHERE shard <> $1 LIMIT 1";
        let (mut accounts, mut regions, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (account, region, name) in keys.iter().map(parts) {
            accounts.push(account);
            regions.push(region);
            names.push(name);
        }
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&own_epoch.shard, &own_epoch.epoch, &accounts, &regions, &names];
        if !self.client.query_one(&claim, &values).await?.get::<_, bool>(0) {
            return Err(PgError::Fenced { shard: own_epoch.shard, epoch: own_epoch.epoch });
        }
        let other = self.client.query_opt(others, &[&own_epoch.shard, &accounts, &regions, &names]).await?;
        Ok(other.map(|row| row.get(0)))
    }

    async fn claim(&mut self, own_epoch: Own, key: &QueueKey) -> Result<i32, PgError> {
        let text = format!(
            "WITH {},
                claimed AS (INSERT INTO kew_name (account, region, name, shard)
                    SELECT $3, $4, $5, id FROM own ON CONFLICT DO NOTHING RETURNING shard)
            SELECT EXISTS (SELECT FROM own), coalesce((SELECT shard FROM claimed),
                (SELECT shard FROM kew_name WHERE account = $3 AND region = $4 AND name = $5))",
            own()
        );
        let (account, region, name) = parts(key);
        for _ in 0..LOOKS {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                [&own_epoch.shard, &own_epoch.epoch, &account, &region, &name];
            let row = self.client.query_one(&text, &values).await?;
            if !row.get::<_, bool>(0) {
                return Err(PgError::Fenced { shard: own_epoch.shard, epoch: own_epoch.epoch });
            }
            if let Some(shard) = row.get(1) {
                return Ok(shard);
            }
        }
        Err(PgError::Unreachable(format!("{key} is claimed and released again and again")))
    }

    async fn release(&mut self, own_epoch: Own, key: &QueueKey) -> Result<Option<i32>, PgError> {
        let text = format!(
            "WITH {},
                released AS (DELETE FROM kew_name USING own
                    WHERE account = $3 AND region = $4 AND name = $5 AND shard = own.id RETURNING shard)
            SELECT EXISTS (SELECT FROM own), CASE WHEN NOT EXISTS (SELECT FROM released) THEN
                (SELECT shard FROM kew_name WHERE account = $3 AND region = $4 AND name = $5) END",
            own()
        );
        let (account, region, name) = parts(key);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&own_epoch.shard, &own_epoch.epoch, &account, &region, &name];
        let row = self.client.query_one(&text, &values).await?;
        if !row.get::<_, bool>(0) {
            return Err(PgError::Fenced { shard: own_epoch.shard, epoch: own_epoch.epoch });
        }
        Ok(row.get(1))
    }

    async fn rename(&mut self, own: Own, from: &QueueKey, to: &QueueKey) -> Result<i32, PgError> {
        let transaction = self.client.transaction().await?;
        if transaction.query_opt(OWN, &[&own.shard, &own.epoch]).await?.is_none() {
            return Err(PgError::Fenced { shard: own.shard, epoch: own.epoch });
        }
        let (account, region, name) = parts(to);
        let claim = "INSERT INTO kew_name (account, region, name, shard) VALUES ($1, $2, $3, $4)
            ON CONFLICT DO NOTHING";
        transaction.execute(claim, &[&account, &region, &name, &own.shard]).await?;
        let has = transaction.query_opt(SHARD_OF, &[&account, &region, &name]).await?;
        let Some(has) = has.map(|row| row.get::<_, i32>(0)) else {
            return Err(PgError::Unreachable(format!("{to} was released while it was claimed")));
        };
        if has == own.shard && from != to {
            let (account, region, name) = parts(from);
            let release =
                "DELETE FROM kew_name WHERE account = $1 AND region = $2 AND name = $3 AND shard = $4";
            transaction.execute(release, &[&account, &region, &name, &own.shard]).await?;
        }
        transaction.commit().await?;
        Ok(has)
    }

    pub(super) async fn shard_with_name(&mut self, key: &QueueKey) -> Result<Option<i32>, PgError> {
        let (account, region, name) = parts(key);
        let row = self.client.query_opt(SHARD_OF, &[&account, &region, &name]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    pub(super) async fn names_with(
        &mut self,
        shard: i32,
        after: Option<&QueueKey>,
        most: usize,
    ) -> Result<Vec<QueueKey>, PgError> {
        let text = "SELECT account, region, name FROM kew_name
            WHERE shard = $1 AND (account, region, name) > ($2, $3, $4) ORDER BY account, region, name LIMIT $5";
        // No account has a number below zero.
        let (account, region, name) = after.map_or((-1, "", ""), parts);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.client.query(text, &[&shard, &account, &region, &name, &most]).await?;
        let key = |row: &tokio_postgres::Row| {
            let account = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
            QueueKey::new(AccountId(account), row.get(1), row.get(2))
        };
        Ok(rows.iter().map(key).collect())
    }
}
