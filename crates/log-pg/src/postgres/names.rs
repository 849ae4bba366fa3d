//! Statements about which shard has the name of a queue. Each that changes something is one statement that locks the
//! shard's row for share, if the epoch is its own, and commits synchronously. A name has the number of its last claim.

use kew_core::{AccountId, QueueKey};
use tokio_postgres::types::ToSql;

use super::{Connection, OWN};
use crate::PgError;
use crate::database::{Claimant, Naming, Own};
use crate::isolation::read_committed;
use crate::tables::SYNCED_MODE;

/// A claim that another one waited for sees nothing of it: it looks again this often at most.
pub(super) const LOOKS: usize = 10;

pub(super) const SHARD_OF: &str =
    "SELECT shard FROM kew_name WHERE account = $1 AND region = $2 AND name = $3";

const SHARD_OF_ANY: &str = "SELECT shard FROM kew_name NATURAL JOIN
        unnest($2::bigint[], $3::text[], $4::text[]) AS keys (account, region, name)
    WHERE shard <> $1 LIMIT 1";

/// What a claim does where the name has a row: a row of its own shard gets the higher number, one of another stays.
pub(super) const RAISES: &str = "ON CONFLICT (account, region, name)
    DO UPDATE SET claim = greatest(kew_name.claim, excluded.claim) WHERE kew_name.shard = excluded.shard";

/// Whose shard the statement writes for.
fn own() -> String {
    format!(
        "own AS MATERIALIZED (SELECT id
            FROM kew_shard, (SELECT set_config('synchronous_commit', {SYNCED_MODE}, true)) AS commits
            WHERE id = $1 AND epoch = $2 FOR SHARE OF kew_shard)"
    )
}

/// Three values of a key, as the tables have them.
pub(super) fn parts(key: &QueueKey) -> (i64, &str, &str) {
    (i64::try_from(key.account.0).unwrap_or(i64::MAX), &key.region, &key.name)
}

/// Many keys as the arrays of a statement.
pub(super) struct Columns<'a> {
    pub(super) accounts: Vec<i64>,
    pub(super) regions: Vec<&'a str>,
    pub(super) names: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(keys: &'a [QueueKey]) -> Self {
        let mut columns = Self { accounts: Vec::new(), regions: Vec::new(), names: Vec::new() };
        for (account, region, name) in keys.iter().map(parts) {
            columns.accounts.push(account);
            columns.regions.push(region);
            columns.names.push(name);
        }
        columns
    }
}

impl Connection {
    pub(super) async fn name_queue(
        &mut self,
        claimant: Claimant,
        naming: &Naming,
    ) -> Result<Option<i32>, PgError> {
        match naming {
            Naming::Claim(key) => self.claim(claimant, key).await.map(Some),
            Naming::Release(key) => self.release(claimant, key).await,
            Naming::Rename { from, to } => self.rename(claimant, from, to).await.map(Some),
            Naming::ClaimAll(keys) => self.claim_all(claimant, keys).await,
        }
    }

    async fn claim_all(&mut self, claimant: Claimant, keys: &[QueueKey]) -> Result<Option<i32>, PgError> {
        let claim = format!(
            "WITH {},
                claimed AS (INSERT INTO kew_name (account, region, name, shard, claim)
                    SELECT account, region, name, id, $6
                    FROM own, unnest($3::bigint[], $4::text[], $5::text[]) AS keys (account, region, name)
                    ORDER BY account, region, name {RAISES})
            SELECT EXISTS (SELECT FROM own)",
            own()
        );
        let Columns { accounts, regions, names } = Columns::of(keys);
        let Claimant { own: Own { shard, epoch }, number } = claimant;
        let values: [&(dyn ToSql + Sync); 6] = [&shard, &epoch, &accounts, &regions, &names, &number];
        if !self.client.query_one(&claim, &values).await?.get::<_, bool>(0) {
            return Err(claimant.fenced());
        }
        Ok(self.shard_of_any(shard, keys).await?)
    }

    /// Another shard that has one of these names.
    pub(super) async fn shard_of_any(
        &self,
        own: i32,
        keys: &[QueueKey],
    ) -> Result<Option<i32>, tokio_postgres::Error> {
        let Columns { accounts, regions, names } = Columns::of(keys);
        let row = self.client.query_opt(SHARD_OF_ANY, &[&own, &accounts, &regions, &names]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    async fn claim(&mut self, claimant: Claimant, key: &QueueKey) -> Result<i32, PgError> {
        let text = format!(
            "WITH {},
                claimed AS (INSERT INTO kew_name (account, region, name, shard, claim)
                    SELECT $3, $4, $5, id, $6 FROM own {RAISES} RETURNING shard)
            SELECT EXISTS (SELECT FROM own), coalesce((SELECT shard FROM claimed),
                (SELECT shard FROM kew_name WHERE account = $3 AND region = $4 AND name = $5))",
            own()
        );
        let (account, region, name) = parts(key);
        let Claimant { own: Own { shard, epoch }, number } = claimant;
        let values: [&(dyn ToSql + Sync); 6] = [&shard, &epoch, &account, &region, &name, &number];
        for _ in 0..LOOKS {
            let row = self.client.query_one(&text, &values).await?;
            if !row.get::<_, bool>(0) {
                return Err(claimant.fenced());
            }
            if let Some(shard) = row.get(1) {
                return Ok(shard);
            }
        }
        Err(PgError::Unreachable(format!("{key} is claimed and released again and again")))
    }

    async fn release(&mut self, claimant: Claimant, key: &QueueKey) -> Result<Option<i32>, PgError> {
        let text = format!(
            "WITH {},
                released AS (DELETE FROM kew_name USING own
                    WHERE account = $3 AND region = $4 AND name = $5 AND shard = own.id AND claim <= $6
                    RETURNING shard)
            SELECT EXISTS (SELECT FROM own), CASE WHEN NOT EXISTS (SELECT FROM released) THEN
                (SELECT shard FROM kew_name WHERE account = $3 AND region = $4 AND name = $5) END",
            own()
        );
        let (account, region, name) = parts(key);
        let Claimant { own: Own { shard, epoch }, number } = claimant;
        let values: [&(dyn ToSql + Sync); 6] = [&shard, &epoch, &account, &region, &name, &number];
        let row = self.client.query_one(&text, &values).await?;
        if !row.get::<_, bool>(0) {
            return Err(claimant.fenced());
        }
        Ok(row.get(1))
    }

    async fn rename(&mut self, claimant: Claimant, from: &QueueKey, to: &QueueKey) -> Result<i32, PgError> {
        let Claimant { own, number } = claimant;
        let transaction = read_committed(&mut self.client).await?;
        if transaction.query_opt(OWN, &[&own.shard, &own.epoch]).await?.is_none() {
            return Err(claimant.fenced());
        }
        let (account, region, name) = parts(to);
        let claim = format!(
            "INSERT INTO kew_name (account, region, name, shard, claim) VALUES ($1, $2, $3, $4, $5) {RAISES}"
        );
        transaction.execute(&claim, &[&account, &region, &name, &own.shard, &number]).await?;
        let has = transaction.query_opt(SHARD_OF, &[&account, &region, &name]).await?;
        let Some(has) = has.map(|row| row.get::<_, i32>(0)) else {
            return Err(PgError::Unreachable(format!("{to} was released while it was claimed")));
        };
        if has == own.shard && from != to {
            let (account, region, name) = parts(from);
            let release = "DELETE FROM kew_name
                WHERE account = $1 AND region = $2 AND name = $3 AND shard = $4 AND claim <= $5";
            transaction.execute(release, &[&account, &region, &name, &own.shard, &number]).await?;
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
